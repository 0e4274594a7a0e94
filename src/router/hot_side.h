// HotSide: the hot keys of one store: the table that has them, the router that says which they are,
// and the thread that learns and moves bins.
//
// Requests look into the table and note some of their keys; they do nothing else, and none waits
// for a bin that moves, since the index behind the table has all keys (hot/hot_table.h). The thread
// asks the model every `interval_ms`, and between that moves bins and lets the table grow, in small
// steps. It sleeps where a step only waits for requests to end. If it has no memory, or no epoch
// slot, it tries again at the next interval: until then bins stay as they are.
//
// Memory. At most `memory` bytes, which are part of the store's budget: the state, counts and order
// of each bin, of which there are fewer where they would take more than half, and the table. While
// the store's cap is lower than at the start the table takes at most half of it, and there are as
// many bins as a start with that cap would make: all cool before their number changes.
//
// Threads. The table's look-ups and changes, the counts and `stats`: any.
// Sources. KVCG, section 7 (a model that is trained online); EKRM (the table).
#pragma once

#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>

#include "base/counter.h"
#include "base/macros.h"
#include "hot/hot_table.h"
#include "isotherm/options.h"
#include "router/hot_stats.h"
#include "router/router.h"

namespace isotherm {

class HotSide {
 public:
  // Made as a store's options say. Throws std::bad_alloc, or std::system_error without a thread.
  HotSide(const RouterOptions& options, HotTable::IndexOf index_of, uint32_t databases,
          EpochDomain& epochs, MemoryBudget& budget);
  ~HotSide();
  HotSide(const HotSide&) = delete;
  HotSide& operator=(const HotSide&) = delete;

  ISOTHERM_INLINE HotTable& table() { return table_; }
  BinCounts& counts() { return router_.counts(); }
  HotStats stats() const;

 private:
  void work();
  bool move();
  bool divides_anew();
  uint64_t keys() const;  // in the store

  const RouterOptions options_;
  const uint64_t most_bytes_;  // at the start
  MemoryBudget& budget_;
  const HotTable::IndexOf index_of_;
  const uint32_t databases_;
  EpochDomain& epochs_;
  BinStates states_;
  HotTable table_;
  Router router_;
  Counter failures_;
  bool divides_ = false;  // bins cool, to be another number

  std::mutex mutex_;
  std::condition_variable told_;
  bool stop_ = false;
  std::thread thread_;  // the last: it uses all others
};

}  // namespace isotherm
