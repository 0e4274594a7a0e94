#include "tree/tree.h"

#include <algorithm>
#include <exception>
#include <memory>
#include <utility>

#include "base/lasting_thread.h"
#include "base/raise_to.h"
#include "base/wait_for_memory.h"

namespace isotherm {
namespace {

// A batch's token for the next sink, an address, whose lowest bits and highest one are the tree's.
constexpr uint64_t of_batch = 2;
constexpr uint64_t of_groups = uint64_t{1} << 63;
constexpr uint64_t token_bits = 3 | of_groups;
uint64_t next_token(uint64_t token) { return token & ~token_bits; }
// A part of a batch with groups has a token of the next sink's, if there is one.
bool is_of_groups(uint64_t token) {
  return (token & of_groups) != 0 || (token != 0 && (token & of_batch) == 0);
}

// What a thread keeps for the next time is not a large key or value.
void shrink(std::string& text) {
  constexpr size_t most_kept = 64 << 10;
  if (text.capacity() > most_kept) std::string().swap(text);
}

// The key as the tree has it.
class TreeKey {
 public:
  TreeKey(uint32_t database, std::string_view key) {
    const size_t bytes = TreeRecord::prefix_bytes + key.size();
    if (bytes > sizeof short_) long_ = std::make_unique_for_overwrite<char[]>(bytes);
    char* const at = long_ != nullptr ? long_.get() : short_;
    TreeRecord::write_key(database, key, at);
    text_ = {at, bytes};
  }
  TreeKey(const TreeKey&) = delete;
  TreeKey& operator=(const TreeKey&) = delete;
  std::string_view text() const { return text_; }

