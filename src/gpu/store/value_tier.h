// ValueTier: memory for values on one device, and channels by which they travel.
//
// A channel has a window, pinned memory of the host that the device reaches, too. Whoever brings
// values writes them into the window, lists the copies from there to the tier's memory, and runs
// them; whoever fetches some lists copies into the window and reads them there, or into pinned
// memory of its own. One kernel makes all copies of a run.
//
// Errors. DeviceError when the device fails.
// Threads. What makes something: any. A channel: one at a time; channels of one tier do not wait
// for each other.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

namespace isotherm {

// Addresses as kernels know them, at multiples of 16 bytes. What lies behind `bytes` up to such a
// multiple is copied, too.
struct ValueCopy {
  uint64_t from = 0;
  uint64_t to = 0;
  uint64_t bytes = 0;
};

class ValueChannel {
 public:
  virtual ~ValueChannel() = default;

  virtual char* window() const = 0;
  virtual uint64_t window_bytes() const = 0;
  // The list of copies, with room for most_copies().
  virtual ValueCopy* copies() const = 0;
  virtual uint32_t most_copies() const = 0;
  // Makes the first `count` copies of the list, which must not overlap, and waits for them.
  virtual void run(uint32_t count) = 0;
};

// Pinned memory of the host.
using PinnedValues = std::unique_ptr<char, std::function<void(char*)>>;

class ValueTier {
 public:
  virtual ~ValueTier() = default;

  // The tier's memory on the device.
  virtual uint64_t address() const = 0;
  virtual uint64_t bytes() const = 0;
  // Must not outlive the tier. Throws std::bad_alloc, too.
  virtual std::unique_ptr<ValueChannel> make_channel() = 0;
  // That the kernels of all devices reach; null without it. Must not outlive the tier.
  virtual PinnedValues make_pinned(uint64_t bytes) = 0;
};

}  // namespace isotherm
