// RangePool: columns for many ranges at once (gpu/sorted/direct_ranges.h) of a tree's files that
// have a sorted copy on a device; lent to readers (tree/range_reader.h), which hold them until what
// they show is no longer needed.
//
// Threads, memory. As tree/column_pool.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>

#include "gpu/platform/device_error.h"
#include "tree/column_pool.h"
#include "tree/tree_files.h"

namespace isotherm {

class RangePool final : public ColumnPool<DirectRanges> {
 public:
  RangePool(TreeFiles& files, uint64_t most_bytes)
      : ColumnPool(most_bytes), files_(files), shape_(shape_for(most_bytes)) {}

  // A device has failed some.
  void lose(const std::string& why) { files_.lose(why); }

 private:
  uint64_t wanted_bytes() override { return shape_.reply_room; }
  std::unique_ptr<DirectRanges> make() override {
    try {
      return files_.make_ranges(shape_);
    } catch (const DeviceError& error) {
      lose(error.what());
    } catch (const std::bad_alloc&) {
    }
    return nullptr;
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
  const RangeShape shape_;
};

}  // namespace isotherm
