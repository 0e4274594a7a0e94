// ReplyFrame: the answer to a get (gpu/udp/request_frame.h), built in the slot of its request.
//
//   front   Ethernet, IP, UDP and memcached's header, "VALUE key flags bytes[ version]\r\n":
//           written over the request, whose key moves by a byte or two; of a miss with "END\r\n"
//   value   stays where it is
//   end     "\r\nEND\r\n", of a hit
// So that a value is read where it lies and written once: `unit` gives the frame by 16 bytes, for
// whoever stores it. Addresses and ports change places; both checksums are made.
//
// Threads. Any; pure functions, for CPU and GPU. Limits. A reply is one datagram of at most
// `most_datagram_bytes`; a slot has `slot_bytes`, which the longest front fits, and begins at a
// multiple of 16. A value begins at a multiple of 4 and ends within a whole word of 8 bytes, with
// zeros behind it.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "base/pair.h"
#include "gpu/items/byte_units.h"
#include "gpu/udp/frame_bytes.h"
#include "gpu/udp/request_frame.h"

namespace isotherm {

class ReplyFrame {
 public:
  static constexpr uint32_t most_datagram_bytes = 1400;  // as net/udp/frame.h
  static constexpr uint32_t most_bytes = RequestFrame::ethernet_bytes + RequestFrame::v6_bytes +
                                         RequestFrame::udp_bytes + most_datagram_bytes;
  static constexpr uint32_t slot_bytes = 384;

  ISOTHERM_HOST_DEVICE static ReplyFrame miss(const RequestFrame& request) {
    ReplyFrame reply;
    reply.front_ = text_at(request) + miss_bytes;
    return reply;
  }
  // `version`: shown to gets.
  ISOTHERM_HOST_DEVICE static ReplyFrame hit(const RequestFrame& request, uint32_t value_bytes,
                                             uint32_t flags, uint64_t version) {
    ReplyFrame reply;
    reply.found_ = true;
    reply.value_bytes_ = value_bytes;
    reply.flags_ = flags;
    reply.version_ = version;
    reply.front_ = text_at(request) + words_bytes + request.key_bytes + 2 + digits(flags) +
                   digits(value_bytes) + 2;
    if (request.with_version) reply.front_ += 1 + digits(version);
    return reply;
  }

