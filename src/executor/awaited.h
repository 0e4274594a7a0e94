// Awaited: something that rows of a batch wait for, such as a value in the memory of a device.
//
// Rows wait in one of two ways. What is awaited may end its rows itself, by filling their replies
// (executor/values/value_reader.h), or they run again when it is there (executor/run/batch_run.h).
// If a row runs again, all later rows of the batch on its key run behind it, so each key keeps its
// order. Rows of the first kind need no such care, since they found what their replies show in
// order.
//
// A RowGate says which rows must not run yet.
//
// Threads. `begin` is called by whoever runs the batch, which may be a network thread, so it does
// not wait. `there` may be called by any thread, also within `begin`.
#pragma once

#include <cstdint>

#include "isotherm/batch.h"

namespace isotherm {

class Awaited {
 public:
  // Who waits. It outlives what it waits for, and is told once for each `begin`.
  class Waiter {
   public:
    virtual void there() = 0;
    // Instead: it will not be there for long, and who can go on without it does.
    virtual void failed() { there(); }

   protected:
    ~Waiter() = default;
  };

  // From now on `waiter` waits, and is to be told.
  virtual void begin(Waiter& waiter) = 0;
  // Rows that were told have run again, so what they waited for may go. Once for each `begin`.
  virtual void ran_again() {}
  // How many bytes the rows that were told will put into memory, once it is there.
  virtual uint64_t bytes_to_bring() const { return 0; }

 protected:
  ~Awaited() = default;
};

class RowGate {
 public:
  // What the row must wait for before it runs; null: it may run. Keys have their hashes. Any
  // thread.
  virtual Awaited* awaited(const Batch::Columns& columns, Batch::Row row) = 0;

 protected:
  ~RowGate() = default;
};

}  // namespace isotherm
