#include "net/packets/packet_server.h"

#include <cstring>
#include <exception>
#include <new>

#include "base/hash.h"
#include "gpu/platform/device_error.h"
#include "net/udp/frame.h"
#include "net/udp/reply_cursor.h"

namespace isotherm::net {
namespace {

std::string_view datagram_of(const RequestFrame& request, std::string_view frame) {
  return frame.substr(request.datagram_at(), request.datagram_bytes);
}

// Whether it is of the text protocol; others' servers must not get errors that they answer.
bool is_text(const RequestFrame& request, std::string_view frame) {
  UdpFrame header;
  return UdpFrame::read(datagram_of(request, frame), header) == UdpFrame::Fault::none;
}

std::string_view address_of(const RequestFrame& request, std::string_view frame) {
  return frame.substr(RequestFrame::addresses_at(request.v6),
                      RequestFrame::address_bytes(request.v6));
}

// Which of the slots for clients is its sender's.
uint64_t client_of(std::string_view frame, const RequestFrame& request, uint64_t slots) {
  const uint16_t port = frame_bytes::load16(frame.data() + request.udp_at);
  return hash_bytes(address_of(request, frame), port) % slots;
}

}  // namespace

PacketServer::PacketServer(PacketDevice& device, FrameSource& source, PacketStore& store,
                           const Clock& clock, int64_t timeout_us)
    : device_(device),
      source_(source),
      store_(store),
      clock_(clock),
      timeout_us_(timeout_us),
      lent_(!source.area().empty() && device.lend(source.area())),
      channels_(device.options().channels),
      packet_(ReplyFrame::most_bytes / sizeof(Pair) + 1) {}

PacketServer::~PacketServer() {
  for (uint32_t i = 0; i < channels_.size(); ++i) {
    try {
      if (channels_[i].under_way && !lost_) device_.wait(i);
    } catch (const std::exception&) {
      // The device is lost, and what was under way with it.
    }
  }
  if (lent_) device_.take_back();
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
  bool finished = false;
  for (; finish_oldest(waits); waits = false) finished = true;
  counts_.unsent = source_.unsent() + lost_replies_;
  if (finished) {
    // A source may have to ask the kernel.
    constexpr uint64_t rarely = 64;
    if (idle() || batches_ % rarely == 0) counts_.missed = source_.dropped();
    store_.note(counts_);
  }
  source_.flush();
  return !ended || !idle();
}

// Where there is no memory for a request or its reply, that is as if it were lost on its way.
template <class Work>
void PacketServer::unless_lost(const Work& work) {
  try {
    work();
  } catch (const std::bad_alloc&) {
    ++lost_replies_;
  }
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
  ++counts_.received;
  if (lent_ && reinterpret_cast<uintptr_t>(frame.data()) % sizeof(Pair) == 0) {
    slots.at[row] = frame.data();
    return;
  }
  if (lent_) slots.at[row] = slots.slot(row);
  if (frame.size() <= slots.frame_stride) {
    std::memcpy(slots.slot(row), frame.data(), frame.size());
  } else {
    slots.bytes[row] = 0;  // a faulty frame, unless there is memory for it
    unless_lost([&] {
      channel.longer.emplace_back(row, frame);
      slots.bytes[row] = static_cast<uint32_t>(frame.size());
    });
  }
  source_.release(frame);
}

void PacketServer::start() {
  Channel& channel = channels_[filled_];
  channel.begun = store_.begin_batch();
  try {
    if (!lost_) device_.start(filled_, channel.rows, clock_.now_ms());
  } catch (const DeviceError& error) {
    lose_device(error.what());
  }
  channel.under_way = true;
  channel.number = ++batches_;
  ++counts_.batches;
  filled_ = (filled_ + 1) % static_cast<uint32_t>(channels_.size());
}

void PacketServer::lose_device(const std::string& why) {
  store_.lose_device(why);
  lost_ = true;
}

bool PacketServer::has_ended(bool waits) {
  if (lost_) return true;
  try {
    if (waits) device_.wait(oldest_);
    return waits || device_.done(oldest_);
  } catch (const DeviceError& error) {
    lose_device(error.what());
    return true;
  }
}

// Whether there was one that had ended.
bool PacketServer::finish_oldest(bool waits) {
  Channel& channel = channels_[oldest_];
  if (!channel.under_way || !has_ended(waits)) return false;
  const PacketSlots& slots = device_.slots(oldest_);
  auto longer = channel.longer.begin();
  for (uint32_t row = 0; row < channel.rows; ++row) {
    std::string_view frame(slots.frame(row), slots.bytes[row]);
    if (longer != channel.longer.end() && longer->first == row) frame = (longer++)->second;
    unless_lost([&] { look_at(channel, slots, row, frame); });
  }
  unless_lost([this] { run_left(); });
  left_.clear();
  if (lent_) release(channel, slots);
  whole_.clear();
  channel.rows = 0;
  channel.under_way = false;
  channel.longer.clear();
  oldest_ = (oldest_ + 1) % static_cast<uint32_t>(channels_.size());
  return true;
}

void PacketServer::release(const Channel& channel, const PacketSlots& slots) {
  for (uint32_t row = 0; row < channel.rows; ++row) {
    if (slots.at[row] != slots.slot(row)) source_.release({slots.at[row], slots.bytes[row]});
  }
}

// Sends what the device has answered, if that counts, or leaves it for the CPU.
void PacketServer::look_at(const Channel& channel, const PacketSlots& slots, uint32_t row,
                           std::string_view frame) {
  const PacketResult result = lost_ ? PacketResult{} : slots.results[row];
  const bool answered = result.fate != PacketFate::left;
  const auto bytes = static_cast<uint32_t>(frame.size());
  // Of a frame that the device has answered only some parts are looked at again.
  RequestFrame request = answered ? RequestFrame::of_get(frame.data())
                                  : RequestFrame::read(frame.data(), bytes, device_.options().port);
  if (!answered && is_request(request.kind) && !is_text(request, frame)) {
    request.kind = FrameKind::foreign;
  }
  if (request.kind == FrameKind::fragment) return put_together(channel, slots, row, frame);
  if (!answered && !is_request(request.kind)) {
    ++counts_.dropped[static_cast<size_t>(request.kind)];
    return;
  }
  counts_.bytes_in += request.datagram_bytes;
  uint64_t& left_at = left_at_[client_of(frame, request, client_slots)];
  if (!answered) {
    left_at = batches_;
  } else if (channel.number <= left_at) {
    ++counts_.overtaken;
  } else {
    const bool found = result.fate == PacketFate::hit;
    const std::string_view key = frame.substr(request.key_at, request.key_bytes);
    if (store_.is_newest(channel.begun, key, found)) {
      ++counts_.by_device;
      counts_.hits += found;
      ++counts_.sent;
      counts_.bytes_out += result.bytes - request.datagram_at();
      return source_.send({slots.reply(row), result.bytes});
    }
    ++counts_.changed;
  }
  left_.push_back({request, frame});
}

// A fragment is none of what a device answers, and neither is what it belongs to.
void PacketServer::put_together(const Channel& channel, const PacketSlots& slots, uint32_t row,
                                std::string_view frame) {
  std::string whole = reassembly_.take(frame, clock_.now_us());
  const Reassembly::Counts& counts = reassembly_.counts();
  counts_.fragments = counts.fragments;
  counts_.joined = counts.joined;
  counts_.dropped[static_cast<size_t>(FrameKind::fragment)] = counts.faulty;
  if (whole.empty()) return;
  whole_.push_back(std::move(whole));
  look_at(channel, slots, row, whole_.back());
}

// What was left of a batch, in order.
void PacketServer::run_left() {
  if (left_.empty()) return;
  asks_.clear();
  for (const Left& left : left_) {
    const RequestFrame& request = left.request;
    PacketAsk ask{datagram_of(request, left.frame), address_of(request, left.frame)};
    ask.port = frame_bytes::number_at(left.frame.data() + request.udp_at);
    asks_.push_back(std::move(ask));
  }
  counts_.by_cpu += left_.size();
  store_.run(asks_, clock_.now_ms());
  for (size_t i = 0; i < left_.size(); ++i) {
    unless_lost([&] {
      bound(asks_[i]);
      send(left_[i], asks_[i]);
    });
  }
}

void PacketServer::bound(PacketAsk& ask) {
  const uint64_t times = device_.options().amplification;
  const auto is_bounded = [&](const std::vector<size_t>& ends) {
    return times == 0 || sent_bytes(ends) <= times * ask.datagram.size();
  };
  if (is_bounded(ask.ends) || store_.is_trusted(ask)) return;
  ++counts_.too_long;
  ask.reply.clear();
  ask.ends.clear();
  if (!is_bounded({too_long_by_udp.size()})) return;
  ask.reply = too_long_by_udp;
  ask.ends = {too_long_by_udp.size()};
}

void PacketServer::send(const Left& left, const PacketAsk& ask) {
  const RequestFrame& request = left.request;
  char* const packet = reinterpret_cast<char*>(packet_.data());
  char* const datagram = packet + ReplyFrame::packet_at(request.v6) + RequestFrame::udp_bytes;
  UdpFrame header;
  UdpFrame::read(ask.datagram, header);
  size_t at = 0;
  for (ReplyCursor next(ask.ends, header.id); !next.at_end(); next.advance()) {
    next.frame().write(datagram);
    const size_t some = ask.reply.copy(datagram + UdpFrame::header_bytes, next.bytes(), at);
    at += some;
    const auto bytes = static_cast<uint32_t>(UdpFrame::header_bytes + some);
    ReplyFrame::write_packet(packet, left.frame.data(), request, bytes,
                             frame_bytes::sum(datagram, bytes));
    source_.send({packet, static_cast<size_t>(datagram - packet) + bytes});
    ++counts_.sent;
    counts_.bytes_out += bytes;
  }
}

}  // namespace isotherm::net
