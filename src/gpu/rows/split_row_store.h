// SplitRowStore: u64 keys to rows on one or more devices; what include/isotherm/gpu/row_table.h
// promises, over any devices.
//
// Each device has a DeviceRowStore with the keys of its shard, by the same hash as a SplitTable. A
// table on one device is that store, and nothing else. With several a call is worked off in parts,
// at the device where its arrays lie:
//
//   home   keys, and rows that go in, in order of shard ─┬─ its own shard: answered there ─┬─ back
//   each other                                           └─ copied, answered, copied back ─┘
//
// Parts take turns in three channels (gpu/rows/row_channel.h): while the devices answer one, the
// rows of the next are put in order and copied. All devices begin their shards of a part before the
// host waits for any of them.
//
// Order. A part's requests keep their order within a shard, and each store takes the parts in their
// order, so calls are answered as by one table. Arrays of the host go by way of the first device
// (gpu/rows/host_rows.h).
//
// Memory. Buffers for a part in each channel, twice: as home and as another device's. They hold up
// to 32 MiB of rows each, and together take an eighth of a cap at most, as long as that is enough
// for 64 rows, which they hold in any case. Of the host's memory each device has a share for rows
// of its own. Threads. Any; one mutex, and one for host arrays before it. The thread has the same
// device after a call. A call waits on the host for the split of each part. Limits. 32 devices.
// Errors. Those of a DeviceRowStore; std::bad_alloc may come after some rows of a call have taken
// effect. Sources. Mega-KV, section 7.1 (data sharded over GPUs).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "gpu/platform/device_loss.h"
#include "gpu/rows/device_row_store.h"
#include "gpu/rows/host_rows.h"
#include "gpu/rows/row_channel.h"
#include "gpu/split/split_gpu.h"
#include "gpu/transfer/ring.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
class SplitRowStore {
 public:
  using Stream = typename Device::Stream;
  using Keep = typename Device::Keep;

  // The devices must outlive the store. Throws std::invalid_argument for none or too many,
  // std::bad_alloc, DeviceError.
  SplitRowStore(std::span<Device* const> devices, const DeviceRowOptions& options)
      : shape_{options.index.seed, options.row_bytes / sizeof(Pair), devices.size(),
               options.scores != gpu::RowScores::none, 0} {
    const Keep keep;
    DeviceRowOptions its = options.fitted();
    shape_.part_rows = rows_of_parts(devices, its);
    for (Device* device : devices) {
      for (Device* other : devices) {
        if (devices.size() > 1) device->connect(*other);
      }
    }
    const uint64_t buffers = devices.size() > 1 ? bytes_of_buffers(shape_, *devices[0]) : 0;
    if (its.index.gpu_memory != 0) {
      if (its.index.gpu_memory <= buffers) throw std::bad_alloc();
      its.index.gpu_memory -= buffers;
    }
    its.host_memory = std::min(options.host_memory, uint64_t{1} << 60) / devices.size();
    its.most_rows = (options.most_rows + devices.size() - 1) / devices.size();
    for (Device* device : devices) {
      require_device(device->enter(), "choose the GPU");
      gpus_.push_back(std::make_unique<Gpu>(*device, its));
      if (devices.size() > 1) gpus_.back()->buffers.emplace(*device, shape_);
    }
  }
  SplitRowStore(Device& device, const DeviceRowOptions& options)
      : SplitRowStore(std::span<Device* const>(std::array<Device*, 1>{&device}), options) {}

  ~SplitRowStore() {
    const Keep keep;
    settle();
    if (!gpus_.empty()) gpus_[0]->device.enter();
    host_rows_.reset();
    for (const auto& gpu : gpus_) {
      gpu->device.enter();
      gpu->buffers.reset();
      gpu->store.reset();
    }
  }
  SplitRowStore(const SplitRowStore&) = delete;
  SplitRowStore& operator=(const SplitRowStore&) = delete;

  uint64_t row_bytes() const { return shape_.row_bytes(); }
  // Requests that are taken at a time: where rows go, later ones of a call may let earlier ones go.
  uint64_t part_rows() const { return shape_.part_rows; }

