// The passes of the host executor, one copy per instruction set; see host_stages.h.
#pragma once

#include "executor/host/host_executor.h"

namespace isotherm {

void run_stages_plain(HostExecutor::Run& run, Batch::Row rows);
void run_stages_avx2(HostExecutor::Run& run, Batch::Row rows);
void run_stages_avx512(HostExecutor::Run& run, Batch::Row rows);

}  // namespace isotherm
