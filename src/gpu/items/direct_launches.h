// DirectLaunches: gets of many threads on a device. One kernel answers all that are ready when it
// is launched (gpu/items/direct_asked.h), since a launch costs the driver, which lets one thread in
// at a time, more than a small piece costs the device.
//
//   waiting    call | call | …     in the order in which they were started
// A call is put here and, unless somebody is launching, the first of them are launched. Calls that
// come meanwhile are found here by the next thread that starts or waits for one. A call ends by a
// word in pinned memory, at which its thread looks without the driver.
//
// Kernels take turns on a few streams. What they read, and in which order with writes, is for the
// class behind this one.
//
// Threads. Any; a call belongs to one. Errors. A launch that fails fails all of its calls, each of
// which is told by `wait`, as of a device that fails meanwhile.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdint>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <span>
#include <thread>
#include <utility>
#include <vector>

#include "base/short_lock.h"
#include "gpu/items/direct_asked.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"

namespace isotherm {

template <class Device>
class DirectLaunches {
 public:
  using Stream = typename Device::Stream;

  class Call {
   public:
    // Whoever starts it fills this; `ended` differs from `number` then.
    DirectPiece piece;

   private:
    friend DirectLaunches;
    enum class State : uint8_t { idle, waiting, launched, failed };

    std::atomic<State> state_{State::idle};
    Stream stream_{};                   // that it was launched in
    std::shared_ptr<const void> hold_;  // what its kernel reads
    std::exception_ptr failure_;
    uint32_t looks_ = 0;
  };

  virtual ~DirectLaunches() = default;
  DirectLaunches(const DirectLaunches&) = delete;
  DirectLaunches& operator=(const DirectLaunches&) = delete;

  Device& device() const { return device_; }

  // It is launched by the next thread that launches some, or that waits for it.
  void post(Call& call) {
    call.failure_ = nullptr;
    if (call.piece.rows == 0) return;
    const std::lock_guard guard(lock_);
    waiting_.push_back(&call);
    call.state_.store(Call::State::waiting, std::memory_order_relaxed);
  }

  // Unless another thread does.
  void launch_some() {
    std::array<Call*, DirectAsked::most_pieces> calls;
    size_t count = 0;
    uint32_t lane = 0;
    {
      const std::lock_guard guard(lock_);
      if (launching_.load(std::memory_order_relaxed) || waiting_.empty()) return;
      launching_.store(true, std::memory_order_relaxed);
      count = std::min(waiting_.size(), calls.size());
      std::copy_n(waiting_.begin(), count, calls.begin());
      waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<ptrdiff_t>(count));
      lane = next_lane_++ % lanes;
    }
    launch_together({calls.data(), count}, lane);
    const std::lock_guard guard(lock_);
    launching_.store(false, std::memory_order_relaxed);
  }

  // Whether all replies are there, or never will be. Launches it where nobody has yet.
  bool done(Call& call) {
    constexpr uint32_t seldom = 1 << 14;
    const State state = call.state_.load(std::memory_order_acquire);
    if (state == State::idle || state == State::failed) return true;
    if (state == State::launched && has_ended(call)) return true;
    if (state == State::waiting && !launching_.load(std::memory_order_relaxed)) launch_some();
    if (!device_.pause() || (++call.looks_ % seldom == 0 && !is_healthy(call))) fail(call);
    return call.state_.load(std::memory_order_acquire) == State::failed;
  }

  // Until all replies are there.
  void wait(Call& call) {
    constexpr uint32_t often = 1 << 10;
    for (uint32_t looks = 1; !done(call); ++looks) {
      if (looks % often == 0) std::this_thread::yield();
    }
    call.hold_.reset();
    const State state = call.state_.exchange(State::idle, std::memory_order_relaxed);
    if (state == State::failed) std::rethrow_exception(std::exchange(call.failure_, nullptr));
  }

 protected:
  explicit DirectLaunches(Device& device)
      : device_(device), memory_(device, 0), counts_(memory_, lanes * DirectAsked::most_pieces) {
    if (counts_.empty()) throw std::bad_alloc();
    for (uint32_t i = 0; i < lanes; ++i) streams_.emplace_back(device);
    require_device(device.clear(streams_[0].get(), counts_.data(), counts_.bytes()) &&
                       device.synchronize(streams_[0].get()),
                   "begin direct gets");
  }

  template <class Kernel>
  void launch(Stream stream, Kernel kernel, const DirectAsked& asked) {
    kernel.asked = asked;
    require_device(device_.launch(stream, asked.blocks(), Kernel::threads, kernel),
                   "launch direct gets");
  }

 private:
  using State = typename Call::State;
  static constexpr uint32_t lanes = 4;  // kernels at a time

  // Launches a kernel for all that is asked; what is to be kept until it has ended.
  virtual std::shared_ptr<const void> answer(Stream stream, const DirectAsked& asked) = 0;
  // The device has failed while a kernel ran.
  virtual void lose() = 0;

  void launch_together(std::span<Call* const> calls, uint32_t lane) {
    DirectAsked asked;
    uint64_t rows = 0;
    for (const Call* call : calls) rows += call->piece.rows;
    asked.spread = spread_of(static_cast<uint32_t>(std::min<uint64_t>(rows, ~uint32_t{0})));
    asked.ended_blocks = counts_.data() + lane * DirectAsked::most_pieces;
    for (const Call* call : calls) asked.add(call->piece);
    std::shared_ptr<const void> hold;
    std::exception_ptr failure;
    try {
      device_.enter();
      hold = answer(streams_[lane].get(), asked);
    } catch (...) {
      failure = std::current_exception();
      device_.synchronize(streams_[lane].get());
    }
    for (Call* call : calls) {
      call->stream_ = streams_[lane].get();
      call->hold_ = hold;
      call->failure_ = failure;
      call->state_.store(failure == nullptr ? State::launched : State::failed,
                         std::memory_order_release);
    }
  }

  static bool has_ended(Call& call) {
    return std::atomic_ref(*call.piece.ended).load(std::memory_order_acquire) == call.piece.number;
  }
  bool is_healthy(const Call& call) {
    if (call.state_.load(std::memory_order_acquire) != State::launched) return true;
    device_.enter();
    return device_.healthy(call.stream_);
  }
  // A device that has failed runs nothing any more that would use the call's memory.
  void fail(Call& call) {
    if (call.state_.load(std::memory_order_acquire) != State::launched) return;
    device_.enter();
    device_.synchronize(call.stream_);
    lose();
    call.failure_ = std::make_exception_ptr(DeviceError("the device failed: wait for direct gets"));
    call.state_.store(State::failed, std::memory_order_relaxed);
  }

  Device& device_;
  DeviceMemory<Device> memory_;
  DeviceArray<Device, uint32_t> counts_;
  std::deque<DeviceStream<Device>> streams_;
  ShortLock lock_;  // of what follows
  std::vector<Call*> waiting_;
  std::atomic<bool> launching_{false};  // also asked without it
  uint32_t next_lane_ = 0;
};

}  // namespace isotherm
