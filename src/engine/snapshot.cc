#include "engine/snapshot.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/kill_point.h"
#include "durability/rdb_format.h"
#include "engine/engine_state.h"
#include "index/item_table.h"
#include "index/line_index.h"
#include "items/item.h"
#include "items/objects.h"
#include "items/size_classes.h"

namespace isotherm {

Snapshot::Snapshot(Engine& engine)
    : engine_(*engine.state_),
      taken_(engine_.store.epochs),
      shown_(engine_.store.databases.size()),
      kept_indexes_(shown_.size()) {}

std::string Snapshot::name_of(uint32_t database, std::string_view key) {
  std::string name(reinterpret_cast<const char*>(&database), sizeof database);
  return name.append(key);
}

// With the links and the bucket of its node, and the name's own memory.
uint64_t Snapshot::bytes_of_expiry(const std::string& name) {
  constexpr uint64_t a_node = 96;
  return a_node + name.capacity();
}

// ---- The moment ----

const Snapshot::Moment* Snapshot::begin(Worker& worker, bool keeps_flushed) {
  active_.store(false, std::memory_order_relaxed);
  forget();
  const bool stood = worker.stand_still([&] { take_moment(keeps_flushed); });
  kill_point("moment.taken");
  return stood ? &moment_ : nullptr;
}

// Called while no row runs.
void Snapshot::take_moment(bool keeps_flushed) {
  HostStore& store = engine_.store;
  // Rows that ran when an earlier snapshot was given up may have told of changes since.
  empty();
  moment_ = {};
  moment_.at_ms = engine_.clock.now_ms();
  moment_.changes = engine_.counted().changes;
  for (const Database& database : store.databases) {
    moment_.version = std::max(moment_.version, database.last_version());
  }
  for (size_t i = 0; i < shown_.size(); ++i) {
    Database& database = store.databases[i];
    database.begin_versions(moment_.version);
    const int64_t expires = database.expires.load(std::memory_order_relaxed);
    moment_.databases.push_back(
        {database.count(), static_cast<uint64_t>(std::max<int64_t>(expires, 0))});
    shown_[i].store(!database.walked() ? done : 0, std::memory_order_relaxed);
  }
  bound_ = moment_.version;
  database_ = 0;
  selected_ = 0;
  flushed_.store(false, std::memory_order_relaxed);
  keeps_flushed_ = keeps_flushed;
  CommitSink* const sink = store.sink;
  if (sink != this && sink != behind_) behind_ = sink;
  active_.store(true, std::memory_order_release);
  store.sink = this;
}

void Snapshot::end(Worker& worker) {
  active_.store(false, std::memory_order_relaxed);
  forget();
  // Where this fails, the sink stays, and passes on what it is told.
  worker.stand_still([this] {
    if (engine_.store.sink == this) engine_.store.sink = behind_;
    empty();
  });
  tell();
}

void Snapshot::forget() {
  empty();
  tell();
}

void Snapshot::empty() {
  {
    const std::lock_guard guard(mutex_);
    drop(log_);
    expiries_.clear();
    any_expiries_.store(false, std::memory_order_relaxed);
    log_bytes_.store(0, std::memory_order_relaxed);
    expiry_bytes_.store(0, std::memory_order_relaxed);
    kept_bytes_.store(0, std::memory_order_relaxed);
  }
  drop(walked_);
  found_.clear();
  for (uint32_t database = 0; database < shown_.size(); ++database) let_go_flushed(database);
  count();
}

void Snapshot::drop(std::deque<Piece>& pieces) {
  for (const Piece& piece : pieces) {
    if (piece.kept != location::none) engine_.store.items.let_go(piece.kept);
  }
  pieces.clear();
}

// ---- Who changes items meanwhile ----

CommitSink::Begun Snapshot::begins(const Batch& batch) {
  Begun begun;
  if (behind_ != nullptr) begun = behind_->begins(batch);
  begun.withholds |= active_.load(std::memory_order_relaxed) && batch.writes();
  return begun;
}

void Snapshot::changed(const ItemChange& change) {
  note_if_active(change);
  if (behind_ != nullptr) behind_->changed(change);
}

void Snapshot::changed_part(const ItemChange& change, const ChangedPart& part) {
  note_if_active(change);
  if (behind_ != nullptr) behind_->changed_part(change, part);
}

void Snapshot::note_if_active(const ItemChange& change) {
  if (!active_.load(std::memory_order_acquire)) return;
  try {
    note(change);
  } catch (const std::bad_alloc&) {
    give_up();
  }
}

void Snapshot::grouped(uint64_t token) {
  if (behind_ != nullptr) behind_->grouped(token);
}

void Snapshot::flushed(uint32_t database, uint64_t version, uint64_t token) {
  if (shown_[database].load(std::memory_order_relaxed) != done) {
    keeps_flushed_ ? keep_flushed(database) : give_up();
  }
  if (behind_ != nullptr) behind_->flushed(database, version, token);
}

bool Snapshot::full() const { return over() || (behind_ != nullptr && behind_->full()); }
bool Snapshot::refuses() const { return behind_ != nullptr && behind_->refuses(); }
bool Snapshot::refuses_erases() const { return behind_ != nullptr && behind_->refuses_erases(); }
bool Snapshot::is_safe(uint32_t database, uint64_t hash) const {
  return behind_ == nullptr || behind_->is_safe(database, hash);
}

// If the database was flushed before since the moment, what is flushed now came after the moment.
// The thread that flushes keeps the index from being taken apart until this returns.
void Snapshot::keep_flushed(uint32_t database) {
  if (!active_.load(std::memory_order_acquire) || kept_indexes_[database].load() != nullptr) return;
  HostStore& store = engine_.store;
  const std::lock_guard guard(store.flushed_mutex);
  const auto its = std::find_if(store.flushed.rbegin(), store.flushed.rend(),
                                [&](const auto& one) { return one.database == database; });
  if (its == store.flushed.rend()) return;
  ++store.flushed_keepers;
  kept_indexes_[database].store(&its->index, std::memory_order_release);
}

void Snapshot::let_go_flushed(uint32_t database) {
  if (kept_indexes_[database].exchange(nullptr) == nullptr) return;
  const std::lock_guard guard(engine_.store.flushed_mutex);
  --engine_.store.flushed_keepers;
}

// It has to begin anew.
void Snapshot::give_up() {
  flushed_.store(true, std::memory_order_relaxed);
  active_.store(false, std::memory_order_relaxed);
}

Awaited* Snapshot::ends(uint64_t token) {
  Awaited* const behind = behind_ != nullptr ? behind_->ends(token) : nullptr;
  if (!over()) [[likely]]
    return behind;
  if (behind == nullptr) return &room_;
  room_behind_.behind.store(behind, std::memory_order_relaxed);
  return &room_behind_;
}

Awaited* Snapshot::ends_reads(uint64_t token) {
  return behind_ != nullptr ? behind_->ends_reads(token) : nullptr;
}

void Snapshot::wait_for_room(Awaited::Waiter& waiter, Awaited* behind) {
  {
    const std::lock_guard guard(mutex_);
    if (over()) return waiting_.push_back({&waiter, behind});
  }
  behind != nullptr ? behind->begin(waiter) : waiter.there();
}

// Those who wait for room, where there is some.
void Snapshot::tell() {
  std::vector<Waiting> told;
  {
    const std::lock_guard guard(mutex_);
    if (!over()) told.swap(waiting_);
  }
  for (const Waiting& one : told) {
    one.behind != nullptr ? one.behind->begin(*one.waiter) : one.waiter->there();
  }
}

bool Snapshot::is_walked(uint32_t database, uint64_t hash) const {
  const uint64_t shown = shown_[database].load(std::memory_order_relaxed);
  if (shown == done || shown == 0) return shown == done;
  return hash < shown;
}

// Under the lock of the key's line, so the walk is before it or behind it.
void Snapshot::note(const ItemChange& change) {
  const Item* const old = change.old_item;
  if (old == nullptr || old->is_object() || Objects::version_of(*old) > bound_) return;
  // An eviction at the moment itself has a version up to the bound, so for the snapshot its item is
  // gone.
  if (change.version <= bound_) return;
  if (is_walked(change.database, change.hash)) return;
  const std::lock_guard guard(mutex_);
  if (change.new_item != nullptr && Objects::version_of(*change.new_item) <= bound_) {
    const auto [its, made] =
        expiries_.try_emplace(name_of(change.database, change.key), old->expiry());
    if (made) expiry_bytes_.fetch_add(bytes_of_expiry(its->first), std::memory_order_relaxed);
    any_expiries_.store(true, std::memory_order_relaxed);
    return;
  }
  const int64_t expiry = take_expiry(*old, change.database);
  if (change.reason == ItemChange::Reason::evicted) return;
  if (expiry != no_expiry && expiry <= moment_.at_ms) return;
  // A reader of the file leaves out what has expired, and a thread that lets items expire cannot
  // wait for the log.
  if (change.reason == ItemChange::Reason::expired && expiry == old->expiry()) return;
  const size_t pieces = log_.size();
  const size_t before = pieces == 0 ? 0 : log_.back().text.size();
  add(log_, change.database, *old, expiry);
  const Piece& last = log_.back();
  log_bytes_.fetch_add(last.text.size() - (log_.size() == pieces ? before : 0),
                       std::memory_order_relaxed);
  kept_bytes_.fetch_add(last.value.size(), std::memory_order_relaxed);
}

// The item's at the moment. With the mutex.
int64_t Snapshot::take_expiry(const Item& item, uint32_t database) {
  if (!any_expiries_.load(std::memory_order_relaxed)) return item.expiry();
  const auto its = expiries_.find(name_of(database, item.key()));
  if (its == expiries_.end()) return item.expiry();
  const int64_t expiry = its->second;
  expiry_bytes_.fetch_sub(bytes_of_expiry(its->first), std::memory_order_relaxed);
  expiries_.erase(its);
  any_expiries_.store(!expiries_.empty(), std::memory_order_relaxed);
  return expiry;
}

// ---- What is written ----

// Within an epoch in which the item was there.
void Snapshot::add(std::deque<Piece>& pieces, uint32_t database, const Item& item, int64_t expiry) {
  const bool fits = !pieces.empty() && pieces.back().database == database &&
                    pieces.back().kept == location::none && pieces.back().text.size() < most_piece;
  if (!fits) pieces.push_back({database, {}, location::none, {}});
  Piece& piece = pieces.back();
  rdb::put_item_head({item.key(), expiry, item.flags(), item.state(), item.value_bytes()},
                     piece.text);
  if (item.bytes() <= size_classes::largest) {
    piece.text += item.value();
    return;
  }
  piece.kept = location::make(location::Kind::large, 0, reinterpret_cast<uint64_t>(&item));
  piece.value = item.value();
  ItemStore::keep(piece.kept);
}

Snapshot::Step Snapshot::step(const Write& write) {
  std::deque<Piece> replaced;
  bool more = false;
  {
    const EpochGuard within(engine_.store.epochs, *taken_.slot);
    more = walk();
  }
  {
    const std::lock_guard guard(mutex_);
    replaced.swap(log_);
  }
  count();
  const bool written = write_pieces(walked_, write) && write_pieces(replaced, write);
  drop(walked_);
  release(replaced);
  if (flushed_.load(std::memory_order_relaxed)) return Step::flushed;
  return written && more ? Step::more : Step::done;
}

// Gives the log's room back once its pieces were written.
void Snapshot::release(std::deque<Piece>& replaced) {
  for (const Piece& piece : replaced) {
    log_bytes_.fetch_sub(piece.text.size(), std::memory_order_relaxed);
    kept_bytes_.fetch_sub(piece.value.size(), std::memory_order_relaxed);
  }
  drop(replaced);
  count();
  tell();
}

void Snapshot::count() {
  uint64_t bytes =
      log_bytes_.load(std::memory_order_relaxed) + expiry_bytes_.load(std::memory_order_relaxed);
  for (const Piece& piece : walked_) bytes += piece.text.capacity();
  const uint64_t before = memory_.exchange(bytes, std::memory_order_relaxed);
  engine_.store.budget.buffers.fetch_add(static_cast<int64_t>(bytes - before));
}

// Some lines; false: there is no more. Behind the last of all nothing is logged any more.
bool Snapshot::walk() {
  while (database_ < shown_.size() && shown_[database_].load(std::memory_order_relaxed) == done) {
    ++database_;
  }
  if (database_ == shown_.size()) return false;
  std::atomic<uint64_t>& shown = shown_[database_];
  WalkedIndex index = engine_.store.databases[database_].walked();
  // A later one is there only when the one before is kept, or all begins anew.
  const DetachedIndex* const kept = kept_indexes_[database_].load(std::memory_order_acquire);
  if (kept != nullptr) {
    index = kept->walked();
  }
  // A flush takes the index away before the sink is told of it.
  if (!index) {
    if (!keeps_flushed_) flushed_.store(true, std::memory_order_relaxed);
    return keeps_flushed_;
  }
  uint64_t bound = shown.load(std::memory_order_relaxed);
  for (uint32_t line = 0; line < most_lines; ++line) {
    bound = index.scan_locked(
        bound, [this](uint64_t, uint64_t root) { find(database_, root); },
        [&](uint64_t next) { shown.store(next != 0 ? next : done, std::memory_order_relaxed); });
    for (const Found& one : found_) {
      add(walked_, database_, *engine_.store.items.item(one.location), one.expiry);
    }
    found_.clear();
    if (bound == 0 || walked_.size() > 1) break;
  }
  if (bound == 0) let_go_flushed(database_);
  return true;
}

// Under the lock of the line.
void Snapshot::find(uint32_t database, uint64_t root) {
  const ItemStore& items = engine_.store.items;
  for_each_member(items, root, [&](Location location) {
    const Item& item = *items.item(location);
    if (item.is_object() || Objects::version_of(item) > bound_) return;
    int64_t expiry = item.expiry();
    if (any_expiries_.load(std::memory_order_relaxed)) {
      const std::lock_guard guard(mutex_);
      expiry = take_expiry(item, database);
    }
    if (expiry == no_expiry || expiry > moment_.at_ms) found_.push_back({location, expiry});
  });
}

bool Snapshot::write_pieces(std::deque<Piece>& pieces, const Write& write) {
  for (const Piece& piece : pieces) {
    if (selected_ != uint64_t{piece.database} + 1) {
      std::string select(1, static_cast<char>(rdb::select_db));
      rdb::put_length(piece.database, select);
      if (!write(select)) return false;
      selected_ = uint64_t{piece.database} + 1;
    }
    if (!write(piece.text) || (!piece.value.empty() && !write(piece.value))) return false;
  }
  return true;
}

}  // namespace isotherm
