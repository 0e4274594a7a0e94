// SnapshotSource: what a store has at one moment, for a file, piece by piece, while others go on
// changing it.
//
//   begin: the moment ──▶ step, step, … ──▶ end
// Of a store in memory it is a Snapshot (engine/snapshot.h), of one with a tree a TreeSnapshot
// (engine/tree_snapshot.h).
//
// Threads. One, which is no worker's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>
#include <vector>

#include "engine/engine.h"

namespace isotherm {

class SnapshotSource {
 public:
  // The moment, as a file tells of it.
  struct Moment {
    uint64_t version = 0;  // no item has a larger one
    int64_t at_ms = 0;
    uint64_t changes = 0;                  // EngineStats::changes
    std::vector<DatabaseStats> databases;  // empty: nobody has counted their keys
  };
  enum class Step : uint8_t { more, done, flushed };
  // A piece of the file; false: it cannot be written, and no more is wanted.
  using Write = std::function<bool(std::string_view bytes)>;

  virtual ~SnapshotSource() = default;

  // Null: there was no memory for it. Again after `flushed`. Throws TreeError where a part of the
  // store is lost.
  virtual const Moment* begin(Worker& worker, bool keeps_flushed) = 0;
  // Writes items, as rdb_format.h has them. Throws TreeError where they cannot be read.
  virtual Step step(const Write& write) = 0;
  virtual void end(Worker& worker) = 0;
};

std::unique_ptr<SnapshotSource> make_snapshot_source(Engine& engine);

}  // namespace isotherm
