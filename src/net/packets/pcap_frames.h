// PcapFrames: frames of a capture file in memory, and the replies as another one.
//
// The format is pcap's, with times in micro- or nanoseconds, of either byte order, of Ethernet: a
// header of 24 bytes, then records, each with a header of 16. Replies are written with times in
// microseconds, in this machine's byte order; the time is the number of the reply, so that equal
// runs give equal files.
//
// Threads. One, `end` included. Limits. The capture is in memory as a whole. Errors.
// std::invalid_argument for what is no capture of Ethernet frames; one that was cut off ends with
// its last whole record.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "net/packets/frame_source.h"

namespace isotherm::net {

class PcapFrames final : public FrameSource {
 public:
  explicit PcapFrames(std::string capture);

  uint32_t receive(uint32_t most, FrameSink& sink) override;
  void wait(int /*timeout_ms*/) const override {}
  void end() override { at_ = capture_.size(); }
  bool ended() const override { return at_ == capture_.size(); }
  void send(std::string_view frame) override { append(replies_, frame, sent_++); }
  void flush() override {}

  // A capture of all replies so far.
  const std::string& replies() const { return replies_; }

  static std::string header();
  static void append(std::string& capture, std::string_view frame, uint32_t number);

 private:
  uint32_t word(size_t at) const;

  const std::string capture_;
  bool swapped_ = false;
  size_t at_ = 0;  // the next record
  uint32_t sent_ = 0;
  std::string replies_ = header();
};

}  // namespace isotherm::net
