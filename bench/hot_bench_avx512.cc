#include "base/tile_avx512.h"
#include "hot_loops.h"

namespace isotherm::bench {

const HotLoops hot_loops_avx512 = {run_hot<TileAvx512>};

}  // namespace isotherm::bench
