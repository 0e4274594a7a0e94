// Reads raw frames as the GPU's kernels do, and builds the replies to those that are gets, beside a
// parser and a reader of the tests' own (tests/models/built_frames.h). The first byte of the input
// is the length of the value; its bit 7 says that checksums are made right first. A frame that is a
// fragment is one of those that came before, so datagrams are put together across inputs.
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <string_view>

#include "gpu/udp/reply_frame.h"
#include "gpu/udp/request_frame.h"
#include "models/built_frames.h"
#include "net/packets/reassembly.h"

namespace {

using isotherm::FrameKind;
using isotherm::Pair;
using isotherm::ReplyFrame;
using isotherm::RequestFrame;
namespace built_frames = isotherm::built_frames;

struct alignas(16) Slot {
  char bytes[ReplyFrame::slot_bytes];
};
struct alignas(16) Value {
  char bytes[128 + 16];
};

void check_reply(const std::string& frame, const built_frames::Get& get, uint32_t value_bytes) {
  Slot slot{};
  std::memcpy(slot.bytes, frame.data(), frame.size());
  Value value{};
  std::memset(value.bytes, 'v', value_bytes);
  const auto request = RequestFrame::read(slot.bytes, static_cast<uint32_t>(frame.size()),
                                          built_frames::server_port);
  const auto reply = ReplyFrame::hit(request, value_bytes, value_bytes * 3, 1u << value_bytes % 31);
  if (!reply.fits(request)) std::abort();
  reply.write_front(slot.bytes, request, value.bytes);
  std::string sent;
  for (uint32_t i = 0; i * sizeof(Pair) < reply.bytes(); ++i) {
    const Pair unit = reply.unit(slot.bytes, value.bytes, i);
    sent.append(reinterpret_cast<const char*>(&unit), sizeof unit);
  }
  sent.resize(reply.bytes());
  const auto read = built_frames::read(sent);
  const auto asked = built_frames::read(frame);
  if (!read || !asked || read->to != asked->from || read->to_port != asked->from_port ||
      read->from_port != built_frames::server_port || !read->text.starts_with("VALUE " + get.key) ||
      !read->text.ends_with(std::string(value_bytes, 'v') + "\r\nEND\r\n")) {
    std::abort();
  }
}

void put_together(std::string_view frame) {
  using isotherm::net::Reassembly;
  static Reassembly reassembly;
  static int64_t now_us = 0;
  const std::string whole = reassembly.take(frame, ++now_us);
  if (reassembly.bytes() > Reassembly::most_bytes ||
      reassembly.datagrams() > Reassembly::most_datagrams) {
    std::abort();
  }
  if (whole.empty()) return;
  const auto bytes = static_cast<uint32_t>(whole.size());
  const auto kind = RequestFrame::read(whole.data(), bytes, built_frames::server_port).kind;
  if (kind == FrameKind::fragment) std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size < 1) return 0;
  std::string frame(reinterpret_cast<const char*>(data) + 1, size - 1);
  if ((data[0] & 0x80) != 0) built_frames::right_sums(frame);
  // Exactly this long, so that a read behind its end is seen.
  const std::unique_ptr<char[]> exact(new char[frame.size()]);
  std::memcpy(exact.get(), frame.data(), frame.size());
  const auto request = RequestFrame::read(exact.get(), static_cast<uint32_t>(frame.size()),
                                          built_frames::server_port);
  if (request.kind == FrameKind::fragment) put_together({exact.get(), frame.size()});
  const auto get = built_frames::find_get(frame);
  if ((request.kind == FrameKind::get) != get.has_value()) std::abort();
  if (!get) return 0;
  if (frame.substr(request.key_at, request.key_bytes) != get->key) std::abort();
  if (frame.size() <= ReplyFrame::slot_bytes) check_reply(frame, *get, data[0] & 0x7f);
  return 0;
}
