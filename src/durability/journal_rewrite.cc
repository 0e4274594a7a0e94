// The part of Journal that writes itself anew: what those who rewrite call.
#include <cerrno>
#include <chrono>
#include <thread>
#include <utility>

#include "durability/journal.h"

namespace isotherm {

// Runs `work` on the writer, and returns what it has.
int Journal::by_writer(std::function<int()> work) {
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
  const int result = order();
  const std::lock_guard guard(mutex_);
  order_result_ = result;
  ordered_ = false;
  done_.notify_one();
}

int Journal::begin_rewrite(uint64_t bytes) {
  return by_writer([this, bytes] {
    const std::lock_guard writing(writing_);
    int result = segments_.has_disk_for(bytes) ? write_all(true) : -ENOSPC;
    if (result >= 0) result = next_segment(0);
    if (result < 0) return result;
    rewrite_from_ = {written_lsn_.load(std::memory_order_relaxed), segments_.last()};
    return 0;
  });
}

// The version is that of the item, so what was changed meanwhile is newer, wherever it stands.
bool Journal::put_again(std::string_view records) {
  constexpr uint64_t most_ahead = 16 << 20;
  while (unwritten_bytes() > most_ahead && error() == 0 && !wish_.stops()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  if (error() != 0 || wish_.stops()) return false;
  append(records.data(), records.size(), nullptr);
  return true;
}

int Journal::end_rewrite() {
  return by_writer([this] {
    int result = 0;
    {
      const std::lock_guard writing(writing_);
      result = write_all(true);
    }
    if (result >= 0) result = sync_or_rewind();
    if (result >= 0) result = segments_.drop_before(rewrite_from_.number);
    if (result < 0) return result;
    first_lsn_.store(rewrite_from_.lsn, std::memory_order_relaxed);
    base_bytes_.store(live_bytes(), std::memory_order_relaxed);
    return 0;
  });
}

int Journal::begin_segment(JournalSegment& begun) {
  return by_writer([&] {
    const std::lock_guard writing(writing_);
    int result = write_all(true);
    if (result >= 0) result = next_segment(0);
    if (result >= 0) begun = {written_lsn_.load(std::memory_order_relaxed), segments_.last()};
    return result;
  });
}

int Journal::drop_before(const JournalSegment& segment) {
  return by_writer([&] {
    const int result = segments_.drop_before(segment.number);
    if (result < 0) return result;
    first_lsn_.store(segment.lsn, std::memory_order_relaxed);
    base_bytes_.store(live_bytes(), std::memory_order_relaxed);
    return 0;
  });
}

}  // namespace isotherm
