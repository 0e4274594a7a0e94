#include "durability/journal.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <system_error>
#include <utility>

#include "base/broken.h"
#include "base/hash.h"
#include "base/kill_point.h"
#include "items/item.h"

namespace isotherm {
namespace {

// Blocks that are written and not synced take memory.
constexpr uint64_t most_unsynced = 8 << 20;

// Returns what it was.
uint64_t raise(std::atomic<uint64_t>& to, uint64_t value) {
  uint64_t seen = to.load(std::memory_order_relaxed);
  while (seen < value && !to.compare_exchange_weak(seen, value, std::memory_order_release)) {
  }
  return seen;
}

// What a block says of its records.
BlockHeader block_of(const char* records, uint64_t bytes) {
  BlockHeader block{};
  block.bytes = bytes;
  block.body_crc = crc32c(0, records, bytes);
  return block;
}

}  // namespace

Journal::Journal(JournalOptions options, const JournalReader& reader, uint64_t last_version,
                 Files& files)
    : options_(std::move(options)),
      store_(reader.manifest().store),
      policy_(options_.policy),
      written_lsn_(reader.end_lsn()),
      synced_lsn_(reader.end_lsn()),
      first_lsn_(reader.first_lsn()),
      base_bytes_(reader.end_lsn() - reader.first_lsn() + reader.manifest().base.bytes),
      base_file_bytes_(reader.manifest().base.bytes),
      max_version_(last_version),
      marks_(std::make_unique<std::atomic<uint64_t>[]>(marks)),
      segments_(files, options_.folder, options_.name, reader.manifest(), reader.segment_lsns(),
                options_.segment_bytes),
      buffer_(reader.end_lsn()) {
  int made = reader.found() ? segments_.sync_last(reader.used_bytes(), reader.oldest()) : 0;
  if (made >= 0) made = segments_.begin(reader.end_lsn(), last_version, 0);
  if (made < 0) {
    throw JournalError("journal: cannot make a segment in " + options_.folder + ": " +
                       std::generic_category().message(-made));
  }
  count_memory();
  writer_ = std::thread([this] { run(); });
}

Journal::~Journal() {
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  writer_.join();
  if (options_.count) options_.count(-static_cast<int64_t>(counted_));
}

std::atomic<uint64_t>& Journal::mark_of(uint32_t database, std::string_view key) const {
  return marks_[hash_bytes(key, database) % marks];
}

// A batch that only reads has no numbers and no records; its token is itself, marked, and it takes
// no lock.
CommitSink::Begun Journal::begins(const Batch& batch) {
  static_assert(alignof(Batch) > of_reader && alignof(Running) > of_reader);
  if (batch.only_gets() && !batch.marks()) {
    return {reinterpret_cast<uint64_t>(&batch) | of_reader, true};
  }
  const std::lock_guard guard(mutex_);
  if (spare_.empty()) {
    all_.push_back(std::make_unique<Running>());
    spare_.reserve(all_.size());
    numbered_.reserve(all_.size());
    spare_.push_back(all_.back().get());
  }
  Running* const running = spare_.back();
  spare_.pop_back();
  running->batch = &batch;
  running->number = running->builds_on = running->max_version = 0;
  return {reinterpret_cast<uint64_t>(running), true};
}

void Journal::give_number(Running& running) {
  const std::lock_guard guard(mutex_);
  running.number = last_number_.load(std::memory_order_relaxed) + 1;
  numbered_.push_back(&running);
  last_number_.store(running.number, std::memory_order_release);
}

// A batch whose rows take effect together keeps all its records until it ends.
char* Journal::room_for(Running& running, uint64_t bytes) {
  if (running.bytes > most_own_bytes && !running.batch->has_groups()) {
    end_records(running, false);
  }
  if (running.capacity - running.bytes < bytes) {
    constexpr uint64_t least = 4096;
    const uint64_t capacity = std::max({running.bytes + bytes, running.capacity * 2, least});
    auto memory = take_memory(capacity);
    if (running.bytes != 0) std::memcpy(memory.get(), running.memory.get(), running.bytes);
    own_bytes_.fetch_add(capacity - running.capacity, std::memory_order_relaxed);
    running.memory = std::move(memory);
    running.capacity = capacity;
  }
  char* const room = running.memory.get() + running.bytes;
  running.bytes += bytes;
  return room;
}

// `running` has no number from then on, if it is given.
void Journal::append(const char* records, uint64_t bytes, Running* running) {
  BlockHeader block = block_of(records, bytes);
  kill_point("journal.append");
  const std::lock_guard guard(mutex_);
  block.synced = synced_lsn_.load(std::memory_order_relaxed);
  if (bytes != 0) buffer_.append(block, records, store_);
  if (running != nullptr) std::erase(numbered_, running);
}

void Journal::end_records(Running& running, bool ends) {
  if (running.bytes == 0 && !ends) return;
  raise(max_version_, running.max_version);
  append(running.memory.get(), running.bytes, ends ? &running : nullptr);
  running.bytes = 0;
  if (running.capacity <= 2 * most_own_bytes) return;
  own_bytes_.fetch_sub(running.capacity, std::memory_order_relaxed);
  running.memory.reset();
  running.capacity = 0;
}

// Of no batch: it has its number and is in the buffer at once.
void Journal::append_alone(const RecordHeader& record, std::string_view key,
                           std::atomic<uint64_t>& mark) {
  const uint64_t bytes = record_bytes(key.size(), 0);
  const std::unique_ptr<char[]> memory = take_memory(bytes);
  put_record(memory.get(), record, key, {});
  BlockHeader block = block_of(memory.get(), bytes);
  const std::lock_guard guard(mutex_);
  const uint64_t number = last_number_.load(std::memory_order_relaxed) + 1;
  last_number_.store(number, std::memory_order_release);
  raise(mark, number);
  raise(max_version_, record.version);
  block.synced = synced_lsn_.load(std::memory_order_relaxed);
  buffer_.append(block, memory.get(), store_);
}

void Journal::note_change(Running& running, uint64_t version, std::atomic<uint64_t>& mark) {
  if (running.number == 0) give_number(running);
  running.max_version = std::max(running.max_version, version);
  if (const uint64_t before = raise(mark, running.number); before != running.number) {
    running.builds_on = std::max(running.builds_on, before);
  }
}

void Journal::changed(const ItemChange& change) {
  if (change.reason == ItemChange::Reason::expired) return;
  RecordHeader record{};
  record.database = change.database;
  record.version = change.version;
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
    record.state = static_cast<uint16_t>(change.new_item->state());
    value = change.new_item->value();
  }
  std::atomic<uint64_t>& mark = mark_of(change.database, change.key);
  if (change.token == 0 || is_reader(change.token)) return append_alone(record, change.key, mark);
  auto& running = *reinterpret_cast<Running*>(change.token);
  note_change(running, change.version, mark);
  put_record(room_for(running, record_bytes(change.key.size(), value.size())), record, change.key,
             value);
}

