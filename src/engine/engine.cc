#include "engine/engine.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "base/seed.h"
#include "batch/round_policy.h"
#include "engine/engine_state.h"
#include "engine/option_clash.h"
#include "engine/walk.h"
#include "gpu/store/cuda_item_tier.h"
#include "gpu/store/cuda_root_table.h"
#include "gpu/store/cuda_sorted_tier.h"
#include "items/arriving_item.h"
#include "tree/device_files.h"
#include "tree/sorted_files.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

constexpr uint32_t max_databases = 16'384;
constexpr uint64_t longest_value = (uint64_t{1} << 32) - 1;
constexpr uint64_t least_value_to_send = 64;
constexpr uint32_t most_crew_threads = 256;
constexpr uint32_t longest_interval_ms = 60'000;
constexpr uint64_t least_memory_for_sorted = 16 << 20;
constexpr uint64_t least_memory_for_values = 256 << 10;

void check_router(const Options& options) {
  const RouterOptions& router = options.router;
  if (router.choice == RouterChoice::off) return;
  if (router.bins == 0 || router.bins > RouterOptions::most_bins) {
    throw std::invalid_argument("router.bins must be from 1 to 2^24");
  }
  if (router.memory != 0 && router.memory < RouterOptions::least_memory) {
    throw std::invalid_argument("router.memory must be 0 or at least 64 KiB");
  }
  if (!(router.threshold >= 0 && router.threshold <= 1)) {
    throw std::invalid_argument("router.threshold must be from 0 to 1");
  }
  if (router.interval_ms == 0 || router.interval_ms > longest_interval_ms) {
    throw std::invalid_argument("router.interval_ms must be from 1 to 60000");
  }
}

void check_index(const Options& options) {
  constexpr uint64_t least_item = 16;
  if (options.index == IndexChoice::line) return;
  if (options.index_item_bytes < least_item) {
    throw std::invalid_argument("index_item_bytes must be at least 16");
  }
}

void check_together(const Options& options) {
  const std::optional<OptionClash> clash = clash_in(options);
  if (!clash) return;
  throw std::invalid_argument(std::string(clash->option) + ": " + std::string(clash->needs));
}

const Options& checked(const Options& options) {
  if (options.maxmemory_policy > EvictionPolicy::volatile_ttl) {
    throw std::invalid_argument("maxmemory_policy is none of EvictionPolicy");
  }
  if (options.device > DeviceChoice::automatic) {
    throw std::invalid_argument("device is none of DeviceChoice");
  }
  if (options.index > IndexChoice::set) {
    throw std::invalid_argument("index is none of IndexChoice");
  }
  if (options.router.choice > RouterChoice::chance) {
    throw std::invalid_argument("router.choice is none of RouterChoice");
  }
  if (options.databases == 0 || options.databases > max_databases) {
    throw std::invalid_argument("databases must be from 1 to 16384");
  }
  if (options.maxmemory != 0 && options.maxmemory < Options::least_maxmemory) {
    throw std::invalid_argument("maxmemory must be 0, for no cap, or at least " +
                                std::to_string(Options::least_maxmemory) + " bytes");
  }
  if (options.max_value_bytes == 0 || options.max_value_bytes > longest_value) {
    throw std::invalid_argument("max_value_bytes must be at least 1, and below 4 GiB");
  }
  if (options.gpu_values_from < least_value_to_send) {
    throw std::invalid_argument("gpu_values_from must be at least 64");
  }
  if (options.gpu_values != 0 && options.gpu_values < least_memory_for_values) {
    throw std::invalid_argument("gpu_values must be 0 or at least 256 KiB");
  }
  if (options.gpu_sorted != 0 && options.gpu_sorted < least_memory_for_sorted) {
    throw std::invalid_argument("gpu_sorted must be 0 or at least 16 MiB");
  }
  if (options.gpu_threads > most_crew_threads) {
    throw std::invalid_argument("gpu_threads must be at most 256");
  }
  if (options.gpu_queue == 0) throw std::invalid_argument("gpu_queue must be at least 1");
  static_cast<void>(completed(options.rounds));
  check_router(options);
  check_index(options);
  check_together(options);
  return options;
}

// A `part`th of the cap, within the bounds; without a cap, `most`.
uint64_t share_of(uint64_t cap, uint64_t part, uint64_t least, uint64_t most) {
  return cap == 0 ? most : std::clamp(cap / part, least, most);
}

