#include "base/tile.h"
#include "executor/host/host_stages.h"
#include "executor/host/host_stages_entry.h"
#include "executor/host/hot_roots.h"

namespace isotherm {

void run_stages_plain(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TilePlain, LineRoots<TilePlain>>::run(run, rows);
}

void run_hot_stages_plain(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TilePlain, HotRoots<TilePlain>>::run(run, rows);
}

}  // namespace isotherm
