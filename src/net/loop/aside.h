// Asides: requests of a connection that wait in a turn, while those behind them are read and run.
//
// When a row waits for something (executor/awaited.h), its connection puts aside what it owes in
// that turn, with the input that the requests borrow from, and goes on in later turns:
//
//   asides  [ GET cold: waits ][ SET a 1, GET b: answered ][ GET cold too: waits ] ◀─ its next turn
//   output   ◀── what stands first, as soon as it is answered
//
// The answers of an aside that stands behind one that waits are written into an output of its own,
// so that its turn can end and its batch holds nothing.
//
// Order. Turns under way are concurrent, so a request must not run beside an earlier one on its
// key. A request names its keys in its words. If one of them is the key of a row that is not
// answered, the request stays in the input, with all behind it, until that row is answered. A
// command over whole databases stays in the input, too (net/resp/protocol.cc). A row that has run
// holds nobody back, even if its reply may not be shown yet. What a command does to its connection
// happens when it is parsed, and so in order.
//
// Limits. At most `most` asides have rows that wait, with `most_rows` rows and about `most_bytes`
// of input. Their outputs count as unsent bytes of the connection. Requests that run behind an
// aside must be answered, and are never parsed again. So only a few reads may run there, as many as
// may all be answered (`reads_before_change` in net/protocol.h). In RESP requests that show no
// value do not count.
//
// Threads. Belongs to its connection's loop.
#pragma once

#include <cstddef>
#include <memory>
#include <string_view>
#include <unordered_set>
#include <vector>

#include "net/buffer_pool.h"
#include "net/output.h"
#include "net/protocol.h"

namespace isotherm::net {

struct Aside {
  Aside(BufferPool& pool, Engine& engine) : output(&pool, &engine) {}

  const Turn* turn = nullptr;  // that has its rows; null: it is answered
  Batch::Row first_row = 0;
  Batch::Row end_row = 0;
  std::unique_ptr<Protocol::Owed> owed;
  Buffer input;
  Output output;
};

class Asides {
 public:
  static constexpr size_t most = 8;
  static constexpr size_t most_bytes = 256 << 10;
  static constexpr Batch::Row most_rows = 1 << 10;

  explicit Asides(BufferPool& pool) : pool_(pool) {}
  ~Asides() { clear(); }
  Asides(const Asides&) = delete;
  Asides& operator=(const Asides&) = delete;

  bool empty() const { return all_.empty(); }
  // Whether one of so many bytes and rows finds room.
  bool has_room(size_t bytes, Batch::Row rows) const;
  size_t input_memory() const;
  size_t output_memory() const;
  size_t unsent() const;  // bytes of outputs
  bool any_cut() const;

  Aside& add(Engine& engine) { return *all_.emplace_back(std::make_unique<Aside>(pool_, engine)); }
  // Null: none has rows of that turn.
  Aside* of(const Turn& turn) const;
  // Where what stands behind all of them is written, if that is one that is answered; else null.
  Aside* last_answered() const {
    return all_.back()->turn == nullptr ? all_.back().get() : nullptr;
  }
  void answered(Aside& aside);
  // Those of that turn, and all that are answered, go without a word.
  void forget(const Turn& turn);
  // Appends the answers of the asides that stand first and are answered to `output`.
  void let_go(Output& output);

  // The keys of rows that are not answered, for requests behind them.
  const WaitingKeys& waiting_keys();

 private:
  void clear();

  BufferPool& pool_;
  std::vector<std::unique_ptr<Aside>> all_;
  WaitingKeys keys_;
};

}  // namespace isotherm::net
