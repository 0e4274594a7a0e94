// DeviceRootTable: a RootTier (gpu/store/root_tier.h) in the memory of any device.
//
// The fewest rows go by express (gpu/express/express.h), if the device has nothing else to do. A
// few more keys are read, and their roots written, by the kernel in pinned memory directly, which
// takes one launch; many go over the bus in parts (gpu/transfer/pinned_gets.h).
//
// Threads. One at a time; the device is entered by every call, since callers' threads differ.
#pragma once

#include <algorithm>
#include <cstring>
#include <optional>
#include <span>

#include "gpu/platform/device_event.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/store/device_value_tier.h"
#include "gpu/store/root_tier.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/table/table_scan.h"
#include "gpu/transfer/pinned_gets.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
class DeviceRootTable : public RootTier {
 public:
  // `device` must outlive it.
  DeviceRootTable(Device& device, const FixedDeviceOptions& options,
                  const ValueChannelOptions& channels = {})
      : device_(entered(device)),
        options_(options),
        channels_(channels),
        stream_(device),
        found_(device),
        scan_(device) {
    make_table();
  }
  ~DeviceRootTable() override {
    enter();
    gets_.reset();
    table_.reset();
  }

  int memory_node() const override { return device_.memory_node(); }
  std::unique_ptr<ValueTier> make_values(uint64_t bytes, uint64_t cap) override {
    enter();
    return std::make_unique<DeviceValueTier<Device>>(device_, bytes, channels_.within(cap));
  }

  const RootColumns& columns(uint64_t rows) override {
    if (rows <= columns_.rows) return columns_;
    enter();
    settle_changes();
    table_->end_express();
    constexpr uint64_t least = 1 << 12;
    const uint64_t room = std::max({least, rows, columns_.rows * 2});
    columns_ = {};
    memory_.reset();
    memory_.emplace(device_, room * row_bytes);
    char* at = memory_->data();
    const auto column = [&](auto** to, uint64_t bytes) {
      *to = reinterpret_cast<std::remove_pointer_t<decltype(to)>>(at);
      at += bytes;
    };
    column(&columns_.keys, room * sizeof(uint64_t));
    column(&columns_.roots, room * sizeof(Location));
    column(&columns_.changed_keys, room * sizeof(uint64_t));
    column(&columns_.changed_roots, room * sizeof(Location));
    column(&replies_, room * sizeof(uint64_t));
    column(&columns_.found, room);
    column(&ops_, room);
    column(&changed_, room);
    columns_.rows = room;
    return columns_;
  }

  void find(uint64_t rows) override {
    enter();
    TableRequests requests;
    requests.rows = rows;
    requests.keys = columns_.keys;
    requests.values_out = columns_.roots;
    requests.found = columns_.found;
    by_express_ = table_->post(requests);
    if (by_express_) return;
    by_stream_ = true;
    marked_ = false;
    if (rows > most_direct && make_gets()) {
      gets_->run(requests, stream_.get());
    } else {
      table_->run(requests, stream_.get());
    }
  }

  void wait() override {
    enter();
    if (by_express_) {
      table_->take();
    } else {
      require_device(device_.synchronize(stream_.get()), "wait for lookups");
    }
    by_stream_ = false;
    check_changes();
  }

  // The mark that shows the end of lookups by the stream is made for the first who asks.
  bool ready() override {
    enter();
    if (!table_->ready()) return false;
    if (!by_stream_) return true;
    if (!std::exchange(marked_, true)) {
      require_device(device_.record(found_.get(), stream_.get()), "record an event");
    }
    return device_.done(found_.get()) || !device_.healthy(stream_.get());
  }

  bool changes_at_once(uint64_t rows) override {
    enter();
    return changes_ == 0 && table_->writes_at_once(rows);
  }

