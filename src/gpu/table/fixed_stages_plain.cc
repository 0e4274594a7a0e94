#include "base/tile.h"
#include "gpu/table/fixed_stages.h"

namespace isotherm {

const FixedLoops fixed_loops_plain{FixedStages<TilePlain>::get, FixedStages<TilePlain>::put,
                                   FixedStages<TilePlain>::erase, FixedStages<TilePlain>::answer};

}  // namespace isotherm
