#include "executor/host/object_answers.h"

#include "executor/host/host_stages_entry.h"
#include "hot/hot_table.h"
#include "index/line_index.h"

namespace isotherm {

void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           LineIndex& index) {
  ObjectAnswers<LineIndex>::answer(run, row, request, index);
}

void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           HotIndex& index) {
  ObjectAnswers<HotIndex>::answer(run, row, request, index);
}

void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           EvictingIndex<CuckooPart>& index) {
  ObjectAnswers<EvictingIndex<CuckooPart>>::answer(run, row, request, index);
}

void answer_object_on_host(HostExecutor::Run& run, Batch::Row row, const Request& request,
                           EvictingIndex<SetPart>& index) {
  ObjectAnswers<EvictingIndex<SetPart>>::answer(run, row, request, index);
}

}  // namespace isotherm
