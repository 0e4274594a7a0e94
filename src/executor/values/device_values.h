// DeviceValues: the values of a store that lie in device memory: the log that says where
// (executor/values/value_log.h), the devices' memory, and what was counted.
//
// A value of a store is on the host first. When host memory gets short, or at once where it has no
// cap, the values that nobody reads go to a device, if they are long enough to be worth it
// (executor/upkeep/value_moves.h), and their items stay on the host without them (items/item.h,
// "away"). So keys, expiry, versions and eviction stay the host's work, and a device only keeps
// bytes. A get of such a value fetches it (executor/values/value_reader.h); one that is read twice
// while the CLOCK goes round comes back for good.
//
// Failure. When a device fails the values there are lost: their items are dropped when the index is
// made anew (executor/device/index_rebuild.h), and gets that are under way are looked up again
// then.
//
// Threads. Any. Must outlive all transfers.
// Sources. KVCG (hot on the CPU, cold on the GPU); the log is RAMCloud's and Segcache's idea of
// memory without holes.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "executor/values/value_log.h"
#include "executor/values/value_transfer.h"
#include "gpu/store/value_tier.h"
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

// What a search for values to send found.
struct SendFound {
  uint64_t looked = 0;      // items; 0: another thread was at it
  uint64_t cold_bytes = 0;  // of those that nobody read
  uint64_t bytes = 0;       // of these, values that may go
  bool no_memory = false;   // for the items without them
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

  // What a search for values to send found, in a store of so many items.
  void note(const SendFound& found, uint64_t entries);
  // Whether there was nothing to send, after the CLOCK had gone round twice: the first time what
  // was read stays.
  bool vain() const { return vain_.load(std::memory_order_relaxed); }
  // Whether what can be sent is so small a part of what nobody reads that eviction must help; to
  // know it, some hundred thousand items are looked at, or all of a smaller store.
  bool poor() const { return poor_.load(std::memory_order_relaxed); }
  // Whether sending values makes room. Writes may run over the cap a little then.
  bool helps() const { return !lost() && !vain() && !log_.full(); }

  // Some of the items whose values were read again, with the places that these had then: they may
  // come back. Of many that a batch reads a few are noted, so that it is those that are read most.
  struct Wanted {
    Location location;
    ValuePlace place;
  };
  static constexpr size_t most_wanted = 1024;
  void want(std::span<const Wanted> more);
  std::vector<Wanted> take_wanted();
  size_t wanted() const { return wanted_count_.load(std::memory_order_relaxed); }

  // From now on nothing goes there.
  void lose() { lost_.store(true, std::memory_order_release); }
  bool lost() const { return lost_.load(std::memory_order_acquire); }

  // What one worker at a time does, and others pass by.
  std::mutex sending;   // as long as room is not short
  std::mutex cleaning;  // from the choice of values until they are moved

  DeviceValueStats stats() const;
  std::atomic<uint64_t> fetched{0};
  std::atomic<uint64_t> to_device{0};
  std::atomic<uint64_t> from_device{0};
  std::atomic<uint64_t> lost_values{0};
  std::atomic<uint64_t> pinned{0};  // bytes that readers keep for what they fetch

 private:
  const std::vector<std::unique_ptr<ValueTier>> tiers_;
  ValueLog log_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> vain_{false};
  std::atomic<bool> poor_{false};
  std::atomic<uint64_t> vain_looks_{0};
  std::atomic<uint64_t> poor_looks_{0};
  std::mutex wanted_mutex_;
  std::vector<Wanted> wanted_;
  std::atomic<size_t> wanted_count_{0};
};

}  // namespace isotherm
