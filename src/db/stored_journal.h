// StoredJournal: the journal of a server, or of a Db, from reading it at the start to its end.
//
// A start reads the journal, and its base if it has one (durability/record.h), and nothing else:
// with a journal the snapshot in the same folder is not looked at, as Redis does not look at it. A
// journal that begins has a copy of it as its base, so whoever turns the journal on keeps what
// there is; the manifest comes behind the copy, so a start that ends between leaves no journal.
//
// It takes a lock on the files, so that no second program writes them, reads what is there, fills
// the store with it, and from then on has every change. What has expired meanwhile stays gone.
//
// What is evicted while the store is filled is recorded, so it does not come back either.
//
// Throws JournalError, or RdbError of the base, with the reason as text, where the files cannot be
// had or are damaged; nothing on disk is changed then, and a journal that began goes again. It does
// so, too, where the store has no room for all and evicts nothing.
//
// Threads. Made before any worker of the engine, and destroyed behind them.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "durability/journal.h"
#include "durability/journal_lock.h"
#include "engine/engine.h"

namespace isotherm {

// Puts what the journal has into a store, by a thread a part. Throws RdbError or JournalError for a
// base that cannot be read, and JournalError where items find no room.
void fill_store(Engine& engine, const JournalReader& reader);

struct StoredJournalOptions {
  std::string folder = ".";
  std::string name = "appendonly.aof";
  SyncPolicy policy = SyncPolicy::everysec;
  uint32_t readers = 1;  // threads
  std::string snapshot;  // the path of one that a new journal begins with; empty: with no keys
  // May be empty. `warns`: something is not as it should be.
  std::function<void(bool warns, const std::string& line)> log;
};

class StoredJournal {
 public:
  StoredJournal(const StoredJournalOptions& options, Engine& engine, Files& files);
  ~StoredJournal();
  StoredJournal(const StoredJournal&) = delete;
  StoredJournal& operator=(const StoredJournal&) = delete;

  Journal& journal() { return *journal_; }

 private:
  bool begin_with_snapshot(const StoredJournalOptions& options, Files& files) const;
  void clear(const JournalReader& reader);
  void fill(const JournalReader& reader);
  void log(bool warns, const std::string& line) const;

  Engine& engine_;
  const std::function<void(bool warns, const std::string& line)> log_;
  const JournalLock lock_;
  std::unique_ptr<Journal> journal_;
};

}  // namespace isotherm
