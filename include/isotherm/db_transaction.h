// DbTransaction: reads and changes of a Db (isotherm/db.h) that take effect together, if nothing
// that it has read for update was changed by others meanwhile.
//
//   std::unique_ptr<isotherm::DbTransaction> transaction;
//   status = db->begin({.locks = true}, transaction);
//   status = transaction->get_for_update("account:1", balance);
//   status = transaction->put("account:1", …);
//   status = transaction->commit();
// Changes are kept in the transaction, which sees them, until `commit` writes them as one
// WriteGroup, so all are there after a crash or none is. What was not committed is forgotten with
// the transaction.
//
// Two kinds. Without locks (optimistic), nobody waits: `commit` is `busy` where a key that was
// read for update has another version by then, and nothing was written. With locks (pessimistic),
// each key that is read for update, or changed, is locked for other transactions with locks until
// the end of this one; who waits longer than `timeout_ms` gets `timed_out`, and who would wait for
// somebody that waits for him gets `deadlock`. Writes that are no transaction's take no locks: a
// commit finds by versions what they have changed, and is `busy`, so nothing is ever lost.
//
// Reads. `get` promises nothing but what it shows. With `snapshot` all reads are of the moment at
// which the transaction began, beside its own changes, and reading for update, or, with locks,
// changing a key that others have changed since is `busy`.
//
// Many operations. `run` does those of a DbRows as the calls above would, one behind the other,
// with as many threads as DbTransactionOptions::threads says, and `commit` writes with as many. A
// batch of a store's requests is cheaper for each of them than calls are, so transactions of very
// many operations bring them by some ten thousand.
//
// A change of a key that was not read for update conflicts with nobody; without locks the last one
// stays.
//
// Threads. Belongs to one at a time. Destroyed before its Db.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "isotherm/db.h"
#include "isotherm/db_rows.h"

namespace isotherm {

struct DbTransactionOptions {
  bool locks = false;
  bool snapshot = false;
  int64_t timeout_ms = 1000;  // that it waits for one lock; below 0: for ever
  // That run its DbRows, and its commit where it has very many changes; at most 64, and as many as
  // there are workers (DbOptions::most_calls). 0: as many as the machine has.
  uint32_t threads = 1;
};

class DbTransaction {
 public:
  // As `rollback`.
  ~DbTransaction();
  DbTransaction(const DbTransaction&) = delete;
  DbTransaction& operator=(const DbTransaction&) = delete;

  DbStatus get(std::string_view key, std::string& value);
  // not_found, too, is remembered: the key must be absent still when it is committed.
  DbStatus get_for_update(std::string_view key, std::string& value);
  DbStatus put(std::string_view key, std::string_view value);
  DbStatus erase(std::string_view key);
  DbStatus merge(std::string_view key, uint32_t function, std::string_view operand);

  // Of gets, `rows` has what they have found. Not ok, for what the call of any row would be: none
  // of its changes are kept; locks stay, and what was read for update.
  DbStatus run(DbRows& rows);

  // Marks where it is; `rollback_to_savepoint` forgets what was changed since the last mark, and
  // the mark; not_found where there is none. Locks, and what was read for update, stay.
  DbStatus set_savepoint();
  DbStatus rollback_to_savepoint();

  // Both end it; all that comes behind is `invalid`.
  DbStatus commit();
  void rollback();

 private:
  friend class Db;
  struct State;
  explicit DbTransaction(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
