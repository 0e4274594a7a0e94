// ValueLog: which places of the devices' memory have which values, for a store whose cold values
// lie there. It knows numbers only: nothing here touches a device.
//
// Layout. The memory of each device is cut into segments, 4 MiB where there is enough. Values are
// added to the end of one segment, the head, one behind the other; a full head is sealed, and the
// next one comes from the device with most free segments. Values of any sizes fill a segment
// without gaps, and nothing has to be sorted by size.
//
//   free ──head──▶ sealed ──all its values freed──▶ waiting ──epochs ended──▶ free
//
// Each segment keeps, by the number of a value in it, where the item is that has the value. A
// segment whose values are mostly dead is emptied by moving the others to the head (`to_clean`);
// the segment with the most freed bytes goes first. This takes some 12 bytes of host memory a
// value, counted as index.
//
// Room. Values may take seven eighths of the memory, so that some segment is always worth cleaning.
// The last free segment is kept for what cleaning moves.
//
// Readers. A value freed stays readable for whoever may have found it before: a segment waits for
// the epochs (items/epoch.h) of that moment before it is written again.
//
// Threads. Any; one mutex, held for a few instructions, or for a walk over the segments where one
// is wanted. One at a time cleans, from `to_clean` until what it got is moved.
// Limits. 16 devices, 2^20 segments each, values of at most a quarter of a segment and 1 MiB.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "executor/values/value_place.h"
#include "items/epoch.h"
#include "items/location.h"
#include "items/memory_budget.h"

namespace isotherm {

class ValueLog {
 public:
  // The memory of one device.
  struct Area {
    uint64_t address = 0;  // at a multiple of 16
    uint64_t bytes = 0;
  };
  struct Value {
    ValuePlace place;
    Location location;  // of the item that has it, as far as is known
  };

  // `bytes_a_segment`: a power of two from 4 KiB to 16 MiB. Budget and epochs must outlive it.
  ValueLog(const std::vector<Area>& areas, uint64_t bytes_a_segment, EpochDomain& epochs,
           MemoryBudget& budget);
  ~ValueLog();
  ValueLog(const ValueLog&) = delete;
  ValueLog& operator=(const ValueLog&) = delete;

  // Segments that suit so much memory.
  static uint64_t segment_bytes_for(uint64_t bytes);

  enum class For : uint8_t { new_value, cleaning };
  // A place for a value that the item at `location` will have; nothing where there is no room.
  std::optional<ValuePlace> add(uint64_t bytes, Location location, For purpose = For::new_value);
  // The item that has the value lies elsewhere now.
  void move(ValuePlace place, Location to);
  // Nobody who comes later will find the value.
  void free(ValuePlace place, uint64_t bytes);

  // As kernels know it.
  uint64_t address(ValuePlace place) const {
    return areas_[value_place::device(place)].address +
           value_place::segment(place) * segment_bytes_ +
           value_place::unit(place) * value_place::unit_bytes;
  }
  uint64_t largest_value() const;
  // Whether a new value would find room now.
  bool has_room(uint64_t bytes);
  // Whether the last call of either found no room.
  bool full() const { return full_.load(std::memory_order_relaxed); }

  // Values that should move so that a segment comes free, at most `values.size()`; 0: none need to.
  size_t to_clean(std::span<Value> values);

  uint64_t capacity() const { return capacity_; }  // bytes that values may take
  uint64_t live_bytes() const { return live_bytes_.load(std::memory_order_relaxed); }
  uint64_t values() const { return values_.load(std::memory_order_relaxed); }

 private:
  struct Segment {
    uint32_t used = 0;  // units
    uint32_t live = 0;  // units
    bool sealed = false;
    std::vector<Location> items;  // by number; location::none: dead
    std::vector<uint32_t> units;  // by number: where it begins
  };
  struct Device {
    std::vector<Segment> segments;
    std::vector<uint32_t> free;
  };
  struct Name {
    uint32_t device = 0;
    uint32_t segment = 0;
  };
  struct Waiting {
    Name name;
    uint64_t epoch;
  };

  Segment& at(Name name) { return devices_[name.device].segments[name.segment]; }
  static Name name_of(ValuePlace place) {
    return {value_place::device(place), value_place::segment(place)};
  }
  void open_head();
  bool has_place(uint32_t units, For purpose);
  void seal(Name name);
  void retire_if_empty(Name name);
  void collect();
  void count_index(const Segment& segment, int sign);
  bool choose_victim();

  const std::vector<Area> areas_;
  const uint64_t segment_bytes_;
  const uint32_t segment_units_;
  EpochDomain& epochs_;
  MemoryBudget& budget_;
  uint64_t capacity_ = 0;
  uint32_t all_segments_ = 0;
  std::atomic<uint64_t> live_bytes_{0};
  std::atomic<uint64_t> values_{0};
  std::atomic<bool> full_{false};

  std::mutex mutex_;  // all below
  std::vector<Device> devices_;
  std::optional<Name> head_;
  std::deque<Waiting> waiting_;
  uint32_t free_segments_ = 0;
  std::optional<Name> victim_;    // that is being cleaned
  uint32_t victim_number_ = 0;    // of its next value
  uint64_t freed_units_ = 0;      // of values, in sealed segments
  uint64_t next_walk_units_ = 0;  // that must have been freed before the next walk over all
};

}  // namespace isotherm
