// ShardPart: the buffers and streams in which one part of a slice is answered by the GPUs that hold
// its keys.
//
//   home GPU   split by shard ─┬─ its own shard's rows: answered in place ──────┬─ replies to rows
//   each other                 └─ its rows there → answered there ──────────────┘
//
// Where GPUs reach each other's memory the split writes rows straight to their GPUs, and lookups
// write replies straight back; replies of writes, which later requests read, are copied back. Else
// all goes by copies.
//
// `begin` queues the split, and the host learns how many rows each GPU gets; `answer` waits for
// that, and queues all the rest. The next part may begin in the same buffers at once: the home
// stream has all uses of them in order. Tables see the parts in the order of the calls of `answer`.
//
// Memory, for parts of up to `rows` rows. At home the rows in order of shard with their replies, 34
// bytes each, and 4 for where each row went; at every other GPU 34 bytes for each of its rows, with
// room for a quarter more than an equal share. Where a GPU gets more, its rows go in several
// passes. Threads. One at a time. Any GPU may be the one that the thread has entered, before and
// after.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "gpu/device_event.h"
#include "gpu/device_stream.h"
#include "gpu/fixed_device_table.h"
#include "gpu/request_columns.h"
#include "gpu/shard_kernels.h"

namespace isotherm {

// A GPU of a sharded table, with its shard.
template <class Device>
struct ShardGpu {
  // The device has been entered.
  ShardGpu(Device& its_device, const FixedDeviceOptions& options)
      : device(its_device), memory(its_device, options.gpu_memory), table(memory, options) {}

  void enter() { require_device(device.enter(), "choose the GPU"); }

  Device& device;
  DeviceMemory<Device> memory;  // of the table and of the parts' buffers
  FixedDeviceTable<Device> table;
};

template <class Device>
using ShardGpus = std::vector<std::unique_ptr<ShardGpu<Device>>>;

// Columns are copied whole, with the values of misses, which nobody writes: so they begin as
// something. Waits.
template <class Device>
void clear_now(Device& device, typename Device::Stream stream,
               const DeviceArray<Device, char>& columns) {
  require_device(
      device.clear(stream, columns.data(), columns.bytes()) && device.synchronize(stream),
      "clear columns");
}

template <class Device>
class ShardPart {
 public:
  using Stream = typename Device::Stream;

  // Bytes that a part of `rows` rows takes at home and at each other one of so many GPUs.
  static constexpr uint64_t home_rows(uint64_t rows, uint64_t gpus) {
    return rows + gpus * ShardLayout::alignment;
  }
  static constexpr uint64_t home_bytes(uint64_t rows, uint64_t gpus) {
    return home_rows(rows, gpus) * RequestColumns::row_bytes + rows * sizeof(uint32_t);
  }
  static constexpr uint64_t away_rows(uint64_t rows, uint64_t gpus) {
    return (rows / gpus * 5 / 4 + ShardLayout::alignment) & ~uint64_t{ShardLayout::alignment - 1};
  }
  static constexpr uint64_t away_bytes(uint64_t rows, uint64_t gpus) {
    return away_rows(rows, gpus) * RequestColumns::row_bytes;
  }

  // The home GPU is `gpus[home]`; `direct`: all GPUs reach each other's memory. Throws
  // std::bad_alloc.
  ShardPart(const ShardGpus<Device>& gpus, uint32_t home, bool direct, uint64_t seed, uint32_t rows)
      : gpus_(gpus),
        home_(home),
        direct_(direct),
        seed_(seed),
        home_rows_(home_rows(rows, gpus.size())),
        away_rows_(away_rows(rows, gpus.size())) {
    ShardGpu<Device>& gpu = *gpus[home];
    gpu.enter();
    warps_ = std::max(gpu.device.full_grid() / 4, 1u) * (ShardLayout::threads / 32);
    at_home_.emplace(gpu, home_rows_, rows, gpus.size() * warps_);
    away_.resize(gpus.size());
    for (uint32_t i = 0; i < gpus.size(); ++i) {
      if (i == home) continue;
      gpus[i]->enter();
      away_[i] = std::make_unique<Away>(*gpus[i], away_rows_);
    }
  }
  ~ShardPart() { settle(); }
  ShardPart(const ShardPart&) = delete;
  ShardPart& operator=(const ShardPart&) = delete;

