#include "executor/device/step_round.h"

#include <exception>
#include <mutex>

#include "gpu/platform/device_error.h"

namespace isotherm {

StepRound::StepRound(Rounds& rounds, HostExecutor& executor)
    : rounds_(rounds), table_(*rounds.table_), participant_(executor) {
  works_.reserve(most_works);
}

bool StepRound::take_table(bool may_wait) {
  if (!may_wait) return rounds_.take_table_now();
  std::unique_lock lock(rounds_.mutex_);
  rounds_.take_table(lock);
  return true;
}

void StepRound::add(RoundWork& work) {
  works_.push_back({&work, rows_});
  rows_ += work.rows();
}

StepRound::Came StepRound::go_on(bool may_wait) {
  Came came = Came::nowhere;
  try {
    while (step(may_wait, came)) {
    }
  } catch (const std::exception& error) {
    why_ = error.what();
    return Came::failed;
  }
  if (came == Came::answered) answer();
  if (came == Came::ended) end();
  return came;
}

// Takes a step that needs the device; says whether another one follows at once.
bool StepRound::step(bool may_wait, Came& came) {
  if (step_ != Step::begin && step_ != Step::change && !may_wait && !table_.ready()) return false;
  switch (step_) {
    case Step::begin:
      if (rounds_.lost()) throw DeviceError("the device is lost");
      if (rounds_.chooses_) choose_side();
      columns_ = table_.columns(rows_);
      write_keys();
      step_ = Step::settle;
      return true;
    case Step::settle:
      table_.find(rows_);
      step_ = Step::look_up;
      return true;
    case Step::look_up:
      table_.wait();
      step_ = Step::change;
      came = Came::answered;
      return false;
    case Step::change:
      const uint64_t rows = changes_.load(std::memory_order_relaxed);
      if (!may_wait && !table_.changes_at_once(rows)) {
        came = Came::to_work;
        return false;
      }
      table_.change(rows);
      came = Came::ended;
      return false;
  }
  return false;
}

void StepRound::choose_side() {
  const std::lock_guard guard(rounds_.mutex_);
  rounds_.arrived_ += rows_;
  rounds_.choose_side(rows_, rounds_.clock_.now_ns());
}

void StepRound::write_keys() {
  for (const AddedWork& added : works_) {
    added.work->write_keys(participant_.executor_, columns_.keys + added.first);
    table_.spread(added.first, added.work->rows());
  }
}

void StepRound::answer() {
  RoundOverlay& overlay = participant_.overlay_;
  overlay.begin(rounds_.version_, 1);
  const RoundShare share{participant_.executor_, &overlay};
  for (const AddedWork& added : works_) {
    table_.gather(added.first, added.work->rows());
    added.work->answer(share, columns_.from(added.first), nullptr, added.work->rows());
  }
  rounds_.note_version(overlay.last_version());
  changes_.store(0, std::memory_order_relaxed);
  rounds_.hand_in(columns_, overlay, changes_);
}

void StepRound::end() {
  {
    const std::lock_guard guard(rounds_.mutex_);
    rounds_.count_round(rows_);
  }
  works_.clear();
  rows_ = 0;
  step_ = Step::begin;
  rounds_.free_table();
}

void StepRound::give_up() {
  rounds_.lose(why_);
  end();
}

}  // namespace isotherm