// In the block of its batch: a flush may be one change of several that take effect together.
void Journal::flushed(uint32_t database, uint64_t version, uint64_t token) {
  RecordHeader record{};
  record.op = RecordOp::flush;
  record.database = database;
  record.version = version;
  auto& running = *reinterpret_cast<Running*>(token);
  note_change(running, version, flushed_at_);
  put_record(room_for(running, record_bytes(0, 0)), record, {}, {});
}

void Journal::grouped(uint64_t token) {
  if (!is_reader(token)) end_records(*reinterpret_cast<Running*>(token), false);
}

uint64_t Journal::safe_number() const {
  const auto& safe = policy() == SyncPolicy::always ? synced_number_ : written_number_;
  return safe.load(std::memory_order_acquire);
}

bool Journal::is_safe(const Batch& batch, Batch::Row row) const {
  const uint64_t safe = safe_number();
  const Batch::Columns& columns = batch.columns();
  return flushed_at_.load(std::memory_order_acquire) <= safe &&
         mark_of(columns.database[row], columns.key[row]).load(std::memory_order_acquire) <= safe;
}

// `own`: the batch's number, whose block is safe, and all that it builds on; or 0.
bool Journal::is_shown_safe(const Batch& batch, uint64_t own) const {
  const uint64_t safe = safe_number();
  if (last_number_.load(std::memory_order_acquire) <= safe) return true;
  if (batch.empty() || batch.walks()) return false;
  const auto is_open = [&](uint64_t mark) { return mark > safe && mark != own; };
  if (is_open(flushed_at_.load(std::memory_order_acquire))) return false;
  const Batch::Columns& columns = batch.columns();
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    const uint64_t mark =
        mark_of(columns.database[row], columns.key[row]).load(std::memory_order_acquire);
    if (is_open(mark)) return false;
  }
  return true;
}

