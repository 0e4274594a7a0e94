// Asides: requests of a connection that wait in a turn, while those behind them are read and run.
//
// When a row waits for something (executor/awaited.h), its connection puts aside what it owes in
// that turn, with the input that the requests borrow from, and goes on in later turns:
//
//   asides  [ GET cold: waits ][ SET a 1, GET b: answered ][ GET cold too: waits ] ◀─ its next turn
//   output   ◀── what stands first, as soon as it is answered
//
// What is answered behind one that waits is written into the output of its aside, so that its turn
// ends and its batch holds nothing.
//
// Order. Turns under way are concurrent, so a request is not run while one before it has a row that
// is not answered and is on a key that it may touch. A request says its keys in its words: one that
// has a word like such a key stays in the input, with all behind it, until the row is answered. The
// same goes for commands over whole databases (net/resp_protocol.cc). Rows that have run and whose
// replies only wait to be shown keep nobody. What a command does to its connection it does when it
// is parsed, so in order.
//
// Limits. `most` asides with rows that wait, of about `most_bytes` of input; `most_rows`. Outputs
// count as unsent bytes of their connection. Nothing is parsed again, so a connection with asides
// runs only so many reads that it may have to answer them all (`reads_before_change` in
// net/protocol.h).
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

  Aside& add(Engine& engine) { return *all_.emplace_back(std::make_unique<Aside>(pool_, engine)); }
  // Null: none has rows of that turn.
  Aside* of(const Turn& turn) const;
  // Where what stands behind all of them is written, if that is one that is answered; else null.
  Aside* last_answered() const {
    return all_.back()->turn == nullptr ? all_.back().get() : nullptr;
  }
  void answered(Aside& aside);
  // What stands first and is answered goes behind what `output` has.
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
