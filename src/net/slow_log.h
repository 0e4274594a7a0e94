// SlowLog: the commands that took long, of all loops, the last ones that there is room for.
//
// What is kept of a command is what Redis keeps: at most 32 words of at most 128 bytes, and where
// more are left out a word that says so. Who decides that a command was slow is
// resp/slow_answers.h; nothing comes here for commands that were not.
//
// Threads. Any.
// Limits. `set_most` entries, and `most_bytes` for all; the oldest go.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm::net {

struct SlowCommand {
  uint64_t id = 0;
  int64_t began_seconds = 0;  // Unix time
  int64_t microseconds = 0;
  std::vector<std::string> words;
  std::string peer_address;
  std::string client_name;

  size_t bytes() const;
};

class SlowLog {
 public:
  static constexpr size_t most_words = 32;
  static constexpr size_t most_word_bytes = 128;
  static constexpr size_t most_bytes = 16 << 20;

  SlowLog(int64_t least_us, uint64_t most) : slower_than_us(least_us), most_(most) {}

  // Commands that took as long, in microseconds, are slow; negative: none is.
  std::atomic<int64_t> slower_than_us;
  bool is_slow(int64_t microseconds) const {
    const int64_t least = slower_than_us.load(std::memory_order_relaxed);
    return least >= 0 && microseconds >= least;
  }
  bool is_on() const { return slower_than_us.load(std::memory_order_relaxed) >= 0; }

  // What is kept of the words of a command.
  static std::vector<std::string> shorten(std::span<const std::string_view> words);

  // Gives it the next id.
  void add(SlowCommand command);
  // The newest first; `count`: at most so many.
  std::vector<SlowCommand> newest(size_t count) const;
  size_t size() const;
  void clear();

  uint64_t most() const;
  void set_most(uint64_t most);

 private:
  void drop_oldest();  // while there are too many

  mutable std::mutex mutex_;
  std::deque<SlowCommand> commands_;
  size_t bytes_ = 0;
  uint64_t most_;
  uint64_t next_id_ = 0;
};

}  // namespace isotherm::net