void add_counters(EngineStats& stats, const HostExecutor::Counters& counters) {
  stats.batches += counters.batches.get();
  stats.requests += counters.requests.get();
  stats.hits += counters.hits.get();
  stats.misses += counters.misses.get();
  stats.evicted += counters.evicted.get();
  stats.expired += counters.expired.get();
  stats.retries += counters.retries.get();
  stats.changes += counters.changes.get();
  stats.index_evicted += counters.index_evicted.get();
  stats.fast_looks += counters.fast.all_looks();
  stats.fast_hits += counters.fast.all_hits();
  stats.fast_skipped += counters.fast.all_skipped();
}

void add_gone(std::span<ItemClassStats> classes, const HostExecutor::Counters& counters) {
  for (size_t number = 0; number < counters.gone.size(); ++number) {
    classes[number].expired += counters.gone[number].expired.get();
    classes[number].evicted += counters.gone[number].evicted.get();
    classes[number].volatile_evicted += counters.gone[number].volatile_evicted.get();
  }
}

// Keys of databases that are not there would be hidden.
void check_databases(TreeFiles& files, uint32_t databases) {
  std::string end;
  TreeRecord::put_key(std::numeric_limits<uint32_t>::max(), {}, end);
  const std::unique_ptr<TreeView> view = files.view();
  const std::unique_ptr<TreeCursor> cursor = view->cursor({}, end, true);
  cursor->seek_before(end);
  if (!cursor->error().empty()) throw TreeError(cursor->error());
  if (!cursor->valid()) return;
  const uint32_t last = TreeRecord::database_of(cursor->key());
  if (last < databases) return;
  throw TreeError("tree: it has keys in database " + std::to_string(last) +
                  ": more databases are needed");
}

std::string why_no_device(const std::exception& error) {
  if (dynamic_cast<const std::bad_alloc*>(&error) == nullptr) return error.what();
  return "there is too little memory for what a GPU begins with: give gpu_memory 16 MiB or more, "
         "and gpu_values and gpu_items no more than it has";
}

}  // namespace

EngineState::EngineState(const Options& options, const Clock& its_clock,
                         const SortedTierMaker& sorted)
    : clock(its_clock),
      store(checked(options), options.hash_seed ? *options.hash_seed : draw_seed()) {
  if (!options.tree.empty()) {
    make_tree([&](uint64_t cap) {
      const uint64_t cache_bytes =
          cap == 0 ? 64 << 20 : share_of(cap, 8, 256 << 10, uint64_t{1} << 30);
      const std::function<int64_t()> now_ms = [this] { return clock.now_ms(); };
      std::unique_ptr<TreeFiles> files =
          open_tree_files(options.tree, options.tree_options, cache_bytes, now_ms);
      if (options.gpu_sorted == 0) return files;
      const SortedTierMaker& make = sorted ? sorted : cuda_sorted_tier_maker(options.gpus.front());
      return std::unique_ptr<TreeFiles>(
          std::make_unique<SortedFiles>(std::move(files), make, options.gpu_sorted, now_ms));
    });
  }
  if (options.router.choice != RouterChoice::off) make_router();
  store.changes_in_place = tree == nullptr && hot == nullptr && options.index == IndexChoice::line;
}

void EngineState::make_router() {
  const Options& options = store.options;
  const auto index_of = [this](uint32_t database) { return store.databases[database].index(); };
  hot = std::make_unique<HotSide>(options.router, index_of, options.databases, store.epochs,
                                  store.budget);
  store.hot = hot.get();
}