  // Of the whole frame, and of what UDP carries.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t bytes() const {
    return uint64_t{front_} + value_bytes_ + (found_ ? end_bytes : 0);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t datagram_bytes(const RequestFrame& request) const {
    return bytes() - request.datagram_at();
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool fits(const RequestFrame& request) const {
    return datagram_bytes(request) <= most_datagram_bytes;
  }

  // Writes the front over the request in `slot`. The reply must fit.
  ISOTHERM_HOST_DEVICE void write_front(char* slot, const RequestFrame& request,
                                        const char* value) const {
    write_text(slot, request);
    write_header(slot + request.datagram_at(), slot + request.datagram_at());
    const uint32_t datagram = request.datagram_at();
    const auto all = static_cast<uint32_t>(bytes());
    uint64_t sum = frame_bytes::sum(slot + datagram, front_ - datagram);
    if (found_) {
      sum += frame_bytes::sum_at(front_, value_sum(value, value_bytes_));
      sum += frame_bytes::sum_at(front_ + value_bytes_, end_sum());
    }
    write_packet(slot, slot, request, all - datagram, sum);
  }

  // Bytes 16 × number and on of the frame whose front is in `slot`, zeros behind its end. By words:
  // each lane of a warp has a unit of another kind, and all wait for the slowest.
  ISOTHERM_HOST_DEVICE Pair unit(const char* slot, const char* value, uint32_t number) const {
    using namespace byte_units_internal;
    const uint32_t first = number * unit_bytes;
    const uint32_t last = first + unit_bytes;
    Pair unit{0, 0};
    if (first < front_) {
      const Pair whole = *reinterpret_cast<const Pair*>(slot + first);
      unit = last <= front_ ? whole : cut(whole, front_ - first);
    }
    if (!found_) return unit;
    const uint32_t end = front_ + value_bytes_;
    if (first < end && last > front_ && value_bytes_ != 0) {
      const uint32_t skip = first < front_ ? front_ - first : 0;
      const uint32_t from = first + skip - front_;
      const uint32_t room = unit_bytes - skip;
      const uint32_t left = value_bytes_ - from;
      add(unit, moved_up(load_unit(value + from, left < room ? left : room, ByteRange::of_items()),
                         skip));
    }
    if (last > end && first < end + end_bytes) {
      add(unit, first <= end ? moved_up({end_text, 0}, end - first)
                             : Pair{end_text >> (8 * (first - end)), 0});
    }
    return unit;
  }

  // The headers of a packet with `datagram_bytes` that sum up to `sum`, for whoever sent the
  // request whose frame is `from`. Both may be one frame unless it has options.
  ISOTHERM_HOST_DEVICE static void write_packet(char* to, const char* from,
                                                const RequestFrame& request,
                                                uint32_t datagram_bytes, uint64_t sum) {
    using namespace frame_bytes;
    constexpr uint32_t ethernet = RequestFrame::ethernet_bytes;
    const bool v6 = request.v6;
    swap(to, from, 6);
    store16(to + 12, load16(from + 12));
    swap(to + RequestFrame::addresses_at(v6), from + RequestFrame::addresses_at(v6),
         RequestFrame::address_bytes(v6));
    const uint32_t with_head = datagram_bytes + RequestFrame::udp_bytes;
    if (v6) {
      write_v6(to + ethernet, with_head);
    } else {
      write_v4(to + ethernet, with_head + RequestFrame::v4_bytes);
    }
    char* const udp = to + packet_at(v6);
    swap(udp, from + request.udp_at, 2);
    put_number(udp + 4, with_head);
    store16(udp + 6, 0);
    const uint64_t all = sum + frame_bytes::sum(udp, RequestFrame::udp_bytes) +
                         RequestFrame::pseudo_sum(to, v6, with_head);
    store16(udp + 6, udp_checksum(all));
  }
  // Where UDP begins in a reply.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t packet_at(bool v6) {
    return RequestFrame::ethernet_bytes + (v6 ? RequestFrame::v6_bytes : RequestFrame::v4_bytes);
  }

