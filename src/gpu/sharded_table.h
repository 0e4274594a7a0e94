// ShardedTable: u64 keys to u64 values in the memory of several devices; what
// include/isotherm/sharded_device_table.h promises, over any device.
//
// Each device has a FixedDeviceTable with the keys of its shard, by hash. A call is worked off in
// parts (gpu/shard_parts.h): each is split by shard at the GPU where its rows lie, its rows
// go to the GPUs that hold their keys, and replies come back (gpu/shard_part.h). Where order
// matters the parts are those of slice 0, then those of slice 1, and so on, and each table takes
// its rows of the parts in that order; where it does not (gets, or keys that come once) all GPUs
// split at the same time.
//
// With one device calls go straight to its table.
//
// Threads. Any; one mutex. A call holds it until its last part has been counted.
// Limits. 32 devices. A call with slices waits on the host for each part's counts, and so for what
// is queued in its streams before it.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "base/lazily_made.h"
#include "gpu/awaited_gets.h"
#include "gpu/device_loss.h"
#include "gpu/host_pipeline.h"
#include "gpu/shard_host_rows.h"
#include "gpu/shard_parts.h"

namespace isotherm {

struct ShardedOptions {
  FixedDeviceOptions table = {};  // of each device's; its gpu_memory caps all that is there
  uint32_t part_rows = 1 << 22;   // that are split at a time, of a slice
  bool express = true;            // few requests from the host, with one device
};

template <class Device>
class ShardedTable {
 public:
  using Stream = typename Device::Stream;

  // The devices must outlive the table. Throws std::invalid_argument for none or too many,
  // std::bad_alloc, DeviceError.
  ShardedTable(std::span<Device* const> devices, const ShardedOptions& options)
      : options_(options) {
    if (devices.empty() || devices.size() > ShardLayout::most_shards) {
      throw std::invalid_argument("a table lies on 1 to 32 devices");
    }
    for (Device* device : devices) {
      require_device(device->enter(), "choose the GPU");
      gpus_.push_back(std::make_unique<ShardGpu<Device>>(*device, options.table));
    }
    if (devices.size() == 1) return;
    for (Device* device : devices) {
      for (Device* other : devices) direct_ = device->connect(*other) && direct_;
      require_device(device->enter(), "choose the GPU");
      edges_.push_back(std::make_unique<DeviceEvent<Device>>(*device));
    }
    const uint64_t before = used();
    parts_.emplace(gpus_, direct_, options.table, options.part_rows);
    host_rows_.emplace(gpus_, *parts_);
    buffer_bytes_ = used() - before;
  }

  ~ShardedTable() {
    host_rows_.reset();
    parts_.reset();
    awaited_gets_.reset();
    pipeline_.reset();
    for (auto& gpu : gpus_) {
      gpu->device.enter();
      gpu.reset();
    }
  }
  ShardedTable(const ShardedTable&) = delete;
  ShardedTable& operator=(const ShardedTable&) = delete;

  // Whether all devices reach each other's memory.
  bool direct() const { return direct_; }

  // Grows for `entries` entries in all.
  void reserve(uint64_t entries) {
    const std::lock_guard guard(mutex_);
    use([&] {
      for (const auto& gpu : gpus_) {
        gpu->enter();
        gpu->table.reserve(entries / gpus_.size() + 1);
      }
    });
  }

  // A slice and a stream for each device; slices without rows need no columns.
  void run(std::span<const DeviceRequests> slices, std::span<const Stream> streams) {
    if (slices.size() != gpus_.size() || streams.size() != gpus_.size()) {
      throw std::invalid_argument("a call takes one slice and one stream for each GPU");
    }
    for (const DeviceRequests& slice : slices) {
      if (slice.rows != 0) require_columns(slice);
    }
    const std::lock_guard guard(mutex_);
    use([&] {
      if (gpus_.size() == 1) {
        gpus_[0]->enter();
        gpus_[0]->table.run(slices[0], streams[0]);
        return;
      }
      run_parts(slices, streams);
    });
  }

  // All pointers to host memory; returns when the replies are there.
  void run_host(const DeviceRequests& requests) {
    if (requests.rows == 0) return;
    require_columns(requests);
    const std::lock_guard guard(mutex_);
    use([&] {
      if (gpus_.size() > 1) {
        if (!is_gets(requests)) reserve_workspaces();
        host_rows_->run(requests);
        return;
      }
      ShardGpu<Device>& gpu = *gpus_[0];
      gpu.enter();
      if (options_.express && gpu.table.express(requests)) return;
      run_pipeline(gpu, requests);
    });
  }

  // Gets; all pointers to pinned host memory; returns when the replies are there.
  void get_pinned(const DeviceRequests& requests) {
    if (requests.rows == 0) return;
    require_columns(requests);
    const std::lock_guard guard(mutex_);
    use([&] {
      if (gpus_.size() > 1) {
        host_rows_->get_pinned(requests);
        return;
      }
      ShardGpu<Device>& gpu = *gpus_[0];
      gpu.enter();
      const auto end_express = [&] { gpu.table.end_express(); };
      if (auto* gets = awaited_gets_.get(end_express, gpu.device, gpu.table)) {
        gets->run(requests);
      } else {
        run_pipeline(gpu, requests);
      }
    });
  }

  // Sums over all devices. Waits for all calls so far.
  DeviceTableStats stats() {
    const std::lock_guard guard(mutex_);
    DeviceTableStats sum;
    use([&] {
      for (const auto& gpu : gpus_) {
        gpu->enter();
        const DeviceTableStats its = gpu->table.stats();
        sum.entries += its.entries;
        sum.bytes += its.bytes;
        sum.workspace += its.workspace;
        sum.overflow_lines += its.overflow_lines;
        sum.segments += its.segments;
      }
      sum.bytes -= buffer_bytes_;
      sum.workspace += buffer_bytes_;
    });
    return sum;
  }

