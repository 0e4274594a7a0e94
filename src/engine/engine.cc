#include "engine/engine.h"

#include <algorithm>
#include <mutex>
#include <stdexcept>
#include <utility>
#include <vector>

#include "base/seed.h"
#include "device/batch_bytes.h"
#include "device/cuda_root_table.h"
#include "device/device_executor.h"
#include "device/gpu/device_error.h"
#include "device/host_executor.h"
#include "device/host_store.h"
#include "device/host_upkeep.h"
#include "index/item_table.h"
#include "items/arriving_item.h"

namespace isotherm {
namespace {

constexpr uint32_t max_databases = 16'384;
constexpr uint64_t longest_value = (uint64_t{1} << 32) - 1;
constexpr uint64_t least_value_to_send = 64;
constexpr uint64_t least_memory_for_values = 256 << 10;

const Options& checked(const Options& options) {
  if (options.databases == 0 || options.databases > max_databases) {
    throw std::invalid_argument("databases must be from 1 to 16384");
  }
  if (options.max_value_bytes > longest_value) {
    throw std::invalid_argument("max_value_bytes must be below 4 GiB");
  }
  if (options.gpu_values_from < least_value_to_send) {
    throw std::invalid_argument("gpu_values_from must be at least 64");
  }
  if (options.gpu_values != 0 && options.gpu_values < least_memory_for_values) {
    throw std::invalid_argument("gpu_values must be 0 or at least 256 KiB");
  }
  static_cast<void>(RoundSchedule(options.rounds));
  return options;
}

}  // namespace

class EngineState {
 public:
  EngineState(const Options& options, const Clock& its_clock)
      : clock(its_clock),
        store(checked(options), options.hash_seed ? *options.hash_seed : draw_seed()) {}

  // Puts the index on a device; `required`: an error where that fails.
  void use_device(const RootTiersMaker& make_index, bool required,
                  WaitClock* round_clock = nullptr) {
    try {
      device = std::make_unique<DeviceExecutor>(store, make_index, round_clock);
    } catch (const std::exception& error) {
      if (required) throw std::runtime_error(error.what());
      device_problem = error.what();
    }
  }
  bool on_device() const { return device && device->active(); }

  const Clock& clock;
  HostStore store;
  std::unique_ptr<DeviceExecutor> device;  // or null
  std::string device_problem;

  // Executors of all workers, for the sum of their counters; those of ended workers are added up.
  mutable std::mutex workers_mutex;
  std::vector<const HostExecutor*> workers;
  EngineStats ended;
};

namespace {

void add_counters(EngineStats& stats, const HostExecutor::Counters& counters) {
  stats.batches += counters.batches.get();
  stats.requests += counters.requests.get();
  stats.hits += counters.hits.get();
  stats.misses += counters.misses.get();
  stats.evicted += counters.evicted.get();
  stats.expired += counters.expired.get();
  stats.retries += counters.retries.get();
}

}  // namespace

Engine::Engine(const Options& options, const Clock& clock)
    : state_(std::make_unique<EngineState>(options, clock)) {
  if (options.device == DeviceChoice::cpu) return;
  state_->use_device(cuda_root_tiers_maker(options.gpus, options.gpu_memory),
                     options.device == DeviceChoice::cuda);
}

Engine::Engine(const Options& options, const Clock& clock, const RootTiersMaker& make_index,
               WaitClock* round_clock)
    : state_(std::make_unique<EngineState>(options, clock)) {
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
  return classes;
}
uint64_t Engine::large_item_bytes() const { return state_->store.items.large_bytes(); }

uint64_t Engine::maxmemory() const { return state_->store.budget.limit(); }
void Engine::set_maxmemory(uint64_t bytes) { state_->store.budget.set_limit(bytes); }
EvictionPolicy Engine::policy() const { return state_->store.policy; }
void Engine::set_policy(EvictionPolicy policy) { state_->store.set_policy(policy); }
void Engine::set_max_value_bytes(uint64_t bytes) {
  state_->store.max_value_bytes = std::min(bytes, longest_value);
}

void Engine::add_buffer_bytes(int64_t bytes) {
  state_->store.budget.clients.fetch_add(bytes, std::memory_order_relaxed);
}

uint64_t Engine::client_bytes() const {
  const int64_t bytes = state_->store.budget.clients.load(std::memory_order_relaxed);
  return bytes > 0 ? static_cast<uint64_t>(bytes) : 0;
}

// A value that was fetched from a device is not where its item is.
uint64_t Engine::keep(const Reply& reply) {
  ItemStore& items = state_->store.items;
  if (location::kind(reply.location) != location::Kind::large) return 0;
  if (reply.data != items.item(reply.location)->value_data()) return 0;
  return ItemStore::keep(reply.location) ? reply.location : 0;
}

// Values on their way cannot be evicted, so but for one alone they may take half the cap.
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
  return std::make_unique<ArrivingItem>(store.items, key_bytes, value_bytes, hopeless);
}

