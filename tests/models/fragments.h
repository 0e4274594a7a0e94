// Fragments of built frames (tests/models/built_frames.h), for tests of what puts them together.
//
// Threads. Any. Limits. IPv4 options are in every fragment.
#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "models/built_frames.h"

namespace isotherm::fragments {

// Of a packet with this number, bytes [at, at + bytes) of what IP carries.
inline std::string part_of(const std::string& frame, size_t at, size_t bytes, uint32_t number,
                           bool more) {
  using built_frames::two;
  const size_t head = 14 + built_frames::ip_bytes(frame);
  std::string part = frame.substr(0, head);
  if (built_frames::is_v6(frame)) {
    part.replace(18, 2, two(static_cast<uint32_t>(8 + bytes)));
    part[20] = 44;
    part += std::string("\x11\0", 2) + two(static_cast<uint32_t>(at | (more ? 1 : 0))) +
            two(number >> 16) + two(number & 0xffff);
  } else {
    part.replace(16, 2, two(static_cast<uint32_t>(head - 14 + bytes)));
    part.replace(18, 2, two(number & 0xffff));
    part.replace(20, 2, two(static_cast<uint32_t>(at / 8 | (more ? 0x2000 : 0))));
    part.replace(24, 2, std::string(2, '\0'));
    part.replace(24, 2, built_frames::complement(built_frames::add_up(part.substr(14, head - 14))));
  }
  return part + frame.substr(head + at, bytes);
}

// All of them, with `most` bytes each, a multiple of 8, of what IP carries.
inline std::vector<std::string> split(const std::string& frame, size_t most, uint32_t number) {
  const size_t all = frame.size() - 14 - built_frames::ip_bytes(frame);
  std::vector<std::string> parts;
  for (size_t at = 0; at < all; at += most) {
    const size_t bytes = std::min(most, all - at);
    parts.push_back(part_of(frame, at, bytes, number, at + bytes < all));
  }
  return parts;
}

}  // namespace isotherm::fragments
