// What the hit rates of cache indexes are measured against: exact LRU and CLOCK over all entries,
// as a store that chains its items keeps them, and LRU within sets of few ways.
//
// Keys are numbers below a bound, so that a model needs arrays alone. `read(key)` says whether the
// key was there, and puts it in where it was not.
#pragma once

#include <cstdint>
#include <utility>
#include <vector>

#include "bench_support.h"

namespace isotherm::bench {

class ExactLru {
 public:
  ExactLru(uint64_t keys, uint64_t entries)
      : end_(static_cast<uint32_t>(keys)), room_(entries), links_(keys + 1, {absent, absent}) {
    links_[end_] = {end_, end_};
  }
  bool read(uint64_t key) {
    const auto at = static_cast<uint32_t>(key);
    const bool found = links_[at].first != absent;
    if (found) {
      unlink(at);
    } else if (room_ != 0) {
      --room_;
    } else {
      unlink(links_[end_].first);
    }
    const uint32_t newest = links_[end_].second;
    links_[at] = {end_, newest};
    links_[newest].first = at;
    links_[end_].second = at;
    return found;
  }

 private:
  static constexpr uint32_t absent = ~uint32_t{0};

  void unlink(uint32_t at) {
    const auto [newer, older] = links_[at];
    links_[older].first = newer;
    links_[newer].second = older;
    links_[at] = {absent, absent};
  }

  // The newer and the older neighbour; of the end the oldest and the newest.
  const uint32_t end_;
  uint64_t room_;
  std::vector<std::pair<uint32_t, uint32_t>> links_;
};

class ExactClock {
 public:
  ExactClock(uint64_t keys, uint64_t entries) : place_(keys, absent), ring_(entries, absent) {}
  bool read(uint64_t key) {
    if (place_[key] != absent) {
      place_[key] |= mark;
      return true;
    }
    for (;; hand_ = (hand_ + 1) % ring_.size()) {
      const uint32_t there = ring_[hand_];
      if (there == absent) break;
      if ((place_[there] & mark) == 0) {
        place_[there] = absent;
        break;
      }
      place_[there] &= ~mark;
    }
    ring_[hand_] = static_cast<uint32_t>(key);
    place_[key] = static_cast<uint32_t>(hand_);
    hand_ = (hand_ + 1) % ring_.size();
    return false;
  }

 private:
  static constexpr uint32_t mark = uint32_t{1} << 31;
  static constexpr uint32_t absent = mark - 1;

  std::vector<uint32_t> place_;
  std::vector<uint32_t> ring_;
  uint64_t hand_ = 0;
};

class SetLru {
 public:
  SetLru(uint64_t entries, uint64_t ways)
      : ways_(ways), sets_(entries / ways), way_(sets_ * ways, {0, 0}) {}
  bool read(uint64_t key) {
    std::pair<uint64_t, uint64_t>* set = &way_[scramble(key + 1) % sets_ * ways_];
    auto* oldest = set;
    ++time_;
    for (uint64_t i = 0; i < ways_; ++i) {
      if (set[i].second != 0 && set[i].first == key) {
        set[i].second = time_;
        return true;
      }
      if (set[i].second < oldest->second) oldest = set + i;
    }
    *oldest = {key, time_};
    return false;
  }

 private:
  const uint64_t ways_;
  const uint64_t sets_;
  std::vector<std::pair<uint64_t, uint64_t>> way_;  // key, time of the last read; 0: empty
  uint64_t time_ = 0;
};

}  // namespace isotherm::bench
