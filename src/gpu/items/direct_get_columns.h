// DirectGetColumns: DirectGets on any device, whatever answers them: columns of keys and slots in
// pinned memory, which kernels read and write over the bus (gpu/items/direct_launches.h).
//
//   word of the last call that has ended, in a line of its own | ends of keys | keys | slots
//
// Threads. One at a time. The launches must outlive it. Errors. std::bad_alloc without memory.
#pragma once

#include <cstdint>
#include <exception>

#include "gpu/items/direct_gets.h"
#include "gpu/items/direct_launches.h"
#include "gpu/platform/pinned_block.h"

namespace isotherm {

template <class Device>
class DirectGetColumns final : public DirectGets {
 public:
  DirectGetColumns(DirectLaunches<Device>& launches, const DirectShape& shape)
      : launches_(launches),
        shape_(shape),
        pinned_(launches.device(), slots_at() + uint64_t{shape.rows} * shape.stride) {
    *ended() = 0;
    columns_.key_ends = reinterpret_cast<uint32_t*>(pinned_.data() + line_bytes);
    columns_.keys = pinned_.data() + keys_at();
    columns_.replies = pinned_.data() + slots_at();
    columns_.key_ends[0] = 0;
  }
  ~DirectGetColumns() override {
    try {
      launches_.wait(call_);
    } catch (const std::exception&) {
      // Nothing is under way, which is all that matters here.
    }
  }

  const DirectShape& shape() const override { return shape_; }
  const DirectColumns& columns() const override { return columns_; }
  uint64_t pinned_bytes() const override { return pinned_.bytes(); }

  void start(uint32_t rows) override {
    post(rows);
    launches_.launch_some();
  }
  void post(uint32_t rows) override {
    call_.piece = {.key_ends = columns_.key_ends,
                   .keys = columns_.keys,
                   .delivery = {pinned_.data() + slots_at(), shape_.stride},
                   .ended = ended(),
                   .number = call_.piece.number + 1,
                   .rows = rows,
                   .key_bytes = columns_.key_ends[rows]};
    launches_.post(call_);
  }
  bool done() override { return launches_.done(call_); }
  void wait() override { launches_.wait(call_); }

 private:
  static constexpr uint64_t line_bytes = 128;
  static uint64_t upto_lines(uint64_t bytes) {
    return (bytes + line_bytes - 1) / line_bytes * line_bytes;
  }
  uint64_t keys_at() const {
    return line_bytes + upto_lines((uint64_t{shape_.rows} + 1) * sizeof(uint32_t));
  }
  uint64_t slots_at() const { return keys_at() + upto_lines(shape_.key_room); }
  uint64_t* ended() const { return reinterpret_cast<uint64_t*>(pinned_.data()); }

  DirectLaunches<Device>& launches_;
  const DirectShape shape_;
  const PinnedBlock<Device> pinned_;
  DirectColumns columns_;
  typename DirectLaunches<Device>::Call call_;
};

}  // namespace isotherm
