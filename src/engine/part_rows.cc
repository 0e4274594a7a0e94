// The part of BatchRunner that has several threads run the rows of one batch: parts that share no
// key, of a batch that has all its keys (executor/key_gate.h). Each thread has a runner of its own,
// with its executor, its upkeep and its epoch slot, and works as if it had a batch of its own on
// the keys of the holder.
#include <algorithm>
#include <atomic>
#include <new>
#include <optional>

#include "base/worker_pool.h"
#include "engine/batch_runner.h"
#include "engine/engine_state.h"
#include "items/worth_threads.h"

namespace isotherm {

void BatchRunner::hash_keys(Batch& batch) {
  run_pieces(pool_, batch.size(), most_at_once, [&](Batch::Row first, Batch::Row end) {
    executor_.hash_keys(batch.columns(), first, end);
  });
}

// Those of the rows; none where one thread runs all.
std::vector<Batch::Span> BatchRunner::parts_of(const Batch& batch, Batch::Row first,
                                               Batch::Row end) const {
  std::vector<Batch::Span> parts;
  const bool alone = end - first < worth_threads(4096) || engine_.device != nullptr ||
                     !KeyGate::has_keys(*holder_) || !KeyGate::has_all_rows(*holder_);
  if (alone) return parts;
  parts.push_back({first, end});
  for (const Batch::Row mark : batch.parts()) {
    if (mark <= parts.back().first || mark >= end) continue;
    parts.back().end = mark;
    parts.push_back({mark, end});
  }
  return parts;
}

// False: nothing was done, since there are no parts, or no memory to begin them. Where one of them
// lacks memory the others end all the same.
bool BatchRunner::run_parts(BatchRun& run, Batch& batch, Batch::Row first, Batch::Row end) {
  CommitSink* const sink = run.told() ? engine_.store.sink.load() : nullptr;
  std::vector<Batch::Span> parts;
  std::vector<uint64_t> tokens;
  try {
    parts = parts_of(batch, first, end);
    if (parts.size() <= 1) return false;
    tokens.resize(parts.size());
    if (sink != nullptr) sink->begins_parts(run.token, parts, tokens, *pool_);
  } catch (const std::bad_alloc&) {
    return false;
  }
  std::atomic<bool> lacks_memory{false};
  pool_->run(static_cast<uint32_t>(parts.size()), [&](uint32_t piece, uint32_t thread) {
    try {
      std::optional<EpochGuard> guard;
      BatchRunner& its = *runners_[thread];
      if (&its != this) guard.emplace(engine_.store.epochs, its.slot_);
      its.run_part(run, batch, parts[piece], tokens[piece], *holder_);
    } catch (const std::bad_alloc&) {
      lacks_memory.store(true, std::memory_order_relaxed);
    }
  });
  if (sink != nullptr) sink->ends_parts(run.token, tokens, *pool_);
  executor_.set_token(run.token);
  if (lacks_memory.load(std::memory_order_relaxed)) throw std::bad_alloc();
  return true;
}

// By the runner of the thread. The slot of the batch's run keeps what its replies show.
void BatchRunner::run_part(BatchRun& run, Batch& batch, Batch::Span rows, uint64_t token,
                           const KeyGate::Holder& holder) {
  struct Shown {
    explicit Shown(HostExecutor& its) : executor(its) {}
    ~Shown() { executor.set_gated(nullptr, nullptr); }
    HostExecutor& executor;
  };
  const Shown shown(executor_);
  executor_.set_parking(nullptr);
  executor_.set_showing(&run);
  executor_.set_stops_from(HostExecutor::never);
  executor_.set_token(token);
  executor_.set_gated(&slot_, &holder);
  run_on_host(run, batch, rows.first, rows.end, true);
}

}  // namespace isotherm
