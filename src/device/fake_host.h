// FakeHost: what the fake devices of one host share: a lock, the draw of whose operation runs next,
// and which memory is open.
//
// While operations run, the memory of the device whose operation it is is open, and no other: a
// kernel that follows a pointer to another device's memory ends there and then.
//
// Threads. The lock is held for all but the lock itself.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <vector>

#include "device/fake_memory.h"
#include "device/fake_random.h"

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

  // Stays open until another is, or the turn ends.
  void open_only(FakeMemory& memory) {
    if (opened_ == &memory) return;
    close();
    open_.emplace(memory);
    opened_ = &memory;
  }

  std::mutex mutex;
  FakeRandom random;
  std::vector<FakeDevice*> devices;

 private:
  void close() {
    open_.reset();
    opened_ = nullptr;
  }

  const FakeMemory* opened_ = nullptr;
  std::optional<FakeMemory::Open> open_;
};

}  // namespace isotherm
