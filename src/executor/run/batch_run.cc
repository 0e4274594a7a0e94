#include "executor/run/batch_run.h"

#include <algorithm>
#include <functional>
#include <new>
#include <utility>

#include "base/broken.h"
#include "base/reserve_more.h"
#include "command/changes.h"

namespace isotherm {

void BatchRun::park(const Batch& of, Batch::Row row, Awaited* what) {
  const std::lock_guard guard(mutex_);
  try {
    parked_.push_back({&of == &again_ ? rows_again_[row] : row, what});
  } catch (...) {
    if (what != nullptr) what->ran_again();
    throw;
  }
  parks_.store(true, std::memory_order_relaxed);
}

bool BatchRun::is_parked_key(uint64_t key) const {
  const std::lock_guard guard(mutex_);
  for (; keyed_ < parked_.size(); ++keyed_) {
    parked_keys_.insert(key_of(batch->columns(), parked_[keyed_].row));
  }
  return parked_keys_.contains(key) && !broken(Rule::parking);
}

// Several threads may have parked them. They are parked still where there is no memory.
Batch& BatchRun::take_parked() {
  constexpr uint32_t most_anew = 2;
  may_ask_ = false;
  hand_back();
  if (!again_.empty()) ++parked_anew_;
  again_.clear();
  rows_again_.clear();
  rows_again_.reserve(parked_.size());
  resumed_.reserve(parked_.size());
  std::sort(parked_.begin(), parked_.end(),
            [](const Parked& a, const Parked& b) { return a.row < b.row; });
  for (const Parked& one : parked_) {
    again_.append(batch->columns(), one.row);
    rows_again_.push_back(one.row);
  }
  if (!batch->views().empty()) copy_views();
  for (const Parked& one : parked_) {
    if (one.awaited != nullptr) resumed_.push_back(one.awaited);
  }
  forget_parked();
  if (parked_anew_ >= most_anew) {
    again_.group(0);
    again_.close_groups();
  }
  return again_;
}

uint64_t BatchRun::bytes_to_bring() const {
  uint64_t bytes = 0;
  for (const Awaited* const one : resumed_) bytes += one->bytes_to_bring();
  return bytes;
}

void BatchRun::await(std::unique_ptr<Backing::Coming> coming) {
  const std::lock_guard guard(mutex_);
  const std::span<const Batch::Row> rows = coming->rows();
  reserve_more(parked_, rows.size());
  coming_.push_back(std::move(coming));
  // One of them waits for all.
  Awaited* what = coming_.back().get();
  for (const Batch::Row row : rows) parked_.push_back({row, std::exchange(what, nullptr)});
  may_ask_ = false;
  parks_.store(true, std::memory_order_relaxed);
}

Backing::Answered BatchRun::answer_coming() {
  Backing::Answered answered;
  reserve_more(held, coming_.size());
  for (auto& one : coming_) {
    one->answer(batch->columns(), now_ms, answered);
    held.push_back(std::move(one));
  }
  coming_.clear();
  for (const Batch::Span& view : batch->views()) take_back_part(view, answered);
  const std::lock_guard guard(mutex_);
  drop_parked([this](const Parked& one) { return batch->answered(one.row); });
  parks_.store(!parked_.empty(), std::memory_order_relaxed);
  return answered;
}

// Rows that are to be seen together are answered together, or not yet.
void BatchRun::take_back_part(const Batch::Span& view, Backing::Answered& answered) {
  Batch::Row row = view.first;
  while (row < view.end && batch->answered(row)) ++row;
  if (row == view.end) return;
  for (row = view.first; row < view.end; ++row) {
    std::atomic<Status>& status = batch->columns().reply[row].status;
    const Status before = status.exchange(Status::pending, std::memory_order_relaxed);
    answered.hits -= before == Status::ok;
    answered.misses -= before == Status::not_found;
  }
}

template <class Is>
void BatchRun::drop_parked(const Is& is) {
  std::erase_if(parked_, is);
  parked_keys_.clear();
  keyed_ = 0;
}

void BatchRun::forget_parked() {
  parked_.clear();
  parked_keys_.clear();
  keyed_ = 0;
  parks_.store(false, std::memory_order_relaxed);
}

void BatchRun::give_up() {
  take_whole();
  hand_back();
  coming_.clear();
  for (const Parked& one : parked_) {
    if (one.awaited != nullptr) one.awaited->ran_again();
  }
  forget_parked();
  for (Batch::Row row = 0; row < batch->size(); ++row) refuse(row);
}

void BatchRun::refuse_early() {
  for (Batch::Row row = 0; row < early.size(); ++row) {
    if (early[row] != 0) refuse(row);
  }
}

void BatchRun::refuse(Batch::Row row) {
  if (batch->answered(row)) return;
  batch->columns().reply[row].status.store(Status::out_of_memory, std::memory_order_release);
}

void BatchRun::copy_views() {
  const auto at = [&](Batch::Row row) {
    return static_cast<Batch::Row>(std::lower_bound(rows_again_.begin(), rows_again_.end(), row) -
                                   rows_again_.begin());
  };
  for (const Batch::Span& view : batch->views()) {
    const Batch::Row first = at(view.first);
    const Batch::Row end = at(view.end);
    if (first != end) again_.view(first, end);
  }
}

void BatchRun::end_resumed() {
  for (Awaited* const one : resumed_) one->ran_again();
  resumed_.clear();
}

// Those that wait again stay pending.
void BatchRun::hand_back() {
  end_resumed();
  if (again_.empty()) return;
  const std::lock_guard guard(mutex_);
  for (Batch::Row row = 0; row < again_.size(); ++row) {
    if (!again_.answered(row) || batch->answered(rows_again_[row])) continue;
    const Reply& from = again_.reply(row);
    Reply& to = batch->columns().reply[rows_again_[row]];
    to.copy_answer(from);
    to.status.store(shown(rows_again_[row], from.status.load(std::memory_order_relaxed)),
                    std::memory_order_release);
  }
}

void BatchRun::begin_commits(CommitSink& sink, bool again) {
  const CommitSink::Begun begun = sink.begins(*batch);
  sink_ = &sink;
  told_ = true;
  token = begun.token;
  if (!again) batch->withhold(begun.withholds);
}

// What is to take effect together is refused together.
void BatchRun::refuse_writes(bool erases) {
  refused_ = true;
  const auto frees = [](Op op) { return op == Op::erase || op == Op::flush; };
  Batch::Columns& columns = batch->columns();
  for (Batch::Row row = 0; row < batch->size() && batch->has_groups(); ++row) {
    erases |= columns.op[row] != Op::get && !frees(columns.op[row]);
  }
  for (Batch::Row row = 0; row < batch->size(); ++row) {
    const bool runs = columns.op[row] == Op::get || (!erases && frees(columns.op[row]));
    if (!runs) columns.op[row] = Op::none;
  }
}

Status BatchRun::shown(Batch::Row row, Status status) {
  const Batch::Columns& columns = batch->columns();
  const bool refused = refused_ && columns.op[row] == Op::none;
  const bool safe =
      !failed_ || batch->walks() || sink_->is_safe(columns.database[row], columns.hash[row]);
  if (!refused && safe) return status;
  batch->note_unsaved();
  return Status::not_saved;
}

// Those that have run; nobody sees them yet.
void BatchRun::mark_unsaved() {
  if (!refused_ && !failed_) return;
  for (Batch::Row row = 0; row < batch->size(); ++row) {
    if (!batch->answered(row)) continue;
    std::atomic<Status>& status = batch->columns().reply[row].status;
    status.store(shown(row, status.load(std::memory_order_relaxed)), std::memory_order_release);
  }
}

bool BatchRun::end_commits() {
  told_ = false;
  sync_awaited_ = batch->writes() ? sink_->ends(token) : sink_->ends_reads(token);
  if (sync_awaited_ == nullptr) {
    mark_unsaved();
    batch->withhold(false);
  }
  return sync_awaited_ != nullptr;
}

// By any thread. The owner is told where the end of the batch may take longer.
void BatchRun::synced(bool failed) {
  failed_ |= failed;
  mark_unsaved();
  batch->withhold(false);
  if (tells_sync_) owner.moved(*this, Phase::answered);
  there();
}

// After the last `begin` all that it waits for may be there, and the run may belong to another
// thread.
bool BatchRun::wait_for_all() {
  waits_.store(1, std::memory_order_relaxed);
  if (reader != nullptr && reader->awaits()) {
    waits_.fetch_add(1, std::memory_order_relaxed);
    reader->begin(*this);
  }
  drop_parked([this](const Parked& one) { return !begin_to_wait(one); });
  if (Awaited* const sync = std::exchange(sync_awaited_, nullptr); sync != nullptr) {
    tells_sync_ = batch->withheld() && waits_.load(std::memory_order_relaxed) != 1;
    waits_.fetch_add(1, std::memory_order_relaxed);
    try {
      sync->begin(sync_);
    } catch (const std::bad_alloc&) {  // then nobody can say whether it is safe
      sync_.failed();
    }
  }
  return waits_.fetch_sub(1, std::memory_order_acq_rel) == 1;
}

// False: there is no memory for it, and the row is answered so.
bool BatchRun::begin_to_wait(const Parked& one) {
  if (one.awaited == nullptr) return true;
  waits_.fetch_add(1, std::memory_order_relaxed);
  try {
    one.awaited->begin(*this);
    return true;
  } catch (const std::bad_alloc&) {
    waits_.fetch_sub(1, std::memory_order_relaxed);
    one.awaited->ran_again();
    refuse(one.row);
    return false;
  }
}

bool BatchRun::has_reply(const Batch& of, const Reply& reply) {
  const Reply* const first = of.columns().reply;
  return !of.empty() && !std::less<>()(&reply, first) && std::less<>()(&reply, first + of.size());
}

BatchRun::LastWrites BatchRun::last_writes() const {
  const Batch::Columns& columns = batch->columns();
  LastWrites writes;
  for (Batch::Row row = 0; row < batch->size(); ++row) {
    if (changes(columns, row)) writes[key_of(columns, row)] = row;
  }
  return writes;
}

void BatchRun::all_there() {
  if (waits_whole_) return executor->resume(*this);
  park_lost();
  if (has_parked()) return executor->resume(*this);
  hand_back();
  owner.moved(*this, Phase::ended);
}

}  // namespace isotherm
