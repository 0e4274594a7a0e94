// The passes of the host executor, one copy per instruction set; see host_stages.h. And what these
// leave to code that all share.
#pragma once

#include "executor/host/evicting_index.h"
#include "executor/host/host_executor.h"
#include "hot/hot_table.h"

namespace isotherm {

void run_stages_plain(HostExecutor::Run& run, Batch::Row rows);
void run_stages_avx2(HostExecutor::Run& run, Batch::Row rows);
void run_stages_avx512(HostExecutor::Run& run, Batch::Row rows);
// Where hot keys have a table of their own.
void run_hot_stages_plain(HostExecutor::Run& run, Batch::Row rows);
void run_hot_stages_avx2(HostExecutor::Run& run, Batch::Row rows);
void run_hot_stages_avx512(HostExecutor::Run& run, Batch::Row rows);

// In an index of a fixed size.
void run_cuckoo_stages(HostExecutor::Run& run, Batch::Row rows);
void run_set_stages(HostExecutor::Run& run, Batch::Row rows);

// One row of executor/host/object_answers.h.
void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           LineIndex& index);
void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           HotIndex& index);
void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           EvictingIndex<CuckooPart>& index);
void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           EvictingIndex<SetPart>& index);

}  // namespace isotherm