void Engine::let_go(uint64_t kept) { state_->store.items.let_go(kept); }

EngineStats Engine::stats() const {
  std::lock_guard guard(state_->workers_mutex);
  EngineStats stats = state_->ended;
  for (const HostExecutor* executor : state_->workers) {
    add_counters(stats, executor->counters());
  }
  const HostStore& store = state_->store;
  const auto positive = [](int64_t bytes) { return bytes > 0 ? static_cast<uint64_t>(bytes) : 0; };
  stats.used_memory = store.budget.used();
  stats.item_bytes = positive(store.budget.items.load(std::memory_order_relaxed));
  stats.index_bytes = positive(store.budget.index.load(std::memory_order_relaxed));
  stats.buffer_bytes = positive(store.budget.buffers.load(std::memory_order_relaxed) +
                                store.budget.clients.load(std::memory_order_relaxed));
  stats.ahead_bytes = positive(store.budget.ahead.load(std::memory_order_relaxed));
  stats.retired_bytes = store.items.retired_bytes();
  for (const Database& database : store.databases) {
    stats.splits += database.splits();
    stats.joins += database.joins();
  }
  stats.on_device = state_->on_device();
  if (stats.on_device) stats.root_table = state_->device->stats();
  if (state_->device) {
    stats.takeover_us = state_->device->takeover_us();
    stats.memory_nodes = state_->device->memory_nodes();
    stats.round_options = state_->device->schedule().options();
    stats.rounds = state_->device->round_stats();
    stats.values = state_->device->value_stats();
  }
  return stats;
}

DatabaseStats Engine::database(uint32_t number) const {
  const Database& database = state_->store.databases.at(number);
  const int64_t expires = database.expires.load(std::memory_order_relaxed);
  return {database.count(), expires > 0 ? static_cast<uint64_t>(expires) : 0};
}

struct Worker::Impl final : Batch::Hold {
  explicit Impl(EngineState& state)
      : engine(state),
        slot(*take_slot(state.store.epochs)),
        executor(state.store),
        member(executor),
        reader(make_reader()),
        upkeep(executor, slot, state.device.get(), &member, reader.get()) {}

  static EpochDomain::Slot* take_slot(EpochDomain& epochs) {
    EpochDomain::Slot* slot = epochs.acquire();
    if (slot == nullptr) throw std::runtime_error("too many workers: at most 256");
    return slot;
  }

  // Null where no values lie on devices, or with a device that fails. Throws std::bad_alloc.
  std::unique_ptr<ValueReader> make_reader() {
    EpochDomain& epochs = engine.store.epochs;
    if (engine.store.values == nullptr || engine.store.values->lost()) return nullptr;
    try {
      return std::make_unique<ValueReader>(*engine.store.values, engine.store.budget);
    } catch (const DeviceError&) {
      const EpochGuard guard(epochs, slot);
      engine.device->fail();
      return nullptr;
    } catch (...) {
      epochs.release(&slot);
      throw;
    }
  }

  void release(Batch& /*batch*/) override {
    if (--held != 0) return;
    engine.store.epochs.leave(slot);
    if (reader) reader->clear();
  }

  bool valid(const Batch& batch) const;
  void run(Batch& batch, int64_t now_ms, bool writable);
  void run_rows(Batch& batch, int64_t now_ms, bool writable, Batch::Row first, Batch::Row end);
  void flush(uint32_t first, uint32_t end);
  bool make_room(const Batch& batch, int64_t now_ms);
  void tell_passing(uint64_t replaced);
  void flush_index(uint32_t database);
  void lock_exclusive();
  void unlock_exclusive();

