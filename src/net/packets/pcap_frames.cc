#include "net/packets/pcap_frames.h"

#include <algorithm>
#include <cstring>
#include <stdexcept>
#include <utility>

namespace isotherm::net {
namespace {

constexpr uint32_t magic_us = 0xa1b2c3d4;
constexpr uint32_t magic_ns = 0xa1b23c4d;
constexpr size_t capture_header_bytes = 24;
constexpr size_t record_header_bytes = 16;
constexpr uint32_t ethernet_link = 1;
constexpr uint32_t longest_frame = 1 << 18;

void put_word(std::string& to, uint32_t word) {
  char bytes[sizeof word];
  std::memcpy(bytes, &word, sizeof word);
  to.append(bytes, sizeof bytes);
}

}  // namespace

PcapFrames::PcapFrames(std::string capture) : capture_(std::move(capture)) {
  if (capture_.size() < capture_header_bytes) throw std::invalid_argument("no capture: too short");
  const auto is_magic = [&] { return word(0) == magic_us || word(0) == magic_ns; };
  swapped_ = !is_magic();
  if (!is_magic()) throw std::invalid_argument("no capture: it does not begin as pcap files do");
  constexpr size_t link_at = 20;
  if ((word(link_at) & 0xffff) != ethernet_link) {
    throw std::invalid_argument("a capture of something else than Ethernet");
  }
  at_ = capture_header_bytes;
}

uint32_t PcapFrames::word(size_t at) const {
  uint32_t word = 0;
  std::memcpy(&word, capture_.data() + at, sizeof word);
  return swapped_ ? __builtin_bswap32(word) : word;
}

uint32_t PcapFrames::receive(uint32_t most, FrameSink& sink) {
  uint32_t count = 0;
  for (; count < most && !ended(); ++count) {
    const size_t left = capture_.size() - at_;
    constexpr size_t bytes_at = 8;
    const uint32_t bytes = left >= record_header_bytes ? word(at_ + bytes_at) : 0;
    if (left < record_header_bytes ||
        bytes > std::min<size_t>(left - record_header_bytes, longest_frame)) {
      at_ = capture_.size();
      break;
    }
    sink.take(std::string_view(capture_).substr(at_ + record_header_bytes, bytes));
    at_ += record_header_bytes + bytes;
  }
  return count;
}

std::string PcapFrames::header() {
  std::string header;
  put_word(header, magic_us);
  put_word(header, 4u << 16 | 2);  // the version, 2.4
  put_word(header, 0);
  put_word(header, 0);
  put_word(header, longest_frame);
  put_word(header, ethernet_link);
  return header;
}

void PcapFrames::append(std::string& capture, std::string_view frame, uint32_t number) {
  constexpr uint32_t million = 1'000'000;
  put_word(capture, number / million);
  put_word(capture, number % million);
  put_word(capture, static_cast<uint32_t>(frame.size()));
  put_word(capture, static_cast<uint32_t>(frame.size()));
  capture.append(frame);
}

}  // namespace isotherm::net