 private:
  char short_[128];
  std::unique_ptr<char[]> long_;
  std::string_view text_;
};

}  // namespace

Tree::Tree(std::unique_ptr<TreeFiles> files, TreeOptions options)
    : files_(std::move(files)),
      options_(std::move(options)),
      changes_(std::make_unique<std::atomic<uint64_t>[]>(options_.stripes)),
      loads_(*files_, options_.readers, options_.most_loaded, options_.read_at_once),
      direct_(*files_, options_.most_direct),
      watch_(direct_.serves()),
      ranges_(*files_, options_.most_ranges),
      active_(std::make_shared<TreeRun>()) {
  new_ = !files_->load(meta_);
  shard_locks_.front().last_version = meta_.last_version;
  count_memory(true);
  writer_ = lasting_thread([this] { work(); });
}

bool Tree::wants_snapshot() const {
  const std::lock_guard guard(mutex_);
  return new_ || meta_.journal == being_filled;
}

bool Tree::begin_filling() {
  const std::lock_guard guard(mutex_);
  const bool has_part = meta_.journal == being_filled;
  set_journal(being_filled);
  return has_part;
}

void Tree::end_filling() {
  if (!flush()) throw TreeError(last_error());
  const std::lock_guard guard(mutex_);
  set_journal(0);
}

// With the mutex. At once: a crash before the next run must not make them strangers.
void Tree::set_journal(uint64_t number, uint64_t lsn) {
  meta_.journal = number;
  meta_.lsn = lsn;
  if (const std::string problem = files_->ingest({}, meta_, 1); !problem.empty()) {
    throw TreeError(problem);
  }
  new_ = false;
}

void Tree::expect_journal(uint64_t number, uint64_t first_lsn, bool found) {
  const std::lock_guard guard(mutex_);
  if (meta_.journal == being_filled) {
    throw TreeError(
        "tree: a start has ended while it read a snapshot into it, so a part of that is missing; "
        "start again with the snapshot in its place and no journal in --dir, or remove the tree");
  }
  if (found && !new_ && meta_.journal != number) {
    throw TreeError(
        "tree: it has changes that the journal does not know, so they do not belong "
        "together; remove the older of the two");
  }
  if (found && !new_ && first_lsn > meta_.lsn) {
    throw TreeError("tree: records of the journal from " + std::to_string(meta_.lsn) +
                    " on are needed, and it begins at " + std::to_string(first_lsn) +
                    ": start with the tree behind which it was cut, or, where it was written anew "
                    "without one, remove this tree");
  }
  if (meta_.journal == number) {
    if (number != 0 && meta_.lsn == TreeMeta::all_of_it) set_journal(number, first_lsn);
    return;
  }
  if (number != 0 && !has_all_of_journal()) {
    throw TreeError(
        "tree: it was not closed in order, and its journal, which may have changes that it lacks, "
        "is not the one that was given: start with the folder and the name that the journal has, "
        "or, if it is lost, once without a journal");
  }
  if (!new_) return set_journal(number);
  // What was before its first record is in its base, which it has until the tree cuts it.
  meta_.journal = number;
  meta_.lsn = first_lsn;
}

void Tree::end_journal() {
  if (!flush()) return;
  const std::lock_guard guard(mutex_);
  try {
    set_journal(meta_.journal, TreeMeta::all_of_it);
  } catch (const std::exception&) {  // the disk or memory fails: the next start reads the journal
  }
}

uint64_t Tree::lacks_journal() const {
  const std::lock_guard guard(mutex_);
  return has_all_of_journal() ? 0 : meta_.journal;
}

void Tree::drop_from(Journal* journal) {
  const std::lock_guard guard(journal_mutex_);
  journal_ = journal;
}

uint64_t Tree::last_version() const {
  uint64_t last = 0;
  for (const TreeRun::Lock& lock : shard_locks_) last = std::max(last, lock.last_version.load());
  return last;
}

Backing::Seen Tree::seen_now(uint64_t hash) const {
  const uint64_t flushes = flushes_.load(std::memory_order_acquire);
  return {static_cast<uint32_t>(hash & (options_.stripes - 1)),
          changes_of(hash).load(std::memory_order_acquire) + (flushes << run_at),
          taken_in_.load(std::memory_order_acquire)};
}

bool Tree::is_as_seen(const Seen& seen) const {
  const uint64_t flushes = flushes_.load(std::memory_order_acquire);
  return changes_[seen.stripe].load(std::memory_order_acquire) + (flushes << run_at) ==
         seen.changes;
}

// A key that has no change in a run, though its stripe has changed, was changed by nobody, unless a
// run has gone to the files meanwhile: where a key of the stripe is changed all the time, what was
// read of others would never count.
bool Tree::still_holds(const Seen& seen, uint32_t database, std::string_view key) const {
  if (is_as_seen(seen)) return true;
  return !has_changed(database, key) && taken_in_.load(std::memory_order_acquire) == seen.taken_in;
}

// False: all that was changed of the key is in the files.
bool Tree::may_be_in_runs(uint64_t hash) const {
  const uint64_t run = changes_of(hash).load(std::memory_order_acquire) >> run_at;
  const uint64_t taken = taken_in_.load(std::memory_order_acquire);
  return run > taken || flushed_run_.load(std::memory_order_acquire) > taken;
}

CommitSink::Begun Tree::begins(const Batch& batch) {
  Begun begun;
  if (next_ != nullptr) begun = next_->begins(batch);
  for (;;) {
    const uint64_t generation = generation_.load(std::memory_order_seq_cst);
    std::atomic<int64_t>& running = running_here(generation);
    running.fetch_add(1, std::memory_order_seq_cst);
    if (generation_.load(std::memory_order_seq_cst) == generation) {
      const uint64_t groups = batch.has_groups() ? of_groups : 0;
      return {begun.token | of_batch | groups | (generation & 1), true};
    }
    running.fetch_sub(1, std::memory_order_seq_cst);
  }
}

// One of rows that take effect together is not refused, since others are certain already.
void Tree::note(const ItemChange& change, const ChangedPart* part) {
  ItemChange told = change;
  told.token = next_token(change.token);
  // The item may be in the files alone when this is read again, so it is recorded whole.
  if (told.new_item == told.old_item) told.old_item = nullptr;
  if (next_ != nullptr) next_->make_room(told, part);
  if (is_of_groups(change.token)) {
    wait_for_memory([&] { put(change); });
  } else {
    put(change);
  }
  if (next_ == nullptr) return;
  part != nullptr ? next_->changed_part(told, *part) : next_->changed(told);
}

void Tree::fetch_ahead(uint32_t database, uint64_t hash) const {
  const uint64_t its = hash_in(database, hash);
  __builtin_prefetch(&changes_of(its), 1);
  places_[TreeRun::shard_of(its)].fetch(its);
  if (next_ != nullptr) next_->fetch_ahead(database, hash);
}

// Into the active run. Whoever sees the count finds the change: it is put there before. Throws
// std::bad_alloc, and then nothing has changed.
void Tree::put(const ItemChange& change) {
  const TreeKey key(change.database, change.key);
  const uint64_t hash = hash_in(change.database, change.hash);
  const uint32_t shard = TreeRun::shard_of(hash);
  const Item* const item = change.new_item;
  std::atomic<uint64_t>& changes = changes_of(hash);
  const std::lock_guard guard(shard_locks_[shard]);
  raise_to(shard_locks_[shard].last_version, change.version);
  uint64_t count = changes.load(std::memory_order_relaxed) + 1;
  if (change.reason != ItemChange::Reason::expired) {
    TreeRecord record;
    const bool stored = item != nullptr && !item->is_object();
    if (stored) {
      record = {item->version(), change.expiry, item->flags(), item->state(), item->value()};
    }
    note_held();
    active_->put(hash, key.text(), stored ? &record : nullptr, next_moment_,
                 last_held_.load(std::memory_order_acquire));
    places_[shard].note(*active_, hash);
    count = (count & ((uint64_t{1} << run_at) - 1)) | active_number_ << run_at;
  }
  changes.store(count, std::memory_order_release);
  if (is_full(*active_) && !seals_.load(std::memory_order_relaxed)) {
    seals_.store(true, std::memory_order_relaxed);
  }
}

void Tree::flushed(uint32_t database, uint64_t version, uint64_t token) {
  raise_to(shard_locks_.front().last_version, version);
  seal(Seals::always, database);
  flushes_.fetch_add(1, std::memory_order_acq_rel);
  if (next_ != nullptr) next_->flushed(database, version, next_token(token));
}

// A part's token is the next sink's: what the tree counts is the batch.
void Tree::begins_parts(uint64_t token, std::span<const Batch::Span> rows,
                        std::span<uint64_t> parts, WorkerPool& pool) {
  if (next_ != nullptr) {
    next_->begins_parts(next_token(token), rows, parts, pool);
  } else {
    std::fill(parts.begin(), parts.end(), of_groups);
  }
}

void Tree::ends_parts(uint64_t token, std::span<const uint64_t> parts, WorkerPool& pool) {
  if (next_ != nullptr) next_->ends_parts(next_token(token), parts, pool);
}

void Tree::grouped(uint64_t token) {
  if (next_ != nullptr) next_->grouped(next_token(token));
}

bool Tree::takes(uint32_t database, std::string_view key, uint64_t value_bytes) const {
  const TreeKey tree_key(database, key);
  return files_->takes(tree_key.text(), value_bytes);
}

bool Tree::refuses() const {
  const bool refuses_here = failing_.load(std::memory_order_relaxed) && is_crowded();
  if (refuses_here || overfull_.load(std::memory_order_relaxed)) return true;
  return next_ != nullptr && next_->refuses();
}

bool Tree::refuses_erases() const {
  const bool refuses_here = failing_.load(std::memory_order_relaxed) && is_crowded();
  return refuses_here || (next_ != nullptr && next_->refuses_erases());
}

bool Tree::is_safe(uint32_t database, uint64_t hash) const {
  return next_ == nullptr || next_->is_safe(database, hash);
}

// A batch that begins later is told of as one of the next run at the earliest.
Awaited* Tree::end(uint64_t token, bool wrote) {
  Awaited* inner = nullptr;
  if (next_ != nullptr) {
    inner = wrote ? next_->ends(next_token(token)) : next_->ends_reads(next_token(token));
  }
  running_here(token).fetch_sub(1, std::memory_order_seq_cst);
  if (seals_.load(std::memory_order_relaxed)) seal_if_possible(Seals::if_wanted);
  if (inner != nullptr) inner_.store(inner, std::memory_order_release);
  const bool waits = wrote && is_crowded() && !failing_.load(std::memory_order_relaxed);
  return waits ? this : inner;
}

void Tree::begin(Waiter& waiter) {
  {
    const std::lock_guard guard(mutex_);
    if (is_crowded() && !failing_.load(std::memory_order_relaxed)) {
      waiters_.push_back(&waiter);
      return;
    }
  }
  Awaited* const inner = inner_.load(std::memory_order_acquire);
  inner != nullptr ? inner->begin(waiter) : waiter.there();
}

DemotionHook::Fate Tree::demote(const Item& item) {
  return item.is_object() ? Fate::kept : Fate::taken;
}

// The oldest run that still says something of the database hides what is older.
TreeRun::Found Tree::find_in_runs(std::string_view key, uint64_t hash, uint32_t database,
                                  std::string& value) const {
  if (!may_be_in_runs(hash)) return {};
  const std::lock_guard guard(shard_locks_[TreeRun::shard_of(hash)]);
  const auto look_into = [&](const TreeRun& run) {
    TreeRun::Found found = run.find(hash, key);
    if (!found.known && run.flushed.contains(database)) found = {true, true, {}};
    if (found.known) value.assign(found.value);
    return found;
  };
  TreeRun::Found found = look_into(*active_);
  for (auto run = sealed_.rbegin(); run != sealed_.rend() && !found.known; ++run) {
    found = look_into(**run);
  }
  found.value = value;
  return found;
}

Backing::Answer Tree::show(std::string_view text, int64_t now_ms, Stored& stored) const {
  TreeRecord record;
  if (!record.read(text)) return Answer::failed;
  if (record.expired(now_ms)) return Answer::absent;
  stored.value = record.value;
  stored.version = record.version;
  stored.expiry = record.expiry;
  stored.flags = record.flags;
  stored.state = record.state;
  return Answer::found;
}

Backing::Answer Tree::look(uint32_t database, std::string_view key_of_item, int64_t now_ms,
                           bool may_wait, Stored& stored) {
  thread_local TreeRead read;
  shrink(read.value);
  const TreeKey tree_key(database, key_of_item);
  const std::string_view key = tree_key.text();
  const uint64_t hash = hash_of(database, key_of_item);
  stored.seen = seen_now(hash);
  const TreeRun::Found found = find_in_runs(key, hash, database, read.value);
  if (found.erased) return Answer::absent;
  if (found.known) return show(read.value, now_ms, stored);
  // Of a load from before none of these runs went to the files, so it has the key's last change.
  stored.seen.taken_in = taken_in_.load(std::memory_order_acquire);
  if (!loads_.take(key, stored.seen, read)) {
    const TreeFiles::Glance glance = files_->glance(key, read.value);
    if (glance == TreeFiles::Glance::absent) return Answer::absent;
    if (glance == TreeFiles::Glance::found) return show(read.value, now_ms, stored);
    stored.awaited = may_wait ? nullptr : loads_.want(key, stored.seen);
    if (stored.awaited != nullptr) return Answer::coming;
    files_->read({&key, 1}, &read);
  }
  switch (read.state) {
    case TreeRead::State::found:
      return show(read.value, now_ms, stored);
    case TreeRead::State::absent:
      return Answer::absent;
    case TreeRead::State::failed:
      break;
  }
  return Answer::failed;
}

}  // namespace isotherm
