#include "executor/device/rounds.h"

#include <algorithm>
#include <chrono>
#include <new>
#include <thread>
#include <utility>

#include "base/broken.h"
#include "base/progress.h"
#include "gpu/platform/device_error.h"

namespace isotherm {
namespace {

// Phases that the leader announces.
enum Phase : uint32_t { forming, keys_wanted, found, gone };

// The share that a key belongs to.
uint32_t share_of(uint64_t key, uint32_t shares) {
  return static_cast<uint32_t>((key & 0xFFFFFFFF) * shares >> 32);
}

}  // namespace

struct Rounds::Round {
  // While it forms, under the mutex.
  std::vector<Participant*> participants;
  uint64_t rows = 0;
  bool writes = false;
  uint64_t number = 0;
  uint32_t senders = 0;  // whose work is in
  int64_t since = 0;     // it has formed, where the policy wants to know
  bool urgent = false;

  RootColumns columns;
  Progress phase;
  // Participants that have come so far.
  Progress keys_written;
  Progress ready;  // rows shared out and their roots gathered
  Progress answered;
  std::atomic<bool> changes_in_place{false};
  std::atomic<uint32_t> shares_taken{0};
  std::atomic<uint64_t> changes{0};
  std::atomic<uint64_t> last_version{0};

  uint32_t size() const { return static_cast<uint32_t>(participants.size()); }
  RootColumns columns_of(const Participant& participant) const;
  // Rows on keys that somebody writes have one thread a key. More shares than threads, as a share
  // may have a key that many rows are for.
  uint32_t shares() const { return writes && size() > 1 ? size() * 4 : 0; }
};

Rounds::Rounds(std::unique_ptr<RootTable> table, TakeOver take_over,
               std::unique_ptr<SchedulingPolicy> policy, WaitClock& clock)
    : table_(std::move(table)),
      take_over_(std::move(take_over)),
      policy_(std::move(policy)),
      gathers_(policy_ != nullptr && policy_->gathers()),
      chooses_(policy_ != nullptr && policy_->chooses_route()),
      clock_(clock) {
  if (chooses_) table_->lean(true);
}

bool Rounds::run(Participant& participant, RoundWork& work) {
  if (lost()) return false;
  bool leads = false;
  const std::shared_ptr<Round> round = join(participant, work, leads);
  if (leads) open(*round);
  if (round->phase.wait_for(keys_wanted) == gone) return false;
  write_keys(*round, participant);
  round->keys_written.add_one();
  if (leads) look_up(*round);
  if (round->shares() != 0) share_out(*round, participant);
  if (leads) take_roots(*round);
  if (round->phase.wait_for(found) == gone) return false;
  answer(*round, participant);
  hand_in_changes(*round, participant);
  round->answered.add_one();
  round->answered.wait_for(round->size());
  if (leads) end(*round);
  return true;
}

std::shared_ptr<Rounds::Round> Rounds::join(Participant& participant, RoundWork& work,
                                            bool& leads) {
  std::unique_lock lock(mutex_);
  const uint64_t rows = work.rows();
  RoundSender* const sender = work.sender();
  if (sender != nullptr && std::exchange(sender->rounds_, this) == nullptr) ++senders_;
  find_room(lock, rows);
  leads = !forming_;
  if (leads) {
    forming_ = std::make_shared<Round>();
    forming_->number = ++last_number_;
    if (gathers_ || chooses_) forming_->since = clock_.now_ns();
  }
  std::shared_ptr<Round> round = forming_;
  participant.work_ = &work;
  participant.number_ = round->size();
  participant.first_ = round->rows;
  round->participants.push_back(&participant);
  round->rows += rows;
  arrived_ += rows;
  if (sender == nullptr) {
    round->urgent = true;
  } else if (std::exchange(sender->round_, round->number) != round->number) {
    ++round->senders;
  }
  round->writes |= work.writes();
  if (!leads) {
    if (gathers_) changed_.notify_all();
    return round;
  }
  if (gathers_) gather(lock, *round);
  take_table(lock);
  if (chooses_ && round->senders != 0) choose_side(round->rows, round->since);
  count_round(round->rows);
  forming_.reset();
  changed_.notify_all();
  return round;
}

void Rounds::find_room(std::unique_lock<std::mutex>& lock, uint64_t rows) {
  const auto room = [&] { return !forming_ || forming_->rows + rows <= most_rows; };
  if (room()) return;
  ++roomless_;
  changed_.notify_all();
  changed_.wait(lock, room);
  --roomless_;
}

// Whether waiting for more participants would help nobody, or harm somebody.
bool Rounds::goes(const Round& round) const {
  return round.senders >= senders_ || round.urgent || roomless_ != 0 || hurries_ != 0 || lost();
}

void Rounds::gather(std::unique_lock<std::mutex>& lock, const Round& round) {
  int64_t again = BatchDecision::never;
  while (!goes(round)) {
    const int64_t now = clock_.now_ns();
    const BatchDecision decision = decide(round.rows, round.since, now);
    if (decision.reads != 0) {
      if (now >= again) ++stats_.timeouts;
      return;
    }
    again = decision.again;
    if (again > now) clock_.wait(lock, changed_, again);
  }
}

// Asks the policy about a round with so many rows, the first of which came at the time `since`.
BatchDecision Rounds::decide(uint64_t rows, int64_t since, int64_t now) {
  WaitingRows waiting;
  waiting.now = now;
  waiting.reads = rows;
  waiting.read_age = now - since;
  waiting.on_device = running() ? 1 : 0;
  waiting.arrived = arrived_;
  return policy_->decide(waiting);
}

// By whoever has the table, of a round with so many rows that somebody waits for.
void Rounds::choose_side(uint64_t rows, int64_t since) {
  const BatchDecision decision = decide(rows, since, clock_.now_ns());
  const bool on_host = decision.route == BatchRoute::express;
  if (decision.reads == 0 || on_host == on_host_.load(std::memory_order_relaxed)) return;
  on_host_.store(on_host, std::memory_order_relaxed);
  ++stats_.switches;
  table_->lean(on_host);
}

// On its way to the host it makes way for every round, for few come then. On its way to the device
// rounds may come one after the other, so it waits for the table as they do.
bool Rounds::tend() {
  bool more = false;
  const auto step = [&](RootTable& table) { more = table.tend(); };
  const bool done = on_host_.load(std::memory_order_relaxed) ? alone_now(step) : alone(step);
  return done && more;
}

// A round takes microseconds, less than falling asleep and waking, so it looks a while before it
// sleeps.
void Rounds::take_table(std::unique_lock<std::mutex>& lock) {
  constexpr int looks = 500;
  ++wait_for_table_;
  for (int i = 0; i < looks && running_.load(std::memory_order_relaxed); ++i) {
    if (i == 0) lock.unlock();
    __builtin_ia32_pause();
  }
  if (!lock.owns_lock()) lock.lock();
  changed_.wait(lock, [&] { return !running_.load(std::memory_order_relaxed); });
  --wait_for_table_;
  running_.store(true, std::memory_order_relaxed);
}

// Unless somebody has it, waits for it or is about to.
bool Rounds::take_table_now() {
  const std::lock_guard guard(mutex_);
  if (running_.load(std::memory_order_relaxed) || wait_for_table_ != 0 || forming_) return false;
  running_.store(true, std::memory_order_relaxed);
  return true;
}

void Rounds::count_round(uint64_t rows) {
  ++stats_.rounds;
  stats_.rows += rows;
}

RoundSender::~RoundSender() {
  if (rounds_ != nullptr) rounds_->leave();
}

// A sender ends.
void Rounds::leave() {
  const std::lock_guard guard(mutex_);
  --senders_;
  changed_.notify_all();
}

void Rounds::hurry() {
  const std::lock_guard guard(mutex_);
  ++hurries_;
  changed_.notify_all();
}

void Rounds::calm() {
  const std::lock_guard guard(mutex_);
  --hurries_;
}

RoundStats Rounds::stats() const {
  const std::lock_guard guard(mutex_);
  return stats_;
}

// A step of the leader that needs the device: all are told that it is done, or that the device is
// gone.
void Rounds::lead(Round& round, uint32_t next_phase, const std::function<void()>& step) {
  try {
    step();
  } catch (const std::exception& error) {
    lose(error.what());
    round.phase.set(gone);
    return free_table();
  }
  round.phase.set(next_phase);
}

void Rounds::open(Round& round) {
  lead(round, keys_wanted, [&] {
    if (lost()) throw DeviceError("the device is lost");
    round.columns = table_->columns(round.rows);
    if (round.shares() != 0) in_place_.begin(round.rows);
  });
}

void Rounds::write_keys(Round& round, Participant& participant) {
  const RoundWork& work = *participant.work_;
  uint64_t* keys = round.columns.keys + participant.first_;
  participant.work_->write_keys(participant.executor_, keys);
  table_->spread(participant.first_, work.rows());
  if (round.shares() == 0 || !work.writes()) return;
  for (uint32_t row = 0; row < work.rows(); ++row) {
    if (!work.changes_in_place(row)) continue;
    in_place_.add(keys[row]);
    round.changes_in_place.store(true, std::memory_order_relaxed);
  }
}

// Sorts the participant's rows by whether they need order, and those that do by share.
void Rounds::share_out(Round& round, Participant& participant) {
  round.keys_written.wait_for(round.size());
  const bool in_place = round.changes_in_place.load(std::memory_order_relaxed);
  const RoundWork& work = *participant.work_;
  const uint32_t shares = round.shares();
  const uint32_t rows = work.rows();
  const uint64_t* keys = round.columns.keys + participant.first_;
  std::vector<uint32_t>& at = participant.share_ends_;
  at.assign(shares, 0);
  participant.free_.clear();
  participant.free_taken_.store(0, std::memory_order_relaxed);
  participant.ordered_.clear();
  participant.written_.begin(work.writes() ? rows : 0);
  for (uint32_t row = 0; row < rows; ++row) {
    const bool writes = work.writes(row);
    if (writes) participant.written_.add(keys[row]);
    if (writes || participant.written_.may_have(keys[row]) ||
        (in_place && in_place_.may_have(keys[row]))) {
      participant.ordered_.push_back(row);
      ++at[share_of(keys[row], shares)];
    } else {
      participant.free_.push_back(row);
    }
  }
  // Where each share begins; it ends there when its rows are in place.
  uint32_t begin = 0;
  for (uint32_t& count : at) begin += std::exchange(count, begin);
  participant.shared_.resize(begin);
  for (const uint32_t row : participant.ordered_)
    participant.shared_[at[share_of(keys[row], shares)]++] = row;
}

void Rounds::look_up(Round& round) {
  round.keys_written.wait_for(round.size());
  lead(round, keys_wanted, [&] { table_->find(round.rows); });
}

void Rounds::take_roots(Round& round) {
  if (round.phase.reached(gone)) return;
  lead(round, found, [&] { table_->wait(); });
}

RootColumns Rounds::Round::columns_of(const Participant& participant) const {
  return columns.from(participant.first_);
}

void Rounds::answer(Round& round, Participant& participant) {
  participant.overlay_.begin(version_ + participant.number_, round.size());
  RoundWork& work = *participant.work_;
  table_->gather(participant.first_, work.rows());
  if (round.shares() == 0) {
    const RoundShare all{participant.executor_,
                         round.size() == 1 ? &participant.overlay_ : nullptr};
    return work.answer(all, round.columns_of(participant), nullptr, work.rows());
  }
  round.ready.add_one();
  while (!round.ready.reached(round.size()) && answer_some_free(round, participant, participant)) {
  }
  round.ready.wait_for(round.size());
  answer_shares(round, participant);
  for (uint32_t i = 0; i < round.size(); ++i) {
    Participant& whose = *round.participants[(participant.number_ + i) % round.size()];
    while (answer_some_free(round, participant, whose)) {
    }
  }
}

// Takes a piece of the participant's gets that need no order; false where none is left.
bool Rounds::answer_some_free(Round& round, Participant& participant, Participant& whose) {
  constexpr uint32_t piece = 2048;
  const auto rows = static_cast<uint32_t>(whose.free_.size());
  if (whose.free_taken_.load(std::memory_order_relaxed) >= rows) return false;
  const uint32_t first = whose.free_taken_.fetch_add(piece, std::memory_order_relaxed);
  if (first >= rows) return false;
  const RoundShare share{participant.executor_, nullptr};
  whose.work_->answer(share, round.columns_of(whose), whose.free_.data() + first,
                      std::min(piece, rows - first));
  return true;
}

void Rounds::answer_shares(Round& round, Participant& participant) {
  const RoundShare share{participant.executor_, &participant.overlay_};
  for (;;) {
    const uint32_t number = round.shares_taken.fetch_add(1, std::memory_order_relaxed);
    if (number >= round.shares()) return;
    for (Participant* whose : round.participants) {
      const uint32_t end = whose->share_ends_[number];
      const uint32_t begin = number == 0 ? 0 : whose->share_ends_[number - 1];
      if (begin == end) continue;
      whose->work_->answer(share, round.columns_of(*whose), whose->shared_.data() + begin,
                           end - begin);
    }
  }
}

void Rounds::hand_in_changes(Round& round, Participant& participant) {
  uint64_t last = round.last_version.load(std::memory_order_relaxed);
  while (last < participant.overlay_.last_version() &&
         !round.last_version.compare_exchange_weak(last, participant.overlay_.last_version())) {
  }
  hand_in(round.columns, participant.overlay_, round.changes);
}

// Behind the `changes` that others have handed in.
void Rounds::hand_in(const RootColumns& columns, const RoundOverlay& overlay,
                     std::atomic<uint64_t>& changes) {
  uint64_t count = 0;
  overlay.each_change([&](uint64_t, Location) { ++count; });
  const uint64_t first = changes.fetch_add(count, std::memory_order_relaxed);
  uint64_t at = first;
  overlay.each_change([&](uint64_t key, Location root) {
    columns.changed_keys[at] = key;
    columns.changed_roots[at] = root;
    ++at;
  });
  table_->hand_in(first, count);
}

// Participants may be gone by now.
void Rounds::end(Round& round) {
  note_version(round.last_version.load(std::memory_order_relaxed));
  try {
    table_->change(round.changes.load(std::memory_order_relaxed));
  } catch (const std::exception& error) {
    lose(error.what());
  }
  free_table();
}

void Rounds::note_version(uint64_t last) { version_ = std::max(version_, last); }

bool Rounds::alone(const std::function<void(RootTable&)>& use) {
  {
    std::unique_lock lock(mutex_);
    take_table(lock);
  }
  return use_table(use);
}

bool Rounds::alone_now(const std::function<void(RootTable&)>& use) {
  {
    const std::lock_guard guard(mutex_);
    if (running() && !broken(Rule::draining)) return false;
    running_.store(true, std::memory_order_relaxed);
  }
  return use_table(use);
}

// By whoever has the table, which then is free.
bool Rounds::use_table(const std::function<void(RootTable&)>& use) {
  bool done = !lost();
  try {
    if (done) use(*table_);
  } catch (const std::exception& error) {
    lose(error.what());
    done = false;
  }
  free_table();
  return done;
}

void Rounds::wait_while_losing() const {
  constexpr std::chrono::microseconds between_looks{100};
  while (losing() && !lost()) std::this_thread::sleep_for(between_looks);
}

// By whoever has the table, so that nobody meets a half-made index.
void Rounds::lose(const std::string& why) {
  if (lost()) return;
  losing_.store(true, std::memory_order_release);
  table_->give_up();
  take_over_(version_, why);
  lost_.store(true, std::memory_order_release);
}

void Rounds::free_table() {
  {
    const std::lock_guard guard(mutex_);
    running_.store(false, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

}  // namespace isotherm
