// UdpRepeats: which datagrams came a moment ago, so that one that the network delivers twice is run
// once.
//
// A datagram is a repeat if its sender and all its bytes, the request's id among them, are those of
// one of the last `window` datagrams, not longer than `window_ms` ago. Clients count ids up, so a
// request that they mean to send again has another id; libmemcached's come again after 1,024
// datagrams, which is why the window is shorter.
//
// Layout: a table of fingerprints, where a new one takes the place of what was there; so of repeats
// a few in a hundred may be missed, and none is seen that is not there but by a hash of 64 bits.
//
// Threads. Belongs to one loop.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace isotherm::net {

class UdpRepeats {
 public:
  static constexpr uint64_t window = 256;
  static constexpr int64_t window_ms = 100;

  // Whether all its lines are gets, which may be answered twice.
  static bool only_gets(std::string_view text) {
    while (!text.empty()) {
      if (!text.starts_with("get ") && !text.starts_with("gets ")) return false;
      text.remove_prefix(std::min(text.find('\n'), text.size() - 1) + 1);
    }
    return true;
  }

  // Notes the datagram; whether it is a repeat.
  bool note(uint64_t fingerprint, int64_t now_ms) {
    Entry& entry = entries_[fingerprint % entries_.size()];
    const uint64_t number = ++count_;
    const bool repeated = entry.fingerprint == fingerprint && number - entry.number <= window &&
                          now_ms - entry.ms <= window_ms;
    // A repeat does not begin the window anew.
    if (!repeated) entry = {fingerprint, number, now_ms};
    return repeated;
  }

 private:
  struct Entry {
    uint64_t fingerprint = 0;
    uint64_t number = 0;
    int64_t ms = 0;
  };
  std::array<Entry, 16 * window> entries_{};
  uint64_t count_ = window;  // so that no entry that was never filled is within it
};

}  // namespace isotherm::net
