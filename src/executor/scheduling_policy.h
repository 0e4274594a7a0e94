// SchedulingPolicy: decides when rows that wait for a device are sent, how many and by which path.
//
// The same policies (batch/) serve the queue before a table and the rounds of a store:
//   a queue   (batch/batch_scheduler.h) asks after every change of what waits. It sends reads and
//             writes in batches of their own, reads before writes: a decision to send writes sends
//             all reads that wait as well.
//   a store   asks when a round could begin (executor/device/rounds.h). The work of a
//             thread is not cut, so a decision to send some rows of a round sends all of them;
//             reads and writes both count as reads there.
// Both ask again at the time that the answer names. A decision is carried out before the policy is
// asked again. `report` tells of every batch of a queue that has ended.
//
// Policies are pure logic: the time is an argument, so tests turn the clock. Threads. One at a
// time.
#pragma once

#include <cstdint>
#include <limits>

namespace isotherm {

enum class BatchKind : uint8_t { reads, writes };
// Of a store: the device, or the host.
enum class BatchRoute : uint8_t { bulk, express };

// What waits. Times and ages in nanoseconds, counts in rows.
struct WaitingRows {
  int64_t now = 0;
  uint64_t reads = 0;
  uint64_t writes = 0;     // and reads that wait for one of them
  int64_t read_age = 0;    // of the oldest; 0 where there is none
  int64_t write_age = 0;   // likewise
  uint32_t on_device = 0;  // batches
  uint64_t arrived = 0;    // rows, since the queue began
};

struct BatchDecision {
  static constexpr int64_t never = std::numeric_limits<int64_t>::max();

  uint64_t reads = 0;
  uint64_t writes = 0;
  BatchRoute route = BatchRoute::bulk;
  // When to ask again although nothing has changed.
  int64_t again = never;
};

struct BatchReport {
  BatchKind kind = BatchKind::reads;
  BatchRoute route = BatchRoute::bulk;
  uint64_t rows = 0;
  int64_t took = 0;  // from being sent to being answered
};

class SchedulingPolicy {
 public:
  virtual ~SchedulingPolicy() = default;
  virtual BatchDecision decide(const WaitingRows& waiting) = 0;
  // Whether rows may be kept waiting though the device has nothing to do.
  virtual bool gathers() const { return true; }
  // Whether not all decisions name the same path.
  virtual bool chooses_route() const { return false; }
  virtual void report(const BatchReport& /*batch*/) {}
};

// What rounds of a store did so far.
struct RoundStats {
  uint64_t rounds = 0;
  uint64_t rows = 0;
  uint64_t timeouts = 0;  // that began since the time had come, not the rows
  uint64_t switches = 0;  // of the side that is to answer
};

}  // namespace isotherm
