// DeviceLoss: whether what lies on devices was lost with one of them, for tables that work in
// several streams.
//
// Once a device has failed nothing that is there can be relied on: every later call throws. What a
// failed call has queued must not outlive the memory that it works in, so it is settled first.
//
// Threads. Any. Errors. DeviceError.
#pragma once

#include <atomic>
#include <new>

#include "gpu/platform/device_error.h"

namespace isotherm {

class DeviceLoss {
 public:
  // `message`: of calls after the loss.
  explicit DeviceLoss(const char* message) : message_(message) {}

  bool lost() const { return lost_; }
  void lose() { lost_ = true; }
  void require_usable() const {
    if (lost_) throw DeviceError(message_);
  }

  // Runs work(); where it fails for a device or for memory, settle() first.
  template <class Work, class Settle>
  void guard(Work&& work, Settle&& settle) {
    require_usable();
    try {
      work();
    } catch (const DeviceError&) {
      lost_ = true;
      settle();
      throw;
    } catch (const std::bad_alloc&) {
      settle();
      throw;
    }
  }

 private:
  const char* const message_;
  std::atomic<bool> lost_ = false;
};

}  // namespace isotherm
