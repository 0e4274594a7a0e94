// WritePlan: how a WriteGroup becomes rows of a batch that take effect together.
//
//   a get for each check
//   a get for each key with merges
//   the guard
//   puts and erases, of keys and then of intents
//   a row for each merged key
//
// A key with merges has one row, whatever the group does with it: its value is made by the guard,
// which all gets have ended before, so either all merges work or nothing is written; and the
// journal has results. Without checks and merges there is no guard, and rows are as they came.
//
// A check is a key that a transaction has read, with the version that it had, 0 where it was
// absent.
//
// Parts. A transaction may bring several groups that share no key; where none of them has merges,
// their rows are parts of the batch (Batch::part), which threads of a pool fill, and run.
//
// Threads. One, with those of the pool, until the batch was run and its replies were read. The
// groups stay where they are.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "db/merge_functions.h"
#include "isotherm/batch.h"
#include "isotherm/write_group.h"

namespace isotherm {

class WorkerPool;

// Of the engine's databases the one that has the keys of a Db, and the one with its intents
// (db/db_intents.h).
inline constexpr uint32_t keys_database = 0;
inline constexpr uint32_t intents_database = 1;

class WritePlan {
 public:
  using Checks = std::unordered_map<std::string, uint64_t>;
  static constexpr uint64_t most_value = 512 << 20;  // and key, as of the engine's options

  struct Part {
    const WriteGroup* group;
    const Checks* checks;  // may be null
  };
  using Parts = std::span<const Part>;

  // Fills the batch. `intents` have no merges. `pool` may be null.
  WritePlan(Parts parts, const WriteGroup& intents, const MergeFunctions& functions, Batch& batch,
            WorkerPool* pool = nullptr);
  WritePlan(const WritePlan&) = delete;
  WritePlan& operator=(const WritePlan&) = delete;

  // Why the guard has cancelled all; ok: it has not.
  const DbStatus& problem() const { return problem_; }
  Batch::Row first_write() const { return first_write_; }

 private:
  // A key with merges.
  struct Folded {
    std::vector<WriteGroup::Row> changes;
    Batch::Row get = 0;
    Batch::Row row = 0;
    DbValue value;
  };

  void find_merges();
  void fill(Batch& batch, const WriteGroup& intents, WorkerPool* pool);
  void fill_checks(Batch& batch) const;
  void fill_parts(Batch& batch, WorkerPool& pool) const;
  void fill_writes(Batch& batch, const WriteGroup& group, bool may_merge) const;
  void check(Batch& batch, Batch::Row row);
  DbStatus look_at_checks(const Batch& batch) const;
  DbStatus fold(const Batch& batch, Folded& folded) const;

  const Parts parts_;
  const MergeFunctions& functions_;
  std::unordered_map<std::string_view, Folded> folded_;
  Batch::Row checks_ = 0;
  Batch::Row first_write_ = 0;
  DbStatus problem_;
};

}  // namespace isotherm
