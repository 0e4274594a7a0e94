#include "router/hot_side.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <tuple>
#include <utility>

#include "items/epoch.h"

namespace isotherm {
namespace {

// A bin takes bytes for its state, its count, the trainer's copy of the count, the order of a
// model, and its place in the lists of bins that are to move.
constexpr uint64_t bytes_a_bin = 1 + 4 + 4 + 4 + 4;
constexpr uint64_t usual_most_bytes = uint64_t{1} << 30;
constexpr uint64_t least_part = 4 << 10;
constexpr uint64_t usual_part = 2 << 20;
constexpr std::chrono::microseconds between_looks{50};  // doubled when in vain, so many times
constexpr int most_doublings = 5;
constexpr uint64_t moves_a_table_step = 16;  // while bins move
constexpr int least_rest = 10;               // between two trainings, times what one takes

uint64_t memory_for(const RouterOptions& options, uint64_t cap) {
  if (options.memory != 0) return options.memory;
  return cap != 0 ? std::max(cap / 8, RouterOptions::least_memory) : usual_most_bytes;
}

// The same while the store runs: items need room beside it, whatever the options say.
uint64_t memory_now(const RouterOptions& options, uint64_t cap) {
  const uint64_t bytes = memory_for(options, cap);
  if (cap == 0) return bytes;
  return std::min(bytes, std::max(cap / HotTable::least_cap, RouterOptions::least_memory));
}

uint32_t bins_for(const RouterOptions& options, uint64_t most_bytes) {
  const uint64_t most = std::max<uint64_t>(most_bytes / 2 / bytes_a_bin, 1);
  return static_cast<uint32_t>(std::min<uint64_t>(options.bins, most));
}

// While the table grows the old part stands beside the new one, of which it is a half.
HotTable::Options table_options(uint64_t most_bytes, uint32_t bins) {
  HotTable::Options options;
  options.most_bytes = std::max((most_bytes - bins * bytes_a_bin) / 3 * 2, least_part);
  options.least_bytes = std::min(usual_part, options.most_bytes);
  // A large page would be larger than all of it.
  if (options.least_bytes < usual_part) options.largest = HugeBlock::Pages::normal;
  return options;
}

// That find room in the largest part that is made.
uint64_t most_keys(const HotTable::Options& table) {
  uint64_t bytes = table.least_bytes;
  while (bytes * 2 <= table.most_bytes) bytes *= 2;
  return static_cast<uint64_t>(static_cast<double>(bytes) * HotTable::grow_at) / sizeof(FastEntry);
}

std::unique_ptr<Model> make_model(const RouterOptions& options, const HotTable::Options& table) {
  switch (options.choice) {
    case RouterChoice::histogram:
      return std::make_unique<HistogramModel>(options.threshold);
    case RouterChoice::chance:
      return std::make_unique<ChanceModel>();
    default:
      return std::make_unique<BudgetModel>(BudgetModel::Bounds{.keys = most_keys(table)});
  }
}

Router::Options router_options(RouterChoice choice) {
  Router::Options options;
  // A choice by chance takes effect whatever it is worth.
  if (choice == RouterChoice::chance) options = {.most_refusals = 1, .least_sample = 0, .group = 4};
  return options;
}

}  // namespace

HotSide::HotSide(const RouterOptions& options, HotTable::IndexOf index_of, uint32_t databases,
                 EpochDomain& epochs, MemoryBudget& budget)
    : options_(options),
      most_bytes_(memory_for(options, budget.limit())),
      budget_(budget),
      index_of_(std::move(index_of)),
      databases_(databases),
      epochs_(epochs),
      states_(bins_for(options, most_bytes_)),
      table_(databases, index_of_, states_, epochs, budget,
             table_options(most_bytes_, states_.count())),
      router_(states_, epochs, table_,
              make_model(options, table_options(most_bytes_, states_.count())),
              router_options(options.choice)) {
  thread_ = std::thread([this] { work(); });
  budget_.hot.fetch_add(static_cast<int64_t>(states_.count() * bytes_a_bin));
}

HotSide::~HotSide() {
  {
    const std::lock_guard guard(mutex_);
    stop_ = true;
  }
  told_.notify_one();
  thread_.join();
  budget_.hot.fetch_sub(static_cast<int64_t>(states_.count() * bytes_a_bin));
}

// A step of each that has one to make; false where both only wait, or have nothing to do.
bool HotSide::move() {
  const bool moved = router_.step() && !router_.waits();
  const uint64_t moves = router_.flow().warmed() + router_.flow().cooled();
  if (moved && moves % moves_a_table_step != 0) return true;
  const bool grew = table_.step() && !table_.waits();
  return moved || grew;
}

// Whether the number of bins is to be another; a step towards that.
bool HotSide::divides_anew() {
  const uint32_t before = states_.count();
  const uint32_t wanted =
      std::min(bins_for(options_, memory_now(options_, budget_.limit())), states_.most());
  divides_ = divides_ || wanted != before;
  if (!divides_ || !router_.divide_anew(wanted)) return divides_;
  divides_ = false;
  budget_.hot.fetch_add((int64_t{wanted} - int64_t{before}) * static_cast<int64_t>(bytes_a_bin));
  return false;
}

void HotSide::work() {
  using Clock = std::chrono::steady_clock;
  const std::chrono::milliseconds interval(options_.interval_ms);
  Clock::time_point next = Clock::now() + interval;
  int vain = 0;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    lock.unlock();
    Clock::duration pause = Clock::duration::zero();
    try {
      if (!divides_anew() && Clock::now() >= next) {
        const Clock::time_point began = Clock::now();
        router_.train(keys());
        next = began + std::max<Clock::duration>(interval, least_rest * (Clock::now() - began));
      }
      if (move()) {
        vain = 0;
      } else if (router_.waits() || table_.waits()) {
        pause = between_looks * (1 << vain);
        vain = std::min(vain + 1, most_doublings);
      } else {
        pause = next - Clock::now();
      }
    } catch (const std::exception&) {
      failures_.add();
      pause = interval;
    }
    lock.lock();
    if (pause > Clock::duration::zero()) {
      told_.wait_for(lock, pause, [this] { return stop_; });
    }
  }
}

uint64_t HotSide::keys() const {
  const TakenSlot taken(epochs_);
  const EpochGuard guard(epochs_, *taken.slot);
  uint64_t keys = 0;
  for (uint32_t database = 0; database < databases_; ++database) {
    if (const LineIndex* index = index_of_(database)) keys += index->count();
  }
  return keys;
}

HotStats HotSide::stats() const {
  HotStats stats;
  stats.bytes = static_cast<uint64_t>(std::max<int64_t>(budget_.hot.load(), 0));
  stats.table_bytes = table_.bytes();
  static_assert(std::tuple_size_v<decltype(stats.bins)> == bin_state_count);
  for (size_t state = 0; state < stats.bins.size(); ++state) {
    stats.bins[state] = states_.in_state(static_cast<BinState>(state));
  }
  stats.warmed = router_.flow().warmed();
  stats.cooled = router_.flow().cooled();
  stats.trainings = router_.trainings();
  stats.changes = router_.changes();
  stats.share_hot = router_.share_hot();
  stats.resizes = table_.growths();
  stats.failures = failures_.get();
  return stats;
}

}  // namespace isotherm
