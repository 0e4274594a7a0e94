#include "router/model.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace isotherm {

void HistogramModel::choose(const BinSample& sample, std::vector<bool>& hot) {
  const double least = threshold_ * static_cast<double>(sample.all_requests);
  for (size_t bin = 0; bin < hot.size(); ++bin) {
    hot[bin] = static_cast<double>(sample.requests[bin]) > least;
  }
}

// The hottest first, until a bound is reached; bins that nobody asked for never.
void BudgetModel::choose(const BinSample& sample, std::vector<bool>& hot) {
  const double bins = static_cast<double>(hot.size());
  const double keys_a_bin = std::max(static_cast<double>(sample.keys) / bins, 1e-9);
  const double most_bins =
      bounds_.keys == 0 ? bins : static_cast<double>(bounds_.keys) / keys_a_bin;
  const double most_requests =
      bounds_.requests_share == 0
          ? static_cast<double>(sample.all_requests)
          : bounds_.requests_share * static_cast<double>(sample.all_requests);
  const size_t count = static_cast<size_t>(std::min(bins, most_bins));
  order_.resize(hot.size());
  std::iota(order_.begin(), order_.end(), 0);
  std::partial_sort(
      order_.begin(), order_.begin() + static_cast<ptrdiff_t>(count), order_.end(),
      [&](uint32_t a, uint32_t b) { return sample.requests[a] > sample.requests[b]; });
  double requests = 0;
  for (size_t i = 0; i < count; ++i) {
    const uint32_t bin = order_[i];
    requests += sample.requests[bin];
    if (sample.requests[bin] == 0 || requests > most_requests) return;
    hot[bin] = true;
  }
}

void ChanceModel::choose(const BinSample& /*sample*/, std::vector<bool>& hot) {
  for (size_t bin = 0; bin < hot.size(); ++bin) hot[bin] = random_() % 2 == 0;
}

double BudgetModel::share_for(double threads, double hot_ns, double cold_ns,
                              double cold_per_second) {
  const double left_ns = threads * 1e9 - cold_per_second * cold_ns;
  // The threads cannot even feed the cold side: what costs them less is better.
  if (left_ns <= 0) return hot_ns < cold_ns ? 1 : 0;
  const double hot_per_second = left_ns / hot_ns;
  return hot_per_second / (hot_per_second + cold_per_second);
}

}  // namespace isotherm
