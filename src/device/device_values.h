// DeviceValues: the values of a store that lie in device memory: the log that says where
// (device/value_log.h), the devices' memory, and what was counted.
//
// A value of a store is on the host first. When host memory gets short, or at once where it has no
// cap, the values that nobody reads go to a device, if they are long enough to be worth it
// (device/value_moves.h), and their items stay on the host without them (items/item.h, "away"). So
// all that is done with keys, expiry, versions and eviction is done on the host, and a device only
// keeps bytes. A get of such a value fetches it (device/value_reader.h); one that is read twice
// while the CLOCK goes round comes back for good.
//
// Failure. When a device fails the values there are lost: their items are dropped when the index is
// made anew (device/index_rebuild.h), and gets that are under way are answered as misses.
//
// Threads. Any. Must outlive all transfers.
// Sources. KVCG (hot on the CPU, cold on the GPU); the log is RAMCloud's and Segcache's idea of
// memory without holes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <vector>

#include "device/value_log.h"
#include "device/value_tier.h"
#include "device/value_transfer.h"
#include "items/epoch.h"
#include "items/item.h"
#include "items/memory_budget.h"

namespace isotherm {

// For INFO; bytes of device memory.
struct DeviceValueStats {
  uint64_t capacity = 0;
  uint64_t bytes = 0;        // live
  uint64_t values = 0;       // live
  uint64_t fetched = 0;      // to answer requests
  uint64_t to_device = 0;    // that have moved
  uint64_t from_device = 0;  // that have come back
  uint64_t lost = 0;         // with a device
};

class DeviceValues {
 public:
  // At least one tier. Budget and epochs must outlive it.
  DeviceValues(std::vector<std::unique_ptr<ValueTier>> tiers, EpochDomain& epochs,
               MemoryBudget& budget);

  // Throws DeviceError or std::bad_alloc.
  std::unique_ptr<ValueTransfer> make_transfer();
  // Null without it.
  PinnedValues make_pinned(uint64_t bytes) { return tiers_.front()->make_pinned(bytes); }
  ValueLog& log() { return log_; }

  // `item` has left the index; `copy` has taken its place, or is null.
  void settle(const Item& item, const Item* copy, Location copy_location);
  // Whether a value is on a device and the same of both.
  static bool same_value(const Item& item, const Item& other) {
    return item.away() && other.away() && item.value_place() == other.value_place();
  }

  // Whether sending values makes room, as far as the last sweeps tell: there is room on the
  // devices, and there are values to send. Writes may run over the cap a little then.
  bool helps() const {
    return !lost() && !vain_.load(std::memory_order_relaxed) &&
           log_.live_bytes() < log_.capacity() / 16 * 15;
  }
  void set_vain(bool vain) { vain_.store(vain, std::memory_order_relaxed); }

  // From now on nothing goes there.
  void lose() { lost_.store(true, std::memory_order_release); }
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  DeviceValueStats stats() const;
  std::atomic<uint64_t> fetched{0};
  std::atomic<uint64_t> to_device{0};
  std::atomic<uint64_t> from_device{0};
  std::atomic<uint64_t> lost_values{0};

 private:
  const std::vector<std::unique_ptr<ValueTier>> tiers_;
  ValueLog log_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> vain_{false};
};

}  // namespace isotherm
