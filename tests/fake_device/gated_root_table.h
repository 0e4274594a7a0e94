// A fake device's index and values that stand still while a gate is closed, for tests of what goes
// on meanwhile.
//
// Threads. Any may close and open a gate; those that come to a closed one sleep.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>

#include "fake_device/fake_device.h"
#include "gpu/store/root_tier.h"

namespace isotherm {

class Gate {
 public:
  void close() { set(true); }
  void open() { set(false); }
  bool is_open() {
    const std::lock_guard guard(mutex_);
    return !closed_;
  }
  void pass() {
    std::unique_lock lock(mutex_);
    ++waiting_;
    changed_.notify_all();
    changed_.wait(lock, [&] { return !closed_; });
    --waiting_;
  }
  // Until so many threads stand before it.
  void wait_for(uint32_t threads) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return waiting_ >= threads; });
  }

 private:
  void set(bool closed) {
    const std::lock_guard guard(mutex_);
    closed_ = closed;
    changed_.notify_all();
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  bool closed_ = false;
  uint32_t waiting_ = 0;
};

struct DeviceGates {
  Gate rounds;  // before the roots of a round are there
  Gate values;  // before values travel
};

RootTiersMaker gated_root_tiers_maker(FakeDevice& device, DeviceGates& gates);

}  // namespace isotherm
