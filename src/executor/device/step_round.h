// StepRound: a round of few rows (executor/device/rounds.h) that one thread leads in steps, so that
// it need not wait for the device.
//
//   take_table ─▶ begin ─▶ settle ──▶ look_up ──▶ (answered) ─▶ change ──▶ (ended)
//                         the device's changes    roots are     has room for the changes;
//                         of before have ended    there         they are started, the table is free
// `go_on` takes those steps that need not wait, or, in a thread that may wait, all steps of one
// kind. Either kind of thread may go on with what the other one began. The caller answers the rows
// of all work, in order, so they share one overlay.
//
// Failure. `failed` may come instead of each step; `give_up` then makes the host take over, which
// takes long. Rows that were not answered before are the caller's.
//
// Threads. One at a time, within an epoch from `begin` to the end.
// Limits. most_rows rows of most_works works; not where rounds wait for more rows.
#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "executor/device/rounds.h"

namespace isotherm {

class StepRound {
 public:
  static constexpr uint32_t most_rows = 64;
  static constexpr uint32_t most_works = 32;

  enum class Came : uint8_t {
    nowhere,   // the device is not so far
    to_work,   // what comes next takes its time
    answered,  // all rows are; the table is still taken
    ended,
    failed,
  };

  StepRound(Rounds& rounds, HostExecutor& executor);

  // False where somebody has the table or waits for it; never if this may wait.
  bool take_table(bool may_wait);
  // With the table: `work` is in the round. It outlives it.
  void add(RoundWork& work);
  // Whether something was added and has not ended.
  bool open() const { return !works_.empty(); }
  Came go_on(bool may_wait);
  // Behind `failed`: the device is lost, and the round is over.
  void give_up();

 private:
  enum class Step : uint8_t { begin, settle, look_up, change };
  struct AddedWork {
    RoundWork* work;
    uint64_t first;  // row
  };

  bool step(bool may_wait, Came& came);
  void choose_side();
  void write_keys();
  void answer();
  void end();

  Rounds& rounds_;
  RootTable& table_;
  Rounds::Participant participant_;
  std::vector<AddedWork> works_;
  uint64_t rows_ = 0;
  Step step_ = Step::begin;
  RootColumns columns_;
  std::atomic<uint64_t> changes_{0};
  std::string why_;  // the device failed
};

}  // namespace isotherm
