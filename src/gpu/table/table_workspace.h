// TableWorkspace: the memory that parts of calls are worked off in, and how many rows they have.
//
// A part has at most `most_rows` rows, so that what it works in stays in the L2 cache. Longer parts
// let more rows share the time in which kernels start and end. Those of puts whose keys are
// expected to be new enter few of them anywhere, and may be twice as long, where a workspace for
// them is a small share of the memory that is left. Those without a key twice keep next to nothing
// there, and may have as many rows as one column has room for. Both only where the index has room
// for all their rows, and overflow lines for twice as many, so that they take no memory that
// shorter ones would not take.
//
// Memory. Taken when first needed, and again where parts need more; for fewer rows where it is
// short. Threads. One at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <new>
#include <utility>

#include "gpu/batch/batch_engine.h"

namespace isotherm {

template <class Device, class Kind>
class TableWorkspace {
 public:
  using Engine = BatchEngine<Device, Kind>;

  TableWorkspace(DeviceMemory<Device>& memory, uint32_t most_rows)
      : memory_(memory), wanted_rows_(most_rows), most_rows_(most_rows) {}

  uint64_t bytes() const { return workspace_ ? workspace_->bytes() : 0; }
  Engine& get() { return *workspace_; }

  // Makes sure of the memory for parts of `rows` rows, or of as many as one may have; of how many.
  // `idle` is called before memory is allocated or freed. Throws std::bad_alloc where there is no
  // room for the least.
  template <class Idle>
  uint32_t reserve(uint64_t rows, Idle&& idle) {
    constexpr uint32_t common = 1 << 16;
    const auto needed = static_cast<uint32_t>(std::min<uint64_t>(rows, most_rows_));
    if (workspace_ && workspace_->rows() >= needed) return needed;
    idle();
    return std::min(needed, take(std::min(std::max(needed, common), wanted_rows_)));
  }

  // The same ahead of need: where there is no room, the first part asks again.
  template <class Idle>
  void prepare(uint64_t rows, Idle&& idle) {
    try {
      reserve(rows, idle);
    } catch (const std::bad_alloc&) {
    }
  }

  // The most rows of a part without a key twice.
  uint64_t distinct_rows() const { return workspace_->distinct_rows(); }

  // Makes sure of the memory for parts of twice as many rows; false where it is not to be had, and
  // then all is as it was.
  template <class Idle>
  bool lengthen(Idle&& idle) {
    if (workspace_->rows() >= 2 * wanted_rows_) return true;
    if (is_short_ || most_rows_ < wanted_rows_) return false;
    is_short_ = memory_.left() / small_share < 2 * bytes();
    if (is_short_) return false;
    idle();
    auto longer = std::make_unique<Engine>(memory_, 2 * wanted_rows_);
    is_short_ = longer->rows() == 0;
    if (!is_short_) workspace_ = std::move(longer);
    return !is_short_;
  }

 private:
  static constexpr uint64_t small_share = 16;  // of what is left, one in so many bytes

  uint32_t take(uint32_t rows) {
    constexpr uint32_t least = 1 << 10;
    workspace_.reset();
    for (;; rows /= 2) {
      workspace_ = std::make_unique<Engine>(memory_, rows);
      if (workspace_->rows() != 0) return rows;
      workspace_.reset();
      if (rows <= least) throw std::bad_alloc();
      most_rows_ = std::min(most_rows_, rows / 2);
    }
  }

  DeviceMemory<Device>& memory_;
  const uint32_t wanted_rows_;
  uint32_t most_rows_;     // less where memory was short
  bool is_short_ = false;  // for twice as many
  std::unique_ptr<Engine> workspace_;
};

}  // namespace isotherm
