// DirectGets: gets of one thread, whose replies it reads where the device has put them: columns in
// pinned memory, and calls that answer them; see gpu/items/direct_kernel.h.
//
// Whoever asks writes keys behind one another, and where each ends, calls `start`, and reads the
// slots when `wait` returns. They stay as they are until the next `start`. Who must not wait even
// for the driver calls `post`; another thread then asks `done` until it is so, and `wait` returns
// at once.
//
// Errors. DeviceError when the device fails. Threads. One at a time, each on columns of its own.
#pragma once

#include <cstdint>

namespace isotherm {

// What a slot begins with; the value follows.
struct DirectHead {
  static constexpr uint32_t absent = ~uint32_t{0};
  static constexpr uint32_t too_long = absent - 1;  // there, and larger than a slot

  uint32_t bytes = absent;
  uint32_t flags = 0;
};

struct DirectShape {
  uint32_t rows = 0;      // of one call, at most
  uint32_t key_room = 0;  // bytes of their keys together
  uint32_t stride = 0;    // of slots, a multiple of 16
};

struct DirectColumns {
  uint32_t* key_ends = nullptr;  // rows + 1; the first is 0
  char* keys = nullptr;
  const char* replies = nullptr;
};

class DirectGets {
 public:
  virtual ~DirectGets() = default;
  virtual const DirectShape& shape() const = 0;
  virtual const DirectColumns& columns() const = 0;
  virtual void start(uint32_t rows) = 0;
  virtual void post(uint32_t rows) = 0;
  // Also of what has failed, which `wait` tells. Throws nothing.
  virtual bool done() = 0;
  virtual void wait() = 0;
  virtual uint64_t pinned_bytes() const = 0;
};

}  // namespace isotherm
