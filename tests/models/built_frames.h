// Built frames: raw Ethernet frames of memcached's UDP clients for tests, and a reader of replies;
// both apart from the code under test, so that a mistake there is not made here, too.
//
// A frame is made of its parts; `right_sums` then makes its checksums right, as far as its lengths
// let it, so that mutated frames come past them. `find_get` says by rules of its own whether a
// frame is a whole get.
//
// Threads. Any. Limits. Ethernet without tags; IPv6 without extension headers.
#pragma once

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <optional>
#include <string>
#include <string_view>

namespace isotherm::built_frames {

inline constexpr uint16_t server_port = 11211;

struct Parts {
  bool v6 = false;
  uint16_t from_port = 40'001;
  uint16_t to_port = server_port;
  uint16_t id = 7;
  std::string text = "get key\r\n";
  std::string options = {};  // of IPv4, whole words
  std::string padding = {};
  bool has_sum = true;
  uint8_t client = 1;  // last byte of its addresses
};

inline uint8_t byte(std::string_view bytes, size_t at) { return static_cast<uint8_t>(bytes[at]); }
inline uint32_t number(std::string_view bytes, size_t at) {
  return static_cast<uint32_t>(byte(bytes, at) << 8 | byte(bytes, at + 1));
}
inline std::string two(uint32_t value) {
  return {static_cast<char>(value >> 8), static_cast<char>(value)};
}

// By bytes, the first of two the high one.
inline uint32_t add_up(std::string_view bytes) {
  uint64_t sum = 0;
  for (size_t i = 0; i < bytes.size(); ++i) sum += uint64_t{byte(bytes, i)} << (i % 2 == 0 ? 8 : 0);
  while (sum > 0xffff) sum = (sum & 0xffff) + (sum >> 16);
  return static_cast<uint32_t>(sum);
}
inline std::string complement(uint32_t sum) { return two(~sum & 0xffff); }

inline bool is_v6(std::string_view frame) {
  return frame.size() > 14 && number(frame, 12) == 0x86dd;
}
inline size_t ip_bytes(std::string_view frame) {
  return is_v6(frame) ? 40 : size_t{4} * (byte(frame, 14) & 15);
}
// The addresses of the packet, as its UDP checksum covers them.
inline std::string pseudo(std::string_view frame, size_t udp_bytes) {
  const std::string addresses(is_v6(frame) ? frame.substr(22, 32) : frame.substr(26, 8));
  return addresses + std::string("\0\x11", 2) + two(static_cast<uint32_t>(udp_bytes));
}

inline void right_sums(std::string& frame, bool has_sum = true) {
  if (frame.size() < 34 || (is_v6(frame) && frame.size() < 54)) return;
  const size_t head = ip_bytes(frame);
  if (14 + head + 8 > frame.size()) return;
  if (!is_v6(frame)) {
    frame.replace(24, 2, std::string(2, '\0'));
    frame.replace(24, 2, complement(add_up(frame.substr(14, head))));
  }
  const size_t udp = 14 + head;
  const size_t bytes = number(frame, udp + 4);
  if (bytes < 8 || udp + bytes > frame.size()) return;
  frame.replace(udp + 6, 2, std::string(2, '\0'));
  if (!has_sum) return;
  const std::string all = pseudo(frame, bytes) + frame.substr(udp, bytes);
  const std::string sum = complement(add_up(all));
  frame.replace(udp + 6, 2, sum == std::string(2, '\0') ? "\xff\xff" : sum);
}

inline std::string build(const Parts& parts) {
  const std::string datagram = two(parts.id) + two(0) + two(1) + two(0) + parts.text;
  const auto udp_bytes = static_cast<uint32_t>(8 + datagram.size());
  const std::string udp = two(parts.from_port) + two(parts.to_port) + two(udp_bytes) + two(0);
  std::string frame("\2SERVE\2CLIE");
  frame += static_cast<char>(parts.client);
  if (parts.v6) {
    frame +=
        two(0x86dd) + std::string("\x60\0\0\0", 4) + two(udp_bytes) + std::string("\x11\x40", 2);
    frame += std::string("\xfd\0client\0\0\0\0\0\0\0", 15) + static_cast<char>(parts.client);
    frame += std::string("\xfd\0server\0\0\0\0\0\0\0\x01", 16);
  } else {
    const auto head = static_cast<uint32_t>(20 + parts.options.size());
    frame += two(0x0800) + static_cast<char>(0x40 | head / 4) + '\0' + two(head + udp_bytes);
    frame += two(99) + two(0x4000) + std::string("\x40\x11", 2) + two(0);
    frame += std::string("\x0a\0\0", 3) + static_cast<char>(parts.client);
    frame += std::string("\x0a\0\0\x63", 4) + parts.options;
  }
  frame += udp + datagram;
  right_sums(frame, parts.has_sum);
  return frame + parts.padding;
}

// What a right datagram carries, and between whom; nothing where anything is wrong with it.
struct Datagram {
  std::string ethernet_to, ethernet_from, to, from;
  uint32_t to_port = 0;
  uint32_t from_port = 0;
  std::string header;  // memcached's
  std::string text;
  bool options = false;
};

inline std::optional<Datagram> read(std::string_view frame) {
  if (frame.size() < 14 + 20 + 8) return std::nullopt;
  const bool v6 = is_v6(frame);
  const size_t head = ip_bytes(frame);
  if (v6 ? frame.size() < 62 : number(frame, 12) != 0x800) return std::nullopt;
  if (byte(frame, 14) >> 4 != (v6 ? 6 : 4) || (!v6 && head < 20)) return std::nullopt;
  const size_t all = v6 ? 40 + number(frame, 18) : number(frame, 16);
  if (all < head + 8 || 14 + all > frame.size()) return std::nullopt;
  if (byte(frame, v6 ? 20 : 23) != 17) return std::nullopt;
  if (!v6 && (add_up(frame.substr(14, head)) != 0xffff || (number(frame, 20) & 0x3fff) != 0)) {
    return std::nullopt;
  }
  const std::string_view udp = frame.substr(14 + head, all - head);
  if (number(udp, 4) != udp.size()) return std::nullopt;
  const bool has_sum = number(udp, 6) != 0;
  const std::string summed = pseudo(frame, udp.size()) + std::string(udp);
  if (has_sum ? add_up(summed) != 0xffff : v6) return std::nullopt;
  Datagram read;
  read.ethernet_to = frame.substr(0, 6);
  read.ethernet_from = frame.substr(6, 6);
  const size_t address = v6 ? 16 : 4;
  read.from = frame.substr(v6 ? 22 : 26, address);
  read.to = frame.substr((v6 ? 22 : 26) + address, address);
  read.from_port = number(udp, 0);
  read.to_port = number(udp, 2);
  read.header = udp.substr(8, std::min<size_t>(8, udp.size() - 8));
  if (udp.size() > 16) read.text = udp.substr(16);
  read.options = head > 20 && !v6;
  return read;
}

inline bool goes_to_many(const std::string& address) {
  const uint8_t first = byte(address, 0);
  return address.size() == 4 ? first >= 224 : first == 0xff;
}
inline bool is_nobody(const std::string& address) {
  if (address.size() == 4) return byte(address, 0) == 0;
  return address.find_first_not_of('\0') == std::string::npos;
}

// The key of a frame that is a whole get.
struct Get {
  std::string key;
  bool with_version = false;
};
inline std::optional<Get> find_get(std::string_view frame) {
  const std::optional<Datagram> datagram = read(frame);
  if (!datagram || datagram->options || datagram->header.size() < 8) return std::nullopt;
  if (((datagram->ethernet_to[0] | datagram->ethernet_from[0]) & 1) != 0) return std::nullopt;
  if (goes_to_many(datagram->to) || goes_to_many(datagram->from) || is_nobody(datagram->from)) {
    return std::nullopt;
  }
  if (datagram->to_port != server_port || datagram->from_port == server_port ||
      datagram->from_port == 0) {
    return std::nullopt;
  }
  if (datagram->header.substr(2, 4) != two(0) + two(1)) return std::nullopt;
  const std::string& text = datagram->text;
  Get get;
  get.with_version = text.starts_with("gets ");
  if (!get.with_version && !text.starts_with("get ")) return std::nullopt;
  const size_t key = get.with_version ? 5 : 4;
  if (text.size() < key + 3 || !text.ends_with("\r\n")) return std::nullopt;
  get.key = text.substr(key, text.size() - key - 2);
  const auto is_plain = [](char c) { return static_cast<uint8_t>(c) > ' ' && c != '\x7f'; };
  if (get.key.size() > 250 || !std::all_of(get.key.begin(), get.key.end(), is_plain)) {
    return std::nullopt;
  }
  return get;
}

// A change or a few, from a byte to a length; in half of them the checksums are right again.
template <class Random>
std::string mutated(std::string frame, Random& random) {
  const auto below = [&](size_t bound) { return static_cast<size_t>(random() % bound); };
  for (size_t changes = 1 + below(3); changes != 0 && !frame.empty(); --changes) {
    const size_t at = below(frame.size());
    switch (below(8)) {
      case 0:
        frame[at] = static_cast<char>(random());
        break;
      case 1:
        frame[at] = static_cast<char>(frame[at] ^ 1 << below(8));
        break;
      case 2:
        frame.resize(at);
        break;
      case 3:
        frame.insert(at, 1 + below(9), static_cast<char>(random()));
        break;
      case 4:
        frame.erase(at, 1 + below(4));
        break;
      case 5: {  // one of the numbers of headers
        constexpr size_t numbers[] = {12, 14, 16, 18, 20, 22, 34, 36,
                                      38, 44, 46, 54, 56, 58, 64, 66};
        const size_t where = numbers[below(std::size(numbers))];
        if (where + 2 > frame.size()) break;
        const uint32_t near = number(frame, where) + static_cast<uint32_t>(below(5)) - 2;
        frame.replace(where, 2, two(below(2) == 0 ? near : static_cast<uint32_t>(random())));
        break;
      }
      default: {  // the text
        const size_t text = std::min(frame.size() - 1, size_t{14 + 20 + 16});
        constexpr std::string_view some = " \r\ngets\0\x7f";
        frame[text + below(frame.size() - text)] = some[below(some.size())];
      }
    }
  }
  if (below(2) == 0) right_sums(frame);
  return frame;
}

}  // namespace isotherm::built_frames
