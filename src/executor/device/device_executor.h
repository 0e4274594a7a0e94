// DeviceExecutor: answers batches with an index in the memory of a device, over items of the host.
//
// The device maps keys' hashes to roots (index/item_table.h). Items, full keys, expiry,
// versions and eviction are the host's: the threads that run batches read and write items in rounds
// (executor/device/rounds.h), by the same code as the host executor (executor/host/row_answers.h).
// All databases share one index; the database is part of the key (executor/device/round_stages.h).
//
// Failure. When the device fails, or its memory is full, an index of the host is made from the live
// items (executor/device/index_rebuild.h) and the host executor goes on: nothing is lost but the
// values on the devices, since what a request did is seen from the live bits of the items. `run`
// says how many rows were answered before.
//
// Values. Where the store's options give it memory for them, cold values lie on the devices, too
// (executor/values/device_values.h).
//
// Flushing walks over all items once, however many databases it empties, and takes their items out
// of the index in batches; nobody else works on these databases meanwhile. An index that is empty
// afterwards is made anew, which frees its memory.
//
// Memory. Items, the host's part of the index and the columns of rounds come from the memory nodes
// of the devices where these have room (base/memory_node.h). Threads run anywhere.
//
// Threads. Any, each with a Participant of its own, within an epoch. Sources. KVCG and Mega-KV,
// section 3 (index on the device, items on the host); docs/papers.md.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "base/event_log.h"
#include "executor/device/root_table.h"
#include "executor/device/rounds.h"
#include "executor/host/member_swap.h"
#include "executor/host_store.h"
#include "executor/values/device_values.h"
#include "executor/values/value_reader.h"

namespace isotherm {

class BatchRun;

class DeviceExecutor {
 public:
  using Participant = Rounds::Participant;

  // Rounds begin as the policy says (null: at once) by the clock, which must outlive it. Throws
  // DeviceError or std::bad_alloc where there is no device to use.
  DeviceExecutor(HostStore& store, const RootTiersMaker& make,
                 std::unique_ptr<SchedulingPolicy> policy, WaitClock& clock);
  ~DeviceExecutor();
  DeviceExecutor(const DeviceExecutor&) = delete;
  DeviceExecutor& operator=(const DeviceExecutor&) = delete;

  // False once the device was lost: the host has an index of its own then.
  bool active() const { return !rounds_.lost(); }

  // Answers the rows of `batch`, which is the run's or the one of its parked rows, from `first` to
  // before `end` in order, and returns the first that is not answered: `end`, or a row before it
  // where the device was lost on the way. Rows that await values on devices are ended by `finish`.
  // `parking`: takes rows that must know such a value; null: they fetch it on the spot. `skipped`:
  // whether each of these rows is passed over, which have their hashes then; null: none is.
  Batch::Row run(Participant& participant, const BatchRun& run, Batch& batch, Batch::Row first,
                 Batch::Row end, BatchRun* parking, const uint8_t* skipped);
  // For rounds that are led in steps.
  Rounds& rounds() { return rounds_; }

  // Fetches what the reader awaits, within an epoch of its own. If some of that is lost, the host
  // has taken over when it returns.
  void finish(ValueReader& reader);

  // Takes items out of their places or moves them, and notes which moves were done; false: the
  // device was lost and none was.
  bool swap(Participant& participant, std::vector<ItemMove>& moves, int64_t now_ms);

  // A device failed its caller: it is lost, if it was not already. Within an epoch.
  void fail();

  // A thread that takes keys for a group calls `hurry` before, and `calm` when it has given them
  // back. Meanwhile no round waits for more work, so that neither that thread nor those behind it
  // wait with the round.
  void hurry() { rounds_.hurry(); }
  void calm() { rounds_.calm(); }

  // By who has all keys of the databases from `first` to before `end` (executor/key_gate.h). False:
  // the device was lost; what is left is the caller's. `version`: of the flush, where there is a
  // sink.
  bool flush(Participant& participant, uint32_t first, uint32_t end, int64_t now_ms,
             uint64_t& version);

  // One step of a walk over the items of all databases, until there are `wanted`: visits the roots
  // and fills `next`, 0 at the end. False: the device was lost.
  bool scan(uint64_t bound, uint64_t wanted, const std::function<void(Location root)>& visit,
            uint64_t& next);

  // All 0 once the device was lost. While a round runs: as they were before, so nobody waits for
  // it.
  RootTableStats stats();
  RoundStats round_stats() const { return rounds_.stats(); }
  // Whether rounds may wait for more rows.
  bool gathers() const { return rounds_.gathers(); }
  // All 0 where no values lie on devices.
  DeviceValueStats value_stats() const { return values_ ? values_->stats() : DeviceValueStats{}; }
  // That the pages of items are preferred to come from; empty where none is known.
  const std::vector<int>& memory_nodes() const { return memory_nodes_; }
  // How long it took to make an index of the host; 0 while there was no need to.
  uint64_t takeover_us() const { return takeover_us_.load(std::memory_order_relaxed); }
  // Told why the device was given up, and what became of its index.
  EventLog& events() { return events_; }

 private:
  std::unique_ptr<RootTable> make_table(const RootTiersMaker& make);
  void take_over(uint64_t last_version, const std::string& why);

  HostStore& store_;
  std::atomic<uint64_t> takeover_us_{0};
  std::vector<int> memory_nodes_;
  std::unique_ptr<DeviceValues> values_;
  EventLog events_;
  Rounds rounds_;
  std::mutex stats_mutex_;
  RootTableStats stats_;  // as they were last seen
};

}  // namespace isotherm
