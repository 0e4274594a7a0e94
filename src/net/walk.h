// Walk: a command over a whole database, which takes a bounded step in each turn, so that only the
// client that asked waits for it.
//
//   begin_step: a row (Op::walk) ─▶ a turn of its own ─▶ end_step: the answer, or another step
//
// What a step shows is gathered by the thread that runs the step. The loop then adds it to the
// answer. The answer is kept here until the walk is over, since its first line may depend on all of
// it. So no step formats more than it has shown. An unfinished answer counts as unsent output of
// its connection.
//
// Threads. `visit` is called on the thread that runs the batch, all else on the connection's loop,
// one after the other.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>

#include "engine/engine.h"
#include "isotherm/batch.h"
#include "net/output.h"

namespace isotherm::net {

class Walk : public ItemVisitor {
 public:
  // Items of one step, as far as the index allows: a twentieth of a millisecond on a loop.
  static constexpr uint64_t most_a_step = 256;

  virtual ~Walk() = default;

  void begin_step(Batch& batch) { row_ = batch.walk(cursor_, wanted(), *this); }
  // Whether the walk is over, and has been answered.
  bool end_step(const Batch& batch, Output& output) {
    const Reply& reply = batch.reply(row_);
    const Status status = reply.status;
    if (status == Status::not_saved || status == Status::out_of_memory) {
      failed(output, status == Status::out_of_memory);
      return true;
    }
    cursor_ = static_cast<uint64_t>(reply.number);
    return took_step(reply.flags != 0, output);
  }
  // The answer so far; null: none.
  const Output* unfinished() const { return found_.get(); }

 protected:
  explicit Walk(uint64_t cursor = 0) : cursor_(cursor) {}

  // How many items the next step is to show.
  virtual uint64_t wanted() const { return most_a_step; }
  // Whether it was the last, whose answer goes to `output`. `anew`: the walk began again, with this
  // step.
  virtual bool took_step(bool anew, Output& output) = 0;
  // Answers that there was no memory for a step, or that the items of a tree cannot be read.
  virtual void failed(Output& output, bool lacks_memory) = 0;

  // Where the answer is kept, in memory of the pool of `output`.
  Output& found(Output& output) {
    if (found_ == nullptr) found_ = std::make_unique<Output>(&output.pool());
    return *found_;
  }
  void forget_found() { found_.reset(); }
  // Behind what `output` has.
  void let_go_of_found(Output& output) {
    if (found_ != nullptr) output.take_over(*found_);
  }

  uint64_t cursor_;

 private:
  Batch::Row row_ = 0;
  std::unique_ptr<Output> found_;
};

}  // namespace isotherm::net
