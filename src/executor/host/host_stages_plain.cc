#include "base/tile.h"
#include "executor/host/host_stages.h"
#include "executor/host/host_stages_entry.h"

namespace isotherm {

void run_stages_plain(HostExecutor::Run& run, Batch::Row rows) {
  HostStages<TilePlain>::run(run, rows);
}

}  // namespace isotherm
