// NewestItems: the last few items of some size that were stored.
//
// When all others were read, the CLOCK's hand comes to an item that was stored a moment ago before
// its client could read it. Of items of 8 KiB and more there are so few that the client may notice
// this, so the hand passes each of the last 16 over once (items/clock_hand.h). Where fewer are
// stored, each of them is evicted when the hand comes for the second time.
//
// Threads. Any. An item that is added while another thread looks may be missed, and a place that is
// used again may count as one of the newest: either way an item is evicted a little sooner or
// later.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>

#include "items/location.h"
#include "items/size_classes.h"

namespace isotherm {

class alignas(64) NewestItems {
 public:
  // Of the size classes, from this one on.
  static constexpr uint32_t first_class = size_classes::class_of(8 << 10);

  void add(Location location) {
    const uint32_t at = next_.fetch_add(1, std::memory_order_relaxed) % most;
    items_[at].store(location, std::memory_order_relaxed);
  }
  bool has(Location location) const {
    return std::any_of(items_.begin(), items_.end(), [&](const std::atomic<Location>& item) {
      return item.load(std::memory_order_relaxed) == location;
    });
  }
  // Whether it is one of them, and from then on it is none.
  bool pass_over(Location location) {
    for (std::atomic<Location>& item : items_) {
      if (item.load(std::memory_order_relaxed) != location) continue;
      item.store(location::none, std::memory_order_relaxed);
      return true;
    }
    return false;
  }

 private:
  static constexpr uint32_t most = 16;

  std::atomic<uint32_t> next_{0};
  std::array<std::atomic<Location>, most> items_{};
};

}  // namespace isotherm
