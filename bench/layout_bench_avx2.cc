#include "base/tile_avx2.h"
#include "layout_loops.h"

namespace isotherm::bench {

const LayoutChoice layout_avx2 = layout_choice<TileAvx2>;

}  // namespace isotherm::bench
