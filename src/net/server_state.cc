#include "net/server_state.h"

#include <algorithm>
#include <random>

namespace isotherm::net {

Statistics ServerState::statistics() const {
  // Counted behind the baseline, so nothing is below that but reads that were taken back since.
  const std::lock_guard lock(baseline_mutex_);
  Statistics now = count();
  for (size_t i = 0; i < now.counts.size(); ++i) now.counts[i] -= baseline_.counts[i];
  for (size_t i = 0; i < now.batch_histogram.size(); ++i) {
    now.batch_histogram[i] -= baseline_.batch_histogram[i];
  }
  now.engine.hits -= std::min(now.engine.hits, baseline_.engine.hits);
  now.engine.misses -= std::min(now.engine.misses, baseline_.engine.misses);
  now.engine.evicted -= baseline_.engine.evicted;
  now.engine.expired -= baseline_.engine.expired;
  now.rejected -= baseline_.rejected;
  for (size_t i = 0; i < baseline_.by_command.size(); ++i) {
    const CommandTotals& before = baseline_.by_command[i];
    CommandTotals& total = now.by_command[i];
    total.calls -= before.calls;
    total.rejected -= before.rejected;
    total.failed -= before.failed;
    total.nanoseconds -= before.nanoseconds;
  }
  for (const auto& [code, before] : baseline_.errors) {
    const auto found = now.errors.find(code);
    if ((found->second -= before) == 0) now.errors.erase(found);
  }
  return now;
}

void ServerState::reset_statistics() {
  const std::lock_guard lock(baseline_mutex_);
  baseline_ = count();
  for (const auto& loop : loops) loop->reset_maxima();
}

Statistics ServerState::count() const {
  Statistics sum;
  for (const auto& loop : loops) {
    for (size_t i = 0; i < sum.counts.size(); ++i) sum.counts[i] += loop->counts[i].get();
    sum.batch_rows_max = std::max(sum.batch_rows_max, loop->batch_rows_max.get());
    sum.batch_connections_max =
        std::max(sum.batch_connections_max, loop->batch_connections_max.get());
    for (size_t i = 0; i < sum.batch_histogram.size(); ++i) {
      sum.batch_histogram[i] += loop->batch_histogram[i].get();
    }
  }
  sum.by_command.resize(CommandCounts::most_commands);
  for (const auto& loop : loops) {
    for (size_t i = 0; i < sum.by_command.size(); ++i) {
      const CommandCounts::Count& count = loop->by_command.of(i);
      CommandTotals& total = sum.by_command[i];
      total.rejected += count.rejected.get();
      total.failed += count.failed.get();
      total.nanoseconds += count.nanoseconds.get();
      total.calls += count.calls.get();
    }
    loop->by_command.add_errors_to(sum.errors);
  }
  sum.engine = engine.stats();
  sum.rejected = rejected_connections.load(std::memory_order_relaxed);
  return sum;
}

void ServerState::sample_rates() {
  rates.sample(total(LoopCount::commands), total(LoopCount::bytes_in), total(LoopCount::bytes_out),
               engine.used_memory());
}

std::string ServerState::draw_id() {
  std::random_device random;
  std::string id;
  for (int i = 0; i < 40; ++i) id += "0123456789abcdef"[random() % 16];
  return id;
}

}  // namespace isotherm::net
