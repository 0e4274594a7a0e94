// The answers to memcached's `stats`, and what `stats reset` sets back.
//
// Only what Isotherm knows is listed: names and meaning are memcached's, lines for things that do
// not exist here (LRU segments, libevent) are left out.
//
// Threads. The loops' counters are never set back, so a reset remembers their sums and `stats`
// subtracts them. Any loop may reset or read.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "engine/engine.h"

namespace isotherm::net {

struct ServerState;
class Output;

class MemcachedReset {
 public:
  static constexpr size_t counters = 17;

  std::array<std::atomic<uint64_t>, counters> sums{};
};

// `arguments`: what stands behind `stats`; nothing: the general statistics.
void write_stats(std::string_view arguments, ServerState& server, Output& output);

}  // namespace isotherm::net
