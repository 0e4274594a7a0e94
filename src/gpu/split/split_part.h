// SplitPart: the buffers and streams in which one part of a slice is answered by those who hold its
// keys: GPUs, and where the table reaches beyond them threads of the host.
//
//   home GPU   split by shard ─┬─ its own shard's rows: answered in place ───────┬─ replies to rows
//   each other                 ├─ its rows there → answered there ───────────────┤
//   host                       └─ its lists in pinned memory → answered there ───┘
//
// Where GPUs reach each other's memory the split writes rows straight to their GPUs, and lookups
// write replies straight back; replies of writes, which later requests read, are copied back. Else
// all goes by copies.
//
// `begin` queues the split, and the host learns how many rows each shard gets; `wait_counts` waits
// for that, and `answer` queues all the rest, and answers the host's rows. The next part may begin
// in the same buffers at once: the home stream has all uses of them in order. Tables see the parts
// in the order of the calls of `answer`. A part that was split by older bins (`is_stale`) begins
// again.
//
// Memory, for parts of up to `rows` rows. At home the rows in order of shard with their replies, 34
// bytes each, and 4 for where each row went; at every other GPU 34 bytes for each of its rows, with
// room for a quarter more than an equal share. Where a GPU gets more, its rows go in several
// passes. With lists of the host 34 bytes a row of pinned memory, and 40 bytes a bin. Threads. One
// at a time. Any GPU may be the one that the thread has entered, before and after.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <optional>
#include <vector>

#include "gpu/kernel/request_columns.h"
#include "gpu/platform/device_event.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/split/shard_kernels.h"
#include "gpu/split/split_gpu.h"
#include "gpu/split/split_host.h"
#include "gpu/split/split_layout.h"

namespace isotherm {

template <class Device>
class SplitPart {
 public:
  using Stream = typename Device::Stream;

  // The home GPU is `gpus[home]`; `direct`: all GPUs reach each other's memory; `host` may be null.
  // Throws std::bad_alloc.
  SplitPart(const SplitGpus<Device>& gpus, uint32_t home, bool direct, const SplitLayout& layout,
            SplitHost<Device>* host)
      : gpus_(gpus),
        home_(home),
        direct_(direct),
        layout_(layout),
        host_(host),
        away_rows_(layout.away_rows()) {
    gpus[home]->enter();
    at_home_.emplace(*gpus[home], layout);
    if (host != nullptr) at_host_.emplace(*gpus[home], layout);
    away_.resize(gpus.size());
    for (uint32_t i = 0; i < gpus.size(); ++i) {
      if (i == home) continue;
      gpus[i]->enter();
      away_[i] = std::make_unique<Away>(*gpus[i], away_rows_);
    }
  }
  ~SplitPart() { settle(); }
  SplitPart(const SplitPart&) = delete;
  SplitPart& operator=(const SplitPart&) = delete;

  // Of the home GPU. What is queued here before `begin` is there before the split, and what is
  // queued after `answer` finds all replies.
  Stream stream() const { return at_home_->stream.get(); }
  Device& device() const { return gpus_[home_]->device; }
  // Between `begin` and `answer`.
  bool begun() const { return begun_; }
  bool is_stale() const { return host_ != nullptr && version_ != host_->version(); }
  const TableRequests& requests() const { return requests_; }
  uint64_t pinned_bytes() const {
    return at_host_ ? at_host_->pinned_columns.bytes() + at_host_->pinned_bins.bytes() : 0;
  }

  // At most as many requests as there are buffers for, and at least one. Columns lie where the home
  // GPU reaches them.
  void begin(const TableRequests& requests) {
    requests_ = requests;
    begun_ = true;
    begin_again();
  }
  void begin_again() {
    gpus_[home_]->enter();
    if (host_ != nullptr) version_ = host_->version();
    lists_ = host_ != nullptr && host_->shared() ? layout_.lists : 0;
    if (lists_ == 0) return split(HashRoute{layout_.seed, layout_.devices});
    const uint64_t bins = host_->bins();
    SplitRoute route = host_->route(lists_, at_host_->shared_bins());
    route.bins = at_host_->bins.data();
    route.reads = at_host_->reads.data();
    require_device(device().to_device(stream(), at_host_->bins.data(), at_host_->shared_bins(),
                                      bins * sizeof(SharedBin)) &&
                       device().clear(stream(), at_host_->reads.data(), bins * sizeof(uint32_t)),
                   "copy bins");
    split(route);
  }

