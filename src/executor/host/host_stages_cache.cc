#include "base/tile.h"
#include "executor/host/cache_roots.h"
#include "executor/host/host_stages.h"
#include "executor/host/host_stages_entry.h"

namespace isotherm {

void run_cuckoo_stages(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TilePlain, CacheRoots<CuckooPart>>::run(run, rows);
}

void run_set_stages(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TilePlain, CacheRoots<SetPart>>::run(run, rows);
}

}  // namespace isotherm
