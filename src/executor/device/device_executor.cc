#include "executor/device/device_executor.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "base/broken.h"
#include "base/tile.h"
#include "executor/device/batch_work.h"
#include "executor/device/index_rebuild.h"
#include "executor/device/round_stages.h"
#include "gpu/platform/device_error.h"
#include "items/live_walk.h"

namespace isotherm {
namespace {

// Items that leave their places, or go to others.
class MoveWork final : public RoundWork {
 public:
  MoveWork(ItemMove* moves, uint32_t count, int64_t now_ms)
      : moves_(moves), count_(count), now_ms_(now_ms) {}

  uint32_t rows() const override { return count_; }
  bool writes() const override { return true; }
  bool writes(uint32_t /*row*/) const override { return true; }
  bool changes_in_place(uint32_t /*row*/) const override { return false; }
  // A sweep makes many rounds one after another, and batches may wait for its end.
  RoundSender* sender() const override { return nullptr; }

  void write_keys(HostExecutor& executor, uint64_t* keys) override {
    const HostStore& store = executor.store();
    for (uint32_t i = 0; i < count_; ++i) {
      const Item& item = *store.items.item(moves_[i].from);
      keys[i] = key_on_device(store.hash(item.key(), store.seed), item.database());
    }
  }

  void answer(const RoundShare& share, const RootColumns& found, const uint32_t* numbers,
              uint32_t count) override {
    HostStore& store = share.executor.store();
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t row = numbers != nullptr ? numbers[i] : i;
      ItemMove& move = moves_[row];
      Database& database = store.databases[store.items.item(move.from)->database()];
      const Location root = found.found[row] == 1 ? found.roots[row] : location::none;
      RoundIndex index(share.overlay, database, found.keys[row], root);
      move.done = swap_member<TilePlain>(share.executor, index, found.keys[row], move, now_ms_);
    }
  }

 private:
  ItemMove* const moves_;
  const uint32_t count_;
  const int64_t now_ms_;
};

// Rows of one worker in one round; more go in several rounds, so that others come in between.
constexpr uint32_t most_rows_a_round = 1 << 18;

// How many lines a step of a walk looks at; empty ones cost the device nanoseconds.
constexpr uint64_t lines_a_step = 1 << 16;

}  // namespace

DeviceExecutor::DeviceExecutor(HostStore& store, const RootTiersMaker& make,
                               std::unique_ptr<SchedulingPolicy> policy, WaitClock& clock)
    : store_(store),
      rounds_(
          make_table(make),
          [this](uint64_t last_version, const std::string& why) { take_over(last_version, why); },
          std::move(policy), clock) {}

// Values lie on the devices of the table, so they go first.
DeviceExecutor::~DeviceExecutor() {
  store_.values = nullptr;
  values_.reset();
}

std::unique_ptr<RootTable> DeviceExecutor::make_table(const RootTiersMaker& make) {
  auto table = std::make_unique<RootTable>(store_, make(store_.seed));
  memory_nodes_ = table->memory_nodes();
  if (!store_.pages.prefer(memory_nodes_)) memory_nodes_.clear();
  if (store_.options.gpu_values != 0) {
    values_ = std::make_unique<DeviceValues>(
        table->make_value_tiers(store_.options.gpu_values, store_.budget.limit()), store_.epochs,
        store_.budget);
    store_.values = values_.get();
  }
  return table;
}

Batch::Row DeviceExecutor::run(Participant& participant, const BatchRun& run, Batch& batch,
                               Batch::Row first, Batch::Row end, BatchRun* parking,
                               const uint8_t* skipped) {
  std::vector<uint32_t> picked;
  for (Batch::Row row = first; skipped != nullptr && row < end; ++row) {
    if (skipped[row - first] == 0) picked.push_back(row - first);
  }
  const auto all = skipped != nullptr ? static_cast<uint32_t>(picked.size()) : end - first;
  for (uint32_t done = 0; done < all;) {
    const uint32_t rows = std::min(all - done, most_rows_a_round);
    const uint32_t* const numbers = skipped != nullptr ? picked.data() + done : nullptr;
    BatchWork work(run, batch, skipped != nullptr ? first : first + done, rows, parking, numbers);
    if (!rounds_.run(participant, work)) return first + (numbers != nullptr ? *numbers : done);
    done += rows;
  }
  return end;
}

void DeviceExecutor::finish(ValueReader& reader) {
  reader.finish();
  if (reader.failed() || reader.has_lost()) fail();
}

void DeviceExecutor::fail() {
  rounds_.alone([](RootTable&) { throw DeviceError("values cannot be reached"); });
}

bool DeviceExecutor::swap(Participant& participant, std::vector<ItemMove>& moves, int64_t now_ms) {
  for (size_t first = 0; first < moves.size(); first += most_rows_a_round) {
    const size_t count = std::min<size_t>(moves.size() - first, most_rows_a_round);
    MoveWork work(moves.data() + first, static_cast<uint32_t>(count), now_ms);
    if (!rounds_.run(participant, work)) return false;
  }
  return true;
}

bool DeviceExecutor::flush(Participant& participant, uint32_t first, uint32_t end, int64_t now_ms,
                           uint64_t& version) {
  std::vector<ItemMove> moves;
  LiveWalk walk;
  for (bool more = true; more;) {
    moves.clear();
    more = store_.items.walk_live(walk, most_rows_a_round, [&](Location location) {
      const uint32_t database = store_.items.item(location)->database();
      if (first <= database && database < end) {
        moves.push_back({location, location::none, MoveReason::flushed});
      }
      return true;
    });
    if (!swap(participant, moves, now_ms)) return false;
  }
  const auto empty = [](const Database& one) {
    return one.entries_on_device.load(std::memory_order_relaxed) == 0;
  };
  const auto all_empty = [&] {
    return std::all_of(store_.databases.begin(), store_.databases.end(), empty);
  };
  if (!all_empty() && store_.sink == nullptr) return true;
  // Others may have stored something by then.
  return rounds_.alone([&](RootTable& table) {
    version = rounds_.next_version();
    if (all_empty()) table.clear();
  });
}

bool DeviceExecutor::scan(uint64_t bound, uint64_t wanted,
                          const std::function<void(Location root)>& visit, uint64_t& next) {
  return rounds_.alone([&](RootTable& table) {
    next = table.scan(bound, lines_a_step, wanted, [&](uint64_t, Location root) { visit(root); });
  });
}

RootTableStats DeviceExecutor::stats() {
  const std::lock_guard guard(stats_mutex_);
  rounds_.alone_now([&](RootTable& table) { stats_ = table.stats(); });
  return active() ? stats_ : RootTableStats{};
}

void DeviceExecutor::take_over(uint64_t last_version, const std::string& why) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  if (broken(Rule::takeover)) last_version = 0;
  const uint64_t version = last_version + 1;  // of what is given up
  for (Database& database : store_.databases) database.begin_versions(version);
  if (values_) values_->lose();
  rebuild_index(store_, version);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  takeover_us_.store(static_cast<uint64_t>(took.count()) + 1, std::memory_order_relaxed);
  events_.tell("the GPU was given up (" + why +
               "): the index is in host memory from now on, made anew in " +
               std::to_string(took.count() / 1000) + " ms");
}

}  // namespace isotherm
