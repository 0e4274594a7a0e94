// BatchRun: one batch from its submission until it is cleared.
//
//   idle ─▶ under_way ─▶ (answered) ─▶ ended ─clear─▶ idle
//               ▲  └▶ parked rows: (resumable) ─┐
//               └───────────────────────────────┘
// answered: all rows have their answers but those that what they await will answer
//   (executor/awaited.h).
// resumable: what parked rows waited for is there, and the owner's thread runs them again.
// Each run has an epoch slot and, where values lie on devices, a reader of its own, both held until
// the batch is cleared. So runs of one owner may overlap without keeping retired memory from its
// reuse for ever.
//
// Parked rows. They are copied into a batch of their own, in order, which runs like any other;
// their replies are then handed back. Rows behind a parked row of their key are parked, too. If the
// gate parks one row of a view (isotherm/batch.h), all rows of the view are parked. Rows that have
// run again and been parked anew would lose every race with threads that take their key over and
// over, so from then on they take their keys in turn, as a group does.
//
// Groups. Where others have keys that the groups of a batch want, its rows on other keys run
// `early`, and all the rest waits.
//
// Withheld replies. A sink (executor/commit_sink.h) may have replies wait, for a sync of the
// journal for example: the batch's replies wait until it is done, and those of rows that run again
// until they are handed back.
//
// Epochs. A batch that looks for memory in its middle leaves its epoch, and so do the others of its
// owner: what they have replaced may be all that there is to have. One that waits for a sink
// leaves it, too, unless it has groups, walks or values on devices.
//
// Memory. Owners use runs again, so one that has run before allocates nothing, unless rows park.
// Threads. Whoever runs the batch, one at a time; `there` any; `release` is the owner's.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "executor/awaited.h"
#include "executor/backing.h"
#include "executor/commit_sink.h"
#include "executor/executor.h"
#include "executor/key_gate.h"
#include "executor/values/value_reader.h"
#include "isotherm/batch.h"
#include "items/epoch.h"
#include "items/item_store.h"

namespace isotherm {

class RoundSender;

class BatchRun final : public Batch::Hold, public Awaited::Waiter {
 public:
  enum class Phase : uint8_t { under_way, answered, resumable, ended };

  // Who submitted it.
  class Owner {
   public:
    // Any thread, which does not touch the run afterwards unless its phase is `answered`.
    virtual void moved(BatchRun& run, Phase phase) = 0;
    // A queue that was full has room again. Any thread.
    virtual void has_room() = 0;
    // Its batch is cleared: the owner calls `leave` once it has ended.
    virtual void released(BatchRun& run) = 0;
    // Whoever runs this batch looks for memory: none of the owner's is to be in an epoch, so that
    // what they have replaced can be used again. False: some still are.
    virtual bool leave_epochs() { return false; }

   protected:
    ~Owner() = default;
  };

  BatchRun(Owner& its_owner, EpochDomain::Slot& its_slot) : owner(its_owner), slot(its_slot) {}
  BatchRun(const BatchRun&) = delete;
  BatchRun& operator=(const BatchRun&) = delete;

  // What rows of one key have in common; two keys have the same next to never.
  static uint64_t key_of(const Batch::Columns& columns, Batch::Row row) {
    return columns.hash[row] + columns.database[row];
  }

  // `beside_others`: the owner holds replies of others.
  void begin(Batch& its_batch, int64_t its_now_ms, bool its_beside_others) {
    batch = &its_batch;
    now_ms = its_now_ms;
    beside_others = its_beside_others;
    put_off = refused_ = failed_ = false;
    may_move = may_ask_ = true;
    parked_anew_ = 0;
    hot.clear();
    batch->hold(this);
  }
  void leave() {
    EpochDomain::leave(slot);
    if (reader != nullptr) reader->clear();
    if (!resumed_.empty()) end_resumed();
    if (!again_.empty()) again_.clear();
    if (!early.empty()) early.clear();
    if (!held.empty()) held.clear();
    if (!kept_.empty()) kept_.clear();
    if (!shared_.empty()) let_go_shared();
  }

  // Leaves the epoch before the end: what replies show is kept without it, large values where they
  // are, and others, of so many bytes at most, by copies.
  // False: it has to stay. The owner's thread; throws std::bad_alloc.
  bool leave_epoch(ItemStore& items, uint64_t most_copied);

