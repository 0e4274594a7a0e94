// Frames that a test puts in, and the replies.
//
// Threads. One.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "net/packets/frame_source.h"

namespace isotherm {

class QueuedFrames final : public net::FrameSource {
 public:
  uint32_t receive(uint32_t most, net::FrameSink& sink) override {
    uint32_t count = 0;
    for (; count < most && !waiting.empty(); ++count) {
      given_ = waiting.front();
      waiting.pop_front();
      sink.take(given_);
    }
    return count;
  }
  void wait(int /*timeout_ms*/) const override {}
  void end() override { closed = true; }
  bool ended() const override { return closed && waiting.empty(); }
  void send(std::string_view frame) override { replies.emplace_back(frame); }
  void flush() override {}

  std::deque<std::string> waiting;
  std::vector<std::string> replies;
  bool closed = false;

 private:
  std::string given_;
};

}  // namespace isotherm