  EngineState& engine;
  EpochDomain::Slot& slot;
  HostExecutor executor;
  DeviceExecutor::Member member;  // of rounds, where there is a device
  std::unique_ptr<ValueReader> reader;
  HostUpkeep upkeep;
  uint32_t held = 0;    // batches done and not cleared; the epoch is held while there are any
  uint64_t writes = 0;  // rows that may write, since the last step of upkeep
  int64_t passing = 0;  // bytes that it told of as such (items/memory_budget.h)
};

bool Worker::Impl::valid(const Batch& batch) const {
  const Batch::Columns& columns = batch.columns();
  const uint32_t databases = engine.store.options.databases;
  return std::all_of(columns.database, columns.database + batch.size(),
                     [&](uint32_t database) { return database < databases; });
}

// What a device that is lost on the way leaves is run on the host.
void Worker::Impl::run_rows(Batch& batch, int64_t now_ms, bool writable, Batch::Row first,
                            Batch::Row end) {
  if (engine.on_device()) {
    first = engine.device->run(member, reader.get(), batch, now_ms, writable, first, end);
  }
  if (first != end) executor.run(batch, now_ms, writable, first, end);
}

// Rows up to each guard, and the rest.
void Worker::Impl::run(Batch& batch, int64_t now_ms, bool writable) {
  Batch::Row done = 0;
  for (const Batch::Guard& guard : batch.guards()) {
    run_rows(batch, now_ms, writable, done, guard.row);
    guard.check(batch, guard.row, guard.context);
    done = guard.row;
  }
  run_rows(batch, now_ms, writable, done, batch.size());
  executor.counters().batches.add(1);
}

// The gate, which opens when all others have left: none of them is to wait for more work meanwhile.
void Worker::Impl::lock_exclusive() {
  if (engine.device) engine.device->hurry();
  engine.store.epochs.lock_exclusive(slot);
}

void Worker::Impl::unlock_exclusive() {
  engine.store.epochs.unlock_exclusive();
  if (engine.device) engine.device->calm();
}

bool Worker::Impl::make_room(const Batch& batch, int64_t now_ms) {
  if (engine.store.budget.limit() == 0 || !batch.writes()) return true;
  const BatchBytes needed = bytes_to_store(engine.store, slot, batch);
  tell_passing(needed.replaced);
  return needed.at_once == 0 || upkeep.make_room(needed, now_ms);
}

// Few bytes are not worth the account.
void Worker::Impl::tell_passing(uint64_t replaced) {
  constexpr uint64_t worth_telling = 64 << 10;
  const auto bytes = static_cast<int64_t>(replaced < worth_telling ? 0 : replaced);
  if (bytes == passing) return;
  engine.store.budget.passing.fetch_add(bytes - passing, std::memory_order_relaxed);
  passing = bytes;
}

Worker::Worker(Engine& engine) : impl_(std::make_unique<Impl>(*engine.state_)) {
  std::lock_guard guard(impl_->engine.workers_mutex);
  impl_->engine.workers.push_back(&impl_->executor);
}

Worker::~Worker() {
  EngineState& engine = impl_->engine;
  EpochDomain::Slot& slot = impl_->slot;
  {
    std::lock_guard guard(engine.workers_mutex);
    std::erase(engine.workers, &impl_->executor);
    add_counters(engine.ended, impl_->executor.counters());
  }
  impl_->tell_passing(0);
  impl_.reset();
  engine.store.epochs.release(&slot);
}

namespace {

void refuse_all(Batch& batch) {
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    batch.columns().reply[row].status.store(Status::invalid, std::memory_order_release);
  }
  batch.finish();
}

}  // namespace

void Worker::submit(Batch& batch) { submit(batch, impl_->engine.clock.now_ms()); }

void Worker::submit(Batch& batch, int64_t now_ms) {
  Impl& impl = *impl_;
  EpochDomain& epochs = impl.engine.store.epochs;
  // A worker that holds replies and waits for the gate could wait for itself.
  if (!impl.valid(batch) || (batch.exclusive() && impl.held != 0)) return refuse_all(batch);
  const bool writable = impl.held != 0 || impl.make_room(batch, now_ms);
  if (batch.exclusive()) {
    impl.lock_exclusive();
  } else if (impl.held == 0) {
    epochs.enter(impl.slot);
  }
  impl.run(batch, now_ms, writable);
  if (batch.exclusive()) impl.unlock_exclusive();
  ++impl.held;
  if (batch.writes()) impl.writes += batch.size();
  batch.hold(&impl);
  batch.finish();
}

