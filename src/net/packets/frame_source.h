// FrameSource: where raw frames come from, and where the replies go.
//
// Frames are Ethernet's (gpu/udp/request_frame.h). A source that gets less makes the rest up, and
// takes it off again from the replies. A source with memory that may be lent has an `area`: its
// frames lie there until whoever got them releases them, each once. Frames of others stay where
// they are until the next call of `receive`.
//
// Threads. One at a time; `end` from any, signal handlers included.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace isotherm::net {

class FrameSink {
 public:
  virtual void take(std::string_view frame) = 0;

 protected:
  ~FrameSink() = default;
};

class FrameSource {
 public:
  virtual ~FrameSource() = default;

  // Gives `sink` the frames that are there, `most` at most; returns how many. Does not wait.
  virtual uint32_t receive(uint32_t most, FrameSink& sink) = 0;
  // As long as the source. Empty: there is none.
  virtual std::span<char> area() const { return {}; }
  virtual void release(std::string_view /*frame*/) {}
  // Waits for a frame, or so long.
  virtual void wait(int timeout_ms) const = 0;
  // No more are wanted.
  virtual void end() = 0;
  // Whether no more will come.
  virtual bool ended() const = 0;
  // Sends a reply, at the latest by the next `flush`.
  virtual void send(std::string_view frame) = 0;
  virtual void flush() = 0;
  // How frames come, in words; empty: as always.
  virtual std::string way() const { return {}; }
  // Bytes that it holds.
  virtual uint64_t memory() const { return 0; }
  // Replies that could not be sent.
  virtual uint64_t unsent() const { return 0; }
  // Frames for which it had no room.
  virtual uint64_t dropped() const { return 0; }
};

}  // namespace isotherm::net
