// BinFlow: moves bins through cold, warming, hot and cooling, a few at a time.
//
// `want` says which bins should be hot. A step of a group of bins is one of
//   1. their states change to warming or cooling;
//   2. all requests that may have seen the old states have ended (a Grace);
//   3. their keeper takes over the keys of each, or gives them back (BinKeeper, hot/hot_table.h);
//   4. the bin is hot or cold.
// A group warms or cools, and all of it ends before the next begins, so a bin that is wanted cold
// again while it warms first becomes hot. Bins that cool go first, as they make room; those that
// warm go by how much they are asked for. A new `want` replaces what was not begun.
//
// Threads. One, in no epoch. The counters may be read by any.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/counter.h"
#include "hot/bin_states.h"
#include "hot/hot_table.h"

namespace isotherm {

class BinFlow {
 public:
  // Bins that share a grace; requests on bins that move may have to wait, so they are few.
  static constexpr uint32_t usual_group = 64;

  BinFlow(BinStates& states, EpochDomain& epochs, BinKeeper& keeper, uint32_t group = usual_group)
      : states_(states), epochs_(epochs), keeper_(keeper), group_(group) {
    moving_.reserve(group);
  }

  // `heat`: by bin, how much it is asked for.
  void want(const std::vector<bool>& hot, std::span<const uint32_t> heat);
  // A bounded step; true while there is more to do. One that waits for requests to end does
  // nothing.
  bool step();
  bool waits() const { return !moving_.empty() && !seen_by_all_; }

  // Whether all bins are cold and none is to become hot. `let_go`, then: takes no memory for what
  // is to move.
  bool is_cold() const {
    return moving_.empty() && to_warm_.empty() &&
           states_.in_state(BinState::cold) == states_.count();
  }
  void let_go() {
    to_cool_ = {};
    to_warm_ = {};
  }

  uint64_t warmed() const { return warmed_.get(); }
  uint64_t cooled() const { return cooled_.get(); }

 private:
  bool begin_group();

  BinStates& states_;
  EpochDomain& epochs_;
  BinKeeper& keeper_;
  const uint32_t group_;
  std::vector<uint32_t> to_cool_;  // the next last
  std::vector<uint32_t> to_warm_;
  std::vector<uint32_t> moving_;  // of the group under way
  bool warms_ = false;            // the group does
  bool seen_by_all_ = false;
  Grace grace_;
  Counter warmed_, cooled_;
};

}  // namespace isotherm
