// FixedDeviceTable: u64 keys to u64 values in device memory; what include/isotherm/device_table.h
// promises, over any device.
//
// Calls with writes are worked off in parts of at most max_part_rows rows, so that what a part
// works in stays in the L2 cache. Before a part the host makes sure that the index has room for as
// many new entries as it has rows, and the stock lines enough. It knows the counts from parts that
// have ended, which arrive with a delay, and takes the rows of those under way as new; only where
// that is too little does it wait for the oldest of them.
//
// Threads. Any; one mutex. Limits. A key that finds no line (the stock is sized so that this
// happens where memory ends) is answered reply_retry.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <stdexcept>

#include "device/gpu/batch_workspace.h"
#include "device/gpu/call_order.h"
#include "device/gpu/device_segments.h"
#include "device/gpu/device_stock.h"
#include "device/gpu/device_stream.h"
#include "device/gpu/find_kernel.h"
#include "device/gpu/scan_kernel.h"
#include "device/gpu/settle_kernels.h"

namespace isotherm {

struct FixedDeviceOptions {
  uint64_t gpu_memory = 0;  // bytes; 0: no cap
  uint64_t seed = 0;
  int line_bits = 16;  // lines of a segment, as a power of two
  uint32_t max_part_rows = 1 << 21;
};

template <class Device>
class FixedDeviceTable {
 public:
  using Stream = typename Device::Stream;

  // `device` must outlive the table. Throws std::bad_alloc, DeviceError.
  FixedDeviceTable(Device& device, const FixedDeviceOptions& options)
      : FixedDeviceTable(device, options, nullptr) {}
  // The same with a cap, that of `memory`, which others share.
  FixedDeviceTable(DeviceMemory<Device>& memory, const FixedDeviceOptions& options)
      : FixedDeviceTable(memory.device(), options, &memory) {}

  ~FixedDeviceTable() {
    // A lost device has nothing left to wait for.
    try {
      order_.drain();
    } catch (const DeviceError&) {
    }
  }

  void run(const DeviceRequests& requests, Stream stream) {
    if (requests.rows == 0) return;
    check(requests);
    const std::lock_guard guard(mutex_);
    if (lost_) throw DeviceError("the table was lost when the device failed");
    try {
      if (requests.ops == nullptr && requests.op == DeviceOp::get) {
        get(requests, stream);
      } else {
        write(requests, stream);
      }
    } catch (const DeviceError&) {
      lost_ = true;
      device_.synchronize(stream);  // what was queued must not outlive the memory it works in
      throw;
    } catch (const std::bad_alloc&) {
      device_.synchronize(stream);  // nor run beside later calls, which do not wait for this one
      throw;
    }
  }

  // Grows for `entries` entries.
  void reserve(uint64_t entries) {
    const std::lock_guard guard(mutex_);
    order_.begin_write(stream_.get());
    reports_.take_all();
    if (reports_.known().entries == 0 && reports_.known().linked_lines == 0) {
      segments_.rebuild(entries, stream_.get());
    } else {
      segments_.grow(entries, view(), stream_.get());
    }
    order_.end_write(stream_.get());
  }

  // Takes the work space for parts of `rows` rows now, so that no later call fails for want of it;
  // that for fewer where memory is short. Throws std::bad_alloc.
  void reserve_workspace(uint32_t rows) {
    const std::lock_guard guard(mutex_);
    make_workspace(std::min(rows, most_part_rows_));
  }

  // Where a walk leaves what it finds: memory that the device writes and the host reads.
  struct ScanRoom {
    uint64_t* hashes;
    uint64_t* values;
    uint64_t entries;
    ScanResult* result;
  };
  // Queues a walk over about `lines` lines at most from `bound` on, until it has `wanted` entries;
  // see device/gpu/scan_kernel.h. A key is unmix(hash, seed).
  void scan(uint64_t bound, uint64_t lines, uint64_t wanted, const ScanRoom& room, Stream stream) {
    const std::lock_guard guard(mutex_);
    order_.begin_read(stream);
    const ScanKernel kernel{view(),       bound,       lines,       wanted,
                            room.entries, room.hashes, room.values, room.result};
    require_device(device_.launch(stream, 1, ScanKernel::threads, kernel), "launch a walk");
    order_.end_read(stream);
  }

  DeviceTableStats stats() {
    const std::lock_guard guard(mutex_);
    order_.drain();
    reports_.take_all();
    const TableTotals& totals = reports_.known();
    const uint64_t workspace = workspace_ ? workspace_->bytes() : 0;
    return {totals.entries, memory_.used() - workspace, workspace, totals.linked_lines,
            segments_.count()};
  }

