// MemcachedPrefixes: what was asked for keys with the same beginning, for `stats detail`.
//
// A key's prefix is what stands before its first ':'; keys without one are not counted. Gets, sets
// and deletes of the classic commands count, as in memcached, once a client has switched it on.
//
// Threads. Any; one lock, which is taken for each request while it is on, and never otherwise.
// Limits. `most` prefixes; what comes beyond them is not counted.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace isotherm::net {

class MemcachedPrefixes {
 public:
  static constexpr size_t most = 4096;
  static constexpr char delimiter = ':';

  bool on() const { return on_.load(std::memory_order_relaxed); }
  void turn(bool on) { on_.store(on, std::memory_order_relaxed); }

  void note_get(std::string_view key, bool hit);
  void note_set(std::string_view key);
  void note_delete(std::string_view key);
  void clear();

  // A line for each, in their order.
  std::string lines() const;

 private:
  struct Uses {
    uint64_t gets = 0, hits = 0, sets = 0, deletes = 0;
  };
  // Under the lock; null: not counted.
  Uses* uses_of(std::string_view key);

  std::atomic<bool> on_{false};
  mutable std::mutex mutex_;  // of the map
  std::map<std::string, Uses, std::less<>> uses_;
};

}  // namespace isotherm::net
