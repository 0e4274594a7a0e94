#include "base/tile_avx2.h"
#include "device/host_stages.h"
#include "device/host_stages_entry.h"

namespace isotherm {

void run_stages_avx2(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TileAvx2>::run(run, rows);
}

}  // namespace isotherm
