#include "router/bin_flow.h"

#include <algorithm>

#include "base/broken.h"

namespace isotherm {

void BinFlow::want(const std::vector<bool>& hot, std::span<const uint32_t> heat) {
  to_cool_.clear();
  to_warm_.clear();
  for (uint32_t bin = 0; bin < states_.count(); ++bin) {
    const BinState state = states_.state(bin);
    const bool will_be_hot = state == BinState::hot || state == BinState::warming;
    if (will_be_hot != hot[bin]) (hot[bin] ? to_warm_ : to_cool_).push_back(bin);
  }
  std::stable_sort(to_warm_.begin(), to_warm_.end(),
                   [&](uint32_t a, uint32_t b) { return heat[a] < heat[b]; });
}

bool BinFlow::begin_group() {
  warms_ = to_cool_.empty();
  std::vector<uint32_t>& from = warms_ ? to_warm_ : to_cool_;
  while (moving_.size() < group_ && !from.empty()) {
    states_.set(from.back(), warms_ ? BinState::warming : BinState::cooling);
    moving_.push_back(from.back());
    from.pop_back();
  }
  seen_by_all_ = false;
  grace_.begin(epochs_);
  return !moving_.empty();
}

bool BinFlow::step() {
  if (moving_.empty()) return begin_group();
  if (!seen_by_all_) {
    seen_by_all_ = grace_.is_over(epochs_) || broken(Rule::draining);
    return true;
  }
  const uint32_t bin = moving_.back();
  if (!(warms_ ? keeper_.warm(bin) : keeper_.cool(bin))) return true;
  states_.set(bin, warms_ ? BinState::hot : BinState::cold);
  (warms_ ? warmed_ : cooled_).add();
  moving_.pop_back();
  return true;
}

}  // namespace isotherm
