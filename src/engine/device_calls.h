// What the tables behind a GpuTable share: the GPUs, memory for a call, masks, and requests that
// are computed on the host.
//
// `Gpu` is a device's traits: Device; Keep, a scope that keeps the calling thread's GPU;
// device(number), which throws DeviceError where it cannot be used and lasts as long as the
// program; stream(device, number of the stream); allocate and release of memory in the order of a
// stream, the first null without memory; tune(FixedDeviceOptions&).
//
// Threads. Any, but for HostUpdate.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <unordered_map>
#include <vector>

#include "base/seed.h"
#include "engine/gpu_part.h"
#include "engine/mask_kernel.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/grid.h"
#include "gpu/table/fixed_device_table.h"

namespace isotherm {

template <class Gpu>
FixedDeviceOptions fixed_options(const GpuTableOptions& options) {
  FixedDeviceOptions fixed;
  fixed.gpu_memory = options.gpu_memory;
  fixed.seed = draw_seed();
  Gpu::tune(fixed);
  return fixed;
}

// A kernel with a thread for each item; none where there are no items.
template <class Device, class Kernel>
void launch_for_each(Device& device, typename Device::Stream stream, uint64_t items,
                     const Kernel& kernel) {
  constexpr uint32_t threads = 256;
  if (items == 0) return;
  require_device(device.launch(stream, grid_for(device, items, threads), threads, kernel),
                 "launch a kernel of columns");
}

// Memory of a call, in the order of its stream.
template <class Gpu>
class CallMemory {
 public:
  using Device = typename Gpu::Device;

  CallMemory(Device& device, typename Device::Stream stream, uint64_t bytes)
      : device_(device),
        stream_(stream),
        bytes_(std::max<uint64_t>(bytes, 1)),
        at_(Gpu::allocate(device, bytes_, stream)) {
    if (at_ == nullptr) throw std::bad_alloc();
  }
  ~CallMemory() { Gpu::release(device_, at_, bytes_, stream_); }
  CallMemory(const CallMemory&) = delete;
  CallMemory& operator=(const CallMemory&) = delete;

  template <class T>
  T* as() const {
    return static_cast<T*>(at_);
  }

 private:
  Device& device_;
  const typename Device::Stream stream_;
  const uint64_t bytes_;
  void* const at_;
};

// What a call on device pointers works with.
template <class Gpu>
struct DeviceCall {
  using Device = typename Gpu::Device;
  using Memory = CallMemory<Gpu>;

  DeviceCall(Device& its_device, const GpuCall& its_call)
      : call(its_call),
        requests(its_call.requests),
        rows(its_call.requests.keys.size()),
        device(its_device) {
    require_device(device.enter(), "choose the GPU");
    stream = Gpu::stream(device, call.stream);
  }

  void make_mask(uint8_t* found, const uint64_t* before) const {
    if (call.mask == GpuMask::found && requests.op == TableOp::get) return;  // it is one
    launch_for_each(device, stream, rows,
                    MaskKernel{found, rows, call.mask, before,
                               static_cast<const uint64_t*>(requests.expected), call.refused});
  }
  // How many replies say so; waits for the stream.
  uint64_t count(const uint8_t* found, uint8_t what) const {
    std::vector<uint8_t> replies(rows);
    require_device(
        device.to_host(stream, replies.data(), found, rows) && device.synchronize(stream),
        "read the replies");
    return static_cast<uint64_t>(std::count(replies.begin(), replies.end(), what));
  }

  const GpuCall& call;
  const RowRequests& requests;
  const uint64_t rows;
  Device& device;
  typename Device::Stream stream;
};

inline RowHandle::Result count_replies(const uint8_t* found, uint64_t rows) {
  return {static_cast<uint64_t>(std::count(found, found + rows, 1)),
          static_cast<uint64_t>(std::count(found, found + rows, reply_retry))};
}

// compare_and_swap and add of any rows: the rows of each key one after the other, on the host, and
// then the last row of each that changed is put. No other write may run meanwhile.
class HostUpdate {
 public:
  HostUpdate(const RowRequests& requests, uint64_t row_bytes)
      : requests_(requests), row_bytes_(row_bytes), places_(requests.keys.size()) {
    std::unordered_map<uint64_t, size_t> place_of;
    for (size_t i = 0; i < places_.size(); ++i) {
      const auto [at, is_new] = place_of.try_emplace(requests.keys[i], keys_.size());
      if (is_new) keys_.push_back(requests.keys[i]);
      places_[i] = at->second;
    }
    rows_.resize(keys_.size() * row_bytes);
    found_.resize(keys_.size());
  }

