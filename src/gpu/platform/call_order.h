// CallOrder: calls on any streams take effect in the order they were made.
//
// A call that writes waits, on the device, for all calls before it; one that only reads waits for
// the last that wrote. So reads of several streams overlap.
//
// Threads. One at a time. Limits. As many streams as there are events; a stream that was destroyed
// keeps its event.
#pragma once

#include <utility>
#include <vector>

#include "gpu/platform/device_error.h"

namespace isotherm {

template <class Device>
class CallOrder {
 public:
  using Stream = typename Device::Stream;
  using Event = typename Device::Event;

  explicit CallOrder(Device& device) : device_(device), written_(device.create_event()) {}
  ~CallOrder() {
    device_.destroy_event(written_);
    for (const auto& [stream, event] : read_) device_.destroy_event(event);
  }
  CallOrder(const CallOrder&) = delete;
  CallOrder& operator=(const CallOrder&) = delete;

  void begin_read(Stream stream) {
    if (stream != writer_ && !writes_done()) {
      require_device(device_.wait(stream, written_), "wait for an earlier call");
    }
  }
  // The event of its end, until the stream's next call.
  Event end_read(Stream stream) {
    const Event event = event_of(stream);
    require_device(device_.record(event, stream), "record an event");
    reading_ = true;
    return event;
  }
  void begin_write(Stream stream) {
    begin_read(stream);
    if (!reading_) return;
    for (const auto& [reader, event] : read_) {
      if (reader == stream) continue;
      require_device(device_.wait(stream, event), "wait for an earlier call");
    }
    reading_ = false;
  }
  void end_write(Stream stream) {
    require_device(device_.record(written_, stream), "record an event");
    writer_ = stream;
    wrote_ = true;
  }
  // Whether all calls that wrote have ended, or all calls.
  bool writes_done() {
    if (wrote_ && device_.done(written_)) wrote_ = false;
    return !wrote_;
  }
  bool all_done() {
    if (!writes_done()) return false;
    for (const auto& [reader, event] : read_) {
      if (!device_.done(event)) return false;
    }
    return true;
  }
  // Waits on the host for all calls so far.
  void drain() {
    require_device(device_.synchronize(written_), "wait for the device");
    for (const auto& [stream, event] : read_) {
      require_device(device_.synchronize(event), "wait for the device");
    }
  }

 private:
  Event event_of(Stream stream) {
    for (const auto& [reader, event] : read_) {
      if (reader == stream) return event;
    }
    return read_.emplace_back(stream, device_.create_event()).second;
  }

  Device& device_;
  Event written_;
  Stream writer_{};
  std::vector<std::pair<Stream, Event>> read_;  // the last read of each stream
  bool reading_ = false;                        // since the last write
  bool wrote_ = false;                          // and may not have ended
};

}  // namespace isotherm