  // Keeps the value of an item that may change (items/changing_item.h), which a row looks at or
  // shows, until the batch is cleared. Where there is no memory to note it, it changes no more. Any
  // thread that answers rows of the batch.
  void share(ItemStore& items, Location location);
  // The reply gets a copy of few bytes of such a value, from `first` to `last` as ValueRange has
  // them, and the value may change again at once. False: there are too many, or there is no memory
  // for it. Likewise any thread.
  bool copy_part(ItemStore& items, Location location, int64_t first, int64_t last, Reply& reply);

  // `row`, of the batch or of the parked rows that run again, waits for `what`; null: for an
  // earlier row of its key, or for a value that the reader awaits. Any thread of those that answer
  // rows of the batch, and so `is_parked`, for keys of which the same thread has parked a row.
  void park(const Batch& of, Batch::Row row, Awaited* what);
  bool is_parked(const Batch::Columns& columns, Batch::Row row) const {
    return has_parked() && is_parked_key(key_of(columns, row));
  }
  // The same of rows of the batch that a backing answers. `may_ask`: nothing has been asked for,
  // and no row runs again.
  void await(std::unique_ptr<Backing::Coming> coming);
  bool has_coming() const { return !coming_.empty(); }
  bool may_ask() const { return may_ask_; }
  // Answers them; those that are left stay parked.
  Backing::Answered answer_coming();
  bool has_parked() const { return parks_.load(std::memory_order_relaxed); }
  // The parked rows as a batch to run; with a group of them all where they are to take their keys.
  Batch& take_parked();
  // How many bytes these rows will bring into memory.
  uint64_t bytes_to_bring() const;
  // The batch, or those that run again, whose groups take their keys.
  Batch& with_groups() { return again_.has_groups() ? again_ : *batch; }

  // Around the running of rows, of the batch or of those that run again, where there is a sink.
  // The same sink is told of the end, whatever the store has by then. `end_commits`: whether
  // replies wait.
  void begin_commits(CommitSink& sink, bool again);
  bool told() const { return told_; }
  void end_groups() { sink_->grouped(token); }
  bool end_commits();

  // Behind the running of rows. Whether any wait; if not, the batch has ended.
  bool waits() const { return has_parked() || (reader != nullptr && reader->awaits()); }
  // Around what the whole batch begins to wait for: it calls `there` once. `end_whole`: whether it
  // has, so the batch goes on in this thread; if not, it is resumed.
  void begin_whole() {
    waits_whole_ = true;
    waits_.store(2, std::memory_order_relaxed);
  }
  bool end_whole() { return waits_.fetch_sub(1, std::memory_order_acq_rel) == 1; }
  // Whether it has waited so since the last call.
  bool take_whole() { return std::exchange(waits_whole_, false); }

  // Begins to wait, and says whether all was there at once. If not, `all_there` will be called.
  bool wait_for_all();
  // What follows: parked rows run again, or the batch ends.
  void all_there();
  void there() override {
    if (waits_.fetch_sub(1, std::memory_order_acq_rel) == 1) all_there();
  }
  // Gets whose values were lost with a device while they waited: calls visit(batch, row), of the
  // batch or of the parked rows, to run them on the host. Those are misses behind which the batch
  // writes their key: what is there now came later.
  template <class Visit>
  void each_lost(Visit&& visit) {
    if (reader == nullptr || !reader->has_lost()) return;
    const LastWrites writes = last_writes();
    for (Reply* reply : reader->take_lost()) {
      Batch& its = has_reply(again_, *reply) ? again_ : *batch;
      const auto row = static_cast<Batch::Row>(reply - its.columns().reply);
      const auto write = writes.find(key_of(its.columns(), row));
      const Batch::Row of_batch = &its == &again_ ? rows_again_[row] : row;
      write != writes.end() && write->second > of_batch ? miss(*reply) : visit(its, row);
    }
  }
  void park_lost() {
    each_lost([this](Batch& its, Batch::Row row) { park(its, row, nullptr); });
  }
  // No row that writes is to run; all are answered as not saved.
  void refuse_writes(bool erases);
  // There was no memory to go on: all rows that have not run are answered so, and wait for nothing
  // more. Nothing that they have parked for was begun.
  void give_up();
  // The same of those that were to run early, while the rest waits.
  void refuse_early();
  // Rows that ran again give their answers to those of the batch.
  void hand_back();

  void release(Batch& /*batch*/) override { owner.released(*this); }

