// SaveJob: snapshots, as SAVE, BGSAVE and SHUTDOWN ask for them: besides what every job has
// (durability/background_job.h), when one is to be written without being asked for, as CONFIG SET
// says, and of when the last one is, as LASTSAVE shows.
//
// Threads. Any.
#pragma once

#include <atomic>
#include <charconv>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "base/words.h"
#include "durability/background_job.h"

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
  for (const std::string_view word : words_of(text)) {
    const char* const its_end = word.data() + word.size();
    int64_t number = 0;
    const auto [end, error] = std::from_chars(word.data(), its_end, number);
    if (error != std::errc() || end != its_end) return std::nullopt;
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

class SaveJob : public BackgroundJob {
 public:
  SavePoints points() const {
    const std::lock_guard guard(points_mutex_);
    return points_;
  }
  void set_points(SavePoints points) {
    const std::lock_guard guard(points_mutex_);
    points_ = std::move(points);
  }

  // `changes`: EngineStats::changes at its moment.
  void end(bool worked, int64_t now_s, uint64_t changes) {
    tried_s_.store(now_s, std::memory_order_relaxed);
    if (worked) begin_at(now_s, changes);
    BackgroundJob::end(worked, now_s);
  }
  // Of the start of the server, and of what it has read then.
  void begin_at(int64_t now_s, uint64_t changes) {
    saved_s_.store(now_s, std::memory_order_relaxed);
    changes_.store(changes, std::memory_order_relaxed);
  }

  uint64_t changes() const { return changes_.load(std::memory_order_relaxed); }
  // In seconds since the epoch: the last that worked; the last at all.
  int64_t saved_s() const { return saved_s_.load(std::memory_order_relaxed); }
  int64_t tried_s() const { return tried_s_.load(std::memory_order_relaxed); }

 private:
  mutable std::mutex points_mutex_;
  SavePoints points_;
  std::atomic<uint64_t> changes_{0};
  std::atomic<int64_t> saved_s_{0};
  std::atomic<int64_t> tried_s_{0};
};

}  // namespace isotherm