  // Of the home GPU. What is queued here before `begin` is there before the split, and what is
  // queued after `answer` finds all replies.
  Stream stream() const { return at_home_->stream.get(); }
  Device& device() const { return gpus_[home_]->device; }
  // Between `begin` and `answer`.
  bool begun() const { return begun_; }

  // At most as many requests as there are buffers for, and at least one. Columns lie where the home
  // GPU reaches them.
  void begin(const DeviceRequests& requests) {
    gpus_[home_]->enter();
    requests_ = requests;
    begun_ = true;
    const ShardSplit<> split = split_of(requests);
    const uint32_t blocks = warps_ / (ShardLayout::threads / 32);
    launch(blocks, ShardLayout::threads, CountShardsKernel<HashRoute>{split});
    launch(1, BeginShardsKernel<HashRoute>::threads,
           BeginShardsKernel<HashRoute>{split, stretches()});
    require_device(device().record(at_home_->counted.get(), stream()), "record an event");
    SplitRowsKernel<HashRoute> kernel{split, requests, columns(), at_home_->places.data(),
                                      away_rows_};
    for (uint32_t i = 0; direct_ && i < gpus_.size(); ++i) {
      if (i != home_) kernel.away[i] = away_[i]->columns.data();
    }
    launch(blocks, ShardLayout::threads, kernel);
  }

  // Waits until the rows are counted.
  void answer() {
    begun_ = false;
    require_device(device().synchronize(at_home_->counted.get()), "wait for the counts of a part");
    uint64_t most = 0;
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      if (i != home_) most = std::max<uint64_t>(most, rows_for(i));
    }
    uint64_t passed = 0;
    do {
      pass(passed);
      passed += away_rows_;
    } while (passed < most);
    if (requests_.found == nullptr) return;
    gpus_[home_]->enter();
    launch(grid_for(device(), requests_.rows, ShardLayout::threads), ShardLayout::threads,
           ReturnRepliesKernel{at_home_->places.data(), columns().values_out(), columns().found(),
                               requests_});
  }

  // Waits for all that is queued; of a lost device for nothing.
  void settle() {
    begun_ = false;
    if (at_home_) device().synchronize(stream());
    for (uint32_t i = 0; i < away_.size(); ++i) {
      if (away_[i]) gpus_[i]->device.synchronize(away_[i]->stream.get());
    }
  }

 private:
  struct Home {
    Home(ShardGpu<Device>& gpu, uint64_t aligned_rows, uint64_t rows, uint64_t counters)
        : columns(gpu.memory, aligned_rows * RequestColumns::row_bytes),
          places(gpu.memory, rows),
          counts(gpu.memory, counters),
          stretches(gpu.device, ShardLayout::most_shards * sizeof(ShardStretch)),
          stream(gpu.device),
          counted(gpu.device),
          sent(gpu.device) {
      if (columns.empty() || places.empty() || counts.empty()) throw std::bad_alloc();
      clear_now(gpu.device, stream.get(), columns);
    }
    DeviceArray<Device, char> columns;
    DeviceArray<Device, uint32_t> places;
    DeviceArray<Device, uint32_t> counts;
    PinnedBlock<Device> stretches;
    DeviceStream<Device> stream;
    DeviceEvent<Device> counted;
    DeviceEvent<Device> sent;
  };
  struct Away {
    Away(ShardGpu<Device>& gpu, uint64_t rows)
        : columns(gpu.memory, rows * RequestColumns::row_bytes),
          stream(gpu.device),
          answered(gpu.device) {
      if (columns.empty()) throw std::bad_alloc();
      clear_now(gpu.device, stream.get(), columns);
    }
    DeviceArray<Device, char> columns;
    DeviceStream<Device> stream;
    DeviceEvent<Device> answered;
  };