// Runs, of which there may be seven, filters and caches take about half of the cap at most, and
// leaves, where ranges are read, a quarter.
void EngineState::make_tree(const std::function<std::unique_ptr<TreeFiles>(uint64_t cap)>& open) {
  const uint64_t cap =
      store.options.maxmemory - (store.options.maxmemory != 0 ? store.options.gpu_items_host : 0);
  std::unique_ptr<TreeFiles> files = open(cap);
  if (files->lasts()) check_databases(*files, store.options.databases);
  TreeOptions its;
  its.run_bytes = share_of(cap, 20, 64 << 10, files->lasts() ? 512 << 20 : 64 << 20);
  its.most_loaded = share_of(cap, 32, 64 << 10, 16 << 20);
  its.hash_seed = store.seed;
  its.count = [this](int64_t bytes) { store.budget.buffers.fetch_add(bytes); };
  const bool sorted = files->sorted_copy().there;
  if (!files->lasts()) {  // a device answers many keys as soon as few
    its.readers = 2;
    its.read_at_once = 4096;
    its.seals_idle = true;
  }
  if (!files->lasts() || sorted) {
    its.most_direct = share_of(cap, 8, 256 << 10, 256 << 20);
    its.stripes = static_cast<uint32_t>(
        std::bit_floor(share_of(cap, 256, uint64_t{1} << 16, uint64_t{1} << 20)));
  }
  if (sorted) {
    its.read_at_once = 512;
    its.most_ranges = share_of(cap, 8, 256 << 10, 256 << 20);
  }
  tree = std::make_unique<Tree>(std::move(files), its);
  store.sink = tree.get();
  store.demotion = tree.get();
  store.backing = tree.get();
  store.changes_in_place = false;
  store.set_policy(store.options.maxmemory_policy);
  for (Database& database : store.databases) database.begin_versions(tree->last_version());
}

void EngineState::use_items(const ItemTierMaker& make_items, bool required) {
  const Options& options = store.options;
  try {
    make_tree([&](uint64_t cap) {
      DeviceFilesOptions its;
      its.evicts = options.maxmemory_policy != EvictionPolicy::noeviction;
      its.most_rest = [this, slabs = options.gpu_items_host] {
        const uint64_t now = store.budget.limit();
        return now == 0 ? 0 : share_of(now - std::min(now, slabs), 8, 64 << 10, now);
      };
      its.most_kept = share_of(cap, 32, 64 << 10, 64 << 20);
      its.read_columns = share_of(cap, 64, 64 << 10, 4 << 20);
      its.now_ms = [this] { return clock.now_ms(); };
      auto tier = make_items({options.gpu_items, its.evicts, draw_seed(), options.gpu_items_host});
      return std::make_unique<DeviceFiles>(std::move(tier), std::move(its));
    });
    // In full from the start, since the cache could not make room for a slab in time.
    store.budget.buffers.fetch_add(static_cast<int64_t>(options.gpu_items_host));
  } catch (const std::invalid_argument&) {
    throw;
  } catch (const std::exception& error) {
    if (required) throw std::runtime_error(why_no_device(error));
    device_problem = why_no_device(error);
  }
}

// First of all: the thread of write_delay may still be telling the crew of a batch that has ended.
EngineState::~EngineState() { write_delay.reset(); }

void EngineState::use_device(const RootTiersMaker& make_index, bool required,
                             WaitClock* round_clock) {
  try {
    const RoundOptions& rounds = store.options.rounds;
    WaitClock& wait_clock = round_clock != nullptr ? *round_clock : steady_clock;
    device =
        std::make_unique<DeviceExecutor>(store, make_index, make_round_policy(rounds), wait_clock);
    store.changes_in_place = false;
    if (rounds.write_cycles > 1) {
      write_delay = std::make_unique<WriteDelay>(make_round_policy(rounds), wait_clock);
    }
  } catch (const std::exception& error) {
    if (required) throw std::runtime_error(why_no_device(error));
    device.reset();
    device_problem = why_no_device(error);
  }
}

void EngineState::add_executor(const HostExecutor& executor) {
  const std::lock_guard guard(executors_mutex_);
  executors_.push_back(&executor);
}

void EngineState::remove_executor(const HostExecutor& executor) {
  const std::lock_guard guard(executors_mutex_);
  std::erase(executors_, &executor);
  add_counters(ended_, executor.counters());
  isotherm::add_gone(ended_gone_, executor.counters());
}

EngineStats EngineState::counted() const {
  const std::lock_guard guard(executors_mutex_);
  EngineStats sum = ended_;
  for (const HostExecutor* executor : executors_) add_counters(sum, executor->counters());
  return sum;
}

void EngineState::add_gone(std::span<ItemClassStats> classes) const {
  const std::lock_guard guard(executors_mutex_);
  for (const HostExecutor* executor : executors_) {
    isotherm::add_gone(classes, executor->counters());
  }
  for (size_t number = 0; number < ended_gone_.size(); ++number) {
    classes[number].expired += ended_gone_[number].expired;
    classes[number].evicted += ended_gone_[number].evicted;
    classes[number].volatile_evicted += ended_gone_[number].volatile_evicted;
  }
}