  void wait_counts() {
    require_device(device().synchronize(at_home_->counted.get()), "wait for the counts of a part");
  }
  uint64_t rows_for(uint32_t i) const { return stretches()[i].rows; }

  // After `wait_counts`.
  void answer() {
    begun_ = false;
    if (lists_ != 0) host_->add_reads(at_host_->pinned_reads());
    const uint64_t rows_of_host = end_of_host() - first_of_host();
    if (rows_of_host != 0) fetch();
    uint64_t most = 0;
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      if (i != home_) most = std::max<uint64_t>(most, rows_for(i));
    }
    uint64_t passed = 0;
    do {
      pass(passed);
      passed += away_rows_;
    } while (passed < most);
    if (rows_of_host != 0) answer_on_host();
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
  // Columns are copied whole, with the values of misses, which nobody writes: so they begin as
  // something.
  static void clear(Device& device, Stream stream, const DeviceArray<Device, char>& columns) {
    require_device(
        device.clear(stream, columns.data(), columns.bytes()) && device.synchronize(stream),
        "clear columns");
  }

  struct Home {
    Home(SplitGpu<Device>& gpu, const SplitLayout& layout)
        : columns(gpu.memory, layout.home_rows() * RequestColumns::row_bytes),
          places(gpu.memory, layout.rows),
          counts(gpu.memory, uint64_t{layout.shards()} * layout.warps(gpu.device)),
          stretches(gpu.device, ShardLayout::most_shards * sizeof(ShardStretch)),
          stream(gpu.device),
          counted(gpu.device),
          sent(gpu.device) {
      if (columns.empty() || places.empty() || counts.empty()) throw std::bad_alloc();
      clear(gpu.device, stream.get(), columns);
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
    Away(SplitGpu<Device>& gpu, uint64_t rows)
        : columns(gpu.memory, rows * RequestColumns::row_bytes),
          stream(gpu.device),
          answered(gpu.device) {
      if (columns.empty()) throw std::bad_alloc();
      clear(gpu.device, stream.get(), columns);
    }
    DeviceArray<Device, char> columns;
    DeviceStream<Device> stream;
    DeviceEvent<Device> answered;
  };
  // What the host's rows, and the bins, travel in.
  struct AtHost {
    AtHost(SplitGpu<Device>& gpu, const SplitLayout& layout)
        : rows(layout.home_rows()),
          bins(gpu.memory, layout.bins()),
          reads(gpu.memory, layout.bins()),
          pinned_columns(gpu.device, rows * RequestColumns::row_bytes),
          pinned_bins(gpu.device, layout.bins() * SplitLayout::bin_bytes),
          fetched(gpu.device) {
      if (bins.empty() || reads.empty()) throw std::bad_alloc();
      std::memset(pinned_columns.data(), 0, pinned_columns.bytes());
    }
    RequestColumns columns() const { return {pinned_columns.data(), rows}; }
    SharedBin* shared_bins() const { return reinterpret_cast<SharedBin*>(pinned_bins.data()); }
    uint32_t* pinned_reads() const {
      return reinterpret_cast<uint32_t*>(shared_bins() + bins.size());
    }

    const uint64_t rows;
    DeviceArray<Device, SharedBin> bins;
    DeviceArray<Device, uint32_t> reads;
    PinnedBlock<Device> pinned_columns;
    PinnedBlock<Device> pinned_bins;  // and what was counted of them
    DeviceEvent<Device> fetched;
    std::vector<TableRequests> lists;
  };

  template <class Route>
  void split(const Route& route) {
    ShardSplit<Route> split;
    split.route = route;
    split.rows = static_cast<uint32_t>(requests_.rows);
    split.warps = layout_.warps(device());
    split.keys = requests_.keys;
    split.counts = at_home_->counts.data();
    const uint32_t blocks = split.warps / (ShardLayout::threads / 32);
    launch(blocks, ShardLayout::threads, CountShardsKernel<Route>{split});
    launch(1, BeginShardsKernel<Route>::threads, BeginShardsKernel<Route>{split, stretches()});
    if (lists_ != 0) {
      require_device(device().to_host(stream(), at_host_->pinned_reads(), at_host_->reads.data(),
                                      host_->bins() * sizeof(uint32_t)),
                     "copy the counts of bins");
    }
    require_device(device().record(at_home_->counted.get(), stream()), "record an event");
    SplitRowsKernel<Route> kernel{split, requests_, columns(), at_home_->places.data(), away_rows_};
    for (uint32_t i = 0; direct_ && i < gpus_.size(); ++i) {
      if (i != home_) kernel.away[i] = away_[i]->columns.data();
    }
    launch(blocks, ShardLayout::threads, kernel);
  }