  // get(requests) and put(requests) run such calls with host pointers.
  template <class Run>
  RowHandle::Result run(Run&& run) {
    RowRequests gets = call(TableOp::get, keys_, found_);
    gets.rows_out = rows_.data();
    run(gets);
    std::vector<uint8_t> replies(places_.size());
    std::vector<bool> changed(keys_.size());
    for (size_t i = 0; i < places_.size(); ++i) {
      const size_t at = places_[i];
      replies[i] = found_[at];
      if (requests_.rows_out != nullptr && found_[at] == 1) {
        std::memcpy(row(requests_.rows_out, i), &rows_[at * row_bytes_], row_bytes_);
      }
      if (change(i, at)) changed[at] = true;
    }
    const std::vector<uint8_t> stored = put(changed, run);
    for (size_t i = 0; i < places_.size(); ++i) {
      if (stored[places_[i]] == reply_retry) replies[i] = reply_retry;
    }
    if (requests_.found != nullptr) {
      std::copy(replies.begin(), replies.end(), requests_.found);
    }
    return count_replies(replies.data(), replies.size());
  }

 private:
  static RowRequests call(TableOp op, const std::vector<uint64_t>& keys,
                          std::vector<uint8_t>& found) {
    RowRequests requests;
    requests.op = op;
    requests.keys = keys;
    requests.found = found.data();
    return requests;
  }
  char* row(void* rows, size_t i) const { return static_cast<char*>(rows) + i * row_bytes_; }
  const char* row(const void* rows, size_t i) const {
    return static_cast<const char*>(rows) + i * row_bytes_;
  }

  // Whether request i changes the row of its key.
  bool change(size_t i, size_t at) {
    char* const now = rows_.data() + at * row_bytes_;
    const char* const given = row(requests_.rows, i);
    if (requests_.op == TableOp::compare_and_swap) {
      if (found_[at] != 1 || std::memcmp(now, row(requests_.expected, i), row_bytes_) != 0) {
        return false;
      }
      std::memcpy(now, given, row_bytes_);
    } else if (found_[at] == 1) {
      requests_.sum(now, given, row_bytes_);
    } else {
      std::memcpy(now, given, row_bytes_);
      found_[at] = 1;
    }
    return true;
  }

  // Of each key 1, or reply_retry.
  template <class Run>
  std::vector<uint8_t> put(const std::vector<bool>& changed, Run&& run) {
    std::vector<uint64_t> keys;
    std::vector<char> rows;
    std::vector<size_t> places;
    for (size_t at = 0; at < keys_.size(); ++at) {
      if (!changed[at]) continue;
      keys.push_back(keys_[at]);
      places.push_back(at);
      rows.insert(rows.end(), rows_.begin() + static_cast<int64_t>(at * row_bytes_),
                  rows_.begin() + static_cast<int64_t>((at + 1) * row_bytes_));
    }
    std::vector<uint8_t> stored(keys_.size(), 1);
    if (keys.empty()) return stored;
    std::vector<uint8_t> replies(keys.size());
    RowRequests puts = call(TableOp::put, keys, replies);
    puts.rows = rows.data();
    run(puts);
    for (size_t i = 0; i < keys.size(); ++i) stored[places[i]] = replies[i];
    return stored;
  }

  const RowRequests& requests_;
  const uint64_t row_bytes_;
  std::vector<size_t> places_;  // of each request, among the keys
  std::vector<uint64_t> keys_;  // each once
  std::vector<char> rows_;
  std::vector<uint8_t> found_;
};

}  // namespace isotherm
