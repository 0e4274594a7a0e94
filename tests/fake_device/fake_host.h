// FakeHost: what the fake devices of one host share: a lock, the draw of whose operation runs next,
// and which memory is open.
//
// While an operation runs, the memory of its device and of those that it is connected to is open,
// and no other: a kernel that follows a pointer to any other device's memory ends there and then,
// unless that was left open (FakeMemory::close).
//
// Threads. The lock is held for all but the lock itself.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "fake_device/fake_memory.h"
#include "fake_device/fake_random.h"

namespace isotherm {

class FakeDevice;

class FakeHost {
 public:
  explicit FakeHost(uint64_t seed) : random(~seed) {}

  // Operations run while it lives; then all memory is closed.
  class Turn {
   public:
    explicit Turn(FakeHost& host) : host_(host) {}
    ~Turn() { host_.close(); }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    FakeHost& host_;
  };

  // Stays open until others are, or the turn ends.
  void open_only(const std::vector<FakeMemory*>& memories) {
    if (opened_ == memories) return;
    close();
    for (FakeMemory* memory : memories)
      open_.push_back(std::make_unique<FakeMemory::Open>(*memory));
    opened_ = memories;
  }

  std::mutex mutex;
  FakeRandom random;
  std::vector<FakeDevice*> devices;

 private:
  void close() {
    open_.clear();
    opened_.clear();
  }

  std::vector<FakeMemory*> opened_;
  std::vector<std::unique_ptr<FakeMemory::Open>> open_;
};

}  // namespace isotherm
