// SplitTable: u64 keys to u64 values on one or more GPUs and, where their memory ends, on the host;
// what include/isotherm/gpu/table.h promises, over any devices.
//
// Each GPU has a FixedDeviceTable with the keys of its shard, by hash. While there is one, and it
// has room, calls go straight to its table, and the host waits for no rows. Otherwise a call is
// worked off in parts (gpu/split/split_parts.h): each is split at the GPU where its rows lie, its
// rows go to those who hold their keys, GPUs and lists of the host, and replies come back
// (gpu/split/split_part.h). Where order matters the parts are those of slice 0, then those of slice
// 1, and so on, and each table takes its rows of the parts in that order; where it does not (gets,
// or keys that come once) all GPUs split at the same time.
//
// Before the rows of a part with writes that may need room are answered, bins of a GPU that has
// none move to the host (gpu/split/split_host.h), and the part is split again; behind it, bins move
// in steps, so then the next part is split when that is done. A key is in one place at a time and
// its rows keep their order there, so calls are answered as by one table.
//
// Few requests from the host go by express (gpu/express/express.h, gpu/split/split_express.h) as
// long as devices have all their keys; other calls with host arrays go in chunks
// (gpu/transfer/transfer.h, gpu/split/split_host_rows.h).
//
// Memory. Of the cap on a device's memory the buffers of parts take an eighth at most. Where they
// would be more, there is no work space, or a device has fewer than 8 segments, devices keep their
// keys. Where all memories end, rows that need more are answered reply_retry, and nothing is lost.
// Threads. Any; one mutex, and one more for the ways of host arrays to a single GPU. A call with
// parts holds the mutex until its last part has been counted and the host's rows are answered.
// Limits. 32 devices, 31 where the host takes part. Errors. Those of a FixedDeviceTable. Sources.
// KVCG, sections 3 and 5.2, whose store beyond device memory was unified memory instead; Mega-KV,
// section 7.1 (data sharded over GPUs).
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <vector>

#include "gpu/platform/device_loss.h"
#include "gpu/split/split_express.h"
#include "gpu/split/split_host_rows.h"
#include "gpu/split/split_parts.h"
#include "gpu/transfer/transfer.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
class SplitTable {
 public:
  using Stream = typename Device::Stream;

  // The devices must outlive the table. Throws std::invalid_argument for none or too many,
  // std::bad_alloc, DeviceError.
  SplitTable(std::span<Device* const> devices, const SplitOptions& options)
      : options_(options),
        layout_(SplitLayout::of(devices, options)),
        may_share_(layout_.lists != 0 && layout_.fits(*devices[0], options)) {
    for (Device* device : devices) {
      require_device(device->enter(), "choose the GPU");
      gpus_.push_back(std::make_unique<SplitGpu<Device>>(*device, table_options()));
    }
    for (Device* device : devices) {
      for (Device* other : devices) direct_ = alone() || (device->connect(*other) && direct_);
      require_device(device->enter(), "choose the GPU");
      edges_.push_back(std::make_unique<DeviceEvent<Device>>(*device));
    }
    make_parts();
  }
  SplitTable(Device& device, const SplitOptions& options)
      : SplitTable(std::span<Device* const>(std::array<Device*, 1>{&device}), options) {}

  ~SplitTable() {
    express_.reset();
    host_rows_.reset();
    parts_.reset();
    host_.reset();
    transfer_.reset();
    for (size_t i = 0; i < gpus_.size(); ++i) {
      gpus_[i]->device.enter();
      edges_[i].reset();
      gpus_[i].reset();
    }
  }
  SplitTable(const SplitTable&) = delete;
  SplitTable& operator=(const SplitTable&) = delete;

  // Whether all devices reach each other's memory.
  bool direct() const { return direct_; }

  // Grows for `entries` entries in all, as far as devices have room.
  void reserve(uint64_t entries) {
    use([&] {
      for (const auto& gpu : gpus_) {
        gpu->enter();
        gpu->table.reserve(alone() ? entries : entries / gpus_.size() + 1);
      }
    });
  }

  // A slice and a stream for each device; slices without rows need no columns.
  void run(std::span<const TableRequests> slices, std::span<const Stream> streams) {
    if (slices.size() != gpus_.size() || streams.size() != gpus_.size()) {
      throw std::invalid_argument("a call takes one slice and one stream for each GPU");
    }
    for (const TableRequests& slice : slices) {
      if (slice.rows != 0) require_columns(slice);
    }
    use([&] { alone() ? run_one(slices[0], streams[0]) : run_parts(slices, streams); });
  }
  // The slice of the first device, and none of others.
  void run(const TableRequests& requests, Stream stream) {
    if (requests.rows == 0) return;
    require_columns(requests);
    use([&] { run_first(requests, stream); });
  }

