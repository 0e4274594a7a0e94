#include "executor/device/rounds.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/progress.h"
#include "gpu/device_error.h"

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
  std::vector<Member*> members;
  uint64_t rows = 0;
  bool writes = false;
  bool urgent = false;

  RootColumns columns;
  Progress phase;
  // Members that have come so far.
  Progress keys_written;
  Progress ready;  // rows shared out and their roots gathered
  Progress answered;
  std::atomic<bool> changes_in_place{false};
  std::atomic<uint32_t> shares_taken{0};
  std::atomic<uint64_t> changes{0};
  std::atomic<uint64_t> last_version{0};

  uint32_t size() const { return static_cast<uint32_t>(members.size()); }
  RootColumns columns_of(const Member& member) const;
  // Rows on keys that somebody writes have one thread a key. More shares than threads, as a share
  // may have a key that many rows are for.
  uint32_t shares() const { return writes && size() > 1 ? size() * 4 : 0; }
};

Rounds::Rounds(std::unique_ptr<RootTable> table, std::function<void(uint64_t)> take_over,
               const RoundSchedule& schedule, WaitClock& clock)
    : table_(std::move(table)),
      take_over_(std::move(take_over)),
      schedule_(schedule),
      clock_(clock) {}

bool Rounds::run(Member& member, RoundWork& work) {
  if (lost()) return false;
  bool leads = false;
  const std::shared_ptr<Round> round = join(member, work, leads);
  if (leads) open(*round);
  if (round->phase.wait_for(keys_wanted) == gone) return false;
  write_keys(*round, member);
  round->keys_written.add_one();
  if (leads) look_up(*round);
  if (round->shares() != 0) share_out(*round, member);
  if (leads) take_roots(*round);
  if (round->phase.wait_for(found) == gone) return false;
  answer(*round, member);
  hand_in_changes(*round, member);
  round->answered.add_one();
  round->answered.wait_for(round->size());
  if (leads) end(*round);
  return true;
}

