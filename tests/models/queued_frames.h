// Frames that a test puts in, and the replies; also from memory that may be lent.
//
// Threads. One.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <deque>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "net/packets/frame_source.h"

namespace isotherm {

class QueuedFrames : public net::FrameSource {
 public:
  uint32_t receive(uint32_t most, net::FrameSink& sink) override {
    uint32_t count = 0;
    for (; count < most && !waiting.empty(); ++count) {
      given_ = waiting.front();
      waiting.pop_front();
      sink.take(place(given_));
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
  virtual std::string_view place(std::string_view frame) { return frame; }

  std::string given_;
};

// Every third frame begins where no device reads it in place.
class LentFrames final : public QueuedFrames {
 public:
  static constexpr uint64_t chunks = 64;
  static constexpr uint64_t chunk_bytes = 2048;

  std::span<char> area() const override { return {memory_.get(), chunks * chunk_bytes}; }
  void release(std::string_view frame) override {
    const auto at = static_cast<uint64_t>(frame.data() - memory_.get()) / chunk_bytes;
    EXPECT_EQ(held_.erase(at), 1u);
    std::fill_n(memory_.get() + at * chunk_bytes, chunk_bytes, '#');
  }
  size_t held() const { return held_.size(); }

 private:
  std::string_view place(std::string_view frame) override {
    uint64_t chunk = 0;
    while (held_.contains(chunk)) ++chunk;
    EXPECT_LT(chunk, chunks);
    held_.insert(chunk);
    char* const at = memory_.get() + chunk * chunk_bytes + (count_++ % 3 == 0 ? 2 : 0);
    frame.copy(at, chunk_bytes - 2);
    return {at, frame.size()};
  }

  const std::unique_ptr<char, void (*)(void*)> memory_{
      static_cast<char*>(std::aligned_alloc(4096, chunks* chunk_bytes)), std::free};
  std::set<uint64_t> held_;
  uint64_t count_ = 0;
};

}  // namespace isotherm
