// ModelledDeviceTable: a table on a device beside a model of it on the host
// (tests/models/table_model.h).
#pragma once

#include <cstdint>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/transfer/awaited_gets.h"
#include "gpu/transfer/host_pipeline.h"
#include "gpu/transfer/pinned_gets.h"
#include "models/table_model.h"

namespace isotherm {

// `Options` have the seed of hashes, or those of the table that do.
template <class Device, class Table = FixedDeviceTable<Device>, class Options = FixedDeviceOptions>
class ModelledDeviceTable {
 public:
  ModelledDeviceTable(Device& device, const Options& options)
      : device_(device),
        memory_(device, 0),
        options_(options),
        table_(device, options),
        stream_(device.create_stream()) {}
  // The table takes its memory from `shared`.
  ModelledDeviceTable(DeviceMemory<Device>& shared, const Options& options)
      : device_(shared.device()),
        memory_(device_, 0),
        options_(options),
        table_(shared, options),
        stream_(device_.create_stream()) {}
  ~ModelledDeviceTable() { device_.destroy_stream(stream_); }

  uint64_t wrong() const { return model_.wrong(); }
  uint64_t refused() const { return model_.refused(); }
  const std::unordered_map<uint64_t, uint64_t>& model() const { return model_.entries(); }
  Table& table() { return table_; }
  uint64_t key_of(uint64_t hash) const { return unmix(hash, seed()); }

  void fail(const std::string& what) { model_.fail(what); }

  // `distinct_keys`: the call promises it.
  void run(const std::vector<DeviceRequest>& requests, bool distinct_keys = false) {
    Columns columns(memory_, stream_, requests.size());
    columns.upload(requests);
    TableRequests call = columns.call();
    call.distinct_keys = distinct_keys;
    table_.run(call, stream_);
    columns.download();
    model_.compare(requests, columns.host_values, columns.host_found);
  }

  // All of one kind, without the column of operations; `replies`: whether the call asks for them.
  void run_uniform(TableOp op, const std::vector<DeviceRequest>& requests, bool replies,
                   bool distinct_keys = false) {
    Columns columns(memory_, stream_, requests.size());
    columns.upload(requests);
    TableRequests call = columns.uniform_call(op, replies);
    call.distinct_keys = distinct_keys;
    table_.run(call, stream_);
    columns.download();
    if (replies) {
      model_.compare(requests, columns.host_values, columns.host_found);
    } else {
      for (const DeviceRequest& request : requests) model_.apply_request(request);
    }
  }

  // From arrays in host memory.
  void run_host(const std::vector<DeviceRequest>& requests) {
    HostRequests columns(requests);
    HostPipeline(device_, table_).run(columns.call());
    model_.compare(requests, columns.values_out, columns.found);
  }
  // The same by express, in one step or in two; false where the table wants it to go another way.
  bool run_express(const std::vector<DeviceRequest>& requests, bool in_steps = false) {
    HostRequests columns(requests);
    if (in_steps) {
      if (!table_.post(columns.call())) return false;
      while (!table_.ready()) {
      }
      table_.take();
    } else if (!table_.express(columns.call())) {
      return false;
    }
    model_.compare(requests, columns.values_out, columns.found);
    return true;
  }

  // Gets, from pinned memory.
  void get_pinned(const std::vector<DeviceRequest>& requests) {
    const PinnedRequests<Device> pinned(device_, requests);
    PinnedGets gets(device_, table_);
    gets.run(pinned.call(), stream_);
    require_device(device_.synchronize(stream_), "wait");
    model_.compare(requests, pinned.values(), pinned.found());
  }

  // The same, which `gets` awaits.
  void get_awaited(AwaitedGets<Device, Table>& gets, const std::vector<DeviceRequest>& requests) {
    const PinnedRequests<Device> pinned(device_, requests);
    gets.run(pinned.call());
    model_.compare(requests, pinned.values(), pinned.found());
  }

  // Reads back every key of the model, and the count.
  void check_all() {
    std::vector<DeviceRequest> requests;
    for (const auto& [key, value] : model()) requests.push_back({TableOp::get, key, 0, 0});
    if (!requests.empty()) run_uniform(TableOp::get, requests, true);
    const uint64_t entries = table_.stats().entries;
    if (entries != model().size()) {
      fail(std::to_string(entries) + " entries, not " + std::to_string(model().size()));
    }
  }

 private:
  using Columns = UploadedRequests<Device>;

  uint64_t seed() const {
    if constexpr (requires { options_.seed; }) {
      return options_.seed;
    } else {
      return options_.table.seed;
    }
  }

  Device& device_;
  DeviceMemory<Device> memory_;
  const Options options_;
  Table table_;
  typename Device::Stream stream_;
  TableModel model_;
};

}  // namespace isotherm
