// JournalRewriter: a thread that has the journal written anew, when somebody asks (BGREWRITEAOF) or
// it has grown by so much since the last time (auto-aof-rewrite-percentage, -min-size), or when
// files of it were removed.
//
// With a tree (tree/tree.h) the journal's changes go into its files instead, and what they have
// goes from the journal; that happens all the time, so nobody waits for it to grow.
//
// It walks over all databases, and has each item appended once more (Journal::put_again), in
// batches like those of clients. An item that stays all the while is met; one that comes, changes
// or goes meanwhile has a newer record.
//
// It does not begin where the disk has no room for all of it, since the old files stay until the
// end, and a disk that it fills refuses writes. By itself it tries again a minute after a failure.
//
// Memory. One batch, of RewriteWalk::most_keys items or about `most_bytes`, a 16th of a cap at
// most, or one item; a copy of it, which the store counts; and the keys of the next ones
// (server/rewrite_walk.h).
// Threads. Its own; a worker of the engine while it rewrites.
#pragma once

#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "durability/journal.h"
#include "engine/engine.h"
#include "items/meta_request.h"
#include "net/live_options.h"
#include "server/rewrite_walk.h"

namespace isotherm {

class JournalRewriter {
 public:
  JournalRewriter(Engine& engine, Journal& journal, const net::LiveOptions& live);
  ~JournalRewriter();  // leaves a rewrite that is under way
  JournalRewriter(const JournalRewriter&) = delete;
  JournalRewriter& operator=(const JournalRewriter&) = delete;

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::minutes after_failure{1};
  static constexpr uint64_t most_bytes = 4 << 20;

  void run();
  int64_t now_s() const { return engine_.clock().now_ms() / 1000; }
  bool is_due() const;
  uint64_t bytes_at_once() const;
  bool rewrite();
  bool rewrite_database(Worker& worker, uint32_t database);
  bool put_some(Worker& worker, uint32_t database, const std::vector<RewriteWalk::Found>& found,
                size_t& first);

  Engine& engine_;
  Journal& journal_;
  const net::LiveOptions& live_;
  Clock::time_point not_before_{};  // it begins by itself
  int result_ = 0;                  // of the last call of the journal's; negative: -errno
  std::vector<MetaRequest> looks_;
  std::thread thread_;
};

}  // namespace isotherm