  // Gets that tell the host of their end; see FixedDeviceTable::get_marked.
  void get_marked(const TableRequests& requests, const EndMark& mark, uint32_t* blocks_done,
                  Stream stream) {
    require_columns(requests);
    use([&] {
      gpus_[0]->enter();
      if (alone() && !shared()) {
        return gpus_[0]->table.get_marked(requests, mark, blocks_done, stream);
      }
      run_first(requests, stream);
      gpus_[0]->enter();
      require_device(
          gpus_[0]->device.launch(stream, 1, EndMarkKernel::threads, EndMarkKernel{mark}),
          "end a batch");
    });
  }

  // All pointers to host memory; returns when the replies are there.
  void run_host(const TableRequests& requests) {
    if (requests.rows == 0) return;
    require_columns(requests);
    if (options_.express && express(requests)) return;
    if (alone()) return transfer_.run(first_device(), *this, requests);
    use([&] {
      const bool gets = is_gets(requests);
      if (!gets) reserve_workspaces();
      host_rows_->run(requests, window(gets, ~uint64_t{0}),
                      [this](const SplitStep& step) { answer(step); });
      if (gets) end_gets(requests.rows);
    });
  }

  // Gets; all pointers to pinned host memory; returns when the replies are there.
  void get_pinned(const TableRequests& requests) {
    if (requests.rows == 0) return;
    require_columns(requests);
    if (alone()) return transfer_.get_pinned(first_device(), *this, requests);
    use([&] {
      host_rows_->get_pinned(requests, [this](const SplitStep& step) { answer(step); });
      end_gets(requests.rows);
    });
  }
  // The same in the order of a stream of the first device.
  void get_pinned(const TableRequests& requests, Stream stream) {
    if (alone()) return transfer_.get_pinned(first_device(), *this, requests, stream);
    run(requests, stream);  // more slowly
  }

  // As those of a FixedDeviceTable; requests go by express as long as devices have all their keys.
  uint64_t most_express() const { return gpus_[0]->table.most_express(); }
  bool express(const TableRequests& requests) {
    const std::lock_guard guard(mutex_);
    if (!goes_to_devices(requests)) return false;
    if (alone()) return first().express(requests);
    bool posted = false;
    guard_all([&] {
      posted = make_express() && express_->post(requests);
      if (posted) express_->take();
    });
    return posted;
  }
  bool post(const TableRequests& requests) {
    const std::lock_guard guard(mutex_);
    if (!goes_to_devices(requests)) return false;
    if (alone()) return first().post(requests);
    bool posted = false;
    guard_all([&] { posted = make_express() && express_->post(requests); });
    return posted;
  }
  void take() {
    if (alone()) return first().take();
    use([this] {
      if (express_) express_->take();
    });
  }
  bool ready() {
    if (alone()) return first().ready();
    const std::lock_guard guard(mutex_);
    return !express_ || express_->ready();
  }
  void end_express() {
    for (const auto& gpu : gpus_) {
      gpu->enter();
      gpu->table.end_express();
    }
  }

  // Sums over all devices. Waits for all calls so far.
  gpu::TableStats stats() {
    gpu::TableStats sum;
    use([&] {
      settle();
      sum = sum_of_stats(gpus_);
      sum.bytes -= buffer_bytes_;
      sum.workspace += buffer_bytes_;
      if (!host_) return;
      sum.host_bytes = parts_->pinned_bytes();
      host_->add_to(sum);
    });
    return sum;
  }

  // For what is asked of the sides themselves (gpu/split/split_walk.h): work(gpus, seed, the host's
  // side, null where it has had no bins yet). With it all parts so far have ended.
  template <class Work>
  void ask_sides(Work&& work) {
    use([&] {
      if (shared()) settle();
      work(gpus_, options_.table.seed, shared() ? &*host_ : nullptr);
    });
  }

 private:
  // Work space for longer parts would be of no use once the table is shared.
  FixedDeviceOptions table_options() const {
    FixedDeviceOptions table = options_.table;
    if (table.gpu_memory != 0 && may_share_) {
      table.max_part_rows = std::min(table.max_part_rows, layout_.rows);
    }
    return table;
  }

