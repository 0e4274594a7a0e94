// AdaptivePolicy: short queues go by the express path, long ones by the bulk path.
//
// A threshold on the rows that wait tells them apart. It begins at its least and
//   - is multiplied when a queue has grown to it soon after it began, for at such a rate larger
//     batches pay;
//   - is halved with every window of time whose rate has fallen against the window before.
// A load that goes up and down would change paths all the time, and each change waits for the
// batches that are under way on the other path. So no second has more than `most_switches` changes.
// The last of them leads to the path that is kept for the next second: the express path if the rate
// was low throughout, and as long as it stays low; otherwise the bulk path.
//
// Threads. One. Sources. H-Rocks, section 6 (the threshold: 10,000, times 10 when reached within
// 1 ms, halved when the rate falls, at most 250 M) and section 6.7 (3 changes a second).
#pragma once

#include <algorithm>
#include <deque>
#include <stdexcept>

#include "executor/scheduling_policy.h"
#include "isotherm/scheduling.h"

namespace isotherm {

class AdaptivePolicy final : public SchedulingPolicy {
 public:
  explicit AdaptivePolicy(const AdaptiveOptions& options)
      : options_(options), threshold_(options.threshold) {
    if (options.threshold == 0 || options.most_threshold < options.threshold ||
        options.factor < 2 || options.rate_window_ns <= 0 || options.most_switches == 0 ||
        options.most_on_device == 0) {
      throw std::invalid_argument(
          "adaptive scheduling needs a threshold of at least 1 and at most most_threshold, a "
          "factor of at least 2, a window above 0, at least one switch a second and at least one "
          "batch on the device");
    }
  }

  uint64_t threshold() const { return threshold_; }

  BatchDecision decide(const WaitingRows& waiting) override {
    measure_rate(waiting);
    const uint64_t rows = waiting.reads + waiting.writes;
    if (rows == 0) return {};
    const bool reached = rows >= threshold_;
    if (!reached && waiting.on_device >= options_.most_on_device) return {};
    if (reached && std::max(waiting.read_age, waiting.write_age) <= options_.soon_ns) {
      raise_threshold();
    }
    const BatchRoute route =
        route_for(reached ? BatchRoute::bulk : BatchRoute::express, waiting.now);
    return {waiting.reads, waiting.writes, route, BatchDecision::never};
  }
  bool gathers() const override { return false; }
  bool chooses_route() const override { return true; }

 private:
  static constexpr int64_t second = 1'000'000'000;

  void raise_threshold() {
    const uint64_t most = options_.most_threshold;
    threshold_ = threshold_ > most / options_.factor ? most : threshold_ * options_.factor;
  }

  // At the end of a window; several may have passed.
  void measure_rate(const WaitingRows& waiting) {
    if (!measuring_) {
      measuring_ = true;
      window_begin_ = waiting.now;
      window_arrived_ = waiting.arrived;
      return;
    }
    const int64_t elapsed = waiting.now - window_begin_;
    if (elapsed < options_.rate_window_ns) return;
    const auto rows = static_cast<double>(waiting.arrived - window_arrived_);
    const double rate = rows * 1e9 / static_cast<double>(elapsed);
    if (rate < rate_ * options_.fall) halve_threshold(elapsed / options_.rate_window_ns);
    rate_ = rate;
    window_begin_ = waiting.now;
    window_arrived_ = waiting.arrived;
    rates_.push_back({waiting.now, rate});
    while (rates_.front().at < waiting.now - second) rates_.pop_front();
  }

  void halve_threshold(int64_t times) {
    constexpr int64_t most_halves = 63;
    threshold_ = std::max(threshold_ >> std::min(times, most_halves), options_.threshold);
  }

  BatchRoute route_for(BatchRoute wanted, int64_t now) {
    const bool keeps = now < kept_until_ && (route_ == BatchRoute::bulk || rate_was_low());
    if (keeps || wanted == route_) return route_;
    while (!switches_.empty() && switches_.front() <= now - second) switches_.pop_front();
    if (switches_.size() >= options_.most_switches) return route_;
    if (switches_.size() + 1 == options_.most_switches) {
      kept_until_ = now + second;
      wanted = rate_was_low() ? BatchRoute::express : BatchRoute::bulk;
      if (wanted == route_) return route_;
    }
    switches_.push_back(now);
    return route_ = wanted;
  }

  bool rate_was_low() const {
    const auto low = [this](const Rate& measured) { return measured.rate < options_.low_rate; };
    return !rates_.empty() && std::all_of(rates_.begin(), rates_.end(), low);
  }

  struct Rate {
    int64_t at;
    double rate;
  };

  const AdaptiveOptions options_;
  uint64_t threshold_;
  BatchRoute route_ = BatchRoute::express;
  std::deque<int64_t> switches_;  // of the last second
  int64_t kept_until_ = 0;
  bool measuring_ = false;
  int64_t window_begin_ = 0;
  uint64_t window_arrived_ = 0;
  double rate_ = 0;         // of the last window
  std::deque<Rate> rates_;  // of the last second
};

}  // namespace isotherm
