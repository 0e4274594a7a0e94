// ClientLimits: how much of the server's memory a client may hold, and all of them together.
//
//   client-output-buffer-limit   a client whose unsent replies reach the hard limit, or stay at the
//                                soft one for longer than its seconds, is disconnected
//   client-query-buffer-limit    so is one whose unfinished request is longer
//   maxmemory-clients            all buffers together: beyond it the clients that hold most are
//                                disconnected
// Names, forms and meaning are those of Redis; 0 means no limit. But a maxmemory-clients of 0
// follows maxmemory: clients' buffers are not counted in the cap, so that they make no writes fail,
// and so they need a bound of their own. As in Redis, the first 16 KiB of replies count nothing.
// All clients are of the class normal, also those of memcached's port; the limits of the other
// classes are stored but never applied.
//
// Threads. Any may read and write: each limit is an atomic of its own.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace isotherm::net {

struct OutputLimit {
  std::atomic<uint64_t> hard;
  std::atomic<uint64_t> soft;
  std::atomic<int64_t> soft_seconds;
};

struct ClientLimits {
  enum Class : uint8_t { normal, replica, pubsub };

  // For a server with the cap `maxmemory`; 0: there is none.
  uint64_t all_clients(uint64_t maxmemory) const {
    constexpr uint64_t beside_the_cap = 128 << 20;
    const int64_t told = clients.load(std::memory_order_relaxed);
    if (told > 0) return static_cast<uint64_t>(told);
    if (maxmemory == 0) return 0;
    if (told < 0) return maxmemory / 100 * static_cast<uint64_t>(-told);
    return beside_the_cap + maxmemory / 16;
  }

  // A client of which chunks of unsent replies take more is sure to be disconnected. Above the hard
  // limit, since chunks are not filled to the end.
  size_t most_unsent(uint64_t maxmemory, bool evictable) const {
    constexpr uint64_t beside = 1 << 20;
    constexpr uint64_t none = std::numeric_limits<uint64_t>::max();
    const uint64_t hard = output[normal].hard.load(std::memory_order_relaxed);
    const uint64_t all = evictable ? all_clients(maxmemory) : 0;
    return std::min(hard != 0 ? hard + hard / 16 + beside : none, all != 0 ? all : none);
  }

  std::array<OutputLimit, 3> output{
      {{0, 0, 0}, {256 << 20, 64 << 20, 60}, {32 << 20, 8 << 20, 60}}};
  std::atomic<uint64_t> query{1 << 30};
  std::atomic<int64_t> clients{0};  // negative: percent of maxmemory
};

// One client's unsent replies beside the limit of its class.
class OutputWatch {
 public:
  // False: it is not, and was not at the soft limit.
  bool may_be_over(size_t unsent) const { return unsent > not_counted || soft_since_ms_ != 0; }
  // Whether a client with so many unsent bytes is to be disconnected.
  bool over(const OutputLimit& limit, size_t unsent, int64_t now_ms) {
    const uint64_t bytes = unsent - std::min(unsent, not_counted);
    const uint64_t hard = limit.hard.load(std::memory_order_relaxed);
    const uint64_t soft = limit.soft.load(std::memory_order_relaxed);
    if (soft == 0 || bytes < soft) {
      soft_since_ms_ = 0;
    } else if (soft_since_ms_ == 0) {
      soft_since_ms_ = now_ms;
    } else if (now_ms - soft_since_ms_ > 1000 * limit.soft_seconds) {
      return true;
    }
    return hard != 0 && bytes >= hard;
  }

 private:
  static constexpr size_t not_counted = 16 << 10;

  int64_t soft_since_ms_ = 0;  // 0: below the soft limit
};

// An option as CONFIG and the command line know it. `set` takes a value, or with `dry` only checks
// it, and returns what is wrong with it.
struct ClientLimitOption {
  std::string_view name;
  std::string (*get)(const ClientLimits& limits);
  std::string (*set)(ClientLimits& limits, std::string_view text, bool dry);
};
std::span<const ClientLimitOption> client_limit_options();
// The name in any case; null: it is none of them.
const ClientLimitOption* find_client_limit(std::string_view name);

}  // namespace isotherm::net
