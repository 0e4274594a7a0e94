#include "base/tile.h"
#include "hot_loops.h"

namespace isotherm::bench {

const HotLoops hot_loops_plain = {run_hot<TilePlain>};

}  // namespace isotherm::bench