std::shared_ptr<Rounds::Round> Rounds::join(Member& member, RoundWork& work, bool& leads) {
  std::unique_lock lock(mutex_);
  const uint64_t rows = work.rows();
  if (!work.urgent() && std::exchange(member.rounds_, this) == nullptr) ++members_;
  find_room(lock, rows);
  leads = !forming_;
  if (leads) forming_ = std::make_shared<Round>();
  std::shared_ptr<Round> round = forming_;
  member.work_ = &work;
  member.number_ = round->size();
  member.first_ = round->rows;
  round->members.push_back(&member);
  round->rows += rows;
  round->urgent |= work.urgent();
  round->writes |= work.writes();
  if (!leads) {
    if (schedule_.waits() && goes(*round)) changed_.notify_all();
    return round;
  }
  if (schedule_.waits()) gather(lock, *round);
  take_turn(lock);
  if (schedule_.waits()) began_ = clock_.now_ns();
  ++stats_.rounds;
  stats_.rows += round->rows;
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

// Whether waiting for more members would help nobody, or harm somebody.
bool Rounds::goes(const Round& round) const {
  return schedule_.enough(round.rows) || round.size() >= members_ || round.urgent ||
         roomless_ != 0 || hurries_ != 0 || lost();
}

void Rounds::gather(std::unique_lock<std::mutex>& lock, const Round& round) {
  const int64_t latest = schedule_.latest(clock_.now_ns(), began_);
  while (!goes(round)) {
    if (clock_.now_ns() >= latest) {
      ++stats_.timeouts;
      return;
    }
    clock_.wait(lock, changed_, latest);
  }
}

// A turn takes microseconds, less than falling asleep and waking, so it looks a while before it
// sleeps.
void Rounds::take_turn(std::unique_lock<std::mutex>& lock) {
  constexpr int looks = 500;
  for (int i = 0; i < looks && running_.load(std::memory_order_relaxed); ++i) {
    if (i == 0) lock.unlock();
    __builtin_ia32_pause();
  }
  if (!lock.owns_lock()) lock.lock();
  changed_.wait(lock, [&] { return !running_.load(std::memory_order_relaxed); });
  running_.store(true, std::memory_order_relaxed);
}

// A member ends.
void Rounds::leave() {
  const std::lock_guard guard(mutex_);
  --members_;
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
  } catch (const std::exception&) {
    lose();
    round.phase.set(gone);
    return free_turn();
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

void Rounds::write_keys(Round& round, Member& member) {
  const RoundWork& work = *member.work_;
  uint64_t* keys = round.columns.keys + member.first_;
  member.work_->write_keys(member.executor_, keys);
  table_->spread(member.first_, work.rows());
  if (round.shares() == 0 || !work.writes()) return;
  for (uint32_t row = 0; row < work.rows(); ++row) {
    if (!work.changes_in_place(row)) continue;
    in_place_.add(keys[row]);
    round.changes_in_place.store(true, std::memory_order_relaxed);
  }
}

// Sorts the member's rows by whether they need order, and those that do by share.
void Rounds::share_out(Round& round, Member& member) {
  round.keys_written.wait_for(round.size());
  const bool in_place = round.changes_in_place.load(std::memory_order_relaxed);
  const RoundWork& work = *member.work_;
  const uint32_t shares = round.shares();
  const uint32_t rows = work.rows();
  const uint64_t* keys = round.columns.keys + member.first_;
  std::vector<uint32_t>& at = member.share_ends_;
  at.assign(shares, 0);
  member.free_.clear();
  member.free_taken_.store(0, std::memory_order_relaxed);
  member.ordered_.clear();
  member.written_.begin(work.writes() ? rows : 0);
  for (uint32_t row = 0; row < rows; ++row) {
    const bool writes = work.writes(row);
    if (writes) member.written_.add(keys[row]);
    if (writes || member.written_.may_have(keys[row]) ||
        (in_place && in_place_.may_have(keys[row]))) {
      member.ordered_.push_back(row);
      ++at[share_of(keys[row], shares)];
    } else {
      member.free_.push_back(row);
    }
  }
  // Where each share begins; it ends there when its rows are in place.
  uint32_t begin = 0;
  for (uint32_t& count : at) begin += std::exchange(count, begin);
  member.shared_.resize(begin);
  for (const uint32_t row : member.ordered_)
    member.shared_[at[share_of(keys[row], shares)]++] = row;
}

void Rounds::look_up(Round& round) {
  round.keys_written.wait_for(round.size());
  lead(round, keys_wanted, [&] { table_->find(round.rows); });
}

void Rounds::take_roots(Round& round) {
  if (round.phase.reached(gone)) return;
  lead(round, found, [&] { table_->wait(); });
}

RootColumns Rounds::Round::columns_of(const Member& member) const {
  RootColumns own = columns;
  own.keys += member.first_;
  own.roots += member.first_;
  own.found += member.first_;
  return own;
}

void Rounds::answer(Round& round, Member& member) {
  member.overlay_.begin(version_ + member.number_, round.size());
  RoundWork& work = *member.work_;
  table_->gather(member.first_, work.rows());
  if (round.shares() == 0) {
    const RoundShare all{member.executor_, round.size() == 1 ? &member.overlay_ : nullptr};
    return work.answer(all, round.columns_of(member), nullptr, work.rows());
  }
  round.ready.add_one();
  while (!round.ready.reached(round.size()) && answer_some_free(round, member, member)) {
  }
  round.ready.wait_for(round.size());
  answer_shares(round, member);
  for (uint32_t i = 0; i < round.size(); ++i) {
    Member& whose = *round.members[(member.number_ + i) % round.size()];
    while (answer_some_free(round, member, whose)) {
    }
  }
}

// Takes a piece of the member's gets that need no order; false where none is left.
bool Rounds::answer_some_free(Round& round, Member& member, Member& whose) {
  constexpr uint32_t piece = 2048;
  const auto rows = static_cast<uint32_t>(whose.free_.size());
  if (whose.free_taken_.load(std::memory_order_relaxed) >= rows) return false;
  const uint32_t first = whose.free_taken_.fetch_add(piece, std::memory_order_relaxed);
  if (first >= rows) return false;
  const RoundShare share{member.executor_, nullptr};
  whose.work_->answer(share, round.columns_of(whose), whose.free_.data() + first,
                      std::min(piece, rows - first));
  return true;
}

void Rounds::answer_shares(Round& round, Member& member) {
  const RoundShare share{member.executor_, &member.overlay_};
  for (;;) {
    const uint32_t number = round.shares_taken.fetch_add(1, std::memory_order_relaxed);
    if (number >= round.shares()) return;
    for (Member* whose : round.members) {
      const uint32_t end = whose->share_ends_[number];
      const uint32_t begin = number == 0 ? 0 : whose->share_ends_[number - 1];
      if (begin == end) continue;
      whose->work_->answer(share, round.columns_of(*whose), whose->shared_.data() + begin,
                           end - begin);
    }
  }
}

void Rounds::hand_in_changes(Round& round, Member& member) {
  uint64_t last = round.last_version.load(std::memory_order_relaxed);
  while (last < member.overlay_.last_version() &&
         !round.last_version.compare_exchange_weak(last, member.overlay_.last_version())) {
  }
  uint64_t count = 0;
  member.overlay_.each_change([&](uint64_t, Location) { ++count; });
  const uint64_t first = round.changes.fetch_add(count, std::memory_order_relaxed);
  uint64_t at = first;
  member.overlay_.each_change([&](uint64_t key, Location root) {
    round.columns.changed_keys[at] = key;
    round.columns.changed_roots[at] = root;
    ++at;
  });
  table_->hand_in(first, count);
}

// Members may be gone by now.
void Rounds::end(Round& round) {
  version_ = std::max(version_, round.last_version.load(std::memory_order_relaxed));
  try {
    table_->change(round.changes.load(std::memory_order_relaxed));
  } catch (const std::exception&) {
    lose();
  }
  free_turn();
}

bool Rounds::alone(const std::function<void(RootTable&)>& use) {
  {
    std::unique_lock lock(mutex_);
    take_turn(lock);
  }
  return use_turn(use);
}

bool Rounds::alone_now(const std::function<void(RootTable&)>& use) {
  {
    const std::lock_guard guard(mutex_);
    if (running_.load(std::memory_order_relaxed)) return false;
    running_.store(true, std::memory_order_relaxed);
  }
  return use_turn(use);
}

// By whoever has the turn, which then is free.
bool Rounds::use_turn(const std::function<void(RootTable&)>& use) {
  bool done = !lost();
  try {
    if (done) use(*table_);
  } catch (const std::exception&) {
    lose();
    done = false;
  }
  free_turn();
  return done;
}

// By whoever has the turn, so that nobody meets a half-made index.
void Rounds::lose() {
  if (lost()) return;
  table_->give_up();
  take_over_(version_);
  lost_.store(true, std::memory_order_release);
}

void Rounds::free_turn() {
  {
    const std::lock_guard guard(mutex_);
    running_.store(false, std::memory_order_relaxed);
  }
  changed_.notify_all();
}

}  // namespace isotherm
