// DeviceContext: what everything that lies on one device and takes calls has: the device, a cap on
// its memory, a stream of its own, the order of calls on all streams, whether it was lost, and the
// lock that calls take turns by.
//
// Once a device has failed nothing that is there can be relied on: every later call throws. What a
// failed call has queued must not outlive the memory that it works in, nor run beside later calls,
// which do not wait for it, so it ends before the failure is told. A std::invalid_argument says
// that all is as it was, or as the call left it.
//
// Threads. Any may call; the rest is for whoever holds the lock. Errors. DeviceError.
#pragma once

#include <cstdint>
#include <mutex>
#include <new>
#include <stdexcept>

#include "gpu/platform/call_order.h"
#include "gpu/platform/device_loss.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"

namespace isotherm {

template <class Device>
class DeviceContext {
 public:
  using Stream = typename Device::Stream;

  // With a cap of `bytes` (0: none) of its own.
  DeviceContext(Device& device, uint64_t bytes)
      : own_memory_(device, bytes), memory_(own_memory_), stream_(device), order_(device) {}
  // With the cap of `shared`, which others take from, too.
  explicit DeviceContext(DeviceMemory<Device>& shared)
      : own_memory_(shared.device(), 0),
        memory_(shared),
        stream_(shared.device()),
        order_(shared.device()) {}
  DeviceContext(const DeviceContext&) = delete;
  DeviceContext& operator=(const DeviceContext&) = delete;

  Device& device() const { return memory_.device(); }
  DeviceMemory<Device>& memory() const { return memory_; }
  Stream stream() const { return stream_.get(); }
  CallOrder<Device>& order() { return order_; }
  std::mutex& mutex() { return mutex_; }

  // Waits for all calls so far; a lost device has nothing left to wait for. Its owner ends by this.
  void settle() {
    try {
      order_.drain();
    } catch (const DeviceError&) {
    }
  }

  bool lost() const { return loss_.lost(); }
  void lose() { loss_.lose(); }

  // Runs work(), which uses `stream`, for whoever holds the lock. Throws std::invalid_argument for
  // a stream that is being captured: what to launch is decided by counts that the host waits for.
  template <class Work>
  void guard(Stream stream, Work&& work) {
    if (stream != stream_.get() && device().captures(stream)) {
      throw std::invalid_argument("a table takes no calls in a stream that is being captured");
    }
    loss_.guard(work, [&] { device().synchronize(stream); });
  }
  // A call: takes the lock.
  template <class Work>
  void call(Stream stream, Work&& work) {
    const std::lock_guard lock(mutex_);
    guard(stream, work);
  }
  // A call that waits, on the device, for all calls before it.
  template <class Work>
  void write(Stream stream, Work&& work) {
    call(stream, [&] {
      order_.begin_write(stream);
      work();
      order_.end_write(stream);
    });
  }

 private:
  DeviceMemory<Device> own_memory_;
  DeviceMemory<Device>& memory_;
  DeviceStream<Device> stream_;
  std::mutex mutex_;  // all below
  CallOrder<Device> order_;
  DeviceLoss loss_{"the table was lost when the device failed"};
};

}  // namespace isotherm