  Owner& owner;
  EpochDomain::Slot& slot;
  Executor* executor = nullptr;  // that has it
  Batch* batch = nullptr;
  int64_t now_ms = 0;
  bool beside_others = false;
  bool writable = true;
  bool put_off = false;               // rows that write wait, or have waited, for their turn
  bool may_move = false;              // what replies show: whoever looks at it looks anew
  uint64_t token = 0;                 // of the sink
  KeyGate::Holder* holder = nullptr;  // where it waits for keys itself
  std::vector<uint8_t> early;         // rows that ran before its groups; empty: none
  std::vector<std::unique_ptr<Backing::Held>> held;  // what replies of direct gets point into
  std::vector<Backing::Hot> hot;                     // of those that are coming
  int64_t passing = 0;            // bytes that were told of as such (items/memory_budget.h)
  int64_t admitted = 0;           // bytes that it was admitted for, until its rows have run
  ValueReader* reader = nullptr;  // or null
  RoundSender* sender = nullptr;  // the owner, as rounds of a device know it
  std::unique_ptr<ValueReader> own_reader;
  BatchRun* next = nullptr;  // in the queue that it is in
  // The owner's, under its lock.
  Phase phase = Phase::ended;
  bool is_news = false;
  bool quick = false;  // that it went the quick way is known to its owner

 private:
  // Told when replies need be withheld no more.
  class Sync final : public Awaited::Waiter {
   public:
    explicit Sync(BatchRun& run) : run_(run) {}
    void there() override { run_.synced(false); }
    void failed() override { run_.synced(true); }

   private:
    BatchRun& run_;
  };
  struct Parked {
    Batch::Row row;
    Awaited* awaited;
  };
  static bool has_reply(const Batch& of, const Reply& reply);
  static void miss(Reply& reply) {
    reply.status.store(Status::not_found, std::memory_order_release);
  }
  // For each key that the batch writes, the last row that writes it.
  using LastWrites = std::unordered_map<uint64_t, Batch::Row>;
  LastWrites last_writes() const;
  bool is_parked_key(uint64_t key) const;
  void take_back_part(const Batch::Span& view, Backing::Answered& answered);
  template <class Is>
  void drop_parked(const Is& is);
  void forget_parked();
  void refuse(Batch::Row row);
  bool begin_to_wait(const Parked& one);
  void copy_views();
  void keep(ItemStore& items, Reply& reply, bool stays);
  const char* hold_copy(std::string_view value);
  void end_resumed();
  void let_go_shared();

  Sync sync_{*this};
  Awaited* sync_awaited_ = nullptr;
  Status shown(Batch::Row row, Status status);
  void mark_unsaved();
  void synced(bool failed);

  CommitSink* sink_ = nullptr;
  bool told_ = false;        // it is between these two
  bool refused_ = false;     // its rows that write
  bool failed_ = false;      // what its replies waited for
  bool tells_sync_ = false;  // others are still waited for then
  bool waits_whole_ = false;
  std::atomic<uint32_t> waits_{0};  // for things, and one while it begins to
  std::atomic<bool> parks_{false};  // some rows
  // Of both, while rows are answered, and of the replies of rows that run again.
  mutable std::mutex mutex_;
  std::unordered_set<const char*> kept_;  // what replies show and needs no epoch
  ItemStore* items_ = nullptr;            // of these:
  std::vector<Location> shared_;
  uint32_t parked_anew_ = 0;  // how often rows ran again and were parked once more
  std::vector<Parked> parked_;
  // The keys of the first so many of them, which are looked for when somebody asks.
  mutable std::unordered_set<uint64_t> parked_keys_;
  mutable size_t keyed_ = 0;
  std::vector<std::unique_ptr<Backing::Coming>> coming_;
  bool may_ask_ = false;
  std::vector<Awaited*> resumed_;       // what the rows that run again have waited for
  std::vector<Batch::Row> rows_again_;  // of the batch, whose copies are those of again_
  Batch again_;
};

// Runs one behind the other, linked through themselves.
struct RunQueue {
  BatchRun* first = nullptr;
  BatchRun* last = nullptr;

  void push(BatchRun& run) {
    run.next = nullptr;
    (first == nullptr ? first : last->next) = &run;
    last = &run;
  }
  // The first, or null.
  BatchRun* pop() {
    BatchRun* const run = first;
    if (run != nullptr) first = run->next;
    return run;
  }
};

}  // namespace isotherm
