#include "executor/upkeep/host_upkeep.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <limits>
#include <new>
#include <thread>
#include <utility>

#include "base/wait_for_memory.h"
#include "executor/upkeep/standstill.h"
#include "gpu/platform/device_error.h"
#include "index/item_table.h"
#include "items/compactor.h"

namespace isotherm {
namespace {

// Bounds of one step.
constexpr size_t databases_per_step = 64;
constexpr uint32_t items_per_sweep = 256;
constexpr uint32_t sweeps_per_step = 8;
// Behind more rows that may write a step does more: of all that a row leaves behind, expired items
// or entries of flushed indexes, it finds 2 to 4, so that there never is much of it.
constexpr uint64_t writes_per_sweep = 64;
constexpr uint64_t writes_per_drain = 256;
// How long a batch waits for room while there comes none, though readers hold some back. It then
// overshoots the cap, as far as the budget lets it; where that is not far enough, it waits longer
// before its writes are refused.
constexpr std::chrono::milliseconds longest_standstill{100};
constexpr std::chrono::milliseconds longest_before_refusal{2000};
// Searches for values to send that found none, of some thousand items each.
constexpr uint32_t most_vain_sends = 16;
constexpr uint32_t samples = 16;  // of which volatile-ttl evicts the one that expires first
constexpr uint32_t lines_per_drain = 256;
constexpr uint32_t most_drains = 64;
constexpr size_t most_drained_at_once = 16;

// Room kept free ahead of need: 1% of the cap, within these.
constexpr int64_t least_reserve = 128 << 10;
constexpr int64_t most_reserve = 32 << 20;

int64_t reserve_of(uint64_t limit) {
  return std::clamp(static_cast<int64_t>(limit / 100), least_reserve, most_reserve);
}

}  // namespace

int64_t HostUpkeep::room() const {
  const ItemMemory memory = store_.items.memory();
  const auto room =
      static_cast<int64_t>(store_.budget.limit() + memory.free + memory.stock + memory.retired) -
      static_cast<int64_t>(store_.budget.claimed());
  if (!over_cap()) return room;
  // Over the cap the free items are not where they are needed. Those that compaction leaves alone,
  // and some more, are no room then, so eviction goes on until compaction has something to give
  // back.
  return room - static_cast<int64_t>(Compactor::tolerated_at_cap(memory.chunks) * 4 / 3);
}

bool HostUpkeep::over_cap() const { return store_.budget.limit() != 0 && !store_.budget.fits(0); }

bool HostUpkeep::evictable() const {
  if (!store_.evicts) return false;
  const int64_t buffers = store_.budget.buffers.load();
  // A store with a backing loses nothing by eviction, and its buffers shrink as files are written.
  if (store_.backing == nullptr && buffers >= static_cast<int64_t>(store_.budget.limit()))
    return false;
  if (store_.backing != nullptr || store_.any_flushed.load(std::memory_order_relaxed)) return true;
  return std::any_of(
      store_.databases.begin(), store_.databases.end(), [&](const Database& database) {
        return store_.evicts_any ? database.used()
                                 : database.expires.load(std::memory_order_relaxed) > 0;
      });
}

// Without any, what is missing comes from others: a step that is repeated at once would not help.
bool HostUpkeep::has_keys() const {
  return std::any_of(store_.databases.begin(), store_.databases.end(),
                     [](const Database& database) { return database.count() > 0; });
}

// Also what it takes for a moment must be there, and writers do not run far ahead of the compactor:
// beyond the cap there is little but chunks that any class can have.
bool HostUpkeep::has_room(const BatchBytes& needed) const {
  const MemoryBudget& budget = store_.budget;
  // What the items have within, which takes locks to tell, is mostly not needed.
  if (budget.fits(needed.lasting)) return budget.would_admit(needed.at_once);
  const auto most = budget.limit() + static_cast<uint64_t>(reserve_of(budget.limit()));
  return room() >= static_cast<int64_t>(needed.lasting) && budget.would_admit(needed.at_once) &&
         budget.claimed() <= most + store_.items.stock_bytes();
}

// Whether the batch, which has been admitted, would take memory beyond the cap that comes by itself
// within it, from readers, or from other batches, which may have taken what they were admitted for.
bool HostUpkeep::outruns_readers(const BatchBytes& needed) const {
  if (needed.alone + needed.in_place == 0) return false;
  const uint64_t admitted = store_.budget.admitted();
  if (store_.budget.fits_near(admitted)) return false;
  const bool beside_others = needed.alone != 0 && admitted > needed.at_once;
  return beside_others || store_.items.retired_alone() != 0;
}

bool HostUpkeep::make_room(const BatchBytes& needed, int64_t now_ms, int64_t& admitted) {
  // A reader that was waited for in vain is not waited for again.
  bool near = true;
  bool outruns = false;
  const auto admits = [&] {
    outruns = false;
    if (!has_room(needed) || !store_.budget.admit(needed.at_once, admitted)) return false;
    outruns = near && outruns_readers(needed);
    if (outruns) near = outruns = store_.epochs.advance() != store_.vain_epoch.load();
    if (outruns) store_.budget.dismiss(admitted);
    return !outruns;
  };
  if (!store_.makes_room() || admits()) return true;
  // Where nothing is evicted, what runs over the cap beside others stays there. Those that were
  // admitted may have no core, and what they were admitted for they take all the same.
  if (!evictable() && !sends_values()) {
    Standstill others;
    const auto longest = [this] {
      return store_.budget.admitted() != 0 ? longest_before_refusal : longest_standstill;
    };
    while (outruns && !others.lasts(0, true, longest())) {
      executor_.cache().reclaim_all();
      if (admits()) return true;
    }
    near = false;
    return admits() || !store_.evicts;
  }
  // A worker that waits gives back all memory that could be used again, as soon as it could.
  executor_.cache().reclaim_all();
  std::unique_lock alone(store_.making_room, std::try_to_lock);
  const auto lasting = static_cast<int64_t>(needed.lasting);
  while (!alone.owns_lock()) {
    if (!help_evict(lasting, now_ms)) std::this_thread::sleep_for(Standstill::between_looks);
    executor_.cache().reclaim_all();
    if (admits()) return true;
    static_cast<void>(alone.try_lock());
  }
  const auto height = [this] { return room() - static_cast<int64_t>(store_.budget.claimed()); };
  Standstill standstill;
  // What snapshots hold of a backing's changes may be more than the cap, for long.
  const bool known = store_.backing != nullptr && store_.budget.would_admit(needed.at_once);
  if (known && height() <= vain_height_) standstill.was_given_up_at(height());
  vain_height_ = no_height;
  Standstill readers;
  Standstill all_readers;
  // Memory that readers still hold becomes free by itself, unless that takes too long.
  bool waits = true;
  while (!admits() && (evictable() || (sends_values() && store_.values->helps()))) {
    executor_.cache().reclaim_all();
    if (store_.any_flushed.load(std::memory_order_relaxed)) drain();
    if (over_cap()) compact(now_ms);
    const uint64_t coming = waits ? store_.items.retired_bytes() : 0;
    const uint64_t over =
        needed.at_once - std::min(needed.at_once, store_.budget.room_over() + coming);
    store_.items.wait_for_clock();
    evict_to(std::max(lasting, room() + static_cast<int64_t>(over)), sweeps_per_step, now_ms);
    // The index of what was evicted may be all that is over the cap.
    if (grow(std::exchange(erased_, 0))) continue;
    if (outruns) {
      const auto oldest = static_cast<int64_t>(store_.epochs.advance());
      near = !readers.lasts(oldest, true, longest_standstill) &&
             !all_readers.lasts(0, true, longest_before_refusal);
      if (!near) store_.vain_epoch.store(static_cast<uint64_t>(oldest));
      continue;
    }
    const bool held_back = waits && store_.items.retired_bytes() != 0;
    const bool may_go_over = store_.budget.would_admit(needed.at_once);
    if (!standstill.lasts(height(), held_back,
                          may_go_over ? longest_standstill : longest_before_refusal)) {
      continue;
    }
    if (std::exchange(waits, false)) continue;
    vain_height_ = height();
    break;
  }
  // Where nothing can be evicted writes may run over the cap only as long as sending helps.
  const bool vain = store_.values != nullptr && !evictable() && !store_.values->helps();
  return !vain || !store_.evicts || room() >= lasting;
}

bool HostUpkeep::step(uint64_t writes, int64_t now_ms) {
  bool more = grow(writes + std::exchange(erased_, 0));
  const bool drains = store_.any_flushed.load(std::memory_order_relaxed);
  more |= drains && drain_share(writes / writes_per_drain + 1);
  more |= expire(writes / writes_per_sweep + 1, now_ms);
  more |= tend_values(now_ms);
  if (store_.makes_room()) {
    const int64_t reserve = reserve_of(store_.budget.limit());
    if (room() < reserve && (evictable() || sends_values())) more |= keep_reserve(reserve, now_ms);
  }
  // Chunks of a flushed index become empty by themselves, and its items cannot be moved.
  const uint32_t sweeps = over_cap() ? sweeps_per_step : drains ? 0 : 1;
  for (uint32_t i = 0; i < sweeps; ++i) compact(now_ms);
  // As much as a batch retires, so that what waits is cached and does not pile up.
  more |= executor_.cache().reclaim(std::max<uint64_t>(2 * writes, ItemCache::default_limit));
  more |= store_.items.trim();
  more |= store_.pages.trim_ahead();
  return more;
}

bool HostUpkeep::step_in(EpochDomain::Slot& slot, uint64_t writes, int64_t now_ms) {
  struct Lent {
    ~Lent() { slot = usual; }
    EpochDomain::Slot*& slot;
    EpochDomain::Slot* const usual;
  };
  const Lent lent{slot_, std::exchange(slot_, &slot)};
  return step(writes, now_ms);
}

void HostUpkeep::rest() {
  const uint64_t cap = store_.budget.limit();
  if (cap != 0 && !store_.budget.fits(cap / 16)) executor_.cache().leave_retired();
}

// As long as room is not short, one worker sends values for all, a few at a time, so that its
// batches run between.
bool HostUpkeep::keep_reserve(int64_t reserve, int64_t now_ms) {
  const bool is_short = room() < reserve / 4;
  const auto free_some = [&](uint32_t sweeps) {
    sent_ = false;
    return !evict_to(reserve, sweeps, now_ms) && (sent_ || (evictable() && has_keys()));
  };
  if (is_short || !sends_values() || store_.values->poor()) return free_some(sweeps_per_step);
  const std::unique_lock alone(store_.values->sending, std::try_to_lock);
  return alone.owns_lock() && free_some(1);
}

[[gnu::noinline]] bool HostUpkeep::pay(LineIndex& index) { return growth_.pay(index); }

void HostUpkeep::keep_up(uint64_t rows) {
  for (const Database& database : store_.databases) {
    growth_.add(rows);
    if (LineIndex* index = database.index(); index != nullptr) pay(*index);
  }
}

// Most databases have no index, and this runs after every batch.
bool HostUpkeep::grow(uint64_t changes) {
  growth_.add(changes);
  bool more = false;
  const EpochGuard guard(store_.epochs, *slot_);
  const Database* const first = store_.databases.data();
  const Database* const end = first + store_.databases.size();
  const Database* next = first + next_database_;
  for (size_t left = std::min(store_.databases.size(), databases_per_step); left != 0; --left) {
    if (LineIndex* index = next->index(); index != nullptr) more |= pay(*index);
    if (++next == end) next = first;
  }
  next_database_ = static_cast<size_t>(next - first);
  return more;
}

// A sweep of another thread may look at these items, so they retire like any other. They lie
// anywhere, so what retiring them changes is on its way for all before the first one's turn.
bool HostUpkeep::drain() {
  std::unique_lock guard(store_.flushed_mutex, std::try_to_lock);
  if (!guard.owns_lock() || store_.flushed_keepers != 0 || !store_.next_flushed()) return false;
  drained_.clear();
  const bool more =
      store_.flushed.front().index.walked().drain(lines_per_drain, [&](uint64_t root) {
        store_.items.prefetch_bits(root);
        wait_for_memory([&] { drained_.push_back(root); });  // nothing else leads there any more
      });
  const bool objects = store_.items.objects().count() != 0;
  const auto retire = [&](Location location) {
    const Item& item = *store_.items.item(location);
    if (objects && item.is_object()) store_.items.retire_object(item);
    executor_.cache().retire(location);
  };
  for (const Location root : drained_) {
    for_each_member(store_.items, root, retire);
    retire_root(executor_.cache(), root);
  }
  if (!more) store_.flushed.pop_front();
  store_.any_flushed.store(!store_.flushed.empty(), std::memory_order_relaxed);
  return true;
}

// One with few entries is done at once, and may take as much memory as one with many.
bool HostUpkeep::drain_share(uint64_t share) {
  bool any = false;
  for (uint64_t left = most_drains; left != 0 && drain(); --left) {
    any = true;
    if (drained_.size() <= most_drained_at_once) continue;
    if (--share == 0) break;
    left = most_drains + 1;
  }
  return any;
}

// Up to so many sweeps, while there are items that are due; true while more may be.
bool HostUpkeep::expire(uint64_t sweeps, int64_t now_ms) {
  uint32_t looked = items_per_sweep;
  for (; sweeps != 0 && looked == items_per_sweep; --sweeps) {
    const WorkGuard guard(store_.epochs, *slot_);
    looked = store_.items.sweep_expired(now_ms, items_per_sweep, [&](Location location) {
      erase_if_still(location, MoveReason::expired, now_ms);
      return true;
    });
    make_moves(now_ms);
  }
  return looked == items_per_sweep;
}

bool HostUpkeep::evict_to(int64_t wanted, uint32_t sweeps, int64_t now_ms) {
  uint32_t vain = 0;
  for (; sweeps > 0; --sweeps) {
    const int64_t missing = wanted - room();
    if (missing <= 0) return true;
    const Sent sent = send_values(missing, now_ms);
    if (sent == Sent::busy) std::this_thread::yield();
    const bool evicts = evictable() && (sent == Sent::off || store_.values->poor());
    if (!evicts && (sent == Sent::off || (sent == Sent::none && ++vain == most_vain_sends))) break;
    if (!evicts) continue;
    const WorkGuard guard(store_.epochs, *slot_);
    // Not for every small item anew.
    evict_some(std::max(missing, reserve_of(store_.budget.limit()) / 16), now_ms);
    make_moves(now_ms);
  }
  return room() >= wanted;
}

// Whether it evicted anything. One that waits for another worker to make room evicts beside it,
// since one alone evicts as fast as one writes.
bool HostUpkeep::help_evict(int64_t wanted, int64_t now_ms) {
  if (on_device() || sends_values() || !evictable()) return false;
  const uint64_t before = erased_;
  evict_to(wanted, 1, now_ms);
  return erased_ != before;
}

bool HostUpkeep::sends_values() const {
  if (!values_ || !on_device()) return false;
  ValueLog& log = store_.values->log();
  return log.has_room(log.largest_value());
}

// Values of about so many bytes, but neither few nor so many that it would take long. Where nothing
// can be sent that is only found out anew now and then.
HostUpkeep::Sent HostUpkeep::send_values(int64_t bytes, int64_t now_ms) {
  constexpr int64_t least = 1 << 20;
  constexpr int64_t most = 4 << 20;
  constexpr uint32_t seldom = 64;
  if (!sends_values()) return Sent::off;
  if (store_.values->vain() && ++vain_sends_ % seldom != 0) return Sent::off;
  if (store_.entries() == 0) return Sent::none;
  const auto wanted = static_cast<uint64_t>(std::clamp(bytes, least, most));
  SendFound found;
  const size_t sent = move_values(now_ms, [&] { values_->send(moves_, wanted, now_ms, found); });
  if (found.looked == 0) return Sent::busy;
  store_.values->note(found, store_.entries());
  sent_ |= sent != 0;
  if (sent != 0) return Sent::some;
  return store_.values->log().full() || found.no_memory ? Sent::off : Sent::none;
}

// Without a cap values go as soon as nobody reads them; with one when room gets short.
bool HostUpkeep::tend_values(int64_t now_ms) {
  if (!values_ || !on_device()) return false;
  const uint64_t limit = store_.budget.limit();
  const int64_t left =
      limit == 0 ? std::numeric_limits<int64_t>::max() : room() - reserve_of(limit) / 2;
  size_t moved = 0;
  if (const std::unique_lock alone(store_.values->cleaning, std::try_to_lock); alone.owns_lock()) {
    moved = move_values(now_ms, [&] { values_->clean(moves_); });
  }
  // Some at once where many are read, since each time takes a round.
  constexpr size_t many = 128;
  constexpr uint32_t often = 16;
  if (values_->wanted() >= many || ++steps_ == often) {
    steps_ = 0;
    moved += move_values(now_ms, [&] { values_->bring(moves_, left); });
  }
  if (limit == 0 && sends_now() && send_values(0, now_ms) == Sent::some) ++moved;
  return moved != 0;
}

// Between batches without a cap: only now and then, but whenever there was none since the last
// step.
bool HostUpkeep::sends_now() {
  constexpr uint32_t often = 16;
  const uint64_t batches = executor_.counters().batches.get();
  const bool idle = std::exchange(batches_seen_, batches) == batches;
  return idle || batches % often == 0;
}

// One step that makes copies, and their moves; how many were done.
template <class Step>
size_t HostUpkeep::move_values(int64_t now_ms, Step&& step) {
  const EpochGuard guard(store_.epochs, *slot_);
  try {
    step();
  } catch (const DeviceError&) {
    device_->fail();
    return 0;
  } catch (const std::bad_alloc&) {
    return 0;
  }
  return make_moves(now_ms);
}

// Those that were not read are chosen first and evicted behind the sweep: so their lines come from
// memory together, and other workers sweep meanwhile.
void HostUpkeep::evict_coldest(int64_t bytes, bool volatile_only, int64_t now_ms) {
  constexpr uint32_t ahead = 8;
  std::array<Location, items_per_sweep> chosen;
  uint32_t count = 0;
  const auto choose = [&](Location location) {
    chosen[count++] = location;
    bytes -= evicted_bytes(location);
    return bytes > 0;
  };
  store_.items.sweep_clock(items_per_sweep, choose, volatile_only);
  for (uint32_t i = 0; i < count + ahead; ++i) {
    if (i < count) prefetch_line(chosen[i]);
    if (i >= ahead) erase_if_still(chosen[i - ahead], MoveReason::evicted, now_ms);
  }
}

int64_t HostUpkeep::evicted_bytes(Location location) const {
  const uint64_t beside = Objects::bytes_of(*store_.items.item(location));
  return static_cast<int64_t>(ItemStore::footprint(location) + beside);
}

void HostUpkeep::prefetch_line(Location location) const {
  const Item& item = *store_.items.item(location);
  const LineIndex* const index = store_.databases[item.database()].index();
  if (index != nullptr) index->prefetch(store_.hash(item.key(), store_.seed), true);
}

// One sweep, which stops when it has freed so many bytes.
void HostUpkeep::evict_some(int64_t bytes, int64_t now_ms) {
  const auto evict = [&](Location location) {
    if (!erase_if_still(location, MoveReason::evicted, now_ms)) return true;
    bytes -= evicted_bytes(location);
    return bytes > 0;
  };
  switch (store_.policy.load(std::memory_order_relaxed)) {
    case EvictionPolicy::noeviction:
      return;
    case EvictionPolicy::allkeys_lru:
      return evict_coldest(bytes, false, now_ms);
    case EvictionPolicy::volatile_lru:
      return evict_coldest(bytes, true, now_ms);
    case EvictionPolicy::allkeys_random: {
      // A client finds a large value right after it has stored it, unless there is nothing else:
      // large ones are so few, and take so much, that chance would often hit it.
      constexpr int most_sweeps = 8;
      bool any = false;
      for (int left = most_sweeps; left >= 0 && !any; --left) {
        store_.items.sweep_random(samples, [&](Location location) {
          if (left != 0 && store_.items.is_newest_large(location)) return true;
          any = true;
          return evict(location);
        });
      }
      return;
    }
    case EvictionPolicy::volatile_ttl:
      if (const Location soonest = find_soonest(); soonest != location::none) evict(soonest);
      return;
  }
}

Location HostUpkeep::find_soonest() {
  Location soonest = location::none;
  int64_t expiry = 0;
  store_.items.sample_volatile(samples, [&](Location location) {
    const int64_t at = store_.items.item(location)->expiry();
    if (at != no_expiry && (soonest == location::none || at < expiry)) {
      soonest = location;
      expiry = at;
    }
    return true;
  });
  return soonest;
}

void HostUpkeep::compact(int64_t now_ms) {
  const WorkGuard guard(store_.epochs, *slot_);
  store_.items.compact(items_per_sweep,
                       [&](Location location) { return move_if_still(location, now_ms); });
  make_moves(now_ms);
}

}  // namespace isotherm
