// HostPart: the part of a fixed-width table that a device has no room for, in memory of the host
// and served by threads of its own.
//
// The requests of a call come in lists that share no key, so that threads take list after list and
// each key's requests are answered in order. The index grows as it is written to, by those who
// write (index/growth_share.h).
//
// Memory. `bytes` of index at most; where it ends a request that needs more is answered
// reply_retry and does nothing. Threads. One at a time.
// Sources. KVCG, section 5.2, whose store beyond device memory was unified memory instead.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "base/worker_pool.h"
#include "gpu/split/host_tier.h"
#include "index/growth_share.h"
#include "isotherm/table_requests.h"
#include "items/epoch.h"
#include "items/memory_budget.h"
#include "items/pages.h"

namespace isotherm {

struct HostPartOptions {
  uint64_t seed = 0;
  uint64_t bytes = 0;     // at most
  uint64_t expected = 0;  // entries to make room for at once
  uint32_t threads = 1;
  int memory_node = -1;  // that memory should come from; -1: any
};

class HostPart final : public BinHost {
 public:
  // Throws std::bad_alloc without memory for `expected` entries.
  explicit HostPart(const HostPartOptions& options);
  ~HostPart() override;
  HostPart(const HostPart&) = delete;
  HostPart& operator=(const HostPart&) = delete;

  // Lists without rows need no columns.
  void answer(std::span<const TableRequests> lists);

  bool put(std::span<const Entry> entries) override;
  void erase(std::span<const Entry> entries) override;
  uint64_t read(uint64_t bound, uint64_t end, uint64_t wanted,
                std::vector<Entry>& entries) const override;

  uint64_t entries() const { return tier_.count(); }
  uint64_t bytes() const { return budget_.used(); }

 private:
  struct Worker {
    EpochDomain::Slot* slot;
    GrowthShare growth{};
  };

  // Calls work(entry) for all entries, which threads share; whether it said true each time.
  template <class Work>
  bool each(std::span<const Entry> entries, Work&& work);
  void grow(Worker& worker, uint64_t changes);
  void answer_list(const TableRequests& list, Worker& worker);

  MemoryBudget budget_;
  Pages pages_;
  mutable EpochDomain epochs_;
  HostTier tier_;
  WorkerPool pool_;
  std::vector<Worker> workers_;
};

}  // namespace isotherm
