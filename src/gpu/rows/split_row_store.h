// SplitRowStore: u64 keys to rows on one or more devices; what include/isotherm/device_row_table.h
// promises, over any devices.
//
// Each device has a DeviceRowStore with the keys of its shard, by the same hash as a SplitTable. A
// table on one device is that store, and nothing else. With several a call is worked off in parts,
// at the device where its arrays lie:
//
//   home   keys, and rows that go in, in order of shard ─┬─ its own shard: answered there ─┬─ back
//   each other                                           └─ copied, answered, copied back ─┘
//
// Order. A part's requests keep their order within a shard, and each store takes the parts in their
// order, so calls are answered as by one table.
//
// Memory. Buffers for a part, twice: as home and as another device's. They hold up to 64 MiB of
// rows each, and together take an eighth of a cap at most, as long as that is enough for 64 rows.
// Threads. Any; one mutex. A call waits on the host for the split of each part. Limits. 32 devices.
// Errors. Those of a DeviceRowStore; std::bad_alloc may come after some rows of a call have taken
// effect. Sources. Mega-KV, section 7.1 (data sharded over GPUs).
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "gpu/platform/device_event.h"
#include "gpu/platform/device_loss.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/device_row_store.h"
#include "gpu/rows/spread_kernels.h"
#include "gpu/split/shard_kernels.h"
#include "gpu/split/split_gpu.h"

namespace isotherm {

template <class Device>
class SplitRowStore {
 public:
  using Stream = typename Device::Stream;

  // The devices must outlive the store. Throws std::invalid_argument for none or too many,
  // std::bad_alloc, DeviceError.
  SplitRowStore(std::span<Device* const> devices, const DeviceRowOptions& options)
      : seed_(options.index.seed),
        units_(options.row_bytes / sizeof(Pair)),
        part_rows_(rows_of_parts(devices, options)) {
    for (Device* device : devices) {
      for (Device* other : devices) {
        if (devices.size() > 1) device->connect(*other);
      }
    }
    DeviceRowOptions its = options;
    const uint64_t buffers = devices.size() > 1 ? bytes_of_buffers(part_rows_, devices) : 0;
    if (its.index.gpu_memory != 0) its.index.gpu_memory -= buffers;
    for (Device* device : devices) {
      require_device(device->enter(), "choose the GPU");
      gpus_.push_back(std::make_unique<Gpu>(*device, its));
      if (devices.size() > 1) gpus_.back()->buffers.emplace(*device, *this, devices.size());
    }
  }
  SplitRowStore(Device& device, const DeviceRowOptions& options)
      : SplitRowStore(std::span<Device* const>(std::array<Device*, 1>{&device}), options) {}

  ~SplitRowStore() {
    settle();
    for (const auto& gpu : gpus_) {
      gpu->device.enter();
      gpu->buffers.reset();
      gpu->store.reset();
    }
  }
  SplitRowStore(const SplitRowStore&) = delete;
  SplitRowStore& operator=(const SplitRowStore&) = delete;

  uint64_t row_bytes() const { return units_ * sizeof(Pair); }

  // The arrays lie in the memory of device `home`, and the stream is one of its.
  void run(const RowCall& call, uint32_t home, Stream stream) {
    if (home >= gpus_.size()) throw std::invalid_argument("the table has no such GPU");
    if (alone()) {
      gpus_[0]->enter();
      return gpus_[0]->store->run(call, stream);
    }
    use([&] {
      Gpu& gpu = *gpus_[home];
      follow(gpu, gpu.buffers->at_home.get(), stream);
      for (uint64_t first = 0; first < call.n; first += part_rows_) {
        run_part(home, call.part(first, std::min(part_rows_, call.n - first), row_bytes()));
      }
      gpu.enter();
      follow(gpu, stream, gpu.buffers->at_home.get());
    });
  }
  void run(const RowCall& call, Stream stream) { run(call, 0, stream); }

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
  DeviceTableStats stats() {
    DeviceTableStats sum;
    each([&](DeviceRowStore<Device>& store) { add_stats(sum, store.stats()); });
    for (const auto& gpu : gpus_) sum.workspace += gpu->buffers ? gpu->buffers->memory.used() : 0;
    return sum;
  }

