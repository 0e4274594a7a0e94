// SortedTier: pairs of byte strings in the memory of one device, sorted by key (H-Rocks, section 5:
// memtables in device memory), as the host uses them: taken in by runs, the newest of each key
// counts, and read by gets and ranges in place. tree/sorted_files.h keeps a copy of a tree's files
// in one.
//
// A run is what one `put` brings. Runs are merged by the device as their number grows, so there are
// few; what a newer one hides goes then. Keys are ordered by their bytes.
//
// Errors. All functions throw DeviceError when the device fails, after which every call does; what
// was there is gone. std::bad_alloc.
// Threads. Any; `put` and `clear` one at a time. Views, gets and ranges do not outlive the tier.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "gpu/items/direct_gets.h"
#include "gpu/sorted/direct_ranges.h"
#include "gpu/sorted/sorted_pair.h"

namespace isotherm {

class SortedTier {
 public:
  virtual ~SortedTier() = default;
  // Newer than all that is there. In any order, though that of keys takes less time and memory; of
  // equal keys the last counts. False: there is no room, or one of them is too large
  // (gpu/sorted/sorted_run.h), and nothing has changed.
  virtual bool put(std::span<const SortedPair> pairs) = 0;
  virtual void clear() = 0;
  virtual std::shared_ptr<const SortedView> view() = 0;
  // For one thread. Gets show what is newest when they start.
  virtual std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) = 0;
  virtual std::unique_ptr<DirectRanges> make_ranges(const RangeShape& shape) = 0;
  virtual SortedStats stats() = 0;
};

// DeviceError or std::bad_alloc without one, std::invalid_argument for too little memory.
using SortedTierMaker = std::function<std::unique_ptr<SortedTier>(const SortedTierOptions&)>;

}  // namespace isotherm
