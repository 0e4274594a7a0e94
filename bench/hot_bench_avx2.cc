#include "base/tile_avx2.h"
#include "hot_loops.h"

namespace isotherm::bench {

const HotLoops hot_loops_avx2 = {run_hot<TileAvx2>};

}  // namespace isotherm::bench
