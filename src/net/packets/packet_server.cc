#include "net/packets/packet_server.h"

#include <cstring>
#include <exception>

#include "base/hash.h"
#include "net/udp/frame.h"

namespace isotherm::net {
namespace {

constexpr std::string_view too_long_text = "SERVER_ERROR reply too large for UDP\r\n";

std::string_view datagram_of(const RequestFrame& request, std::string_view frame) {
  return frame.substr(request.datagram_at(), request.datagram_bytes);
}

// Whether it is of the text protocol; others' servers must not get errors that they answer.
bool is_text(const RequestFrame& request, std::string_view frame) {
  UdpFrame header;
  return UdpFrame::read(datagram_of(request, frame), header) == UdpFrame::Fault::none;
}

}  // namespace

PacketServer::PacketServer(PacketDevice& device, FrameSource& source, const Clock& clock,
                           int64_t timeout_us)
    : device_(device),
      source_(source),
      clock_(clock),
      timeout_us_(timeout_us),
      commands_(device),
      channels_(device.options().channels),
      packet_(ReplyFrame::most_bytes / sizeof(Pair) + 1) {}

PacketServer::~PacketServer() {
  for (uint32_t i = 0; i < channels_.size(); ++i) {
    try {
      if (channels_[i].under_way) device_.wait(i);
    } catch (const std::exception&) {
      // The device is lost, and what was under way with it.
    }
  }
}

bool PacketServer::turn() {
  fill();
  const Channel& filled = channels_[filled_];
  const bool ended = source_.ended();
  if (filled.rows != 0 && !filled.under_way &&
      (ended || filled.rows == device_.options().rows ||
       clock_.now_us() - filled.began_us >= timeout_us_)) {
    start();
  }
  // Without a channel to fill nothing can be done but wait.
  bool waits = channels_[filled_].under_way || ended;
  while (finish_oldest(waits)) waits = false;
  source_.flush();
  return !ended || !idle();
}

void PacketServer::fill() {
  Channel& channel = channels_[filled_];
  if (channel.under_way) return;
  const uint32_t room = device_.options().rows - channel.rows;
  if (room != 0) source_.receive(room, *this);
}

void PacketServer::take(std::string_view frame) {
  Channel& channel = channels_[filled_];
  const PacketSlots& slots = device_.slots(filled_);
  if (channel.rows == 0) channel.began_us = clock_.now_us();
  const uint32_t row = channel.rows++;
  slots.bytes[row] = static_cast<uint32_t>(frame.size());
  if (frame.size() <= slots.frame_stride) {
    std::memcpy(slots.frame(row), frame.data(), frame.size());
  } else {
    channel.longer.emplace_back(row, frame);
  }
  ++counts_.received;
}

void PacketServer::start() {
  Channel& channel = channels_[filled_];
  device_.start(filled_, channel.rows, clock_.now_ms());
  channel.under_way = true;
  channel.number = ++batches_;
  ++counts_.batches;
  filled_ = (filled_ + 1) % static_cast<uint32_t>(channels_.size());
}

// Whether there was one that had ended.
bool PacketServer::finish_oldest(bool waits) {
  Channel& channel = channels_[oldest_];
  if (!channel.under_way) return false;
  if (waits) device_.wait(oldest_);
  if (!waits && !device_.done(oldest_)) return false;
  const PacketSlots& slots = device_.slots(oldest_);
  auto longer = channel.longer.begin();
  for (uint32_t row = 0; row < channel.rows; ++row) {
    if (longer != channel.longer.end() && longer->first == row) {
      answer(channel, slots, row, (longer++)->second);
    } else {
      answer(channel, slots, row, {slots.frame(row), slots.bytes[row]});
    }
  }
  channel.rows = 0;
  channel.under_way = false;
  channel.longer.clear();
  oldest_ = (oldest_ + 1) % static_cast<uint32_t>(channels_.size());
  return true;
}

void PacketServer::answer(const Channel& channel, const PacketSlots& slots, uint32_t row,
                          std::string_view frame) {
  const PacketResult result = slots.results[row];
  const bool answered = result.fate != PacketFate::left;
  const auto bytes = static_cast<uint32_t>(frame.size());
  // Of a frame that the device has answered only the sender is looked at again.
  RequestFrame request = answered ? RequestFrame::of_get(frame.data())
                                  : RequestFrame::read(frame.data(), bytes, device_.options().port);
  if (!answered && is_request(request.kind) && !is_text(request, frame)) {
    request.kind = FrameKind::foreign;
  }
  if (!answered && !is_request(request.kind)) {
    ++counts_.dropped[static_cast<size_t>(request.kind)];
    return;
  }
  uint64_t& ran_for_it = ran_at(frame, request);
  if (answered && channel.number > ran_for_it) {
    ++counts_.by_device;
    return source_.send({slots.reply(row), result.bytes});
  }
  if (answered) {
    ++counts_.overtaken;
    request = RequestFrame::read(frame.data(), bytes, device_.options().port);
  }
  run(request, frame);
  ran_for_it = batches_;
}

void PacketServer::run(const RequestFrame& request, std::string_view frame) {
  ++counts_.by_cpu;
  const std::string_view datagram = datagram_of(request, frame);
  commands_.run(datagram.substr(RequestFrame::header_bytes), clock_.now_ms(), reply_);
  const uint64_t times = device_.options().amplification;
  const auto is_bounded = [&](size_t reply_bytes) {
    return times == 0 || UdpFrame::sent_bytes(reply_bytes) <= times * datagram.size();
  };
  if (is_bounded(reply_.size())) return send(request, frame, reply_);
  ++counts_.too_long;
  if (is_bounded(too_long_text.size())) send(request, frame, too_long_text);
}

void PacketServer::send(const RequestFrame& request, std::string_view frame,
                        std::string_view text) {
  char* const packet = reinterpret_cast<char*>(packet_.data());
  UdpFrame header;
  UdpFrame::read(datagram_of(request, frame), header);
  header.count = static_cast<uint16_t>(UdpFrame::datagrams(text.size()));
  char* const datagram = packet + ReplyFrame::packet_at(request.v6) + RequestFrame::udp_bytes;
  for (size_t at = 0; at < text.size(); at += UdpFrame::payload_bytes, ++header.number) {
    const std::string_view some = text.substr(at, UdpFrame::payload_bytes);
    header.write(datagram);
    some.copy(datagram + UdpFrame::header_bytes, some.size());
    const auto bytes = static_cast<uint32_t>(UdpFrame::header_bytes + some.size());
    ReplyFrame::write_packet(packet, frame.data(), request, bytes,
                             frame_bytes::sum(datagram, bytes));
    source_.send({packet, static_cast<size_t>(datagram - packet) + bytes});
  }
}

uint64_t& PacketServer::ran_at(std::string_view frame, const RequestFrame& request) {
  const std::string_view address =
      frame.substr(RequestFrame::addresses_at(request.v6), RequestFrame::address_bytes(request.v6));
  const uint64_t hash = hash_bytes(address, frame_bytes::load16(frame.data() + request.udp_at));
  return ran_at_[hash % client_slots];
}

}  // namespace isotherm::net
