#include "index/fixed_index.h"

namespace isotherm {

uint64_t FixedIndex::count() const { return index_.count() + (find_zero().found ? 1 : 0); }

Found FixedIndex::find_zero() const {
  std::lock_guard guard(zero_mutex_);
  return zero_;
}

Updated FixedIndex::update_zero(DecideZero decide, void* context) {
  std::lock_guard guard(zero_mutex_);
  const Found previous = zero_;
  const Decision decision = decide(context, previous.found, previous.word);
  Change change = Change::none;
  if (decision.action == Action::store) {
    zero_ = {true, decision.word};
    change = previous.found ? Change::replaced : Change::inserted;
  } else if (decision.action == Action::erase && previous.found) {
    zero_ = {};
    change = Change::erased;
  }
  return {change, previous, false};
}

}  // namespace isotherm
