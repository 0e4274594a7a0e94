// Transaction: what WATCH and MULTI keep of a connection until EXEC, DISCARD, UNWATCH or RESET.
//
//   none ──WATCH──▶ watched keys ──MULTI──▶ open: commands are kept ──EXEC──▶ one group of rows
//     └───────────────MULTI───────────────────▲
//
// Watched keys. WATCH looks at its keys by rows like others', and when its answer is written notes
// the version and the expiry of each. EXEC looks again, in its group: where one of them is another,
// its guard cancels all that is behind it (transaction_commands.cc). So changes need to tell
// nobody, and writers pay nothing for it; eviction, expiry, flushes and other protocols need no
// code for it. A key that was absent both times counts as unchanged.
//
// The words of kept commands are copied. A command that was refused fails the transaction: its EXEC
// does nothing, and, as in Redis, nothing more is kept.
//
// Life. Shared by the session and by what its answers keep: a WATCH that is under way when the
// session lets go still has a place for what it finds.
//
// Threads. Belongs to the connection's loop.
// Limits. What it takes counts for client-query-buffer-limit and maxmemory-clients.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "isotherm/batch.h"
#include "net/resp/command.h"

namespace isotherm::net {

class Transaction {
 public:
  // A watched key as WATCH has found it.
  struct Seen {
    bool known = false;    // false: the answer to WATCH was an error, or is still to come
    uint64_t version = 0;  // 0: absent
    int64_t expiry = no_expiry;
  };
  struct Queued {
    NumberedCommand command;
    std::vector<std::string_view> words;
    std::unique_ptr<char[]> text;
  };
  // The database, in 4 bytes, and the key.
  using WatchedKeys = std::unordered_map<std::string, Seen>;

  static uint32_t database_of(const WatchedKeys::value_type& watched);
  static std::string_view key_of(const WatchedKeys::value_type& watched) {
    return std::string_view(watched.first).substr(sizeof(uint32_t));
  }

  // Null: it is watched already.
  WatchedKeys::value_type* watch(uint32_t database, std::string_view key);
  const WatchedKeys& watched() const { return watched_; }
  // A WATCH is under way, and has ended.
  void begin_watch() { ++awaited_; }
  void end_watch() { --awaited_; }
  // Whether what some WATCH finds is still to come.
  bool awaits() const { return awaited_ != 0; }

  void open() { open_ = true; }
  bool is_open() const { return open_; }
  void fail() { failed_ |= open_; }
  bool failed() const { return failed_; }
  void add(const NumberedCommand& command, Arguments words);
  const std::vector<Queued>& commands() const { return commands_; }
  uint32_t flags() const { return flags_; }  // of all kept commands

  size_t bytes() const { return bytes_; }

 private:
  bool open_ = false;
  bool failed_ = false;
  uint32_t awaited_ = 0;
  uint32_t flags_ = 0;
  size_t bytes_ = 0;
  std::vector<Queued> commands_;
  WatchedKeys watched_;
};

// Whether the session's commands are kept for EXEC.
inline bool queues(const Session& session) {
  return session.transaction != nullptr && session.transaction->is_open();
}
// Others see what the session's transaction is now.
void show_transaction(Session& session);
// The session has none from now on.
std::shared_ptr<Transaction> take_transaction(Session& session);

}  // namespace isotherm::net