Awaited* Journal::ends(uint64_t token) {
  if (is_reader(token)) {
    if (broken(Rule::syncing)) return nullptr;
    return is_shown_safe(*reinterpret_cast<const Batch*>(token - of_reader), 0) ? nullptr : this;
  }
  auto& running = *reinterpret_cast<Running*>(token);
  const Batch& batch = *running.batch;
  const uint64_t number = running.number;
  const uint64_t builds_on = running.builds_on;
  if (number != 0) end_records(running, true);
  const uint64_t end = buffer_.end();
  {
    const std::lock_guard guard(mutex_);
    spare_.push_back(&running);
  }
  if (broken(Rule::syncing)) return nullptr;
  const bool here = number != 0 && policy() != SyncPolicy::always && write_here(end);
  const bool whole = here && builds_on <= safe_number();
  kill_point("journal.appended");
  const bool waits = !is_shown_safe(batch, whole ? number : 0) || (number != 0 && full());
  return waits ? this : nullptr;
}

void Journal::begin(Waiter& waiter) {
  bool failed = false;
  {
    const std::lock_guard guard(mutex_);
    const uint64_t number = last_number_.load(std::memory_order_relaxed);
    failed = error() != 0;
    if ((number > safe_number() || full()) && !failed) {
      waiting_.push_back({number, &waiter});
      wake_.notify_one();
      return;
    }
  }
  failed ? waiter.failed() : waiter.there();
}

void Journal::set_policy(SyncPolicy policy) {
  const std::lock_guard guard(mutex_);
  policy_.store(policy, std::memory_order_relaxed);
  wake_.notify_one();
}

// All that has ended is in the buffer.
Journal::Point Journal::point() const {
  const std::lock_guard guard(mutex_);
  return {buffer_.end(), ended_number()};
}

uint64_t Journal::ended_number() const {
  return numbered_.empty() ? last_number_.load(std::memory_order_relaxed)
                           : numbered_.front()->number - 1;
}

// Whether all before `end` is written. Others that write do so for a moment only, or are the writer
// with something that takes long.
bool Journal::write_here(uint64_t end) {
  constexpr int most_tries = 100;
  std::unique_lock writing(writing_, std::defer_lock);
  const auto is_written = [&] { return written_lsn_.load(std::memory_order_acquire) >= end; };
  for (int i = 0; i < most_tries && !writing.try_lock(); ++i) {
    // Who writes has taken this along.
    if (is_written() && error() == 0) return true;
    __builtin_ia32_pause();
  }
  if (!writing.owns_lock() || error() != 0) return false;
  if (write_all(false) < 0) return false;
  const bool done = is_written();
  writing.unlock();
  tell();
  return done;
}

void Journal::run() {
  const std::chrono::milliseconds pause(options_.pause_ms);
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const auto wanted = [this] {
      if (stops_ || ordered_) return true;
      return !waiting_.empty() && error() == 0 && (ended_number() > safe_number() || full());
    };
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
  append(reinterpret_cast<const char*>(&mark), sizeof mark, nullptr);
  step(true);
}

void Journal::step(bool ends) {
  int result = 0;
  {
    const std::lock_guard writing(writing_);
    result = write_all(true);
  }
  if (result >= 0 && sync_is_due(ends)) result = sync_or_rewind();
  note_error(result < 0 ? -result : 0);
  if (policy() == SyncPolicy::no) release(written_lsn_.load(std::memory_order_relaxed));
  tell();
  count_memory();
  obey();
}

