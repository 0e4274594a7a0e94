// Rounds: batches of several threads go to a device together, and the threads answer them together.
//
// A round, with N participants:
//   form     workers join with their work (rows) while the round before runs
//   keys     each participant writes the keys of its rows into the columns, spreads them over
//            devices and host if there are several (executor/device/root_table.h), and marks those
//            of items that its rows change in place, which are few
//   find     the first participant, who leads, has the device look up all of them, while all sort
//            their rows: gets of keys that the participant has not written further up, and that
//            nobody changes in place, see what was there when the round began, and need no order;
//            the others are ordered
//   answer   participants take what is to be done as they come to it, with items read by the CPU:
//            pieces of a participant's gets that need no order, and shares of the ordered rows:
//            all those of some keys, whoever sent them, in the order of the participants and their
//            rows; what they change stays in overlays (executor/device/round_overlay.h). So a key
//            that half of all want keeps one thread busy and no other waiting.
//   change   the changed roots go to the device, which applies them before it looks up more
//
// Participants are the threads of the crew that runs what network threads start (engine/crew.h),
// and workers that wait for the ends of their batches. Only rounds change the index: no lock and no
// lost swap.
//
// Small batches of network threads need no thread of the crew: the network threads lead them in
// steps (executor/device/step_round.h).
//
// The table. It has one user at a time: a round, or whoever is `alone`.
//
// A scheduling policy says when a round begins (executor/scheduling_policy.h; batch/ has them).
// Most begin one as soon as the table is free, with what has arrived meanwhile. A policy that
// gathers has the leader sleep before it takes the table, so `alone` passes it. The leader goes on
//   when work of all senders is in,
//   when the wait would hold up somebody who is not in: whose work finds no room in the round, or
//   who takes keys for a group and waits for rows on them (`hurry`),
//   when some of the work is background work, and when the device is lost.
// A sender (RoundSender) is whose work it is, whichever participant does it. Rounds count a sender
// from its first work until it ends; an idle one makes the others wait for as long as the policy
// says.
//
// Side. A policy that chooses between ways (H-Rocks, section 6) says of each round which side is to
// answer: the device, where many rows wait, or the host. The index follows, bin by bin, between
// rounds (`tend`), and every round finds each key where it is. So no round waits for a change of
// sides. A bin moves only while no round runs, so a key's requests keep their order.
//
// Order. A worker waits until its work is answered, so all requests of a round are concurrent. On
// each key the requests that need no order take effect first, then the others, in the order of the
// participants and their rows. A get needs no order only if its participant has not written the key
// in an earlier row. So the requests of a participant take effect in the order of its rows, and
// each key is linearizable.
//
// Failure. When the device fails, the leader calls `take_over`, which makes an index of the host
// from the live items, and from then on every call returns false: what was not answered is the
// caller's to run on the host. If the device fails after a round's requests were answered, while
// the changes are made, the round is done: the items say what it did.
//
// Threads. Any number, each with a Participant of its own, within an epoch from before it calls
// until its replies are read; so what is found stays readable. Rows of groups (executor/key_gate.h)
// are rows like others here: nobody else's on their keys are in a round meanwhile.
// Memory. Columns for most_rows rows at most; some 10 bytes a row with each participant.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "base/wait_clock.h"
#include "executor/device/root_table.h"
#include "executor/device/round_overlay.h"
#include "executor/device/written_keys.h"
#include "executor/host/host_executor.h"
#include "executor/scheduling_policy.h"
#include "isotherm/scheduling.h"

namespace isotherm {

// Who answers, and with what.
struct RoundShare {
  HostExecutor& executor;
  // Of ordered rows, all those of their keys; null: gets that need no order.
  RoundOverlay* overlay;
};

class Rounds;

// Who sends work, and is waited for. Ends before the rounds do.
class RoundSender {
 public:
  RoundSender() = default;
  ~RoundSender();
  RoundSender(const RoundSender&) = delete;
  RoundSender& operator=(const RoundSender&) = delete;

 private:
  friend class Rounds;
  // Under the rounds' mutex.
  Rounds* rounds_ = nullptr;  // that miss it where nothing of it is in one
  uint64_t round_ = 0;        // the last with work of it
};

// What a participant brings. Rows are numbered from 0.
class RoundWork {
 public:
  virtual uint32_t rows() const = 0;
  // Whether some row, or this one, may change the index.
  virtual bool writes() const = 0;
  virtual bool writes(uint32_t row) const = 0;
  // Whether the row may change an item where it lies, rather than replace it.
  virtual bool changes_in_place(uint32_t row) const = 0;
  // Null: background work, whose round waits for nobody else.
  virtual RoundSender* sender() const = 0;
  virtual void write_keys(HostExecutor& executor, uint64_t* keys) = 0;
  // Answers `count` rows in this order, those numbered `numbers[i]` (null: i itself). `found` has
  // the columns of this work's rows. Other threads answer other rows.
  virtual void answer(const RoundShare& share, const RootColumns& found, const uint32_t* numbers,
                      uint32_t count) = 0;

 protected:
  ~RoundWork() = default;
};

class Rounds {
 public:
  static constexpr uint32_t most_rows = RoundOptions::most_rows;
  using TakeOver = std::function<void(uint64_t last_version, const std::string& why)>;

