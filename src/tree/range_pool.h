// RangePool: columns for many ranges at once (gpu/sorted/direct_ranges.h) of a tree's files that
// have a sorted copy on a device; lent to readers (tree/range_reader.h), which hold them until what
// they show is no longer needed.
//
// Threads. Any. Memory. Pinned, `bytes`, at most `most_bytes`: where that is lent there are none.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "gpu/platform/device_error.h"
#include "tree/tree_files.h"

namespace isotherm {

class RangePool {
 public:
  RangePool(TreeFiles& files, uint64_t most_bytes)
      : files_(files), most_bytes_(most_bytes), shape_(shape_for(most_bytes)) {}

  // Gives them back.
  class Lent {
   public:
    Lent(RangePool& pool, std::unique_ptr<DirectRanges> ranges)
        : pool_(pool), ranges_(std::move(ranges)) {}
    ~Lent() {
      const std::lock_guard guard(pool_.mutex_);
      pool_.free_.push_back(std::move(ranges_));
    }
    Lent(const Lent&) = delete;
    Lent& operator=(const Lent&) = delete;
    DirectRanges& ranges() { return *ranges_; }

   private:
    RangePool& pool_;
    std::unique_ptr<DirectRanges> ranges_;
  };

  // Null: not now.
  std::unique_ptr<Lent> lend() {
    const std::lock_guard guard(mutex_);
    std::unique_ptr<DirectRanges> ranges;
    if (!free_.empty()) {
      ranges = std::move(free_.back());
      free_.pop_back();
    } else if (bytes() + shape_.reply_room <= most_bytes_) {
      ranges = make();
    }
    return ranges == nullptr ? nullptr : std::make_unique<Lent>(*this, std::move(ranges));
  }
  // Of columns that nobody has.
  void release() {
    const std::lock_guard guard(mutex_);
    for (const auto& ranges : free_) bytes_.fetch_sub(ranges->pinned_bytes());
    free_.clear();
  }
  // A device has failed some.
  void lose() { files_.lose(); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  std::unique_ptr<DirectRanges> make() {
    std::unique_ptr<DirectRanges> ranges;
    try {
      ranges = files_.make_ranges(shape_);
    } catch (const DeviceError&) {
      lose();
    } catch (const std::bad_alloc&) {
    }
    if (ranges != nullptr) bytes_.fetch_add(ranges->pinned_bytes());
    return ranges;
  }
  static RangeShape shape_for(uint64_t most_bytes) {
    constexpr uint64_t least_room = 64 << 10;
    constexpr uint64_t most_room = 4 << 20;
    RangeShape shape;
    shape.ranges = 1024;
    shape.key_room = shape.ranges * 2 * 32;
    shape.reply_room = std::clamp(most_bytes / 32, least_room, most_room) & ~uint64_t{7};
    shape.most_bytes = static_cast<uint32_t>(shape.reply_room / 4);
    shape.value_skip = sizeof(uint64_t);  // the version (tree/tree_record.h)
    return shape;
  }

  TreeFiles& files_;
  const uint64_t most_bytes_;
  const RangeShape shape_;
  std::atomic<uint64_t> bytes_{0};
  std::mutex mutex_;  // of what follows
  std::vector<std::unique_ptr<DirectRanges>> free_;
};

}  // namespace isotherm
