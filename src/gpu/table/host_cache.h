// HostCache: a cache index (index/cache_unit.h) in host memory, for arrays of requests: u64 keys to
// u64 values, of a size that is fixed when it is made. A new key takes the place of an older one
// where there is no room for both.
//
// Requests of a call are answered one after the other. What a lookup reads first is asked for some
// rows ahead, in two steps.
//
// Threads. Any; a lock a part for writers, none for lookups. Each key is linearizable, evictions
// being requests of their own. Time is the count of requests, which each call takes its share of.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "isotherm/fixed_table.h"

namespace isotherm {

class HostCache {
 public:
  // What a call did beside its replies.
  struct Done {
    uint64_t found = 0;
    uint64_t evicted = 0;
  };
  using Visit = std::function<void(uint64_t key, uint64_t value)>;

  virtual ~HostCache() = default;

  virtual Done run(const TableRequests& requests) = 0;
  // Gets that compare no keys: see FixedHandle::get_stored.
  virtual uint64_t get_stored(const TableRequests& gets, uint64_t* stored_keys) = 0;
  // Visits whole parts from `cursor` on, at least `count` entries while there are any; returns the
  // cursor to go on from, 0 at the end. No lock is held while it visits.
  virtual uint64_t scan(uint64_t cursor, uint64_t count, const Visit& visit) = 0;

  virtual uint64_t size() const = 0;
  virtual uint64_t room() const = 0;  // entries
  virtual uint64_t bytes() const = 0;
  virtual uint64_t evictions() const = 0;
  virtual uint64_t displaced() const = 0;
};

// Of kind `index`, which is not the line index: with as many parts as `bytes` have room for, or, if
// that is 0, as `entries` entries take. Throws std::invalid_argument, std::bad_alloc.
std::unique_ptr<HostCache> make_host_cache(FixedIndexKind index, uint64_t bytes, uint64_t entries,
                                           uint64_t seed);

}  // namespace isotherm
