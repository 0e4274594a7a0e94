// SlowAnswers: which commands of a turn go to the slow log (net/slow_log.h).
//
// Commands of a turn run together, so none of them can be timed by itself. When answers are written
// the turn has taken some time, and in nearly all turns that is less than what counts as slow: so
// the clock is all that is asked. Else the time is shared among the commands by their work: a
// request counts as much as a KiB of the value that it stores, or shows, or lengthens. What has its
// share of a command is compared with the threshold then, so that a command of much work is found
// among others that only waited for it, and these are not taken for slow.
//
//   GET a            1 ┐                     0.1 ms
//   MGET of 10,000   10,000 │ turn: 15 ms ─▶ 14.8 ms  slow
//   GET b            1 ┘                     0.1 ms
//
// EXEC has its commands noted in its place. A command that runs alone is timed by itself
// (`note_slow`). Not noted are those that may carry a password, as AUTH, and what did not run.
//
// Threads. A view over one turn for the time of a reply; belongs to the connection's loop.
#pragma once

#include <span>
#include <string_view>

#include "net/resp/command.h"
#include "net/server_state.h"

namespace isotherm::net {

// Notes a command that took so long, if that is slow and it may be shown.
void note_slow(const Command& command, Arguments words, int64_t microseconds, Turn& turn,
               const Client& client);

class SlowAnswers {
 public:
  SlowAnswers(Turn& turn, const Client& client);

  // Whether the turn has taken so long that one of its commands may be slow.
  static bool any(Turn& turn) {
    return turn.server.slow_log.is_on() && turn.server.slow_log.is_slow(microseconds_of(turn));
  }

  // A command that was answered.
  void note(const Command& command, const Answer& answer, Arguments words);
  // Those of answers that begin at `Answer::begin` of the input, up to its end.
  void note(std::span<const Answer> answers, std::string_view input);

 private:
  static int64_t microseconds_of(Turn& turn) { return turn.clock.now_us() - turn.now_us(); }

  Turn& turn_;
  const Client& client_;
  int64_t microseconds_;
  uint64_t work_;  // of all
};

}  // namespace isotherm::net