  // A worker's place in rounds, and its memory for them. Ends before the rounds do.
  class Participant {
   public:
    explicit Participant(HostExecutor& executor) : executor_(executor) {}
    Participant(const Participant&) = delete;
    Participant& operator=(const Participant&) = delete;

   private:
    friend class Rounds;
    friend class StepRound;
    HostExecutor& executor_;
    RoundOverlay overlay_;
    RoundWork* work_ = nullptr;
    uint32_t number_ = 0;
    uint64_t first_ = 0;  // row of the round
    // Where rows are shared out: gets that need no order, and the others by share, in order within
    // each.
    WrittenKeys written_;
    std::vector<uint32_t> free_;
    std::atomic<uint32_t> free_taken_{0};  // of free_, by whom ever
    std::vector<uint32_t> ordered_;        // the others as they come
    std::vector<uint32_t> shared_;
    std::vector<uint32_t> share_ends_;  // in `shared_`
  };

  // `take_over` gets the last version given, and why the device is given up. Policy null: no round
  // waits for more. The clock, which must outlive it, is for the policy.
  Rounds(std::unique_ptr<RootTable> table, TakeOver take_over,
         std::unique_ptr<SchedulingPolicy> policy, WaitClock& clock);
  Rounds(const Rounds&) = delete;
  Rounds& operator=(const Rounds&) = delete;

  // Answers all rows of `work`, at most most_rows; false: the device is gone and none is answered.
  bool run(Participant& participant, RoundWork& work);
  // Runs use(table) between rounds; false where the device is gone, before or by this.
  bool alone(const std::function<void(RootTable&)>& use);
  // The same, if no round runs; else false.
  bool alone_now(const std::function<void(RootTable&)>& use);
  // A version behind all that were given; within `alone`.
  uint64_t next_version() { return ++version_; }
  bool lost() const { return lost_.load(std::memory_order_acquire); }
  // Whether it is, or is being given up: databases tell of no entries on the device any more.
  bool losing() const { return losing_.load(std::memory_order_acquire); }
  // Until the host has all entries of a device that is being given up.
  void wait_while_losing() const;
  // Whether somebody has the table, at a glance.
  bool running() const { return running_.load(std::memory_order_relaxed); }
  // From `hurry` to the `calm` that belongs to it no round waits for more participants.
  void hurry();
  void calm();

  // Whether rounds may wait for more rows.
  bool gathers() const { return gathers_; }
  // Whether a part of the index has to go to the other side; a step of that, within an epoch, and
  // whether more is left to do.
  bool tends() const { return !lost() && table_->tends(); }
  bool tend();
  RoundStats stats() const;

 private:
  friend class RoundSender;
  friend class StepRound;
  struct Round;

  std::shared_ptr<Round> join(Participant& participant, RoundWork& work, bool& leads);
  void find_room(std::unique_lock<std::mutex>& lock, uint64_t rows);
  bool goes(const Round& round) const;
  void gather(std::unique_lock<std::mutex>& lock, const Round& round);
  BatchDecision decide(uint64_t rows, int64_t since, int64_t now);
  void choose_side(uint64_t rows, int64_t since);
  void take_table(std::unique_lock<std::mutex>& lock);
  bool take_table_now();
  void count_round(uint64_t rows);
  void leave();
  bool use_table(const std::function<void(RootTable&)>& use);
  void open(Round& round);
  void lead(Round& round, uint32_t next_phase, const std::function<void()>& step);
  void look_up(Round& round);
  void take_roots(Round& round);
  void write_keys(Round& round, Participant& participant);
  void share_out(Round& round, Participant& participant);
  void answer(Round& round, Participant& participant);
  bool answer_some_free(Round& round, Participant& participant, Participant& whose);
  void answer_shares(Round& round, Participant& participant);
  void hand_in_changes(Round& round, Participant& participant);
  void hand_in(const RootColumns& columns, const RoundOverlay& overlay,
               std::atomic<uint64_t>& changes);
  void end(Round& round);
  void note_version(uint64_t last);
  void lose(const std::string& why);
  void free_table();

  const std::unique_ptr<RootTable> table_;
  const TakeOver take_over_;
  const std::unique_ptr<SchedulingPolicy> policy_;  // asked under the mutex
  const bool gathers_;
  const bool chooses_;               // between device and host
  std::atomic<bool> on_host_{true};  // it has chosen so; changes under the mutex
  WaitClock& clock_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> losing_{false};
  uint64_t version_ = 0;  // the last given; belongs to whoever has the table
  WrittenKeys in_place_;  // of the round that has the table

  mutable std::mutex mutex_;  // all below
  // The table became free, or a round that was forming began or has nobody to wait for any more.
  std::condition_variable changed_;
  std::shared_ptr<Round> forming_;
  std::atomic<bool> running_{false};  // somebody has the table; changes under the mutex only
  uint32_t senders_ = 0;              // that are known
  uint32_t wait_for_table_ = 0;       // threads
  uint64_t last_number_ = 0;          // of a round that formed
  uint32_t roomless_ = 0;             // threads whose work finds no room in the round that forms
  uint32_t hurries_ = 0;
  uint64_t arrived_ = 0;  // rows
  RoundStats stats_;
};

}  // namespace isotherm
