#include "executor/host/direct_rows.h"

namespace isotherm {

// Here, since the passes that call it are compiled for several instruction sets.
void DirectRows::add(Batch::Row row, uint64_t hash) {
  if (left_.empty()) left_.resize(words);
  left_[word(hash)] |= uint64_t{1} << (hash & 63);
  rows_.push_back(row);
}

}  // namespace isotherm