  // A step of a walk, over one device after the other; the number of the device is in the cursor's
  // lowest bits, which are zeros there (gpu/table/table_scan.h).
  template <class Visit>
  uint64_t scan(uint64_t cursor, uint64_t wanted, Visit&& visit) {
    const uint64_t number = cursor % ShardLayout::most_shards;
    if (number >= gpus_.size()) {
      throw std::invalid_argument("the cursor is none of this table");
    }
    uint64_t next = 0;
    use([&] {
      gpus_[number]->enter();
      next = gpus_[number]->store->scan(cursor - number, wanted, visit);
    });
    if (next != 0) return next + number;
    return number + 1 < gpus_.size() ? number + 1 : 0;
  }

 private:
  // Of the rows of a part, in order of shard at home, or of one shard elsewhere.
  struct Columns {
    Columns(DeviceMemory<Device>& memory, uint64_t count, uint64_t units)
        : keys(memory, count), found(memory, count), rows(memory, count * units) {
      if (keys.empty() || found.empty() || rows.empty()) throw std::bad_alloc();
    }
    DeviceArray<Device, uint64_t> keys;
    DeviceArray<Device, uint8_t> found;
    DeviceArray<Device, Pair> rows;
  };
  struct Buffers {
    Buffers(Device& device, const SplitRowStore& store, uint64_t devices)
        : memory(device, 0),
          warps(warps_of(device)),
          home(memory, store.home_rows(devices), store.units_),
          away(memory, store.part_rows_, store.units_),
          places(memory, store.part_rows_),
          counts(memory, devices * warps),
          stretches(device, ShardLayout::most_shards * sizeof(ShardStretch)),
          at_home(device),
          elsewhere(device),
          counted(device),
          sent(device),
          answered(device),
          edge(device) {
      if (places.empty() || counts.empty()) throw std::bad_alloc();
      // Rows are copied whole, with those of misses, which nobody writes.
      const auto clear = [&](const auto& array) {
        return device.clear(at_home.get(), array.data(), array.bytes());
      };
      require_device(clear(home.rows) && clear(away.rows) && clear(home.found) &&
                         clear(away.found) && device.record(answered.get(), elsewhere.get()) &&
                         device.synchronize(at_home.get()),
                     "clear rows");
    }
    DeviceMemory<Device> memory;
    const uint32_t warps;
    Columns home;
    Columns away;
    DeviceArray<Device, uint32_t> places;  // of a part's requests, in `home`
    DeviceArray<Device, uint32_t> counts;
    PinnedBlock<Device> stretches;
    DeviceStream<Device> at_home;    // of the parts whose home it is
    DeviceStream<Device> elsewhere;  // of those of other devices
    DeviceEvent<Device> counted, sent, answered, edge;
  };
  struct Gpu {
    Gpu(Device& its_device, const DeviceRowOptions& options) : device(its_device) {
      store.emplace(device, options);
    }
    void enter() { require_device(device.enter(), "choose the GPU"); }
    ShardStretch stretch(uint32_t i) const {
      return reinterpret_cast<const ShardStretch*>(buffers->stretches.data())[i];
    }

    Device& device;
    std::optional<DeviceRowStore<Device>> store;
    std::optional<Buffers> buffers;  // with several devices
  };

