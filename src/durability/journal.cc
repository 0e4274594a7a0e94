#include "durability/journal.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <utility>

#include "base/broken.h"
#include "base/kill_point.h"
#include "base/lasting_thread.h"
#include "base/reason_of.h"
#include "base/wait_for_memory.h"

namespace isotherm {
namespace {

// Blocks that are written and not synced take memory.
constexpr uint64_t most_unsynced = 8 << 20;

bool is_full(int result) { return result == -ENOSPC || result == -EDQUOT || result == -EFBIG; }

// Whether the row shows nothing of what others have written; unless it is in a group.
bool is_plain_put(const Batch::Columns& columns, Batch::Row row) {
  constexpr uint16_t harmless = option::in_place | option::over_cap;
  return columns.op[row] == Op::put && (columns.options[row] & ~harmless) == 0;
}

bool has_only_puts(const Batch& batch) {
  if (batch.has_groups() || batch.walks() || batch.marks()) return false;
  const Batch::Columns& columns = batch.columns();
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (!is_plain_put(columns, row)) return false;
  }
  return !batch.empty();
}

Manifest manifest_of(const JournalReader& reader, bool behind_tree) {
  Manifest its = reader.manifest();
  if (behind_tree && !reader.found()) its.base = JournalBase::in_tree();
  return its;
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
      first_version_(last_version),
      most_unwritten_(options_.most_unwritten),
      buffer_(reader.end_lsn(), options_.count),
      segments_(files, options_.folder, options_.name, manifest_of(reader, options_.behind_tree),
                reader.segment_lsns(), options_.segment_bytes) {
  // What was read is kept nowhere else: it may be lost however full the disk is.
  const int kept = reader.found() ? segments_.sync_last(reader.used_bytes(), reader.oldest()) : 0;
  if (kept < 0) {
    throw JournalError("journal: cannot sync the last segment in " + options_.folder + ": " +
                       reason_of(-kept));
  }
  const int made = segments_.begin(reader.end_lsn(), last_version, 0);
  const bool goes_on = reader.found() && is_full(made);
  if (goes_on) note_error(-made);
  if (made < 0 && !goes_on) {
    throw JournalError("journal: cannot make a segment in " + options_.folder + ": " +
                       reason_of(-made));
  }
  follow_cap();
  writer_ = lasting_thread([this] { run(); });
}

Journal::~Journal() {
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  writer_.join();
  if (options_.count) options_.count(-static_cast<int64_t>(memory()));
}

// A batch that only reads has no numbers and no records; its token is itself, marked, and it takes
// no lock.
CommitSink::Begun Journal::begins(const Batch& batch) {
  static_assert(alignof(Batch) > of_reader && alignof(RunningBatch) > of_reader);
  if (batch.only_gets() && !batch.marks()) {
    return {reinterpret_cast<uint64_t>(&batch) | of_reader, true};
  }
  RunningBatch& running = batches_.take();
  running.batch = &batch;
  running.number = running.builds_on = running.end = 0;
  running.only_puts = has_only_puts(batch);
  return {reinterpret_cast<uint64_t>(&running), true};
}

uint64_t Journal::safe_number() const {
  const auto& safe = policy() == SyncPolicy::always ? synced_number_ : written_number_;
  return safe.load(std::memory_order_seq_cst);
}

bool Journal::is_safe(uint32_t database, uint64_t hash) const {
  const uint64_t safe = safe_number();
  if (last_number_.load(std::memory_order_acquire) <= safe) return true;
  return flushed_at_.load(std::memory_order_acquire) <= safe &&
         marks_.is_before(hash_in(database, hash), safe, 0);
}

// `own`: the batch's number, if its block is safe, and all that it builds on; or 0.
bool Journal::is_shown_safe(const Batch& batch, uint64_t own) const {
  const uint64_t safe = safe_number();
  if (last_number_.load(std::memory_order_acquire) <= safe) return true;
  if (batch.empty() || batch.walks()) return false;
  const uint64_t flushed_at = flushed_at_.load(std::memory_order_acquire);
  if (flushed_at > safe && flushed_at != own) return false;
  const bool groups = batch.has_groups();
  const Batch::Columns& columns = batch.columns();
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    if (!groups && is_plain_put(columns, row)) continue;
    const uint64_t hash = hash_in(columns.database[row], columns.hash[row]);
    if (!marks_.is_before(hash, safe, own)) return false;
  }
  return true;
}

Awaited* Journal::ends(uint64_t token) {
  if (is_reader(token)) {
    if (broken(Rule::syncing)) return nullptr;
    return is_shown_safe(*reinterpret_cast<const Batch*>(token - of_reader), 0) ? nullptr : this;
  }
  auto& running = *reinterpret_cast<RunningBatch*>(token);
  const Batch& batch = *running.batch;
  const uint64_t number = running.number;
  const uint64_t builds_on = running.builds_on;
  const bool only_puts = running.only_puts;
  end_records(running);
  const uint64_t end = running.end;
  RunningBatches::give_back(running);
  if (broken(Rule::syncing)) return nullptr;
  const bool here = number != 0 && policy() != SyncPolicy::always && write_here(end);
  const bool whole = here && builds_on <= safe_number();
  kill_point("journal.appended");
  const bool has_block = number == 0 || here || number <= safe_number();
  const bool shows = has_block && (only_puts || is_shown_safe(batch, whole ? number : 0));
  const bool has_room = number == 0 || end <= buffer_.first_lsn() + most_unwritten();
  return shows && has_room ? nullptr : this;
}

// Whoever ends a batch, or writes, looks at `any_waits_` behind what it has published.
void Journal::begin(Waiter& waiter) {
  bool failed = false;
  {
    const std::lock_guard guard(mutex_);
    const uint64_t number = last_number_.load();
    any_waits_.store(true);
    failed = error() != 0;
    if ((number > safe_number() || full()) && !failed) {
      waiting_.push_back({number, &waiter});
      wake_.notify_one();
      return;
    }
    any_waits_.store(!waiting_.empty());
  }
  failed ? waiter.failed() : waiter.there();
}

void Journal::set_policy(SyncPolicy policy) {
  const std::lock_guard guard(mutex_);
  policy_.store(policy, std::memory_order_relaxed);
  wake_.notify_one();
}

// In this order: batches that have ended by then have their places in the buffer.
Journal::Point Journal::point() const {
  const uint64_t number = ended_number();
  const uint64_t lsn = buffer_.end();
  batches_.wait_for_blocks(lsn);
  return {lsn, number};
}

// Of a block: where it is larger than a segment, the writer makes one for it meanwhile.
void Journal::expect(uint64_t bytes) {
  if (bytes <= options_.segment_bytes) return;
  expected_.store(bytes);
  wake_writer();
}

void Journal::wake_writer() {
  const std::lock_guard guard(mutex_);
  wake_.notify_one();
}

// Whether all before `end` is written. Others that write do so for a moment only, or are the writer
// with something that takes long. Who writes may have taken the block along, but not the number:
// then the writer is told, if somebody waits for that.
bool Journal::write_here(uint64_t end) {
  constexpr int most_pauses = 400;
  constexpr int most_yields = 40;
  const uint64_t worth_releasing = std::min(RecordBuffer::chunk_bytes, most_unwritten() / 4);
  for (int i = 0; i < most_pauses + most_yields && error() == 0; ++i) {
    if (written_lsn_.load(std::memory_order_acquire) >= end) {
      if (any_waits_.load()) wake_writer();
      return true;
    }
    if (std::unique_lock writing(writing_, std::try_to_lock); writing.owns_lock()) {
      if (write_all(false) < 0) return false;
      const uint64_t written = written_lsn_.load(std::memory_order_relaxed);
      if (policy() == SyncPolicy::no && written - buffer_.first_lsn() >= worth_releasing) {
        buffer_.release(written);
      }
      writing.unlock();
      tell();
      return written >= end;
    }
    i < most_pauses ? __builtin_ia32_pause() : std::this_thread::yield();
  }
  return false;
}

void Journal::run() {
  const std::chrono::milliseconds pause(options_.pause_ms);
  std::unique_lock lock(mutex_);
  while (!stops_) {
    const auto wanted = [this] {
      if (stops_ || ordered_ || expected_.load() != 0) return true;
      return error() == 0 && (full() || (!waiting_.empty() && ended_number() > safe_number()));
    };
    wake_.wait_for(lock, pause, wanted);
    lock.unlock();
    wait_for_memory([this] { step(false); });
    lock.lock();
  }
  lock.unlock();
  wait_for_memory([this] {
    step(true);
    if (error() == 0 && segments_.take_back(buffer_.end())) return;
    append_mark();
    step(true);
  });
}

// Says that all before it is on disk. It is written with what comes next, and not synced by itself.
void Journal::append_mark() {
  RecordHeader mark{};
  mark.op = RecordOp::mark;
  if (append_again({reinterpret_cast<const char*>(&mark), sizeof mark})) mark_end_ = buffer_.end();
}

// Throws std::bad_alloc; another step goes on where this one ended.
void Journal::step(bool ends) {
  int result = write_for_waiters();
  if (result >= 0 && sync_is_due(ends)) {
    result = sync_or_rewind();
    if (result >= 0 && !ends && policy() == SyncPolicy::everysec) append_mark();
  }
  note_error(result < 0 ? -result : 0);
  if (policy() == SyncPolicy::no) buffer_.release(written_lsn_.load(std::memory_order_relaxed));
  tell();
  // Nobody waits for that.
  if (!ends) segments_.prepare(buffer_.end(), expected_.exchange(0));
  follow_cap();
  obey();
}

// Who waits for a write alone does not wait for the sync behind it, which may take long; nor do
// those who came while others were written.
int Journal::write_for_waiters() {
  constexpr int most_times = 4;
  int result = 0;
  for (int i = 0; i < most_times; ++i) {
    {
      const std::lock_guard writing(writing_);
      result = write_all(true);
    }
    if (result < 0 || error() != 0 || policy() == SyncPolicy::always || !any_waits_.load()) break;
    tell();
    if (ended_number() <= written_number_.load()) break;
  }
  return result;
}

int Journal::write_all(bool may_change_segment) {
  if (may_change_segment && (!segments_.begun() || segments_.is_gone())) {
    if (const int made = next_segment(0); made < 0) return made;
  }
  const Point to = point();
  for (;;) {
    const uint64_t from = written_lsn_.load(std::memory_order_relaxed);
    if (from >= to.lsn) break;
    const std::string_view piece = buffer_.piece(from).substr(0, to.lsn - from);
    if (!segments_.has_room(from + piece.size())) {
      if (!may_change_segment) return -EAGAIN;
      if (const int made = next_segment(piece.size()); made < 0) return made;
    }
    const int result = segments_.write(from, piece.data(), piece.size());
    if (result < 0) return result;
    written_lsn_.store(from + piece.size(), std::memory_order_release);
  }
  written_number_.store(to.number);
  return 0;
}

// What is in the segment before is on disk by then. Where somebody has removed that, what came
// before it is gone, too, most likely, so the journal is to be written anew.
int Journal::next_segment(uint64_t least_bytes) {
  const bool is_gone = segments_.is_gone();
  if (const int result = is_gone ? 0 : sync(); result < 0) {
    rewind();
    return result;
  }
  const int result = segments_.begin(written_lsn_.load(std::memory_order_relaxed),
                                     std::max(first_version_, batches_.max_version()), least_bytes);
  if (result >= 0 && is_gone) {
    complete_from_ = segments_.last();
    incomplete_.store(true, std::memory_order_relaxed);
  }
  return result;
}

bool Journal::sync_is_due(bool ends) const {
  constexpr uint64_t mark_bytes = sizeof(BlockHeader) + sizeof(RecordHeader);
  const uint64_t written = written_lsn_.load(std::memory_order_relaxed);
  const uint64_t unsynced = written - synced_lsn_.load(std::memory_order_relaxed);
  const bool only_mark = !ends && unsynced == mark_bytes && written == mark_end_;
  if (unsynced == 0 || only_mark) {
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
  synced_number_.store(number);
  buffer_.release(lsn);
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
  const uint64_t synced = synced_lsn_.load(std::memory_order_relaxed);
  written_lsn_.store(std::max(synced, buffer_.first_lsn()), std::memory_order_release);
  written_number_.store(synced_number_.load(std::memory_order_relaxed), std::memory_order_release);
}

void Journal::note_error(int error) {
  if (error != 0) last_error_.store(error, std::memory_order_relaxed);
  if (error_.load() == error) return;
  const std::string line =
      error == 0 ? "the journal can be written again"
                 : "the journal cannot be written, writes are refused: " + reason_of(error);
  error_.store(error, std::memory_order_seq_cst);
  if (options_.log) options_.log(line);
}

// Those whose changes are safe; all, while the disk fails. Takes no memory, for a batch that ends
// must not fail.
void Journal::tell() {
  std::array<Waiter*, 64> told;
  for (size_t count = told.size(); count == told.size() && any_waits_.load();) {
    count = 0;
    bool failed = false;
    {
      const std::lock_guard guard(mutex_);
      const uint64_t safe = safe_number();
      failed = error() != 0;
      size_t left = 0;
      for (const Waiting& one : waiting_) {
        if (((one.number > safe || full()) && !failed) || count == told.size()) {
          waiting_[left++] = one;
        } else {
          told[count++] = one.waiter;
        }
      }
      waiting_.resize(left);
      any_waits_.store(left != 0);
    }
    for (size_t i = 0; i < count; ++i) failed ? told[i]->failed() : told[i]->there();
  }
}

void Journal::follow_cap() {
  constexpr uint64_t part = 8;
  constexpr uint64_t least = 128 << 10;
  const uint64_t cap = options_.cap ? options_.cap() : 0;
  const uint64_t most = options_.most_unwritten;
  most_unwritten_.store(cap == 0 ? most : std::clamp(cap / part, least, std::max(least, most)),
                        std::memory_order_relaxed);
  const uint64_t end = buffer_.end();
  const bool rests = std::exchange(seen_end_, end) == end;
  buffer_.trim(rests ? 0 : most_unwritten());
}

}  // namespace isotherm