Crew* EngineState::make_crew() {
  if (!on_device()) return nullptr;
  if (Crew* const made = crew_if_made()) return made;
  const std::lock_guard guard(crew_mutex_);
  if (crew_ == nullptr && !crew_failed_) {
    try {
      crew_ = std::make_unique<Crew>(*this);
      crew_in_use_.store(crew_.get(), std::memory_order_release);
    } catch (const std::exception&) {
      crew_failed_ = true;
    }
  }
  return crew_.get();
}

Engine::Engine(const Options& options, const Clock& clock)
    : state_(std::make_unique<EngineState>(options, clock)) {
  if (options.device == DeviceChoice::cpu) {
    if (options.gpu_values == 0) return;
    throw std::invalid_argument("gpu_values: needs device cuda or auto");
  }
  const bool required = options.device == DeviceChoice::cuda;
  if (options.gpu_items != 0) {
    state_->use_items(cuda_item_tier_maker(options.gpus), required);
  } else {
    state_->use_device(cuda_root_tiers_maker(options.gpus, options.gpu_memory), required);
  }
}

Engine::Engine(const Options& options, const Clock& clock, const SortedTierMaker& make_sorted)
    : state_(std::make_unique<EngineState>(options, clock, make_sorted)) {}

Engine::Engine(const Options& options, const Clock& clock, const ItemTierMaker& make_items)
    : state_(std::make_unique<EngineState>(options, clock)) {
  state_->use_items(make_items, true);
}

Engine::Engine(const Options& options, const Clock& clock, const RootTiersMaker& make_index,
               WaitClock* round_clock)
    : state_(std::make_unique<EngineState>(options, clock)) {
  if (state_->hot != nullptr || options.index != IndexChoice::line) {
    throw std::invalid_argument("a router, or an index of a fixed size, needs the host");
  }
  state_->use_device(make_index, true, round_clock);
}

Engine::~Engine() = default;

const Options& Engine::options() const { return state_->store.options; }
const Clock& Engine::clock() const { return state_->clock; }
const std::string& Engine::device_problem() const { return state_->device_problem; }

std::vector<ItemClassStats> Engine::item_classes() const {
  std::vector<ItemClassStats> classes;
  uint32_t number = 0;
  for (const ClassUse& use : state_->store.items.class_uses()) {
    classes.push_back(
        {size_classes::bytes_of(number), size_classes::capacity_of(number), use.chunks, use.items});
    ++number;
  }
  classes.push_back({.items = state_->store.items.memory().large_count});
  state_->add_gone(classes);
  return classes;
}
uint64_t Engine::large_item_bytes() const { return state_->store.items.large_bytes(); }

uint64_t Engine::used_memory() const { return state_->store.budget.used(); }
uint64_t Engine::maxmemory() const { return state_->store.budget.limit(); }
void Engine::set_maxmemory(uint64_t bytes) { state_->store.budget.set_limit(bytes); }
EvictionPolicy Engine::policy() const { return state_->store.policy; }
void Engine::set_policy(EvictionPolicy policy) { state_->store.set_policy(policy); }
void Engine::set_max_value_bytes(uint64_t bytes) {
  state_->store.max_value_bytes = std::min(bytes, longest_value);
}

void Engine::set_row_gate(RowGate* gate) { state_->store.row_gate = gate; }
// A tree stays the first to be told.
void Engine::set_commit_sink(CommitSink* sink) {
  if (state_->tree != nullptr) return state_->tree->pass_on_to(sink);
  state_->store.sink = sink;
}
Tree* Engine::tree() const { return state_->tree.get(); }
void Engine::hurry_writes() {
  if (state_->write_delay != nullptr) state_->write_delay->hurry();
}
void Engine::log_to(const std::function<void(const std::string& line)>& to) {
  if (state_->tree != nullptr) state_->tree->events().listen(to);
  if (state_->device != nullptr) state_->device->events().listen(to);
}
void Engine::set_demotion_hook(DemotionHook* hook) { state_->store.demotion = hook; }
void Engine::begin_versions(uint64_t version) {
  for (Database& database : state_->store.databases) database.begin_versions(version);
}
void Engine::expect_keys(const std::map<uint32_t, uint64_t>& keys) {
  if (state_->device == nullptr) state_->store.make_indexes(keys);
}
bool Engine::has_commit_sink() const { return state_->store.sink != nullptr; }

void Engine::add_sink_bytes(int64_t bytes) { state_->store.budget.buffers.fetch_add(bytes); }
void Engine::lend_memory(int64_t bytes) { state_->store.budget.lent.fetch_add(bytes); }