  static uint32_t warps_of(const Device& device) {
    return std::max(device.full_grid() / 4, 1u) * (ShardLayout::threads / 32);
  }
  uint64_t home_rows(uint64_t devices) const {
    return part_rows_ + devices * ShardLayout::alignment;
  }
  uint64_t bytes_of_buffers(uint64_t rows, std::span<Device* const> devices) const {
    const uint64_t a_row = units_ * sizeof(Pair) + sizeof(uint64_t) + 1;
    return (2 * rows + devices.size() * ShardLayout::alignment) * a_row + rows * sizeof(uint32_t) +
           devices.size() * warps_of(*devices[0]) * sizeof(uint32_t);
  }
  uint64_t rows_of_parts(std::span<Device* const> devices, const DeviceRowOptions& options) const {
    if (devices.empty() || devices.size() > ShardLayout::most_shards) {
      throw std::invalid_argument("a table of rows lies on 1 to 32 GPUs");
    }
    constexpr uint64_t most_bytes = uint64_t{64} << 20, least_rows = 64;
    uint64_t rows = std::bit_floor(
        std::min<uint64_t>(options.index.max_part_rows, most_bytes / options.row_bytes));
    const uint64_t cap = options.index.gpu_memory / 8;
    while (cap != 0 && rows > least_rows && bytes_of_buffers(rows, devices) > cap) rows /= 2;
    return rows;
  }

  bool alone() const { return gpus_.size() == 1; }
  template <class Work>
  void use(Work&& work) {
    const std::lock_guard guard(mutex_);
    loss_.guard(work, [this] { settle(); });
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
  // Waits for all that parts have queued; of a lost device for nothing.
  void settle() {
    for (const auto& gpu : gpus_) {
      if (!gpu->buffers) continue;
      gpu->device.synchronize(gpu->buffers->at_home.get());
      gpu->device.synchronize(gpu->buffers->elsewhere.get());
    }
  }
  void follow(Gpu& gpu, Stream stream, Stream other) {
    gpu.enter();
    const auto edge = gpu.buffers->edge.get();
    require_device(gpu.device.record(edge, other) && gpu.device.wait(stream, edge),
                   "wait for a stream");
  }

  void run_part(uint32_t home, const RowCall& part) {
    split(*gpus_[home], part);
    send(home, part);
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      if (i != home && gpus_[home]->stretch(i).rows != 0) answer_elsewhere(home, i, part);
    }
    answer_at_home(home, part);
  }

  // Brings the part into the order of its shards, and waits until the host knows their sizes.
  void split(Gpu& gpu, const RowCall& part) {
    Buffers& its = *gpu.buffers;
    const Stream stream = its.at_home.get();
    const auto rows = static_cast<uint32_t>(part.n);
    ShardSplit<HashRoute> split;
    split.route = {seed_, static_cast<uint32_t>(gpus_.size())};
    split.rows = rows;
    split.warps = its.warps;
    split.keys = part.keys;
    split.counts = its.counts.data();
    const uint32_t blocks = its.warps / (ShardLayout::threads / 32);
    DeviceRequests from;
    from.rows = part.n;
    from.keys = part.keys;
    from.found = its.home.found.data();  // so that places are noted
    const RequestColumns to{reinterpret_cast<char*>(its.home.keys.data()), its.home.keys.size()};
    gpu.enter();
    launch(gpu, blocks, CountShardsKernel<HashRoute>{split});
    require_device(
        gpu.device.launch(stream, 1, BeginShardsKernel<HashRoute>::threads,
                          BeginShardsKernel<HashRoute>{
                              split, reinterpret_cast<ShardStretch*>(its.stretches.data())}) &&
            gpu.device.record(its.counted.get(), stream),
        "count the rows of shards");
    launch(gpu, blocks, SplitRowsKernel<HashRoute>{split, from, to, its.places.data()});
    if (part.sends_rows()) {
      launch(gpu, grid_for(gpu.device, part.n * units_, ShardLayout::threads),
             SpreadRowsKernel{its.places.data(), static_cast<const Pair*>(part.rows),
                              its.home.rows.data(), rows, static_cast<uint32_t>(units_)});
    }
    require_device(gpu.device.synchronize(its.counted.get()), "wait for the counts of a part");
  }

