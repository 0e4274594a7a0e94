// ValueTransfer: brings values to the devices' memory and fetches them, many at a time.
//
// It has a channel to each device (gpu/store/value_tier.h). Values are cut into pieces, which fill
// the channel's window or its list, and each filling is one launch.
//
// Errors. DeviceError when a device fails.
// Threads. One at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "executor/values/value_log.h"
#include "gpu/store/value_tier.h"

namespace isotherm {

class ValueTransfer {
 public:
  struct Fetch {
    ValuePlace place = 0;
    uint64_t bytes = 0;
    char* to = nullptr;
    // `to` is pinned, at a multiple of 16, and there is room for whole units: no need of a window.
    bool pinned = false;
  };
  struct Bring {
    ValuePlace place = 0;
    uint64_t bytes = 0;
    const char* from = nullptr;
    static constexpr bool pinned = false;  // goes by a window
  };

  // One channel for each device, in order. The log must outlive it.
  ValueTransfer(const ValueLog& log, std::vector<std::unique_ptr<ValueChannel>> channels)
      : log_(log), channels_(std::move(channels)) {}

  // Bytes of windows and lists.
  uint64_t pinned_bytes() const;

  void fetch(std::span<const Fetch> values);
  void bring(std::span<const Bring> values);

 private:
  class Window;
  template <class Value, class Add, class Run>
  static void each_piece(std::span<const Value> values, uint32_t device, const Window& window,
                         Add&& add, Run&& run);

  const ValueLog& log_;
  const std::vector<std::unique_ptr<ValueChannel>> channels_;
};

}  // namespace isotherm