 private:
  static constexpr uint32_t words_bytes = 6;  // "VALUE "
  static constexpr uint32_t miss_bytes = 5;   // "END\r\n"
  static constexpr uint32_t end_bytes = 7;
  static constexpr uint64_t end_text = 0x0a0d444e450a0d;  // "\r\nEND\r\n", the first byte lowest

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t text_at(const RequestFrame& request) {
    return request.datagram_at() + RequestFrame::header_bytes;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static char end_byte(uint32_t i) {
    return static_cast<char>(end_text >> (8 * i));
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint64_t end_sum() {
    return 0x0a0dull + 0x4e45 + 0x0d44 + 0x0a;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void add(Pair& to, Pair some) {
    to.first |= some.first;
    to.second |= some.second;
  }

  ISOTHERM_HOST_DEVICE static uint32_t digits(uint64_t number) {
    uint32_t count = 1;
    while ((number /= 10) != 0) ++count;
    return count;
  }
  // Ends before `end`; returns where it begins.
  ISOTHERM_HOST_DEVICE static char* put_digits(char* end, uint64_t number) {
    do {
      *--end = static_cast<char>('0' + number % 10);
    } while ((number /= 10) != 0);
    return end;
  }
  ISOTHERM_HOST_DEVICE static uint64_t value_sum(const char* value, uint32_t bytes) {
    const auto before = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(value) & 4);
    const auto* const words = reinterpret_cast<const uint64_t*>(value - before);
    uint64_t sum = 0;
    for (uint64_t i = 0; i < words_of(uint64_t{before} + bytes); ++i) {
      uint64_t word = load_steady_word(words + i);
      if (i == 0 && before != 0) word >>= 32;
      sum += (word & 0xffff) + (word >> 16 & 0xffff) + (word >> 32 & 0xffff) + (word >> 48);
    }
    return sum;
  }

  // Moves bytes up by 1 or 2. What stands behind them in the last word is lost, and so is what they
  // leave.
  ISOTHERM_HOST_DEVICE static void move_up(char* slot, uint32_t from, uint32_t bytes, uint32_t by) {
    auto* const words = reinterpret_cast<uint64_t*>(slot);
    const uint32_t first = from / word_bytes;
    const uint32_t bits = by * 8;
    for (uint32_t at = (from + bytes + by - 1) / word_bytes; at > first; --at) {
      words[at] = words[at] << bits | words[at - 1] >> (64 - bits);
    }
    const uint32_t before = (from % word_bytes + by) * 8;
    if (before >= 64) return;
    const uint64_t stays = (uint64_t{1} << before) - 1;
    words[first] = (words[first] & stays) | (words[first] << bits & ~stays);
  }

  // From the end on, as every number's end is known and the key moves upwards.
  ISOTHERM_HOST_DEVICE void write_text(char* slot, const RequestFrame& request) const {
    char* const begin = slot + text_at(request);
    if (!found_) {
      for (uint32_t i = 0; i < miss_bytes; ++i) begin[i] = end_byte(i + 2);
      return;
    }
    char* const key = begin + words_bytes;
    move_up(slot, request.key_at, request.key_bytes,
            static_cast<uint32_t>(key - slot) - request.key_at);
    char* at = slot + front_;
    *--at = '\n';
    *--at = '\r';
    if (request.with_version) {
      at = put_digits(at, version_);
      *--at = ' ';
    }
    at = put_digits(at, value_bytes_);
    *--at = ' ';
    at = put_digits(at, flags_);
    *--at = ' ';
    begin[0] = 'V';
    begin[1] = 'A';
    begin[2] = 'L';
    begin[3] = 'U';
    begin[4] = 'E';
    begin[5] = ' ';
  }

 public:
  // memcached's header of a reply of one datagram; the id is the request's.
  ISOTHERM_HOST_DEVICE static void write_header(char* to, const char* from) {
    using namespace frame_bytes;
    store16(to, load16(from));
    put_number(to + 2, 0);
    put_number(to + 4, 1);
    put_number(to + 6, 0);
  }

 private:
  // Two neighbours of `bytes` each change places.
  ISOTHERM_HOST_DEVICE static void swap(char* to, const char* from, uint32_t bytes) {
    using namespace frame_bytes;
    for (uint32_t i = 0; i < bytes; i += 2) {
      const uint16_t first = load16(from + i);
      store16(to + i, load16(from + bytes + i));
      store16(to + bytes + i, first);
    }
  }
  static constexpr uint8_t hops = 64;

  ISOTHERM_HOST_DEVICE static void write_v4(char* ip, uint32_t bytes) {
    using namespace frame_bytes;
    constexpr uint32_t version_and_words = 0x4500;
    constexpr uint32_t whole = 0x4000;
    put_number(ip, version_and_words);
    put_number(ip + 2, bytes);
    put_number(ip + 4, 0);
    put_number(ip + 6, whole);
    put_number(ip + 8, uint32_t{hops} << 8 | RequestFrame::udp);
    store16(ip + 10, 0);
    store16(ip + 10, static_cast<uint16_t>(~fold(sum(ip, RequestFrame::v4_bytes))));
  }
  ISOTHERM_HOST_DEVICE static void write_v6(char* ip, uint32_t bytes) {
    using namespace frame_bytes;
    constexpr uint32_t version = 0x6000;
    put_number(ip, version);
    put_number(ip + 2, 0);
    put_number(ip + 4, bytes);
    put_number(ip + 6, uint32_t{RequestFrame::udp} << 8 | hops);
  }

  bool found_ = false;
  uint32_t front_ = 0;
  uint32_t value_bytes_ = 0;
  uint32_t flags_ = 0;
  uint64_t version_ = 0;
};

}  // namespace isotherm