  // Takes all that parts need, before the indexes take all memory. Where there is too little,
  // devices keep their keys; several need parts even then, of fewer rows.
  void make_parts() {
    const uint64_t before = used();
    if (may_share_) may_share_ = make_parts_with_host();
    if (!may_share_) layout_.lists = 0;
    while (!alone() && !parts_) {
      try {
        parts_.emplace(gpus_, direct_, layout_, nullptr);
      } catch (const std::bad_alloc&) {
        if (layout_.rows == SplitLayout::least_rows) throw;
        layout_.rows /= 2;
      }
    }
    if (!alone()) host_rows_.emplace(gpus_, *parts_);
    buffer_bytes_ = used() - before - reserved_bytes_;
  }
  bool make_parts_with_host() {
    try {
      for (const auto& gpu : gpus_) {
        gpu->enter();
        const uint64_t before = gpu->memory.used();
        gpu->table.reserve_workspace(layout_.rows, true);
        reserved_bytes_ += gpu->memory.used() - before;
      }
      host_.emplace(gpus_, SplitHostOptions{options_.table.seed, options_.host_memory,
                                            options_.host_threads, layout_.rows, options_.sampled,
                                            layout_.most_bits, options_.entries_at_once});
      parts_.emplace(gpus_, direct_, layout_, &*host_);
    } catch (const std::bad_alloc&) {
      parts_.reset();
      host_.reset();
    }
    return parts_.has_value();
  }
  uint64_t used() const {
    uint64_t bytes = 0;
    for (const auto& gpu : gpus_) bytes += gpu->memory.used();
    return bytes;
  }

  template <class Work>
  void use(Work&& work) {
    const std::lock_guard guard(mutex_);
    guard_all(work);
  }
  template <class Work>
  void guard_all(Work&& work) {
    loss_.guard(work, [this] {
      settle();
      if (host_rows_) host_rows_->forget();
      if (express_) express_->forget();
    });
  }
  void settle() {
    if (parts_) parts_->settle();
  }

  bool alone() const { return gpus_.size() == 1; }
  bool shared() const { return host_ && host_->shared(); }
  Device& first_device() {
    gpus_[0]->enter();
    return gpus_[0]->device;
  }
  FixedDeviceTable<Device>& first() {
    first_device();
    return gpus_[0]->table;
  }

  void run_first(const TableRequests& requests, Stream stream) {
    if (alone()) return run_one(requests, stream);
    std::vector<TableRequests> slices(gpus_.size());
    std::vector<Stream> streams(gpus_.size());
    slices[0] = requests;
    streams[0] = stream;
    run_parts(slices, streams);
  }

  // Where there is one device.
  void run_one(const TableRequests& requests, Stream stream) {
    gpus_[0]->enter();
    uint64_t done = 0;
    if (!shared()) done = run_on_device(requests, stream);
    if (done == requests.rows) return;
    const TableRequests left = rows_of(requests, done, requests.rows - done);
    run_parts({&left, 1}, {&stream, 1});
  }
  // The rows that the device alone has answered: all, unless others found no room.
  uint64_t run_on_device(const TableRequests& requests, Stream stream) {
    FixedDeviceTable<Device>& table = gpus_[0]->table;
    uint64_t done = 0;
    if (may_share_ && needs_room(requests)) {
      while (done < requests.rows) {
        const uint64_t rows = rows_with_room(requests.rows - done);
        if (rows == 0) break;
        table.run(rows_of(requests, done, rows), stream);
        done += rows;
      }
      if (done == requests.rows || host_->share(0)) return done;
      may_share_ = false;
    }
    table.run(rows_of(requests, done, requests.rows - done), stream);
    return requests.rows;
  }
  uint64_t rows_with_room(uint64_t left) {
    for (const uint32_t most : {options_.table.max_part_rows, layout_.rows}) {
      const uint64_t rows = std::min<uint64_t>(left, most);
      if (host_->has_room(0, rows)) return rows;
    }
    return 0;
  }
  static bool needs_room(const TableRequests& requests) {
    return !is_gets(requests) && (requests.ops != nullptr || requests.op != TableOp::erase);
  }

  void run_parts(std::span<const TableRequests> slices, std::span<const Stream> streams) {
    const auto with_rows = [&](auto&& test) {
      return std::all_of(slices.begin(), slices.end(), [&](const TableRequests& slice) {
        return slice.rows == 0 || test(slice);
      });
    };
    const bool gets = with_rows(is_gets);
    const bool distinct = with_rows([](const TableRequests& slice) { return slice.distinct_keys; });
    if (!gets) reserve_workspaces();
    follow(slices, streams);
    const std::vector<SplitStep> steps =
        parts_->steps(slices, layout_.rows_of_parts(slices, gets, options_.table.max_part_rows),
                      gets || distinct);
    parts_->work_off(
        steps, window(gets, steps.size()),
        [&](const SplitStep& step) {
          parts_->part(step).begin(rows_of(slices[step.gpu], step.first, step.rows));
        },
        [this](const SplitStep& step) { answer(step); });
    lead(slices, streams);
    uint64_t rows = 0;
    for (const TableRequests& slice : slices) rows += slice.rows;
    if (gets) end_gets(rows);
  }

