// BatchPath: a way for batches to the device and back; a queue has a bulk path and may have an
// express path.
//
// `send` takes a batch whose columns lie in pinned memory; the replies are there when `done` says
// so. Until then the batch occupies a channel; channels are numbered from 0. The queue keeps the
// order between its paths; within one path, batches take effect in the order sent.
//
// Threads. One, which calls `enter` first. Failures. DeviceError, after which the replies of
// batches under way never come; std::bad_alloc from `send`, which then did nothing.
#pragma once

#include <cstdint>

#include "isotherm/table_requests.h"

namespace isotherm {

class BatchPath {
 public:
  virtual ~BatchPath() = default;
  virtual void enter() {}
  // Rows of a batch.
  virtual uint64_t most_rows() const = 0;
  // `requests` has columns for replies. `now`: a steady clock's time in nanoseconds.
  virtual void send(uint32_t channel, const TableRequests& requests, int64_t now) = 0;
  virtual bool done(uint32_t channel, int64_t now) = 0;
};

}  // namespace isotherm
