#include "gpu/split/host_part.h"

#include <algorithm>
#include <atomic>
#include <new>

#include "gpu/kernel/request_columns.h"
#include "gpu/kernel/request_op.h"
#include "gpu/table/fixed_loops.h"

namespace isotherm {
namespace {

// Between two steps of growth, in an epoch of their own.
constexpr uint64_t rows_a_step = 1024;
// So few rows are answered before other threads are awake.
constexpr uint64_t rows_for_one = 512;

// That a thread takes at once.
constexpr size_t entries_a_piece = 2048;

}  // namespace

HostPart::HostPart(const HostPartOptions& options)
    : budget_(options.bytes),
      tier_(pages_, budget_, epochs_, options.seed, options.expected, true),
      pool_(std::clamp(options.threads, 1u, EpochDomain::usual_slots)) {
  if (options.memory_node >= 0) pages_.prefer({options.memory_node});
  for (uint32_t i = 0; i < pool_.threads(); ++i) workers_.push_back({epochs_.acquire()});
}

HostPart::~HostPart() {
  for (const Worker& worker : workers_) epochs_.release(worker.slot);
}

void HostPart::answer(std::span<const TableRequests> lists) {
  uint64_t rows = 0;
  for (const TableRequests& list : lists) rows += list.rows;
  if (rows <= rows_for_one) {
    for (const TableRequests& list : lists) answer_list(list, workers_.front());
    return;
  }
  pool_.run(static_cast<uint32_t>(lists.size()),
            [&](uint32_t piece, uint32_t worker) { answer_list(lists[piece], workers_[worker]); });
}

bool HostPart::put(std::span<const Entry> entries) {
  if (each(entries, [&](const Entry& entry) { return tier_.put(entry.hash, entry.word); })) {
    return true;
  }
  erase(entries);
  return false;
}

void HostPart::erase(std::span<const Entry> entries) {
  each(entries, [&](const Entry& entry) {
    tier_.erase(entry.hash);
    return true;
  });
}

template <class Work>
bool HostPart::each(std::span<const Entry> entries, Work&& work) {
  std::atomic<bool> all{true};
  const size_t pieces = (entries.size() + entries_a_piece - 1) / entries_a_piece;
  pool_.run(static_cast<uint32_t>(pieces), [&](uint32_t piece, uint32_t number) {
    const size_t first = piece * entries_a_piece;
    const auto mine = entries.subspan(first, std::min(entries_a_piece, entries.size() - first));
    Worker& worker = workers_[number];
    {
      const EpochGuard guard(epochs_, *worker.slot);
      for (const Entry& entry : mine) {
        if (!work(entry)) all.store(false, std::memory_order_relaxed);
      }
    }
    grow(worker, mine.size());
  });
  return all.load(std::memory_order_relaxed);
}

uint64_t HostPart::read(uint64_t bound, uint64_t end, uint64_t wanted,
                        std::vector<Entry>& entries) const {
  const EpochGuard guard(epochs_, *workers_.front().slot);
  return tier_.read(bound, end, wanted, entries);
}

void HostPart::answer_list(const TableRequests& list, Worker& worker) {
  const bool gets = is_gets(list);
  for (uint64_t first = 0; first < list.rows; first += rows_a_step) {
    const TableRequests some = rows_of(list, first, std::min(rows_a_step, list.rows - first));
    {
      const EpochGuard guard(epochs_, *worker.slot);
      if (gets) {
        tier_.find(some.keys, some.rows, some.values_out, some.found);
      } else {
        fixed_loops().answer(tier_.index(), some);
      }
    }
    if (gets) continue;
    grow(worker, some.rows);
  }
}

void HostPart::grow(Worker& worker, uint64_t changes) {
  worker.growth.add(changes);
  try {
    worker.growth.pay(tier_.index().lines());
  } catch (const std::bad_alloc&) {  // for the index's own lists; the next one pays
  }
}

}  // namespace isotherm
