// SaveWish: who wants a snapshot to be written, when it is to be written without being asked for,
// and what became of it; as SAVE, BGSAVE and CONFIG SET ask, and INFO and LASTSAVE show.
//
// Threads. Any.
#pragma once

#include <atomic>
#include <charconv>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm {

// When so many seconds have passed and there were so many changes since the last one.
struct SavePoint {
  int64_t seconds;
  int64_t changes;
};
using SavePoints = std::vector<SavePoint>;

// "3600 1 300 100": pairs of numbers; none: the text is something else.
inline std::optional<SavePoints> parse_save_points(std::string_view text) {
  std::vector<int64_t> numbers;
  while (true) {
    const size_t begin = text.find_first_not_of(' ');
    if (begin == std::string_view::npos) break;
    text.remove_prefix(begin);
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (error != std::errc() || (!text.empty() && text.front() != ' ')) return std::nullopt;
    numbers.push_back(number);
  }
  SavePoints points;
  for (size_t i = 0; i + 1 < numbers.size(); i += 2) points.push_back({numbers[i], numbers[i + 1]});
  for (const SavePoint& point : points) {
    if (point.seconds < 1 || point.changes < 0) return std::nullopt;
  }
  return numbers.size() % 2 == 0 ? std::optional(points) : std::nullopt;
}

inline std::string to_string(const SavePoints& points) {
  std::string text;
  for (const SavePoint& point : points) {
    if (!text.empty()) text += ' ';
    text += std::to_string(point.seconds) + " " + std::to_string(point.changes);
  }
  return text;
}

class SaveWish {
 public:
  // The number of a snapshot from now on; 0: one is under way, or was asked for.
  uint64_t ask() {
    const std::lock_guard guard(mutex_);
    if (asked_ || in_progress()) return 0;
    asked_ = true;
    in_progress_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
    return ended_.load(std::memory_order_relaxed) + 1;
  }
  bool has_ended(uint64_t number) const { return ended_.load(std::memory_order_acquire) >= number; }
  // Asks, when none is under way any more, and waits for the end; whether it has worked.
  bool save_now() {
    std::unique_lock lock(mutex_);
    end_.wait(lock, [this] { return !asked_ && !in_progress(); });
    const uint64_t number = ended_.load(std::memory_order_relaxed) + 1;
    asked_ = true;
    in_progress_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
    end_.wait(lock, [&] { return has_ended(number); });
    return !failed();
  }
  void stop() {
    const std::lock_guard guard(mutex_);
    stops_.store(true, std::memory_order_relaxed);
    wake_.notify_all();
  }
  bool stops() const { return stops_.load(std::memory_order_relaxed); }

  SavePoints points() const {
    const std::lock_guard guard(mutex_);
    return points_;
  }
  void set_points(SavePoints points) {
    const std::lock_guard guard(mutex_);
    points_ = std::move(points);
  }

  // For the one who saves. Whether somebody has asked; no later than `longest`.
  bool wait(std::chrono::milliseconds longest) {
    std::unique_lock lock(mutex_);
    wake_.wait_for(lock, longest, [this] { return asked_ || stops(); });
    return asked_ && !stops();
  }
  void begin(int64_t now_s) {
    began_s_.store(now_s, std::memory_order_relaxed);
    in_progress_.store(true, std::memory_order_release);
  }
  // `changes`: EngineStats::changes at its moment.
  void end(bool worked, int64_t now_s, uint64_t changes) {
    const std::lock_guard guard(mutex_);
    failed_.store(!worked, std::memory_order_relaxed);
    tried_s_.store(now_s, std::memory_order_relaxed);
    last_seconds_.store(now_s - began_s_.exchange(0), std::memory_order_relaxed);
    if (worked) {
      saved_s_.store(now_s, std::memory_order_relaxed);
      changes_.store(changes, std::memory_order_relaxed);
      saves_.fetch_add(1, std::memory_order_relaxed);
    }
    asked_ = false;
    in_progress_.store(false, std::memory_order_relaxed);
    ended_.fetch_add(1, std::memory_order_release);
    end_.notify_all();
  }
  // Of the start of the server, and of what it has read then.
  void begin_at(int64_t now_s, uint64_t changes) {
    saved_s_.store(now_s, std::memory_order_relaxed);
    changes_.store(changes, std::memory_order_relaxed);
  }

  bool in_progress() const { return in_progress_.load(std::memory_order_acquire); }
  bool failed() const { return failed_.load(std::memory_order_relaxed); }
  uint64_t saves() const { return saves_.load(std::memory_order_relaxed); }
  uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
  // In seconds since the epoch: the last that worked; the last at all.
  int64_t saved_s() const { return saved_s_.load(std::memory_order_relaxed); }
  int64_t tried_s() const { return tried_s_.load(std::memory_order_relaxed); }
  // How long the last took; -1: there was none.
  int64_t last_seconds() const { return last_seconds_.load(std::memory_order_relaxed); }
  int64_t seconds(int64_t now_s) const {
    const int64_t began_s = began_s_.load(std::memory_order_relaxed);
    if (!in_progress()) return -1;
    return began_s != 0 ? now_s - began_s : 0;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable wake_;
  std::condition_variable end_;
  SavePoints points_;
  bool asked_ = false;
  std::atomic<bool> stops_{false};
  std::atomic<bool> in_progress_{false};
  std::atomic<bool> failed_{false};
  std::atomic<uint64_t> ended_{0};
  std::atomic<uint64_t> saves_{0};
  std::atomic<uint64_t> changes_{0};
  std::atomic<int64_t> began_s_{0};  // 0: it was asked for, and has not begun
  std::atomic<int64_t> saved_s_{0};
  std::atomic<int64_t> tried_s_{0};
  std::atomic<int64_t> last_seconds_{-1};
};

}  // namespace isotherm