  // The arrays lie in the memory of device `home`, and the stream is one of its.
  void run(const gpu::RowRequests& call, uint32_t home, Stream stream) {
    if (home >= gpus_.size()) throw std::invalid_argument("the table has no such GPU");
    require_scores(call.scores);
    require_columns(call, true);
    const Keep keep;
    if (alone()) {
      gpus_[0]->enter();
      return gpus_[0]->store->run(call, stream);
    }
    use([&] {
      Gpu& gpu = *gpus_[home];
      const uint64_t rows = shape_.part_rows;
      for (Channel& channel : gpu.buffers->channels) follow(gpu, channel.at_home.get(), stream);
      const auto part = [&](uint64_t number, uint64_t channel) -> OnItsWay {
        const uint64_t first = number * rows;
        return {home, channel, part_of(call, first, std::min(rows, call.n - first), row_bytes())};
      };
      in_turns(
          parts_of(call.n, rows), RowSplitShape::channels, 2,
          [&](uint64_t number, uint64_t channel) { prepare(part(number, channel)); },
          [&](uint64_t number, uint64_t channel) { answer(part(number, channel)); });
      for (Channel& channel : gpu.buffers->channels) follow(gpu, stream, channel.at_home.get());
    });
  }
  void run(const gpu::RowRequests& call, Stream stream) { run(call, 0, stream); }

  // All pointers to host memory; returns when the replies are there. Rows of the caller may be
  // shorter than those of the table, which end with zeros then. reply(found, rows) sees the replies
  // in parts.
  template <class Reply>
  void run_host(const gpu::RowRequests& call, uint64_t row_bytes, Reply&& reply) {
    require_columns(call, false);
    by_host([&](HostRows<Device>& rows) {
      rows.run(
          call, row_bytes,
          [&](const gpu::RowRequests& part, Stream stream) { run(part, 0, stream); }, reply);
    });
  }
  void run_host(const gpu::RowRequests& call) {
    run_host(call, row_bytes(), [](const uint8_t*, uint64_t) {});
  }

  // A chunk of an export; which device it comes from is in the cursor's lowest bits, as in scan().
  uint64_t export_rows(uint64_t cursor, gpu::RowExport& chunk, Stream stream) {
    require_room(chunk);
    require_scores(chunk.scores);
    const uint64_t number = number_in(cursor);
    uint64_t next = 0;
    chunk.count = 0;
    use([&] {
      gpus_[number]->enter();
      next = number == 0 ? gpus_[0]->store->export_rows(cursor, chunk, stream)
                         : export_elsewhere(*gpus_[number], cursor - number, chunk, stream);
    });
    if (next != 0) return next + number;
    return number + 1 < gpus_.size() ? number + 1 : 0;
  }
  uint64_t export_rows_host(uint64_t cursor, gpu::RowExport& chunk) {
    require_room(chunk);
    uint64_t next = 0;
    by_host([&](HostRows<Device>& rows) {
      next = rows.take(chunk, [&](gpu::RowExport& there, Stream stream) {
        return export_rows(cursor, there, stream);
      });
    });
    return next;
  }

  // As those of a DeviceRowStore, of all devices.
  void reserve(uint64_t entries) {
    each([&](DeviceRowStore<Device>& store) {
      store.reserve(alone() ? entries : entries / gpus_.size() + 1);
    });
  }
  uint64_t shortages() {
    uint64_t sum = 0;
    each([&](DeviceRowStore<Device>& store) { sum += store.shortages(); });
    return sum;
  }
  gpu::TableStats stats() {
    gpu::TableStats sum;
    each([&](DeviceRowStore<Device>& store) { add_stats(sum, store.stats()); });
    for (const auto& gpu : gpus_) sum.workspace += gpu->buffers ? gpu->buffers->memory.used() : 0;
    return sum;
  }

  // A step of a walk, over one device after the other; the number of the device is in the cursor's
  // lowest bits, which are zeros there (gpu/table/table_scan.h).
  template <class Visit>
  uint64_t scan(uint64_t cursor, uint64_t wanted, Visit&& visit) {
    const uint64_t number = number_in(cursor);
    uint64_t next = 0;
    use([&] {
      gpus_[number]->enter();
      next = gpus_[number]->store->scan(cursor - number, wanted, visit);
    });
    if (next != 0) return next + number;
    return number + 1 < gpus_.size() ? number + 1 : 0;
  }

 private:
  using Channel = RowChannel<Device>;

  struct Buffers {
    Buffers(Device& device, const RowSplitShape& shape) : memory(device, 0), edge(device) {
      while (channels.size() < RowSplitShape::channels) channels.emplace_back(memory, shape);
    }
    DeviceMemory<Device> memory;
    std::deque<Channel> channels;
    DeviceEvent<Device> edge;
  };
  struct Gpu {
    Gpu(Device& its_device, const DeviceRowOptions& options) : device(its_device) {
      store.emplace(device, options);
    }
    void enter() { require_device(device.enter(), "choose the GPU"); }

