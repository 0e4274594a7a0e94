#include "executor/device/device_executor.h"

#include <algorithm>
#include <chrono>

#include "base/tile.h"
#include "executor/device/index_rebuild.h"
#include "executor/device/round_stages.h"
#include "gpu/device_error.h"
#include "items/live_walk.h"

namespace isotherm {
namespace {

// Some rows of a batch.
class BatchWork final : public RoundWork {
 public:
  BatchWork(const Batch& batch, uint32_t first, uint32_t rows, int64_t now_ms, bool writable,
            ValueReader* reader, BatchRun* parking, uint64_t token)
      : batch_(batch),
        columns_(batch.columns().from(first)),
        first_(first),
        rows_(rows),
        writes_(batch.writes()),
        now_ms_(now_ms),
        writable_(writable),
        reader_(reader),
        parking_(parking),
        token_(token) {}

  uint32_t rows() const override { return rows_; }
  bool writes() const override { return writes_; }
  bool writes(uint32_t row) const override { return columns_.op[row] != Op::get; }
  bool changes_in_place(uint32_t row) const override { return columns_.op[row] == Op::expire; }
  bool urgent() const override { return false; }

  void write_keys(HostExecutor& executor, uint64_t* keys) override {
    executor.hash_keys(columns_, 0, rows_);
    for (uint32_t row = 0; row < rows_; ++row) {
      keys[row] = key_on_device(columns_.hash[row], columns_.database[row]);
    }
  }

  void answer(const RoundShare& share, const RootColumns& found, const uint32_t* numbers,
              uint32_t count) override {
    const uint64_t largest = writable_ ? share.executor.store().largest_item() : 0;
    HostExecutor::Run run{share.executor, columns_, now_ms_, largest, !writes_};
    run.erases_expired = share.overlay != nullptr;
    run.values = reader_;
    run.parking = parking_;
    run.batch = &batch_;
    run.first_row = first_;
    run.token = token_;
    run_round_stages(run, share, found, numbers, count);
    if (reader_ != nullptr) reader_->await(run.awaited);
    share.executor.count(run, count);
  }

 private:
  const Batch& batch_;
  Batch::Columns columns_;
  const uint32_t first_;
  const uint32_t rows_;
  const bool writes_;
  const int64_t now_ms_;
  const bool writable_;
  ValueReader* const reader_;
  BatchRun* const parking_;
  const uint64_t token_;
};

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
  bool urgent() const override { return true; }

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
      RoundIndex index(*share.overlay, database, found.keys[row], root);
      move.done = swap_member<TilePlain>(share.executor, index, found.keys[row], move, now_ms_);
    }
  }

 private:
  ItemMove* const moves_;
  const uint32_t count_;
  const int64_t now_ms_;
};

// Rows of one worker in one round; more go in several rounds, so that others have their turns.
constexpr uint32_t most_rows_a_round = 1 << 18;

// Of a walk: empty ones cost the device nanoseconds.
constexpr uint64_t lines_a_step = 1 << 16;

}  // namespace

DeviceExecutor::DeviceExecutor(HostStore& store, const RootTiersMaker& make, WaitClock* clock)
    : store_(store),
      rounds_(
          make_table(make), [this](uint64_t last_version) { take_over(last_version); },
          RoundSchedule(store.options.rounds), clock != nullptr ? *clock : steady_clock_) {}

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
    values_ = std::make_unique<DeviceValues>(table->make_value_tiers(store_.options.gpu_values),
                                             store_.epochs, store_.budget);
    store_.values = values_.get();
  }
  return table;
}

Batch::Row DeviceExecutor::run(Member& member, ValueReader* reader, Batch& batch, int64_t now_ms,
                               bool writable, Batch::Row first, Batch::Row end, BatchRun* parking,
                               uint64_t token) {
  Batch::Row done = first;
  while (done < end) {
    const uint32_t rows = std::min(end - done, most_rows_a_round);
    BatchWork work(batch, done, rows, now_ms, writable, reader, parking, token);
    if (!rounds_.run(member, work)) break;
    done += rows;
  }
  return done;
}

void DeviceExecutor::finish(ValueReader& reader) {
  reader.finish();
  if (reader.failed()) fail();
}

void DeviceExecutor::fail() {
  rounds_.alone([](RootTable&) { throw DeviceError("values cannot be reached"); });
}

bool DeviceExecutor::swap(Member& member, std::vector<ItemMove>& moves, int64_t now_ms) {
  for (size_t first = 0; first < moves.size(); first += most_rows_a_round) {
    const size_t count = std::min<size_t>(moves.size() - first, most_rows_a_round);
    MoveWork work(moves.data() + first, static_cast<uint32_t>(count), now_ms);
    if (!rounds_.run(member, work)) return false;
  }
  return true;
}

bool DeviceExecutor::flush(Member& member, uint32_t database, int64_t now_ms, uint64_t& version) {
  std::vector<ItemMove> moves;
  LiveWalk walk;
  for (bool more = true; more;) {
    moves.clear();
    more = store_.items.walk_live(walk, most_rows_a_round, [&](Location location) {
      if (store_.items.item(location)->database() == database) {
        moves.push_back({location, location::none, MoveReason::flushed});
      }
      return true;
    });
    if (!swap(member, moves, now_ms)) return false;
  }
  const auto empty = [](const Database& one) {
    return one.entries_on_device.load(std::memory_order_relaxed) == 0;
  };
  return rounds_.alone([&](RootTable& table) {
    version = rounds_.next_version();
    if (std::all_of(store_.databases.begin(), store_.databases.end(), empty)) table.clear();
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

void DeviceExecutor::take_over(uint64_t last_version) {
  using Clock = std::chrono::steady_clock;
  const auto begin = Clock::now();
  const uint64_t version = last_version + 1;  // of what is given up
  for (Database& database : store_.databases) database.begin_versions(version);
  if (values_) values_->lose();
  rebuild_index(store_, version);
  const auto took = std::chrono::duration_cast<std::chrono::microseconds>(Clock::now() - begin);
  takeover_us_.store(static_cast<uint64_t>(took.count()) + 1, std::memory_order_relaxed);
}

}  // namespace isotherm