  void change(uint64_t rows) override {
    if (rows == 0) return;
    enter();
    settle_changes();
    for (uint64_t row = 0; row < rows; ++row) {
      ops_[row] = columns_.changed_roots[row] != location::none ? TableOp::put : TableOp::erase;
    }
    TableRequests requests;
    requests.rows = rows;
    requests.ops = ops_;
    requests.keys = columns_.changed_keys;
    requests.values = columns_.changed_roots;
    requests.values_out = replies_;
    requests.found = changed_;
    requests.distinct_keys = true;
    if (!table_->post(requests)) table_->run(requests, stream_.get());
    changes_ = rows;
  }

  uint64_t scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                const std::function<void(uint64_t key, uint64_t word)>& visit) override {
    enter();
    settle_changes();
    return scan_.run(*table_, options_.seed, bound, lines, wanted, stream_.get(), visit);
  }

  // A tier whose memory ends otherwise says so when the change is checked.
  bool put(std::span<const Entry> entries) override {
    const RootColumns& columns = this->columns(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      columns.changed_keys[i] = entries[i].key;
      columns.changed_roots[i] = entries[i].word;
    }
    change(entries.size());
    return true;
  }

  void clear() override {
    enter();
    settle_changes();
    gets_.reset();
    table_.reset();
    make_table();
  }

  uint64_t pinned_bytes() const override {
    return (memory_ ? memory_->bytes() : 0) + scan_.pinned_bytes();
  }

  bool has_room(uint64_t rows) override {
    enter();
    settle_changes();
    return table_->has_room(rows);
  }
  int least_bin_bits() override { return table_->least_depth(); }
  void drop(const HashBin& bin) override {
    enter();
    settle_changes();
    table_->drop(bin);
  }
  bool restore(const HashBin& bin) override {
    enter();
    settle_changes();
    return table_->restore(bin);
  }

  uint64_t device_bytes() override {
    enter();
    const gpu::TableStats stats = table_->stats();
    return stats.bytes + stats.workspace;
  }

 private:
  static constexpr uint64_t most_direct = 1 << 14;
  static constexpr uint64_t row_bytes = 5 * sizeof(uint64_t) + 3;

  // Under a cap its work space is taken at once, before the index has taken all memory.
  void make_table() {
    table_.emplace(device_, options_);
    constexpr uint32_t rows = 1 << 16;
    if (options_.gpu_memory != 0) table_->reserve_workspace(rows);
  }

  // False where the device has no memory for them; the direct way needs none.
  bool make_gets() {
    try {
      if (!gets_) gets_.emplace(device_, *table_);
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  // A device is chosen by each thread.
  void enter() { device_.enter(); }
  static Device& entered(Device& device) {
    device.enter();
    return device;
  }

  // Waits for changes that are under way, whose columns are about to be used again.
  void settle_changes() {
    if (changes_ == 0) return;
    table_->take();
    require_device(device_.synchronize(stream_.get()), "wait for changes");
    check_changes();
  }
  // Changes that have ended: each must have found a place.
  void check_changes() {
    const uint64_t rows = std::exchange(changes_, 0);
    if (rows != 0 && std::memchr(changed_, reply_retry, rows) != nullptr) {
      throw DeviceError("the memory of the device is full");
    }
  }

  Device& device_;
  const FixedDeviceOptions options_;
  const ValueChannelOptions channels_;
  DeviceStream<Device> stream_;
  DeviceEvent<Device> found_;
  std::optional<FixedDeviceTable<Device>> table_;
  std::optional<PinnedGets<Device>> gets_;     // made when first needed
  std::optional<PinnedBlock<Device>> memory_;  // of the columns
  RootColumns columns_;
  uint64_t* replies_ = nullptr;
  TableOp* ops_ = nullptr;
  uint8_t* changed_ = nullptr;
  uint64_t changes_ = 0;     // under way
  bool by_express_ = false;  // the lookups under way
  bool by_stream_ = false;   // the same
  bool marked_ = false;      // and there is an event behind them
  TableScan<Device> scan_;
};

}  // namespace isotherm