    Device& device;
    std::optional<DeviceRowStore<Device>> store;
    std::optional<Buffers> buffers;  // with several devices
  };
  // A part of a call.
  struct OnItsWay {
    uint32_t home;
    uint64_t channel;
    gpu::RowRequests part;
  };

  static uint64_t bytes_of_buffers(const RowSplitShape& shape, const Device& device) {
    return RowSplitShape::channels * Channel::bytes(shape, device);
  }
  uint64_t rows_of_parts(std::span<Device* const> devices, const DeviceRowOptions& options) const {
    if (devices.empty() || devices.size() > ShardLayout::most_shards) {
      throw std::invalid_argument("a table of rows lies on 1 to 32 GPUs");
    }
    constexpr uint64_t most_bytes = uint64_t{32} << 20, least_rows = 64;
    RowSplitShape shape = shape_;
    shape.part_rows = std::bit_floor(std::min<uint64_t>(
        options.index.max_part_rows, std::max(most_bytes / options.row_bytes, least_rows)));
    const uint64_t cap = options.index.gpu_memory / 8;
    while (cap != 0 && shape.part_rows > least_rows && bytes_of_buffers(shape, *devices[0]) > cap) {
      shape.part_rows /= 2;
    }
    return shape.part_rows;
  }

  bool alone() const { return gpus_.size() == 1; }
  static void require_room(const gpu::RowExport& chunk) {
    if (chunk.capacity < HostRows<Device>::least_exported) {
      throw std::invalid_argument("a chunk has room for 64 rows or more");
    }
  }
  void require_scores(const uint64_t* scores) const {
    if (scores != nullptr && !shape_.scored) {
      throw std::invalid_argument("the rows of this table have no scores");
    }
  }
  template <class Work>
  void use(Work&& work) {
    const Keep keep;
    const std::lock_guard guard(mutex_);
    loss_.guard(work, [this] { settle(); });
  }
  template <class Work>
  void by_host(Work&& work) {
    const Keep keep;
    const std::lock_guard guard(host_mutex_);
    gpus_[0]->enter();
    if (!host_rows_) host_rows_.emplace(gpus_[0]->device, row_bytes());
    try {
      work(*host_rows_);
    } catch (...) {
      gpus_[0]->enter();
      host_rows_->settle();
      throw;
    }
  }
  template <class Work>
  void each(Work&& work) {
    use([&] {
      for (const auto& gpu : gpus_) {
        gpu->enter();
        work(*gpu->store);
      }
    });
  }
  uint64_t number_in(uint64_t cursor) const {
    const uint64_t number = cursor % ShardLayout::most_shards;
    if (number >= gpus_.size()) throw std::invalid_argument("the cursor is none of this table");
    return number;
  }
  // Waits for all that parts have queued; of a lost device for nothing.
  void settle() {
    for (const auto& gpu : gpus_) {
      if (!gpu->buffers) continue;
      for (Channel& channel : gpu->buffers->channels) channel.settle();
    }
  }
  void follow(Gpu& gpu, Stream stream, Stream other) {
    gpu.enter();
    const auto edge = gpu.buffers->edge.get();
    require_device(gpu.device.record(edge, other) && gpu.device.wait(stream, edge),
                   "wait for a stream");
  }
  Channel& channel_at(const OnItsWay& its, uint32_t gpu) {
    return gpus_[gpu]->buffers->channels[its.channel];
  }
  // Calls work(i, stretch) for the shards of other devices that have rows of the part.
  template <class Work>
  void each_other(const OnItsWay& its, Work&& work) {
    const Channel& home = channel_at(its, its.home);
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      if (i != its.home && home.stretch(i).rows != 0) work(i, home.stretch(i));
    }
  }

  // Brings the part into the order of its shards, waits until the host knows their sizes, and sends
  // those of other devices there, behind what was answered in their channel before.
  void prepare(const OnItsWay& its) {
    gpus_[its.home]->enter();
    Channel& home = channel_at(its, its.home);
    const Stream stream = home.at_home.get();
    home.split(its.part, shape_);
    each_other(its, [&](uint32_t i, const ShardStretch& rows) {
      Channel& there = channel_at(its, i);
      const gpu::RowRequests from = home.home.shard(its.part, rows, shape_);
      const gpu::RowRequests to = there.away.shard(its.part, {0, rows.rows}, shape_);
      require_device(home.device.wait(stream, there.answered.get()) &&
                         home.device.copy_to(there.device, stream, const_cast<uint64_t*>(to.keys),
                                             from.keys, from.n * sizeof(uint64_t)),
                     "copy keys to their GPU");
      home.copy_to(there, from, to, {sends_rows(its.part), sends_scores(its.part)}, stream, shape_);
    });
    require_device(home.device.record(home.sent.get(), stream), "record an event");
  }

  // All devices begin before the host waits for what one of them has to tell.
  void answer(const OnItsWay& its) {
    Gpu& gpu = *gpus_[its.home];
    Channel& home = channel_at(its, its.home);
    const Stream stream = home.at_home.get();
    each_other(its, [&](uint32_t i, const ShardStretch& rows) {
      Channel& there = channel_at(its, i);
      gpus_[i]->enter();
      require_device(there.device.wait(there.elsewhere.get(), home.sent.get()),
                     "wait for requests");
      gpus_[i]->store->begin(there.away.shard(its.part, {0, rows.rows}, shape_),
                             there.elsewhere.get());
    });
    gpu.enter();
    const ShardStretch own = home.stretch(its.home);
    if (own.rows != 0) gpu.store->begin(home.home.shard(its.part, own, shape_), stream);
    each_other(its, [&](uint32_t i, const ShardStretch& rows) { bring_back(its, i, rows); });
    gpu.enter();
    if (own.rows != 0) gpu.store->end(stream);
    each_other(its, [&](uint32_t i, const ShardStretch&) {
      require_device(home.device.wait(stream, channel_at(its, i).answered.get()),
                     "wait for replies");
    });
    home.return_replies(its.part, shape_);
  }

  void bring_back(const OnItsWay& its, uint32_t i, const ShardStretch& rows) {
    Channel& home = channel_at(its, its.home);
    Channel& there = channel_at(its, i);
    const Stream stream = there.elsewhere.get();
    const gpu::RowRequests asked = there.away.shard(its.part, {0, rows.rows}, shape_);
    const gpu::RowRequests to = home.home.shard(its.part, rows, shape_);
    gpus_[i]->enter();
    gpus_[i]->store->end(stream);
    require_device(there.device.copy_to(home.device, stream, to.found, asked.found, asked.n),
                   "copy replies back");
    there.copy_to(home, asked, to, {brings_rows(its.part), brings_scores(its.part)}, stream,
                  shape_);
    require_device(there.device.record(there.answered.get(), stream), "record an event");
  }

  // By way of the first channel's columns, to the first device.
  uint64_t export_elsewhere(Gpu& gpu, uint64_t cursor, gpu::RowExport& chunk, Stream stream) {
    Channel& its = gpu.buffers->channels[0];
    gpu::RowExport there = chunk;
    there.capacity = std::min(chunk.capacity, shape_.part_rows);
    there.keys = its.away.keys.data();
    if (chunk.rows != nullptr) there.rows = its.away.rows.data();
    if (chunk.scores != nullptr) there.scores = its.away.scores.data();
    const Stream elsewhere = its.elsewhere.get();
    const uint64_t next = gpu.store->export_rows(cursor, there, elsewhere);
    chunk.count = there.count;
    const auto copy = [&](void* to, const void* from, uint64_t bytes) {
      return to == nullptr || bytes == 0 ||
             gpu.device.copy_to(gpus_[0]->device, elsewhere, to, from, bytes);
    };
    require_device(copy(chunk.keys, there.keys, there.count * sizeof(uint64_t)) &&
                       copy(chunk.rows, there.rows, there.count * row_bytes()) &&
                       copy(chunk.scores, there.scores, there.count * sizeof(uint64_t)) &&
                       gpu.device.record(its.answered.get(), elsewhere),
                   "copy an export");
    gpus_[0]->enter();
    require_device(gpus_[0]->device.wait(stream, its.answered.get()), "wait for an export");
    return next;
  }

  RowSplitShape shape_;
  std::mutex host_mutex_;
  std::optional<HostRows<Device>> host_rows_;
  std::mutex mutex_;  // all below; not of a single device
  std::vector<std::unique_ptr<Gpu>> gpus_;
  DeviceLoss loss_{"the table was lost when a device failed"};
};

}  // namespace isotherm
