#include "durability/journal.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/broken.h"
#include "base/hash.h"
#include "items/item.h"

namespace isotherm {
namespace {

// Records that are written and not synced take memory.
constexpr uint64_t most_unsynced = 32 << 20;

void raise(std::atomic<uint64_t>& to, uint64_t value) {
  uint64_t seen = to.load(std::memory_order_relaxed);
  while (seen < value && !to.compare_exchange_weak(seen, value, std::memory_order_release)) {
  }
}

}  // namespace

Journal::Journal(JournalOptions options, const JournalReader& reader, uint64_t last_version,
                 Files& files)
    : options_(std::move(options)),
      store_(reader.manifest().store),
      buffer_(reader.end_lsn()),
      segments_(files, options_.folder, options_.name, reader.manifest(), options_.segment_bytes),
      policy_(options_.policy),
      written_(reader.end_lsn()),
      synced_(reader.end_lsn()),
      flushed_at_(reader.end_lsn()),
      last_version_(last_version),
      marks_(std::make_unique<std::atomic<uint64_t>[]>(marks)) {
  if (const int made = segments_.begin(reader.end_lsn(), last_version, 0); made < 0) {
    throw JournalError("journal: cannot make a segment in " + options_.folder + ": " +
                       std::strerror(-made));
  }
  writer_ = std::thread([this] { run(); });
}

Journal::~Journal() {
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  writer_.join();
}

std::atomic<uint64_t>& Journal::mark_of(uint32_t database, std::string_view key) {
  return marks_[hash_bytes(key, database) % marks];
}

// The address of the batch is its number while it runs.
CommitSink::Begun Journal::begins(const Batch& batch) {
  return {reinterpret_cast<uint64_t>(&batch), true};
}

uint64_t Journal::append(RecordHeader record, std::string_view key, std::string_view value) {
  record.magic = RecordHeader::right_magic;
  record.key_bytes = static_cast<uint32_t>(key.size());
  record.value_bytes = value.size();
  record.synced = synced_.load(std::memory_order_relaxed);
  const uint64_t bytes = record_bytes(key.size(), value.size());
  const RecordBuffer::Place place = buffer_.reserve(bytes);
  record.lsn = place.lsn;
  std::memset(place.memory + bytes - 8, 0, 8);
  char* const body = place.memory + sizeof record;
  std::memcpy(place.memory, &record, sizeof record);
  if (!key.empty()) std::memcpy(body, key.data(), key.size());
  if (!value.empty()) std::memcpy(body + key.size(), value.data(), value.size());
  auto* const made = reinterpret_cast<RecordHeader*>(place.memory);
  made->crc = record_crc(*made, store_);
  place.chunk->filled.fetch_add(bytes, std::memory_order_release);
  return place.lsn + bytes;
}

void Journal::changed(const ItemChange& change) {
  RecordHeader record{};
  record.database = change.database;
  record.version = change.version;
  record.batch = change.token;
  std::string_view value;
  if (change.new_item == nullptr || change.new_item->is_object()) {
    record.op = RecordOp::erase;
  } else if (change.new_item == change.old_item) {
    record.op = RecordOp::expiry;
    record.expiry = change.expiry;
  } else {
    record.op = RecordOp::put;
    record.expiry = change.expiry;
    record.flags = change.new_item->flags();
    record.type = static_cast<uint8_t>(change.new_item->type());
    value = change.new_item->value();
  }
  const uint64_t end = append(record, change.key, value);
  if (change.reason != ItemChange::Reason::expired)
    raise(mark_of(change.database, change.key), end);
}

void Journal::flushed(uint32_t database, uint64_t version) {
  RecordHeader record{};
  record.op = RecordOp::flush;
  record.database = database;
  record.version = version;
  raise(flushed_at_, append(record, {}, {}));
}

uint64_t Journal::safe_lsn() const {
  const auto& safe = policy() == SyncPolicy::always ? synced_ : written_;
  return safe.load(std::memory_order_acquire);
}

Awaited* Journal::ends(uint64_t token) {
  const Batch& batch = *reinterpret_cast<const Batch*>(token);
  const uint64_t safe = safe_lsn();
  if (buffer_.end() <= safe || broken(Rule::syncing)) return nullptr;
  // What it has written is among the last there is.
  if (batch.empty() || batch.writes() || flushed_at_.load(std::memory_order_acquire) > safe)
    return this;
  const Batch::Columns& columns = batch.columns();
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (mark_of(columns.database[row], columns.key[row]).load(std::memory_order_acquire) > safe) {
      return this;
    }
  }
  return nullptr;
}