  // Bins may move behind each part with writes, and those that were split before begin again.
  uint64_t window(bool gets, uint64_t most) const { return shared() && !gets ? 1 : most; }

  void answer(const SplitStep& step) {
    SplitPart<Device>& part = parts_->part(step);
    part.wait_counts();
    if (part.is_stale()) split_again(part);
    const TableRequests& requests = part.requests();
    if (may_share_ && needs_room(requests)) make_room(part);
    part.answer();
    if (!shared() || is_gets(requests)) return;
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      host_->move_bins(i, part.rows_for(i), step.rows / gpus_.size());
    }
  }
  void split_again(SplitPart<Device>& part) {
    part.begin_again();
    part.wait_counts();
  }
  // Frees bins until each device has room for its rows of a part, as far as the host has memory.
  void make_room(SplitPart<Device>& part) {
    for (uint32_t i = 0; i < gpus_.size(); ++i) {
      if (!host_->looks_for_room(i)) continue;
      bool freed = true;
      while (part.rows_for(i) != 0 && !host_->has_room(i, part.rows_for(i))) {
        if (!freed) {
          host_->pause(i);
          break;
        }
        freed = host_->free_bin(i);
        if (part.is_stale()) split_again(part);
      }
    }
  }
  void end_gets(uint64_t rows) {
    if (!shared()) return;
    for (uint32_t i = 0; i < gpus_.size(); ++i) host_->move_bins(i, 0, rows / gpus_.size());
  }

  // So that no call ends for want of it in its middle.
  void reserve_workspaces() {
    if (alone()) return;
    for (const auto& gpu : gpus_) {
      gpu->enter();
      gpu->table.reserve_workspace(layout_.rows);
    }
  }

  // The parts' streams follow the caller's, and then the other way round.
  void follow(std::span<const TableRequests> slices, std::span<const Stream> streams) {
    each_part_of(slices, [&](uint32_t gpu, Stream of_part) { wait(gpu, of_part, streams[gpu]); });
  }
  void lead(std::span<const TableRequests> slices, std::span<const Stream> streams) {
    each_part_of(slices, [&](uint32_t gpu, Stream of_part) { wait(gpu, streams[gpu], of_part); });
  }
  template <class Work>
  void each_part_of(std::span<const TableRequests> slices, Work&& work) {
    for (uint32_t gpu = 0; gpu < slices.size(); ++gpu) {
      if (slices[gpu].rows == 0) continue;
      gpus_[gpu]->enter();
      for (uint32_t set = 0; set < parts_->sets(); ++set) {
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

  // Of requests in memory that the host reads, whether devices have all their keys. Then one in
  // some is counted as read.
  bool goes_to_devices(const TableRequests& requests) {
    loss_.require_usable();
    require_columns(requests);
    if (requests.rows > most_express()) return false;
    if (!shared()) return true;
    const auto hash = [&](uint64_t row) { return mix(requests.keys[row], options_.table.seed); };
    for (uint64_t row = 0; row < requests.rows; ++row) {
      if (host_->on_host(hash(row))) return false;
    }
    for (uint64_t row = 0; row < requests.rows; ++row) {
      if (++express_rows_ % options_.sampled == 0) host_->count_read(hash(row));
    }
    return true;
  }
  bool make_express() {
    try {
      if (!express_) express_.emplace(gpus_, options_.table.seed);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  const SplitOptions options_;
  SplitLayout layout_;
  bool may_share_;
  std::mutex mutex_;  // all below
  SplitGpus<Device> gpus_;
  std::vector<std::unique_ptr<DeviceEvent<Device>>> edges_;  // of each device
  bool direct_ = true;
  DeviceLoss loss_{"the table was lost when a device failed"};
  uint64_t reserved_bytes_ = 0;  // of work space, taken with the parts
  uint64_t buffer_bytes_ = 0;    // of the parts and of rows from the host, on all devices
  std::optional<SplitHost<Device>> host_;
  std::optional<SplitParts<Device>> parts_;
  std::optional<SplitHostRows<Device>> host_rows_;  // with several devices
  std::optional<SplitExpress<Device>> express_;     // the same, made when first needed
  uint64_t express_rows_ = 0;
  Transfer<Device, SplitTable> transfer_;  // of a single device; locks by itself
};

}  // namespace isotherm
