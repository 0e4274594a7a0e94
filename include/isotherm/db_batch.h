// DbBatch: many reads and writes of a Db (isotherm/db.h) in one call, as fast as the store goes.
//
//   isotherm::DbBatch batch(*db);
//   batch.put("user:1", "Ada");
//   const auto row = batch.get("user:2");
//   if (isotherm::DbStatus status = batch.run(); status.ok()) … batch.value(row)
//   batch.clear();
//
// Order. The requests of a batch on one key take effect in the order in which they were added.
// Requests on different keys do not wait for each other, and others may see some of them before the
// rest: what is to take effect as a whole is a WriteGroup. Nothing is copied: keys and values stay
// where they are until `run` has returned, and what was read until `clear`. When `run` returns, all
// writes are as safe as DbOptions::sync says.
//
// Memory. What was read keeps its memory until `clear`, so a batch that is not needed is cleared. A
// batch of writes may be larger than DbOptions::memory; one that reads, too, has to fit with what
// it writes, or rows of it are answered out_of_memory.
//
// Threads. Belongs to one at a time. It has one of the Db's workers (DbOptions::most_calls) as long
// as it lives, so a thread keeps its own and uses it again. It is destroyed before the Db.
// Sources. H-Rocks, section 4 (batches of operations).
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "isotherm/db_status.h"

namespace isotherm {

class Db;

class DbBatch {
 public:
  using Row = uint32_t;

  // Waits for a worker where all are out. Throws std::bad_alloc.
  explicit DbBatch(Db& db);
  ~DbBatch();
  DbBatch(const DbBatch&) = delete;
  DbBatch& operator=(const DbBatch&) = delete;

  // Each returns its row. They throw std::bad_alloc.
  Row get(std::string_view key);
  Row put(std::string_view key, std::string_view value);
  Row erase(std::string_view key);  // ok also where it was absent
  Row size() const;

  // ok: each row has a status of its own. Otherwise that of the first write that failed.
  DbStatus run();
  // Behind `run`. Of a get: ok or not_found, or why the files cannot be read.
  DbStatus status(Row row) const;
  std::string_view value(Row row) const;  // of a get that is ok
  // Forgets all rows; the batch may be filled again.
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