  // The host's rows lie in pinned memory as they lie at home.
  uint64_t first_of_host() const { return lists_ == 0 ? 0 : stretches()[layout_.devices].begin; }
  uint64_t end_of_host() const {
    if (lists_ == 0) return 0;
    const ShardStretch& last = stretches()[layout_.devices + lists_ - 1];
    return uint64_t{last.begin} + last.rows;
  }
  void fetch() {
    const uint64_t first = first_of_host(), rows = end_of_host() - first;
    const TableRequests to = at_host_->columns().requests(requests_, first, rows);
    const TableRequests from = columns().requests(requests_, first, rows);
    gpus_[home_]->enter();
    each_request_column(to, from, [&](void* into, const void* column, uint64_t bytes) {
      require_device(device().to_host(stream(), into, column, bytes), "copy requests to the host");
    });
    require_device(device().record(at_host_->fetched.get(), stream()), "record an event");
  }
  void answer_on_host() {
    require_device(device().synchronize(at_host_->fetched.get()), "wait for requests");
    at_host_->lists.clear();
    for (uint32_t i = 0; i < lists_; ++i) {
      const ShardStretch& its = stretches()[layout_.devices + i];
      at_host_->lists.push_back(at_host_->columns().requests(requests_, its.begin, its.rows));
    }
    host_->answer(at_host_->lists);
    if (requests_.found == nullptr) return;
    const RequestColumns from = at_host_->columns(), to = columns();
    const uint64_t first = first_of_host(), rows = end_of_host() - first;
    gpus_[home_]->enter();
    require_device(device().to_device(stream(), to.values_out() + first, from.values_out() + first,
                                      rows * sizeof(uint64_t)) &&
                       device().to_device(stream(), to.found() + first, from.found() + first, rows),
                   "copy replies to the device");
  }

  RequestColumns columns() const { return {at_home_->columns.data(), layout_.home_rows()}; }
  ShardStretch* stretches() const {
    return reinterpret_cast<ShardStretch*>(at_home_->stretches.data());
  }

  // The rows of GPU i that a pass takes, `passed` having gone before: as they lie at home, and as
  // they lie there. The home's own go with the first pass.
  uint64_t rows_of_pass(uint32_t i, uint64_t passed) const {
    if (i == home_) return passed == 0 ? rows_for(i) : 0;
    return passed < rows_for(i) ? std::min(rows_for(i) - passed, away_rows_) : 0;
  }
  TableRequests at_home(uint32_t i, uint64_t passed) const {
    return columns().requests(requests_, stretches()[i].begin + passed, rows_of_pass(i, passed));
  }
  TableRequests there(uint32_t i, uint64_t passed) const {
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
    if (gpus_.size() > 1) {
      require_device(device().record(at_home_->sent.get(), stream()), "record an event");
    }
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
    SplitGpu<Device>& gpu = *gpus_[i];
    const Stream its = away_[i]->stream.get();
    gpu.enter();
    require_device(gpu.device.wait(its, at_home_->sent.get()), "wait for requests");
    TableRequests asked = there(i, passed);
    const TableRequests to = at_home(i, passed);
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

  const SplitGpus<Device>& gpus_;
  const uint32_t home_;
  const bool direct_;
  const SplitLayout layout_;
  SplitHost<Device>* const host_;
  const uint64_t away_rows_;
  std::optional<Home> at_home_;
  std::optional<AtHost> at_host_;
  std::vector<std::unique_ptr<Away>> away_;  // by GPU; null at home
  TableRequests requests_;
  uint64_t version_ = 0;  // of the host's bins, at the last split
  uint32_t lists_ = 0;    // of the host, in the last split
  bool begun_ = false;
};

}  // namespace isotherm
