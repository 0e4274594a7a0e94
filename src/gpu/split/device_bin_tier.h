// DeviceBinTier: a fixed-width table in device memory as one side of an index that the host shares
// (gpu/split/bin_tier.h).
//
// Every function waits for what it has queued. Threads. One at a time; the device has been entered.
#pragma once

#include <cstdint>
#include <cstring>
#include <optional>
#include <span>

#include "gpu/kernel/request_columns.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/split/bin_tier.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/table/table_scan.h"

namespace isotherm {

template <class Device>
class DeviceBinTier final : public BinTier {
 public:
  // `table` must outlive it. Throws std::bad_alloc.
  DeviceBinTier(Device& device, FixedDeviceTable<Device>& table, uint64_t seed)
      : device_(device), table_(table), seed_(seed), stream_(device), scan_(device) {}

  bool has_room(uint64_t rows) override { return table_.has_room(rows); }
  int least_bin_bits() override { return table_.least_depth(); }
  void drop(const HashBin& bin) override { table_.drop(bin); }
  bool restore(const HashBin& bin) override { return table_.restore(bin); }

  uint64_t scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                const std::function<void(uint64_t key, uint64_t word)>& visit) override {
    return scan_.run(table_, seed_, bound, lines, wanted, stream_.get(), visit);
  }

  bool put(std::span<const Entry> entries) override {
    if (entries.empty()) return true;
    make_room(entries.size());
    for (size_t i = 0; i < entries.size(); ++i) {
      columns_.keys()[i] = entries[i].key;
      columns_.values()[i] = entries[i].word;
      columns_.ops()[i] = TableOp::put;
    }
    run(entries.size());
    if (std::memchr(columns_.found(), reply_retry, entries.size()) == nullptr) return true;
    for (size_t i = 0; i < entries.size(); ++i) columns_.ops()[i] = TableOp::erase;
    run(entries.size());
    return false;
  }

  uint64_t pinned_bytes() const { return scan_.pinned_bytes() + (memory_ ? memory_->bytes() : 0); }

 private:
  void make_room(uint64_t rows) {
    if (rows <= columns_.rows) return;
    table_.end_express();
    columns_ = {};
    memory_.reset();
    memory_.emplace(device_, rows * RequestColumns::row_bytes);
    columns_ = {memory_->data(), rows};
  }

  void run(uint64_t rows) {
    TableRequests requests;
    requests.rows = rows;
    requests.ops = columns_.ops();
    requests.keys = columns_.keys();
    requests.values = columns_.values();
    requests.values_out = columns_.values_out();
    requests.found = columns_.found();
    requests.distinct_keys = true;
    table_.run(requests, stream_.get());
    require_device(device_.synchronize(stream_.get()), "wait for entries that move");
  }

  Device& device_;
  FixedDeviceTable<Device>& table_;
  const uint64_t seed_;
  DeviceStream<Device> stream_;
  TableScan<Device> scan_;
  std::optional<PinnedBlock<Device>> memory_;  // of the columns
  RequestColumns columns_;
};

}  // namespace isotherm
