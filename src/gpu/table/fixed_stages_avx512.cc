#include "base/tile_avx512.h"
#include "gpu/table/fixed_stages.h"

namespace isotherm {

const FixedLoops fixed_loops_avx512{FixedStages<TileAvx512>::get, FixedStages<TileAvx512>::put,
                                    FixedStages<TileAvx512>::erase,
                                    FixedStages<TileAvx512>::answer};

}  // namespace isotherm
