#include "executor/commit_sink.h"

namespace isotherm {

// Not in the header: loops compiled for AVX-512 call them, and theirs could be the copy of all.
void CommitSink::fetch_ahead(uint32_t /*database*/, uint64_t /*hash*/) const {}

void CommitSink::changed_part(const ItemChange& change, const ChangedPart& /*part*/) {
  changed(change);
}

}  // namespace isotherm