void Worker::uncount_reads(const Batch& batch, Batch::Row first, Batch::Row end) {
  impl_->executor.uncount_reads(batch, first, end);
}

uint64_t Worker::copied_bytes() const {
  return impl_->engine.store.copied.load(std::memory_order_relaxed);
}

bool Worker::maintain() { return maintain(impl_->engine.clock.now_ms()); }

bool Worker::maintain(int64_t now_ms) {
  impl_->tell_passing(0);
  if (impl_->held != 0) return false;
  return impl_->upkeep.step(std::exchange(impl_->writes, 0), now_ms);
}

uint64_t Worker::count(uint32_t database) {
  const EpochGuard guard(impl_->engine.store.epochs, impl_->slot);
  return impl_->engine.store.databases.at(database).count();
}

void Worker::Impl::flush_index(uint32_t database) {
  std::unique_ptr<LineIndex> index = engine.store.databases.at(database).detach();
  if (index == nullptr) return;
  std::lock_guard guard(engine.store.flushed_mutex);
  engine.store.flushed.push_back(std::move(index));
  engine.store.any_flushed.store(true, std::memory_order_relaxed);
}

// The databases from `first` to before `end`, alone.
void Worker::Impl::flush(uint32_t first, uint32_t end) {
  lock_exclusive();
  for (uint32_t database = first; database < end; ++database) {
    if (engine.on_device()) engine.device->flush(member, database, engine.clock.now_ms());
    if (!engine.on_device()) flush_index(database);
  }
  unlock_exclusive();
  engine.store.epochs.leave(slot);
}

void Worker::flush(uint32_t database) { impl_->flush(database, database + 1); }

void Worker::flush_all() { impl_->flush(0, impl_->engine.store.options.databases); }

uint64_t Worker::scan(uint32_t database, uint64_t cursor, uint64_t count,
                      const std::function<void(const ScanItem&)>& visit) {
  HostStore& store = impl_->engine.store;
  const EpochGuard guard(store.epochs, impl_->slot);
  const int64_t now_ms = impl_->engine.clock.now_ms();
  // Empty lines cost a step too, so a sparse index does not make one call long.
  constexpr uint64_t lines_per_item = 8;
  count = std::max<uint64_t>(count, 1);
  uint64_t visited = 0;
  const auto show = [&](Location location) {
    const Item* item = store.items.item(location);
    if (item->expired(now_ms) || item->database() != database) return;
    const bool large = location::kind(location) == location::Kind::large;
    visit({item->key(), item->type(), item->value_bytes(), item->expiry(),
           large ? size_classes::count : location::size_class(location)});
    ++visited;
  };
  const auto show_members = [&](uint64_t root) { for_each_member(store.items, root, show); };
  // A cursor is the bound to go on from; on a device, whose order is another, with the lowest bit,
  // which no bound has. A walk that was begun in the other order begins anew.
  constexpr uint64_t device_bit = 1;
  const bool began_on_device = (cursor & device_bit) != 0;
  const bool on_device = impl_->engine.on_device();
  uint64_t bound = began_on_device == on_device ? cursor & ~device_bit : 0;
  if (on_device) {
    constexpr uint64_t most_wanted = 1 << 12;  // each step takes a turn among the batches
    for (uint64_t before = visited + 1; before != visited;) {
      before = visited;
      const uint64_t wanted = std::min(count - visited, most_wanted);
      if (!impl_->engine.device->scan(bound, wanted, show_members, bound)) break;
      if (bound == 0 || visited >= count) return bound == 0 ? 0 : bound | device_bit;
    }
    if (impl_->engine.on_device()) return bound | device_bit;
    bound = 0;
  }
  const LineIndex* index = store.databases[database].index();
  if (index == nullptr) return 0;
  for (uint64_t lines = 0; visited < count && lines / lines_per_item < count; ++lines) {
    bound = index->scan(bound, [&](uint64_t /*hash*/, uint64_t root) { show_members(root); });
    if (bound == 0) break;
  }
  return bound;
}

}  // namespace isotherm
