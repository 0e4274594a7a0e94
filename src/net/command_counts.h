// CommandCounts: how often each RESP command ran, failed, and how long it took; of one loop.
//
// Commands of a turn run together, so none of them can be timed by itself. The time of a turn
// (running the batch and writing the answers) is shared among its commands by weight: one for the
// command and one for each of its requests. A command that runs alone is timed by itself.
//
//   Notes::note(number, rows) per answer ─▶ sums of the turn ─ finish_turn(time) ─▶ counters
//
// `number` is a command's place in the table, subcommands included (resp/command.h); 0 stands for
// words that are no command, and is never shown. A command that was rejected before it ran (wrong
// number of words, no memory) does not count as a call.
//
// Errors are counted by their code, the word that an error reply begins with.
//
// Threads. The loop writes; any may read the counters and `add_errors_to`.
// Limits. `most_commands`, which a test compares with the table.
#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "base/counter.h"

namespace isotherm::net {

// Wall time may be set back meanwhile.
inline uint64_t nanoseconds_since(const Clock& clock, int64_t began_us) {
  return static_cast<uint64_t>(1000 * std::max<int64_t>(clock.now_us() - began_us, 0));
}

using ErrorTotals = std::map<std::string, uint64_t, std::less<>>;

class CommandCounts {
 public:
  static constexpr size_t most_commands = 512;

  struct Count {
    Counter calls, rejected, failed, nanoseconds;
  };

  // Takes the answers of a connection's turn. Most are of the same command as the one before, so
  // runs of them are summed up in registers.
  class Notes {
   public:
    explicit Notes(CommandCounts& counts) : counts_(counts) {}

    // An answer is written that took `rows` requests.
    void note(uint16_t number, uint32_t rows) {
      if (number != number_) [[unlikely]] {
        finish_run();
        number_ = number;
      }
      ++calls_;
      run_rows_ += rows;
    }
    // After the last one; returns the requests of all.
    uint64_t finish() {
      finish_run();
      return rows_;
    }

   private:
    void finish_run() {
      if (calls_ != 0) counts_.add_run(number_, calls_, run_rows_ + calls_);
      rows_ += run_rows_;
      calls_ = 0;
      run_rows_ = 0;
    }

    CommandCounts& counts_;
    uint16_t number_ = 0;
    uint32_t calls_ = 0;
    uint64_t run_rows_ = 0;
    uint64_t rows_ = 0;
  };

  // The same for requests that are no RESP command's, which share the turn's time.
  void note_others(uint64_t weight) { others_ += weight; }

  // An answer of this turn is an error; `code` is its first word.
  void note_error(uint16_t number, std::string_view code, bool rejected);

  void finish_turn(uint64_t nanoseconds);
  void note_alone(uint16_t number, uint64_t nanoseconds) {
    counts_[number].calls.add();
    counts_[number].nanoseconds.add(nanoseconds);
  }

  const Count& of(size_t number) const { return counts_[number]; }
  void add_errors_to(ErrorTotals& totals) const;

 private:
  void add_run(uint16_t number, uint32_t calls, uint64_t weight) {
    OfTurn& sum = turn_[number];
    if (sum.calls == 0) noted_[noted_count_++] = number;
    sum.calls += calls;
    sum.weight += weight;
  }

  struct OfTurn {
    uint64_t weight = 0;
    uint32_t calls = 0;  // rejected ones included
    uint32_t rejected = 0;
  };

  std::array<OfTurn, most_commands> turn_{};
  std::array<uint16_t, most_commands> noted_{};  // commands that the turn has
  size_t noted_count_ = 0;
  uint64_t others_ = 0;
  std::array<Count, most_commands> counts_{};

  mutable std::mutex errors_mutex_;
  ErrorTotals errors_;
};

}  // namespace isotherm::net