  ShardSplit<> split_of(const DeviceRequests& requests) const {
    ShardSplit<> split;
    split.route = {seed_, static_cast<uint32_t>(gpus_.size())};
    split.rows = static_cast<uint32_t>(requests.rows);
    split.warps = warps_;
    split.keys = requests.keys;
    split.counts = at_home_->counts.data();
    return split;
  }

  RequestColumns columns() const { return {at_home_->columns.data(), home_rows_}; }
  ShardStretch* stretches() const {
    return reinterpret_cast<ShardStretch*>(at_home_->stretches.data());
  }
  uint64_t rows_for(uint32_t i) const { return stretches()[i].rows; }

  // The rows of GPU i that a pass takes, `passed` having gone before: as they lie at home, and as
  // they lie there. The home's own go with the first pass.
  uint64_t rows_of_pass(uint32_t i, uint64_t passed) const {
    if (i == home_) return passed == 0 ? rows_for(i) : 0;
    return passed < rows_for(i) ? std::min(rows_for(i) - passed, away_rows_) : 0;
  }
  DeviceRequests at_home(uint32_t i, uint64_t passed) const {
    return columns().requests(requests_, stretches()[i].begin + passed, rows_of_pass(i, passed));
  }
  DeviceRequests there(uint32_t i, uint64_t passed) const {
    const RequestColumns columns{away_[i]->columns.data(), away_rows_};
    return columns.requests(requests_, 0, rows_of_pass(i, passed));
  }

  void pass(uint64_t passed) {
    const auto each = [&](auto&& work) {
      for (uint32_t i = 0; i < gpus_.size(); ++i) {
        if (rows_of_pass(i, passed) != 0) work(i);
      }
    };
    each([&](uint32_t i) {
      if (i != home_ && !(direct_ && passed == 0)) send(i, passed);
    });
    require_device(device().record(at_home_->sent.get(), stream()), "record an event");
    each([&](uint32_t i) { i == home_ ? ask_home() : ask(i, passed); });
    each([&](uint32_t i) {
      if (i == home_) return;
      require_device(device().wait(stream(), away_[i]->answered.get()), "wait for replies");
    });
  }

  void send(uint32_t i, uint64_t passed) {
    each_request_column(
        there(i, passed), at_home(i, passed), [&](void* to, const void* from, uint64_t bytes) {
          require_device(device().copy_to(gpus_[i]->device, stream(), to, from, bytes),
                         "copy requests to their GPU");
        });
  }

  void ask_home() {
    gpus_[home_]->enter();
    gpus_[home_]->table.run(at_home(home_, 0), stream());
  }

  void ask(uint32_t i, uint64_t passed) {
    ShardGpu<Device>& gpu = *gpus_[i];
    const Stream its = away_[i]->stream.get();
    gpu.enter();
    require_device(gpu.device.wait(its, at_home_->sent.get()), "wait for requests");
    DeviceRequests asked = there(i, passed);
    const DeviceRequests to = at_home(i, passed);
    const bool straight_back = direct_ && is_gets(requests_);
    if (straight_back) {
      asked.values_out = to.values_out;
      asked.found = to.found;
    }
    gpu.table.run(asked, its);
    if (asked.found != nullptr && !straight_back) {
      const uint64_t value_bytes = asked.rows * sizeof *asked.values_out;
      require_device(
          gpu.device.copy_to(device(), its, to.values_out, asked.values_out, value_bytes) &&
              gpu.device.copy_to(device(), its, to.found, asked.found, asked.rows),
          "copy replies back");
    }
    require_device(gpu.device.record(away_[i]->answered.get(), its), "record an event");
  }

  template <class Kernel>
  void launch(uint32_t blocks, uint32_t threads, const Kernel& kernel) {
    require_device(device().launch(stream(), blocks, threads, kernel), "launch a shard's kernel");
  }

  const ShardGpus<Device>& gpus_;
  const uint32_t home_;
  const bool direct_;
  const uint64_t seed_;
  const uint64_t home_rows_;
  const uint64_t away_rows_;
  uint32_t warps_ = 0;
  std::optional<Home> at_home_;
  std::vector<std::unique_ptr<Away>> away_;  // by GPU; null at home
  DeviceRequests requests_;
  bool begun_ = false;
};

}  // namespace isotherm
