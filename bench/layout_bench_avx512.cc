#include "base/tile_avx512.h"
#include "layout_loops.h"

namespace isotherm::bench {

const LayoutChoice layout_avx512 = layout_choice<TileAvx512>;

}  // namespace isotherm::bench