 private:
  static constexpr uint32_t threads = 256;
  // One in so many inserts needs an overflow line, at the loads that growth keeps; seldom more.
  static constexpr uint64_t inserts_per_line = 6;

  // What every table has once.
  struct Fixed {
    Bucket head;
    CountShard counts[CountShard::shards];
  };

  FixedDeviceTable(Device& device, const FixedDeviceOptions& options, DeviceMemory<Device>* shared)
      : options_(options),
        device_(device),
        most_part_rows_(options.max_part_rows),
        own_memory_(device, options.gpu_memory),
        memory_(shared != nullptr ? *shared : own_memory_),
        stream_(device),
        segments_(memory_, options.line_bits, stream_.get()),
        stock_(memory_, stream_.get()),
        fixed_(memory_, 1),
        order_(device),
        reports_(device) {
    if (fixed_.empty()) throw std::bad_alloc();
    require_device(device_.clear(stream_.get(), fixed_.data(), fixed_.bytes()) &&
                       device_.synchronize(stream_.get()),
                   "make the table");
  }

  // Totals of parts, as they arrive on the host.
  class Reports {
   public:
    explicit Reports(Device& device)
        : device_(device),
          memory_(static_cast<TableTotals*>(device.allocate_pinned(sizeof(TableTotals) * most))) {
      if (memory_ == nullptr) throw std::bad_alloc();
      for (auto& event : events_) event = device.create_event();
    }
    ~Reports() {
      for (auto& event : events_) device_.destroy_event(event);
      device_.release_pinned(memory_, sizeof(TableTotals) * most);
    }
    const TableTotals& known() const { return known_; }
    // Rows of the parts that have not reported.
    uint64_t rows_under_way() const { return rows_; }
    bool any_under_way() const { return !under_way_.empty(); }

    // Where the next part has to leave its totals; the device writes to host memory.
    TableTotals* next() {
      if (under_way_.size() == most) take_one();
      return memory_ + next_;
    }
    void expect(uint64_t rows, Stream stream) {
      require_device(device_.record(events_[next_], stream), "record an event");
      under_way_.push_back({next_, rows});
      next_ = (next_ + 1) % most;
      rows_ += rows;
    }
    void take_done() {
      while (!under_way_.empty() && device_.done(events_[under_way_.front().at])) take_one();
    }
    void take_all() {
      while (!under_way_.empty()) take_one();
    }
    // Waits for the oldest.
    void take_one() {
      const Expected& oldest = under_way_.front();
      require_device(device_.synchronize(events_[oldest.at]), "wait for a batch");
      known_ = memory_[oldest.at];
      rows_ -= oldest.rows;
      under_way_.pop_front();
    }

   private:
    static constexpr uint32_t most = 64;
    struct Expected {
      uint32_t at;
      uint64_t rows;
    };
    Device& device_;
    TableTotals* memory_;
    typename Device::Event events_[most];
    std::deque<Expected> under_way_;
    uint32_t next_ = 0;
    uint64_t rows_ = 0;
    TableTotals known_;
  };

  TableView view() const {
    return {segments_.view(), &fixed_.data()->head, options_.seed, stock_.view(),
            fixed_.data()->counts};
  }

  static void check(const DeviceRequests& requests) {
    if (requests.keys == nullptr) throw std::invalid_argument("requests without keys");
    if ((requests.values_out == nullptr) != (requests.found == nullptr)) {
      throw std::invalid_argument("values_out and found must both be given, or neither");
    }
    const bool gets = requests.ops == nullptr && requests.op == DeviceOp::get;
    if (gets && requests.found == nullptr) throw std::invalid_argument("gets without replies");
  }

  void get(const DeviceRequests& requests, Stream stream) {
    order_.begin_read(stream);
    constexpr uint32_t few = 2;
    if (requests.rows * (tile_lanes / few) <= uint64_t{device_.full_grid()} * threads / 2) {
      find<few>(requests, stream);
    } else {
      find<tile_lanes>(requests, stream);
    }
    order_.end_read(stream);
  }

  template <uint32_t rows_per_tile>
  void find(const DeviceRequests& requests, Stream stream) {
    const FindKernel<rows_per_tile> kernel{view(), requests.keys, requests.values_out,
                                           requests.found, requests.rows};
    constexpr uint32_t rows_per_block = threads / tile_lanes * rows_per_tile;
    const uint32_t grid = grid_for(device_, requests.rows, rows_per_block);
    require_device(device_.launch(stream, grid, threads, kernel), "launch a lookup");
  }