 private:
  void run_pipeline(ShardGpu<Device>& gpu, const DeviceRequests& requests) {
    if (!pipeline_) pipeline_.emplace(gpu.device, gpu.table);
    pipeline_->run(requests);
  }

  template <class Work>
  void use(Work&& work) {
    loss_.guard(work, [this] { settle(); });
  }
  void settle() {
    if (parts_) parts_->settle();
    if (host_rows_) host_rows_->forget();
  }

  uint64_t used() const {
    uint64_t bytes = 0;
    for (const auto& gpu : gpus_) bytes += gpu->memory.used();
    return bytes;
  }

  void run_parts(std::span<const DeviceRequests> slices, std::span<const Stream> streams) {
    const auto with_rows = [&](auto&& test) {
      return std::all_of(slices.begin(), slices.end(), [&](const DeviceRequests& slice) {
        return slice.rows == 0 || test(slice);
      });
    };
    const bool gets = with_rows(is_gets);
    const bool distinct =
        with_rows([](const DeviceRequests& slice) { return slice.distinct_keys; });
    if (!gets) reserve_workspaces();
    follow(slices, streams);
    // Gets gain nothing by long parts, and the last one's replies are there sooner.
    const uint64_t most_rows = gets ? parts_->rows() / 2 : most_written();
    const std::vector<ShardStep> steps =
        steps_of(slices, part_rows(slices, most_rows), !gets && !distinct);
    parts_->work_off(
        steps, steps.size(),
        [&](const ShardStep& step) {
          parts_->part(step).begin(rows_of(slices[step.gpu], step.first, step.rows));
        },
        [](const ShardStep&) {});
    lead(slices, streams);
  }

  // Rows of a part of which each GPU's table takes its share at once: shares differ a little, and
  // of two parts there the second would hold a few rows.
  uint64_t most_written() const {
    const uint64_t at_once = uint64_t{options_.table.max_part_rows} * gpus_.size();
    return std::min<uint64_t>(parts_->rows(), at_once - at_once / 32);
  }

  // Of parts of at most so many rows that are all of about the same size.
  static uint64_t part_rows(std::span<const DeviceRequests> slices, uint64_t most) {
    uint64_t rows = 1;
    for (const DeviceRequests& slice : slices) rows = std::max(rows, slice.rows);
    const uint64_t parts = (rows + most - 1) / most;
    return (rows + parts - 1) / parts;
  }

  // So that no call ends for want of it in its middle.
  void reserve_workspaces() {
    for (const auto& gpu : gpus_) {
      gpu->enter();
      gpu->table.reserve_workspace(parts_->rows());
    }
  }

  std::vector<ShardStep> steps_of(std::span<const DeviceRequests> slices, uint64_t part,
                                  bool ordered) {
    std::vector<ShardStep> steps;
    const auto add = [&](uint32_t gpu, uint64_t first) {
      const uint64_t rows = slices[gpu].rows;
      if (first < rows) steps.push_back(parts_->next(gpu, first, std::min(part, rows - first)));
    };
    uint64_t most = 0;
    for (const DeviceRequests& slice : slices) most = std::max(most, slice.rows);
    if (ordered) {
      for (uint32_t gpu = 0; gpu < slices.size(); ++gpu) {
        for (uint64_t first = 0; first < most; first += part) add(gpu, first);
      }
    } else {
      for (uint64_t first = 0; first < most; first += part) {
        for (uint32_t gpu = 0; gpu < slices.size(); ++gpu) add(gpu, first);
      }
    }
    return steps;
  }

  // The parts' streams follow the caller's, and then the other way round.
  void follow(std::span<const DeviceRequests> slices, std::span<const Stream> streams) {
    each_part_of(slices, [&](uint32_t gpu, Stream of_part) { wait(gpu, of_part, streams[gpu]); });
  }
  void lead(std::span<const DeviceRequests> slices, std::span<const Stream> streams) {
    each_part_of(slices, [&](uint32_t gpu, Stream of_part) { wait(gpu, streams[gpu], of_part); });
  }
  template <class Work>
  void each_part_of(std::span<const DeviceRequests> slices, Work&& work) {
    for (uint32_t gpu = 0; gpu < slices.size(); ++gpu) {
      if (slices[gpu].rows == 0) continue;
      gpus_[gpu]->enter();
      for (uint32_t set = 0; set < ShardParts<Device>::sets; ++set) {
        work(gpu, parts_->part(gpu, set).stream());
      }
    }
  }
  void wait(uint32_t gpu, Stream stream, Stream for_stream) {
    Device& device = gpus_[gpu]->device;
    const auto edge = edges_[gpu]->get();
    require_device(device.record(edge, for_stream) && device.wait(stream, edge),
                   "wait for a stream");
  }

  const ShardedOptions options_;
  std::mutex mutex_;  // all below
  ShardGpus<Device> gpus_;
  bool direct_ = true;
  DeviceLoss loss_{"the table was lost when a device failed"};
  uint64_t buffer_bytes_ = 0;  // of the parts and of rows from the host, on all devices
  // With several devices.
  std::vector<std::unique_ptr<DeviceEvent<Device>>> edges_;  // of each device
  std::optional<ShardParts<Device>> parts_;
  std::optional<ShardHostRows<Device>> host_rows_;
  // With one, made when first needed.
  std::optional<HostPipeline<Device>> pipeline_;
  LazilyMade<AwaitedGets<Device>> awaited_gets_;
};

}  // namespace isotherm
