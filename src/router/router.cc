#include "router/router.h"

#include <algorithm>
#include <utility>

namespace isotherm {

Router::Worth Router::worth_of(const std::vector<bool>& hot, uint64_t all) const {
  uint64_t requests = 0;
  uint64_t bins = 0;
  for (size_t bin = 0; bin < hot.size(); ++bin) {
    if (!hot[bin]) continue;
    requests += sample_[bin];
    ++bins;
  }
  return {static_cast<double>(requests) / static_cast<double>(std::max(all, uint64_t{1})),
          static_cast<double>(bins) / static_cast<double>(hot.size())};
}

bool Router::pays(const Worth& now, const Worth& then) const {
  if (then.requests >= now.requests + options_.least_gain) return true;
  return then.bins <= now.bins * (1 - options_.least_saving);
}

bool Router::train(uint64_t keys) {
  const uint64_t all = counts_.read(sample_);
  if (all < options_.least_sample) return false;
  trainings_.add();
  std::vector<bool> chosen(states_.count());
  model_->choose({sample_, all, keys}, chosen);
  const Worth now = worth_of(hot_, all);
  const Worth then = worth_of(chosen, all);
  counts_.age();
  const bool same = chosen == hot_;
  const bool refused = !same && !pays(now, then) && ++refusals_ < options_.most_refusals;
  if (!refused) refusals_ = 0;
  if (same || refused) {
    share_hot_.store(now.requests, std::memory_order_relaxed);
    return false;
  }
  changes_.add();
  share_hot_.store(then.requests, std::memory_order_relaxed);
  flow_.want(chosen, sample_);
  hot_ = std::move(chosen);
  return true;
}

bool Router::divide_anew(uint32_t bins) {
  if (!cools_all_) {
    hot_.assign(states_.count(), false);
    flow_.want(hot_, {});
    share_hot_.store(0, std::memory_order_relaxed);
    cools_all_ = true;
  }
  if (!flow_.is_cold()) return false;
  std::vector<bool> none(bins);  // may throw, so before what changes
  flow_.let_go();
  model_->let_go();
  states_.set_count(bins);
  counts_.forget();
  sample_ = {};
  hot_ = std::move(none);
  refusals_ = 0;
  cools_all_ = false;
  return true;
}

}  // namespace isotherm