  void write(const DeviceRequests& requests, Stream stream) {
    order_.begin_write(stream);
    const uint32_t rows =
        make_workspace(static_cast<uint32_t>(std::min<uint64_t>(requests.rows, most_part_rows_)));
    for (uint64_t first = 0; first < requests.rows; first += rows) {
      BatchView part = part_of(requests, first, rows);
      make_room(part.rows, stream);
      const bool mixed = requests.ops != nullptr;
      workspace_->run(view(), part, mixed, mixed || !is_constant(requests.op), totals(false),
                      stream);
      reports_.expect(part.rows, stream);
    }
    order_.end_write(stream);
  }

  // Makes sure of a workspace for parts of `rows` rows, or of fewer where memory is short; of how
  // many. Throws std::bad_alloc where there is no room for the least.
  uint32_t make_workspace(uint32_t rows) {
    if (workspace_ && workspace_->rows() >= rows) return rows;
    constexpr uint32_t least = 1 << 10;
    constexpr uint32_t common = 1 << 16;
    order_.drain();
    workspace_.reset();
    uint32_t wanted = std::min(std::max(rows, common), options_.max_part_rows);
    for (;; wanted /= 2) {
      workspace_.emplace(memory_, wanted);
      if (workspace_->rows() != 0) break;
      workspace_.reset();
      if (wanted <= least) throw std::bad_alloc();
      most_part_rows_ = wanted / 2;
    }
    return std::min(rows, wanted);
  }

  static BatchView part_of(const DeviceRequests& requests, uint64_t first, uint32_t rows) {
    const auto from = [&](auto* column) { return column != nullptr ? column + first : nullptr; };
    BatchView part;
    part.rows = static_cast<uint32_t>(std::min<uint64_t>(rows, requests.rows - first));
    part.ops = from(requests.ops);
    part.op = requests.op;
    part.keys = from(requests.keys);
    part.values = from(requests.values);
    part.expected = from(requests.expected);
    part.values_out = from(requests.values_out);
    part.found = from(requests.found);
    return part;
  }

  void make_room(uint64_t rows, Stream stream) {
    reports_.take_done();
    const auto entries = [&] {
      return reports_.known().entries + reports_.rows_under_way() + rows;
    };
    while (!segments_.fits(entries()) && reports_.any_under_way()) reports_.take_one();
    if (!segments_.fits(entries())) {
      segments_.grow(entries(), view(), stream);
      shelve({}, stream);
    }
    const auto short_of_lines = [&] {
      const uint64_t wanted = (reports_.rows_under_way() + rows) / inserts_per_line + 1;
      const uint64_t free = reports_.known().free_lines;
      return wanted > free ? wanted - free : 0;
    };
    while (short_of_lines() != 0 && reports_.any_under_way()) reports_.take_one();
    if (const uint64_t lines = short_of_lines(); lines != 0) {
      shelve(stock_.add(lines * 2, stream), stream);
      reports_.take_all();
    }
  }

  // Puts lines that were returned, and fresh ones, into the stock.
  void shelve(typename DeviceStock<Device>::Fresh fresh, Stream stream) {
    const uint32_t grid = std::max(device_.full_grid() / 4, 1u);
    const ShelveKernel kernel{view(), fresh.lines, fresh.count};
    require_device(device_.launch(stream, grid, threads, kernel), "launch the stock's kernel");
    require_device(device_.launch(stream, 1, TotalsKernel::threads, TotalsKernel{totals(true)}),
                   "launch the totals");
    reports_.expect(0, stream);
  }

  Totals totals(bool shelved) { return {view(), stock_.lines(), shelved, reports_.next()}; }

  const FixedDeviceOptions options_;
  Device& device_;
  std::mutex mutex_;         // all below
  uint32_t most_part_rows_;  // less than the option's where memory was short
  DeviceMemory<Device> own_memory_;
  DeviceMemory<Device>& memory_;
  DeviceStream<Device> stream_;
  DeviceSegments<Device> segments_;
  DeviceStock<Device> stock_;
  DeviceArray<Device, Fixed> fixed_;
  bool lost_ = false;  // after a failure nothing that is there can be relied on
  CallOrder<Device> order_;
  Reports reports_;
  std::optional<BatchWorkspace<Device>> workspace_;
};

}  // namespace isotherm
