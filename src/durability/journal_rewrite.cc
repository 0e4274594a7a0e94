// The parts of Journal that its writer does for others, who wait for them: syncs, writing it anew,
// and cutting it.
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "base/kill_point.h"
#include "durability/journal.h"

namespace isotherm {

// Runs `work` on the writer, and returns what it has.
int Journal::by_writer(std::function<int()> work) {
  const std::lock_guard ordering(ordering_);
  std::unique_lock lock(mutex_);
  order_ = std::move(work);
  ordered_ = true;
  wake_.notify_one();
  done_.wait(lock, [this] { return !ordered_; });
  return order_result_;
}

// By the writer.
void Journal::obey() {
  std::function<int()> order;
  {
    const std::lock_guard guard(mutex_);
    if (!ordered_) return;
    order = std::exchange(order_, nullptr);
  }
  int result = -ENOMEM;
  try {
    result = order();
  } catch (const std::bad_alloc&) {
    // Whoever waits for it is told.
  }
  const std::lock_guard guard(mutex_);
  order_result_ = result;
  ordered_ = false;
  done_.notify_one();
}

int Journal::sync_now() {
  return by_writer([this] {
    const int result = write_and_sync();
    note_error(result < 0 ? -result : 0);
    tell();
    return result;
  });
}

// By the writer.
int Journal::write_and_sync() {
  int result = 0;
  {
    const std::lock_guard writing(writing_);
    result = write_all(true);
  }
  return result < 0 ? result : sync_or_rewind();
}

int Journal::begin_rewrite(uint64_t bytes) {
  return by_writer([this, bytes] {
    const std::lock_guard writing(writing_);
    const int result = segments_.has_disk_for(bytes) ? next_segment_now() : -ENOSPC;
    if (result < 0) return result;
    kill_point("journal.rewrite");
    rewrite_from_ = {written_lsn_.load(std::memory_order_relaxed), segments_.last()};
    return 0;
  });
}

// The version is that of the item, so what was changed meanwhile is newer, wherever it stands.
bool Journal::put_again(std::string_view records) {
  const uint64_t most_ahead = std::min<uint64_t>(16 << 20, most_unwritten());
  while (unwritten_bytes() > most_ahead && error() == 0 && !job_.stops()) {
    wake_writer();
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (error() != 0 || job_.stops()) return false;
  kill_point("journal.put_again");
  return append_again(records);
}

int Journal::end_rewrite() {
  return by_writer([this] {
    const uint64_t begins_with = std::exchange(rewrite_from_, {}).number;
    int result = write_and_sync();
    kill_point("journal.rewritten");
    if (result >= 0) result = segments_.drop_before(begins_with);
    if (result < 0) return result;
    note_begin();
    return 0;
  });
}

// By the writer, with `writing_`.
int Journal::next_segment_now() {
  const int result = write_all(true);
  return result < 0 ? result : next_segment(0);
}

// By the writer.
void Journal::note_begin() {
  if (segments_.first() >= complete_from_) incomplete_.store(false, std::memory_order_relaxed);
  first_lsn_.store(segments_.begin_lsn(), std::memory_order_relaxed);
  base_file_bytes_.store(segments_.base().bytes, std::memory_order_relaxed);
  base_bytes_.store(live_bytes(), std::memory_order_relaxed);
}

int Journal::begin_segment(JournalSegment& at) {
  return by_writer([this, &at] {
    const std::lock_guard writing(writing_);
    const int result = next_segment_now();
    kill_point("journal.segment");
    at = {written_lsn_.load(std::memory_order_relaxed), segments_.last()};
    return result;
  });
}

// By the thread of who calls, for it takes long.
int Journal::put_base(const std::string& path, const JournalSegment& at, JournalBase& base) {
  base.number = at.number;
  if (!segments_.has_disk_for(base.bytes)) return -ENOSPC;
  return segments_.put_base(path, base.number, base.bytes);
}

// A rewrite would count on segments that go, or have put records that a base makes count no more.
int Journal::cut_before(uint64_t lsn, const JournalBase& base) {
  return by_writer([this, lsn, base] {
    const bool has_begun = rewrite_from_.number != 0;
    if (job_.in_progress() && has_begun) return -EBUSY;
    kill_point("journal.cut");
    const int result = segments_.cut_before(lsn, base);
    if (result >= 0) note_begin();
    return result;
  });
}

}  // namespace isotherm