void Journal::begin(Waiter& waiter) {
  {
    const std::lock_guard guard(mutex_);
    const uint64_t end = buffer_.end();
    if (end > safe_lsn()) {
      waiting_.push_back({end, &waiter});
      wake_.notify_one();
      return;
    }
  }
  waiter.there();
}

void Journal::set_policy(SyncPolicy policy) {
  const std::lock_guard guard(mutex_);
  policy_.store(policy, std::memory_order_relaxed);
  wake_.notify_one();
}

void Journal::run() {
  const std::chrono::milliseconds pause(options_.pause_ms);
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const auto wanted = [this] { return stops_ || (!waiting_.empty() && error() == 0); };
    wake_.wait_for(lock, pause, wanted);
    lock.unlock();
    step(false);
    lock.lock();
  }
  lock.unlock();
  // The mark says that all before it is on disk.
  step(true);
  RecordHeader mark{};
  mark.op = RecordOp::mark;
  append(mark, {}, {});
  step(true);
}

void Journal::step(bool ends) {
  buffer_.take(chunks_);
  int result = write_all();
  if (result >= 0 && sync_is_due(ends)) result = sync();
  note_error(result < 0 ? -result : 0);
  if (policy() == SyncPolicy::no) release(written_.load(std::memory_order_relaxed));
  tell();
}

int Journal::write_all() {
  for (const auto& chunk : chunks_) {
    const uint64_t end = chunk->lsn + chunk->bytes;
    if (end <= written_.load(std::memory_order_relaxed)) continue;
    if (!segments_.has_room(end)) {
      if (const int made = next_segment(chunk->bytes); made < 0) return made;
    }
    const int result = segments_.write(chunk->lsn, chunk->memory.get(), chunk->bytes);
    if (result < 0) return result;
    written_.store(end, std::memory_order_release);
  }
  return 0;
}

// What is in the segment before is on disk by then.
int Journal::next_segment(uint64_t least_bytes) {
  if (const int result = sync(); result < 0) return result;
  return segments_.begin(written_.load(std::memory_order_relaxed), last_version_, least_bytes);
}

bool Journal::sync_is_due(bool ends) const {
  const uint64_t unsynced =
      written_.load(std::memory_order_relaxed) - synced_.load(std::memory_order_relaxed);
  if (unsynced == 0) return false;
  if (ends || policy() == SyncPolicy::always) return true;
  if (policy() == SyncPolicy::no) return false;
  return unsynced > most_unsynced || Clock::now() - last_sync_ >= std::chrono::seconds(1);
}

// After a sync that failed the system may have forgotten what was written: all is written again.
int Journal::sync() {
  const uint64_t written = written_.load(std::memory_order_relaxed);
  if (const int result = segments_.sync(); result < 0) {
    if (policy() != SyncPolicy::no) written_.store(synced_.load(), std::memory_order_release);
    return result;
  }
  last_sync_ = Clock::now();
  syncs_.fetch_add(1, std::memory_order_relaxed);
  synced_.store(written, std::memory_order_release);
  release(written);
  return 0;
}

void Journal::release(uint64_t lsn) {
  while (!chunks_.empty() && chunks_.front()->lsn + chunks_.front()->bytes <= lsn) {
    buffer_.give_back(std::move(chunks_.front()));
    chunks_.pop_front();
  }
}

void Journal::note_error(int error) {
  const int before = error_.exchange(error, std::memory_order_relaxed);
  if (before == error || !options_.log) return;
  options_.log(error == 0 ? "the journal can be written again"
                          : std::string("the journal cannot be written, writes are refused: ") +
                                std::strerror(error));
}

void Journal::tell() {
  std::vector<Waiter*> told;
  {
    const std::lock_guard guard(mutex_);
    const uint64_t safe = safe_lsn();
    const auto waits = [&](const Waiting& one) { return one.lsn > safe; };
    const auto end = std::stable_partition(waiting_.begin(), waiting_.end(), waits);
    for (auto at = end; at != waiting_.end(); ++at) told.push_back(at->waiter);
    waiting_.erase(end, waiting_.end());
  }
  for (Waiter* waiter : told) waiter->there();
}

}  // namespace isotherm
