// DbState: what is behind a Db (isotherm/db.h): an engine with a tree, the journal before it, and
// workers for the calls.
//
//   a call ─▶ a worker's batch ─▶ engine ─▶ tree (runs) ─▶ journal ─▶ the call returns
//   a moment ─▶ no row runs ─▶ Tree::take_moment ─▶ snapshots, iterators
//
// Atomic groups and memory. A group must not find that there is no memory when half of it was
// stored. So its rows may run over the cap, as far as the engine allows any, and it waits before it
// begins until that is far away. A group that would come near it all the same is lent what it needs
// for as long as it runs; what memory then has too much goes as ever, by eviction.
//
// Threads. Any, but for the constructor and the destructor.
#pragma once

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "db/db_workers.h"
#include "db/key_locks.h"
#include "db/lent_memory.h"
#include "db/merge_functions.h"
#include "db/statuses.h"
#include "db/stored_journal.h"
#include "db/write_plan.h"
#include "durability/files.h"
#include "engine/engine.h"
#include "gpu/store/sorted_tier.h"
#include "isotherm/db.h"
#include "tree/tree.h"
#include "tree/tree_moment.h"

namespace isotherm {

// Files of a database of another program and ours are not to be mixed: throws where there are such,
// and where there can be no folder. Returns its name from the root on, without links, by which it
// is found also when the program has gone to another folder.
std::string make_folder(const std::string& folder);
// Of a folder. Throws std::invalid_argument where the system would take a part of it for the whole.
void check_name(const std::string& folder);

class DbState {
 public:
  // Throws what the engine, the tree and the journal throw.
  DbState(const DbOptions& options, const std::string& folder, Files& files,
          const SortedTierMaker& make_sorted);
  ~DbState();
  static std::unique_ptr<Db> make_db(std::unique_ptr<DbState> state);
  DbState(const DbState&) = delete;
  DbState& operator=(const DbState&) = delete;

  // `version`: of the item; 0 where it is absent.
  DbStatus read(std::string_view key, std::string& value, uint64_t* version = nullptr,
                uint32_t database = keys_database);
  static DbStatus read_at(const TreeMoment& moment, std::string_view key, std::string& value,
                          uint64_t* version = nullptr);
  // `intents`: puts and erases of intents, which take effect with the group.
  DbStatus write(const WriteGroup& group, const WriteGroup& intents = {}) {
    const WritePlan::Part all{&group, nullptr};
    return write({&all, 1}, intents, 1);
  }
  // Groups that share no key, as one; by so many threads where they are large.
  DbStatus write(WritePlan::Parts parts, const WriteGroup& intents, uint32_t threads);
  // One change of a key, which `fill` adds to the batch.
  template <class Fill>
  DbStatus write_row(std::string_view key, std::string_view value, Fill&& fill) {
    if (std::max(key.size(), value.size()) > WritePlan::most_value) {
      return status_of(Status::too_large);
    }
    return write_rows(1, key.size() + value.size(), [&](Batch& batch) {
      fill(batch);
      return Batch::Row{0};
    });
  }
  // Runs that wait are taken in until so many bytes may be written. Before a batch that may run
  // over the cap. False: snapshots keep the memory, and the batch is not to run.
  bool wait_for_memory(DbWorkers::Lease& lease, uint64_t bytes);
  // How often it has waited.
  uint64_t waits_for_memory() const { return waits_for_memory_.load(std::memory_order_relaxed); }
  // Throws std::bad_alloc.
  std::shared_ptr<const TreeMoment> take_moment();
  std::shared_ptr<const TreeMoment> take_moment(Worker& worker, bool sorted = false);
  // That of a snapshot, or now where there is none. Throws std::invalid_argument for one of another
  // Db.
  std::shared_ptr<const TreeMoment> moment_of(const DbSnapshot* snapshot);
  bool stand_still(const std::function<void()>& work);
  DbStatus with_reason(DbStatus status);

  Engine& engine() { return engine_; }
  Tree& tree() { return *engine_.tree(); }
  Journal& journal() { return journal_->journal(); }
  DbWorkers& workers() { return *workers_; }
  KeyLocks& locks() { return locks_; }
  const MergeFunctions& merges() const { return merges_; }

 private:
  DbStatus check(const WriteGroup& group) const;
  uint64_t to_lend(uint64_t changes, uint64_t bytes) const;
  uint64_t kept_by_snapshots();
  // `fill` adds the rows of so many changes to the batch, and returns the first that writes.
  template <class Fill>
  DbStatus write_rows(uint64_t changes, uint64_t bytes, Fill&& fill) {
    DbWorkers::Lease lease(*workers_);
    return write_rows(lease, changes, bytes, nullptr, fill, [&] { lease.submit(); });
  }
  template <class Fill, class Submit>
  DbStatus write_rows(DbWorkers::Lease& lease, uint64_t changes, uint64_t bytes, WorkerPool* pool,
                      Fill&& fill, Submit&& submit);
  DbStatus result_of(const Batch& batch, Batch::Row first_write, WorkerPool* pool);
  DbStatus write_by_threads(WritePlan::Parts parts, const WriteGroup& intents, uint64_t changes,
                            uint64_t bytes, uint32_t threads);

  const MergeFunctions merges_;
  const std::string folder_;
  Engine engine_;
  std::unique_ptr<StoredJournal> journal_;
  std::unique_ptr<DbWorkers> workers_;
  KeyLocks locks_;
  std::atomic<uint64_t> waits_for_memory_{0};
};

template <class Fill, class Submit>
DbStatus DbState::write_rows(DbWorkers::Lease& lease, uint64_t changes, uint64_t bytes,
                             WorkerPool* pool, Fill&& fill, Submit&& submit) {
  const uint64_t lent = to_lend(changes, bytes);
  if (!wait_for_memory(lease, lent == 0 ? bytes : 0)) {
    return with_reason(status_of(Status::out_of_memory));
  }
  const Batch::Row first_write = fill(lease.batch());
  {
    const LentMemory memory(engine_, lent);
    submit();
  }
  DbStatus result = result_of(lease.batch(), first_write, pool);
  lease.clear(bytes, pool);
  return result;
}

struct DbSnapshot::Moment {
  std::shared_ptr<const TreeMoment> at;
};

// As Db::open, with files of the journal's that may fail, and a sorted copy on a device of the
// caller's; for tests.
DbStatus open_db(const DbOptions& options, const std::string& folder, Files& files,
                 std::unique_ptr<Db>& db, const SortedTierMaker& make_sorted = nullptr);

}  // namespace isotherm