void Engine::add_buffer_bytes(int64_t bytes) {
  state_->store.budget.clients.fetch_add(bytes, std::memory_order_relaxed);
}

uint64_t Engine::client_bytes() const {
  const int64_t bytes = state_->store.budget.clients.load(std::memory_order_relaxed);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

// A value that was fetched from a device does not lie in its item, so it cannot be kept.
uint64_t Engine::keep(const Reply& reply) {
  ItemStore& items = state_->store.items;
  if (location::kind(reply.location) != location::Kind::large) return 0;
  if (reply.data != items.item(reply.location)->value_data()) return 0;
  return ItemStore::keep(reply.location) ? reply.location : 0;
}

// Values on their way cannot be evicted, so together they may take half the cap at most; a single
// one may take more.
std::unique_ptr<ArrivingItem> Engine::arriving(uint64_t key_bytes, uint64_t value_bytes) {
  HostStore& store = state_->store;
  const uint64_t limit = store.budget.limit();
  const uint64_t announced = store.items.large_items().announced().load();
  const uint64_t bytes = ArrivingItem::value_offset(key_bytes) + value_bytes;
  const bool evicts = store.makes_room();
  const bool hopeless = evicts ? bytes > store.largest_item() : !store.budget.fits(bytes);
  if (limit != 0 && announced != 0 && !hopeless) {
    if (evicts ? announced + bytes > limit / 2 : !store.budget.fits(announced + bytes)) {
      return nullptr;
    }
  }
  auto item = std::make_unique<ArrivingItem>(store.items, key_bytes, value_bytes, hopeless);
  // What was evicted for others is still in memory, and would count twice.
  constexpr uint64_t least_given_back = 4 << 20;
  if (bytes >= least_given_back && store.budget.room() < bytes) item->give_back_pages();
  return item;
}

Engine::Arrivals Engine::arrivals() const {
  LargeItems& large = state_->store.items.large_items();
  return {large.announced().load(std::memory_order_relaxed), large.came(),
          state_->store.budget.room()};
}

void Engine::let_go(uint64_t kept) { state_->store.items.let_go(kept); }

EngineStats Engine::stats() const {
  EngineStats stats = state_->counted();
  const HostStore& store = state_->store;
  const auto positive = [](int64_t bytes) { return bytes > 0 ? static_cast<uint64_t>(bytes) : 0; };
  stats.used_memory = store.budget.used();
  stats.item_bytes = positive(store.budget.items.load(std::memory_order_relaxed));
  stats.index_bytes = positive(store.budget.index.load(std::memory_order_relaxed));
  stats.buffer_bytes = positive(store.budget.buffers.load(std::memory_order_relaxed) +
                                store.budget.clients.load(std::memory_order_relaxed));
  stats.ahead_bytes = positive(store.budget.ahead.load(std::memory_order_relaxed));
  stats.retired_bytes = store.items.retired_bytes();
  stats.retried = state_->retried.load(std::memory_order_relaxed);
  for (const Database& database : store.databases) {
    stats.splits += database.splits();
    stats.joins += database.joins();
    const Database::CacheUse use = database.cache_use();
    stats.index_room += use.room;
    stats.index_displaced += use.displaced;
  }
  if (state_->hot != nullptr) stats.hot = state_->hot->stats();
  stats.on_device = state_->on_device();
  if (stats.on_device) stats.root_table = state_->device->stats();
  if (state_->device) {
    stats.takeover_us = state_->device->takeover_us();
    stats.memory_nodes = state_->device->memory_nodes();
    stats.round_options = completed(state_->store.options.rounds);
    stats.rounds = state_->device->round_stats();
    stats.values = state_->device->value_stats();
    if (const Crew* crew = state_->crew_if_made()) {
      stats.queue_full = crew->refused();
      if (crew->quick() != nullptr) stats.quick_batches = crew->quick()->batches();
    }
  }
  return stats;
}

KeyCount Engine::begin_count(uint32_t number) const {
  return isotherm::begin_count(*state_, number);
}

DatabaseStats Engine::database(uint32_t number) const {
  const Database& database = state_->store.databases.at(number);
  const int64_t expires = database.expires.load(std::memory_order_relaxed);
  return {database.count(), expires > 0 ? static_cast<uint64_t>(expires) : 0};
}

}  // namespace isotherm