  // A shard's part of a call, in the columns of home or of its own device.
  RowCall shard_of(const RowCall& part, const Columns& columns, const ShardStretch& rows) const {
    RowCall call = part;
    call.keys = columns.keys.data();
    if (part.rows != nullptr) call.rows = columns.rows.data();
    call.found = columns.found.data();
    return call.part(rows.begin, rows.rows, row_bytes());
  }

  // Copies the shards of other devices there, behind what was answered there before.
  void send(uint32_t home, const RowCall& part) {
    Gpu& gpu = *gpus_[home];
    const Stream stream = gpu.buffers->at_home.get();
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      const ShardStretch rows = gpu.stretch(i);
      if (i == home || rows.rows == 0) continue;
      Gpu& other = *gpus_[i];
      const RowCall from = shard_of(part, gpu.buffers->home, rows);
      const Columns& to = other.buffers->away;
      bool queued = gpu.device.wait(stream, other.buffers->answered.get()) &&
                    gpu.device.copy_to(other.device, stream, to.keys.data(), from.keys,
                                       from.n * sizeof(uint64_t));
      if (part.sends_rows()) {
        queued = queued && gpu.device.copy_to(other.device, stream, to.rows.data(), from.rows,
                                              from.n * row_bytes());
      }
      require_device(queued, "copy rows to their GPU");
    }
    require_device(gpu.device.record(gpu.buffers->sent.get(), stream), "record an event");
  }

  void answer_elsewhere(uint32_t home, uint32_t i, const RowCall& part) {
    Gpu& gpu = *gpus_[home];
    Gpu& other = *gpus_[i];
    const ShardStretch rows = gpu.stretch(i);
    const Stream stream = other.buffers->elsewhere.get();
    const RowCall asked = shard_of(part, other.buffers->away, {0, rows.rows});
    const RowCall to = shard_of(part, gpu.buffers->home, rows);
    other.enter();
    require_device(other.device.wait(stream, gpu.buffers->sent.get()), "wait for requests");
    other.store->run(asked, stream);
    bool queued = other.device.copy_to(gpu.device, stream, to.found, asked.found, asked.n);
    if (part.brings_rows()) {
      queued = queued &&
               other.device.copy_to(gpu.device, stream, to.rows, asked.rows, asked.n * row_bytes());
    }
    require_device(queued && other.device.record(other.buffers->answered.get(), stream),
                   "copy replies back");
  }

  void answer_at_home(uint32_t home, const RowCall& part) {
    Gpu& gpu = *gpus_[home];
    Buffers& its = *gpu.buffers;
    const Stream stream = its.at_home.get();
    const ShardStretch own = gpu.stretch(home);
    gpu.enter();
    if (own.rows != 0) gpu.store->run(shard_of(part, its.home, own), stream);
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      if (i == home || gpu.stretch(i).rows == 0) continue;
      require_device(gpu.device.wait(stream, gpus_[i]->buffers->answered.get()),
                     "wait for replies");
    }
    if (part.found == nullptr && !part.brings_rows()) return;
    const bool brings = part.brings_rows();
    launch(gpu, grid_for(gpu.device, part.n * (brings ? units_ : 1), ShardLayout::threads),
           ReturnRowsKernel{its.places.data(), its.home.found.data(),
                            brings ? its.home.rows.data() : nullptr, part.found,
                            static_cast<Pair*>(part.rows), static_cast<uint32_t>(part.n),
                            static_cast<uint32_t>(units_)});
  }

  template <class Kernel>
  void launch(Gpu& gpu, uint32_t blocks, const Kernel& kernel) {
    require_device(
        gpu.device.launch(gpu.buffers->at_home.get(), blocks, ShardLayout::threads, kernel),
        "launch a kernel of rows");
  }

  const uint64_t seed_;
  const uint64_t units_;
  const uint64_t part_rows_;
  std::mutex mutex_;  // all below; not of a single device
  std::vector<std::unique_ptr<Gpu>> gpus_;
  DeviceLoss loss_{"the table was lost when a device failed"};
};

}  // namespace isotherm
