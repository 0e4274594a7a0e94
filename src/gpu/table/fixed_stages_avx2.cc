#include "base/tile_avx2.h"
#include "gpu/table/fixed_stages.h"

namespace isotherm {

const FixedLoops fixed_loops_avx2{FixedStages<TileAvx2>::get, FixedStages<TileAvx2>::put,
                                  FixedStages<TileAvx2>::erase, FixedStages<TileAvx2>::answer};

}  // namespace isotherm