int Journal::write_all(bool may_change_segment) {
  const Point to = point();
  for (;;) {
    const uint64_t from = written_lsn_.load(std::memory_order_relaxed);
    if (from >= to.lsn) break;
    std::string_view piece;
    {
      const std::lock_guard guard(mutex_);
      piece = buffer_.piece(from).substr(0, to.lsn - from);
    }
    if (!segments_.has_room(from + piece.size())) {
      if (!may_change_segment) return -EAGAIN;
      if (const int made = next_segment(piece.size()); made < 0) return made;
    }
    const int result = segments_.write(from, piece.data(), piece.size());
    if (result < 0) return result;
    written_lsn_.store(from + piece.size(), std::memory_order_release);
  }
  written_number_.store(to.number, std::memory_order_release);
  return 0;
}

// What is in the segment before is on disk by then.
int Journal::next_segment(uint64_t least_bytes) {
  if (const int result = sync(); result < 0) {
    rewind();
    return result;
  }
  return segments_.begin(written_lsn_.load(std::memory_order_relaxed), max_version_.load(),
                         least_bytes);
}

bool Journal::sync_is_due(bool ends) const {
  const uint64_t unsynced =
      written_lsn_.load(std::memory_order_relaxed) - synced_lsn_.load(std::memory_order_relaxed);
  if (unsynced == 0) {
    // The end of a batch whose blocks were there before may be all that is new.
    return synced_number_.load(std::memory_order_relaxed) !=
           written_number_.load(std::memory_order_relaxed);
  }
  if (ends || policy() == SyncPolicy::always) return true;
  if (policy() == SyncPolicy::no) return false;
  return unsynced > most_unsynced || full() || Clock::now() - last_sync_ >= std::chrono::seconds(1);
}

// Others may write meanwhile.
int Journal::sync() {
  const uint64_t number = written_number_.load(std::memory_order_acquire);
  const uint64_t lsn = written_lsn_.load(std::memory_order_acquire);
  if (const int result = segments_.sync(); result < 0) return result;
  last_sync_ = Clock::now();
  syncs_.fetch_add(1, std::memory_order_relaxed);
  synced_lsn_.store(lsn, std::memory_order_release);
  synced_number_.store(number, std::memory_order_release);
  release(lsn);
  return 0;
}

int Journal::sync_or_rewind() {
  const int result = sync();
  if (result >= 0) return result;
  const std::lock_guard writing(writing_);
  rewind();
  return result;
}

// After a sync that failed the system may have forgotten what was written: all that is still here
// is written again. What `no` has released was promised to nobody.
void Journal::rewind() {
  const std::lock_guard guard(mutex_);
  const uint64_t synced = synced_lsn_.load(std::memory_order_relaxed);
  written_lsn_.store(std::max(synced, buffer_.first_lsn()), std::memory_order_release);
  written_number_.store(synced_number_.load(std::memory_order_relaxed), std::memory_order_release);
}

void Journal::release(uint64_t lsn) {
  const std::lock_guard guard(mutex_);
  buffer_.release(lsn);
}

void Journal::note_error(int error) {
  if (error != 0) last_error_.store(error, std::memory_order_relaxed);
  const int before = error_.exchange(error, std::memory_order_seq_cst);
  if (before == error || !options_.log) return;
  options_.log(error == 0 ? "the journal can be written again"
                          : std::string("the journal cannot be written, writes are refused: ") +
                                std::generic_category().message(error));
}

// Those whose changes are safe; all, while the disk fails.
void Journal::tell() {
  std::vector<Waiter*> told;
  bool failed = false;
  {
    const std::lock_guard guard(mutex_);
    if (waiting_.empty()) return;
    const uint64_t safe = safe_number();
    failed = error() != 0;
    size_t left = 0;
    for (const Waiting& one : waiting_) {
      if ((one.number > safe || full()) && !failed) {
        waiting_[left++] = one;
      } else {
        told.push_back(one.waiter);
      }
    }
    waiting_.resize(left);
  }
  for (Waiter* waiter : told) failed ? waiter->failed() : waiter->there();
}

void Journal::count_memory() {
  const uint64_t bytes = memory();
  if (options_.count) options_.count(static_cast<int64_t>(bytes) - static_cast<int64_t>(counted_));
  counted_ = bytes;
}

}  // namespace isotherm
