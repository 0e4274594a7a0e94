#include "base/tile_avx2.h"
#include "executor/host/host_stages.h"
#include "executor/host/host_stages_entry.h"
#include "executor/host/hot_roots.h"

namespace isotherm {

void run_stages_avx2(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TileAvx2, LineRoots<TileAvx2>>::run(run, rows);
}

void run_hot_stages_avx2(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TileAvx2, HotRoots<TileAvx2>>::run(run, rows);
}

}  // namespace isotherm
