#include "base/tile.h"
#include "layout_loops.h"

namespace isotherm::bench {

const LayoutChoice layout_plain = layout_choice<TilePlain>;

}  // namespace isotherm::bench
