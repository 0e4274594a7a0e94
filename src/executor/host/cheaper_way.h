// CheaperWay: which of two ways to run batches of a kind takes less time, by what each has taken.
//
// Most batches go the way that was cheaper. One of some goes the other, the more rarely the more
// that costs, so that a load that changes is followed. A cost that falls is believed sooner than
// one that rises, which may be the doing of others on the machine; and the first time of each way
// does not count, since much is made then.
//
// Threads. One.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>

namespace isotherm {

class CheaperWay {
 public:
  // Whether the next batch is to go the second way.
  bool takes_second() {
    if (!known(0) || !known(1)) return known(0);
    const bool second = cost_[1] < cost_[0];
    const double ratio = cost_[second ? 0 : 1] / cost_[second ? 1 : 0];
    if (++since_try_ < between_tries * std::min(ratio, most_ratio)) return second;
    since_try_ = 0;
    return !second;
  }
  // What one that went this way has cost, in units of any kind, for so much work.
  void note(bool second, double cost) {
    double& its = cost_[second ? 1 : 0];
    if (its == not_tried || its == tried_once) {
      its = its == not_tried ? tried_once : cost;
    } else {
      its += (cost - its) * (cost < its ? 1.0 / 2 : 1.0 / 8);
    }
  }

 private:
  static constexpr double between_tries = 64;  // batches
  static constexpr double most_ratio = 16;
  static constexpr double not_tried = -2;
  static constexpr double tried_once = -1;
  bool known(int way) const { return cost_[way] >= 0; }

  std::array<double, 2> cost_{not_tried, not_tried};
  double since_try_ = 0;
};

}  // namespace isotherm
