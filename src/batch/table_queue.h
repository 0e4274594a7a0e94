// TableQueue: a BatchQueue on a fixed-width table in the memory of any device.
//
// Owns the pinned rows and the paths. Threads. As BatchQueue. Memory. See gpu::QueueOptions.
#pragma once

#include <algorithm>
#include <bit>
#include <string>

#include "batch/batch_queue.h"
#include "batch/bulk_path.h"
#include "batch/express_path.h"
#include "batch/make_policy.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class TableQueue {
 public:
  // `device` and `table` must outlive it. Throws std::invalid_argument, std::bad_alloc,
  // DeviceError.
  TableQueue(Device& device, Table& table, const gpu::QueueOptions& options)
      : ring_rows_(std::max(least_ring_rows, std::bit_ceil(checked(options).rows))),
        policy_(make_policy(options.scheduling)),
        memory_(device, BatchScheduler::memory_bytes(ring_rows_)),
        bulk_(device, table, options.batches,
              static_cast<uint32_t>(std::min<uint64_t>(options.batch_rows, ring_rows_))),
        express_(make_express(device, table, options)),
        queue_(setup(options), std::move(policy_), {options.rows, options.spin_ns}) {}

  gpu::QueueStatus submit(const TableRequests& requests, gpu::Completion& completion) {
    return queue_.submit(requests, completion);
  }
  gpu::QueueStats stats() const { return queue_.stats(); }
  std::string failure() const { return queue_.failure(); }

 private:
  static constexpr uint64_t least_ring_rows = 64;  // so that all columns are aligned
  static constexpr uint64_t most_rows = uint64_t{1} << 28;
  static constexpr uint32_t most_batch_rows = 1 << 21;
  static constexpr uint32_t most_batches = 64;

  static const gpu::QueueOptions& checked(const gpu::QueueOptions& options) {
    require("rows", options.rows, most_rows);
    require("batch_rows", options.batch_rows, most_batch_rows);
    require("batches", options.batches, most_batches);
    if (options.spin_ns < 0) throw std::invalid_argument("spin_ns must be 0 or more");
    return options;
  }
  static void require(const char* name, uint64_t value, uint64_t most) {
    if (value != 0 && value <= most) return;
    throw std::invalid_argument(std::string(name) + " must be between 1 and " +
                                std::to_string(most) + ", not " + std::to_string(value));
  }

  // Only the adaptive policy sends anything there.
  static std::unique_ptr<ExpressPath<Device, Table>> make_express(
      Device& device, Table& table, const gpu::QueueOptions& options) {
    if (!options.express || options.scheduling.policy != Scheduling::adaptive) return nullptr;
    return std::make_unique<ExpressPath<Device, Table>>(device, table, options.batches);
  }

  BatchScheduler::Setup setup(const gpu::QueueOptions& options) {
    BatchScheduler::Setup setup;
    setup.memory = memory_.data();
    setup.rows = ring_rows_;
    setup.batches = options.batches;
    setup.bulk = &bulk_;
    setup.express = express_.get();
    return setup;
  }

  const uint64_t ring_rows_;
  std::unique_ptr<SchedulingPolicy> policy_;  // until the queue has it
  PinnedBlock<Device> memory_;
  BulkPath<Device, Table> bulk_;
  std::unique_ptr<ExpressPath<Device, Table>> express_;  // or none
  BatchQueue queue_;
};

}  // namespace isotherm
