#include "base/tile_avx512.h"
#include "executor/host/host_stages.h"
#include "executor/host/host_stages_entry.h"

namespace isotherm {

void run_stages_avx512(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TileAvx512>::run(run, rows);
}

}  // namespace isotherm
