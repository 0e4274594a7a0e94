#include "base/tile_avx512.h"
#include "executor/host/host_stages.h"
#include "executor/host/host_stages_entry.h"
#include "executor/host/hot_roots.h"

namespace isotherm {

void run_stages_avx512(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TileAvx512, LineRoots<TileAvx512>>::run(run, rows);
}

void run_hot_stages_avx512(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TileAvx512, HotRoots<TileAvx512>>::run(run, rows);
}

}  // namespace isotherm
