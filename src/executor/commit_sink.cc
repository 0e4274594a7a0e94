#include "executor/commit_sink.h"

namespace isotherm {

// Not in the header: loops compiled for AVX-512 call it, and theirs could be the copy of all.
void CommitSink::fetch_ahead(uint32_t /*database*/, uint64_t /*hash*/) const {}

}  // namespace isotherm
