#include "net/command_counts.h"

namespace isotherm::net {

void CommandCounts::note_error(uint16_t number, std::string_view code, bool rejected) {
  if (rejected) {
    ++turn_[number].rejected;
  } else {
    counts_[number].failed.add();
  }
  const std::lock_guard guard(errors_mutex_);
  auto found = errors_.find(code);
  if (found == errors_.end()) found = errors_.emplace(code, 0).first;
  ++found->second;
}

void CommandCounts::finish_turn(uint64_t nanoseconds) {
  uint64_t weight = others_;
  for (size_t i = 0; i < noted_count_; ++i) weight += turn_[noted_[i]].weight;
  for (size_t i = 0; i < noted_count_; ++i) {
    OfTurn& sum = turn_[noted_[i]];
    Count& count = counts_[noted_[i]];
    count.calls.add(sum.calls - sum.rejected);
    count.rejected.add(sum.rejected);
    const bool all = sum.weight == weight;
    count.nanoseconds.add(all ? nanoseconds : nanoseconds * sum.weight / weight);
    sum = {};
  }
  noted_count_ = 0;
  others_ = 0;
}

void CommandCounts::add_errors_to(ErrorTotals& totals) const {
  const std::lock_guard guard(errors_mutex_);
  for (const auto& [code, count] : errors_) totals[code] += count;
}

}  // namespace isotherm::net
