// ModelledDeviceTable: a table on a device beside a model of it on the host.
//
// Every batch is also run one request after another on the model; each reply must be the model's.
// A group of requests on one key may be refused whole where memory is full: then the model leaves
// the key alone.
#pragma once

#include <cstdint>
#include <cstdio>
#include <cstring>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "device/gpu/host_pipeline.h"
#include "device/gpu/pinned_gets.h"

namespace isotherm {

struct DeviceRequest {
  DeviceOp op = DeviceOp::get;
  uint64_t key = 0;
  uint64_t value = 0;
  uint64_t expected = 0;
};

template <class Device>
class ModelledDeviceTable {
 public:
  ModelledDeviceTable(Device& device, const FixedDeviceOptions& options)
      : device_(device),
        memory_(device, 0),
        options_(options),
        table_(device, options),
        stream_(device.create_stream()) {}
  ~ModelledDeviceTable() { device_.destroy_stream(stream_); }

  uint64_t wrong() const { return wrong_; }
  uint64_t refused() const { return refused_; }
  const std::unordered_map<uint64_t, uint64_t>& model() const { return model_; }
  FixedDeviceTable<Device>& table() { return table_; }
  uint64_t key_of(uint64_t hash) const { return unmix(hash, options_.seed); }

  void fail(const std::string& what) {
    if (++wrong_ <= 10) std::printf("  %s\n", what.c_str());
  }

  // `distinct_keys`: the call promises it.
  void run(const std::vector<DeviceRequest>& requests, bool distinct_keys = false) {
    const uint64_t rows = requests.size();
    Columns columns(memory_, stream_, rows);
    columns.upload(requests);
    DeviceRequests call;
    call.rows = rows;
    call.distinct_keys = distinct_keys;
    call.ops = columns.ops.data();
    call.keys = columns.keys.data();
    call.values = columns.values.data();
    call.expected = columns.expected.data();
    call.values_out = columns.values_out.data();
    call.found = columns.found.data();
    table_.run(call, stream_);
    columns.download();
    compare(requests, columns.host_values, columns.host_found);
  }

  // All of one kind, without the column of operations; `replies`: whether the call asks for them.
  void run_uniform(DeviceOp op, const std::vector<DeviceRequest>& requests, bool replies) {
    const uint64_t rows = requests.size();
    Columns columns(memory_, stream_, rows);
    columns.upload(requests);
    DeviceRequests call;
    call.rows = rows;
    call.op = op;
    call.keys = columns.keys.data();
    if (op != DeviceOp::get && op != DeviceOp::erase) call.values = columns.values.data();
    if (op == DeviceOp::compare_and_swap) call.expected = columns.expected.data();
    if (replies) {
      call.values_out = columns.values_out.data();
      call.found = columns.found.data();
    }
    table_.run(call, stream_);
    columns.download();
    if (replies) {
      compare(requests, columns.host_values, columns.host_found);
    } else {
      for (const DeviceRequest& request : requests) apply_to_model(request);
    }
  }

  // From arrays in host memory.
  void run_host(const std::vector<DeviceRequest>& requests) {
    HostColumns columns(requests);
    HostPipeline<Device>(device_, table_).run(columns.call());
    compare(requests, columns.values_out, columns.found);
  }
  // The same by express, in one step or in two; false where the table wants it to go another way.
  bool run_express(const std::vector<DeviceRequest>& requests, bool in_steps = false) {
    HostColumns columns(requests);
    if (in_steps) {
      if (!table_.post(columns.call())) return false;
      while (!table_.ready()) {
      }
      table_.take();
    } else if (!table_.express(columns.call())) {
      return false;
    }
    compare(requests, columns.values_out, columns.found);
    return true;
  }

  // Gets, from pinned memory.
  void get_pinned(const std::vector<DeviceRequest>& requests) {
    const uint64_t rows = requests.size();
    const uint64_t bytes = rows * (2 * sizeof(uint64_t) + 1);
    auto* keys = static_cast<uint64_t*>(device_.allocate_pinned(bytes));
    uint64_t* values = keys + rows;
    auto* found = reinterpret_cast<uint8_t*>(values + rows);
    for (uint64_t i = 0; i < rows; ++i) keys[i] = requests[i].key;
    std::fill_n(values, rows, untouched);
    DeviceRequests call;
    call.rows = rows;
    call.keys = keys;
    call.values_out = values;
    call.found = found;
    {
      PinnedGets<Device> gets(device_, table_);
      gets.run(call, stream_);
      require_device(device_.synchronize(stream_), "wait");
    }
    compare(requests, {values, values + rows}, {found, found + rows});
    device_.release_pinned(keys, bytes);
  }

  // Reads back every key of the model, and the count.
  void check_all() {
    std::vector<DeviceRequest> requests;
    for (const auto& [key, value] : model_) requests.push_back({DeviceOp::get, key, 0, 0});
    if (!requests.empty()) run_uniform(DeviceOp::get, requests, true);
    const uint64_t entries = table_.stats().entries;
    if (entries != model_.size()) {
      fail(std::to_string(entries) + " entries, not " + std::to_string(model_.size()));
    }
  }

 private:
  static constexpr uint64_t untouched = 0xabababababababab;

  // Requests and their replies as columns in host memory.
  struct HostColumns {
    explicit HostColumns(const std::vector<DeviceRequest>& requests)
        : values_out(requests.size(), untouched), found(requests.size(), 0x77) {
      for (const DeviceRequest& request : requests) {
        ops.push_back(request.op);
        keys.push_back(request.key);
        values.push_back(request.value);
        expected.push_back(request.expected);
      }
    }
    DeviceRequests call() {
      DeviceRequests call;
      call.rows = ops.size();
      call.ops = ops.data();
      call.keys = keys.data();
      call.values = values.data();
      call.expected = expected.data();
      call.values_out = values_out.data();
      call.found = found.data();
      return call;
    }

    std::vector<DeviceOp> ops;
    std::vector<uint64_t> keys, values, expected, values_out;
    std::vector<uint8_t> found;
  };

  struct Columns {
    Columns(DeviceMemory<Device>& memory, typename Device::Stream its_stream, uint64_t rows)
        : device(memory.device()),
          stream(its_stream),
          ops(memory, rows),
          keys(memory, rows),
          values(memory, rows),
          expected(memory, rows),
          values_out(memory, rows),
          found(memory, rows),
          host_values(rows, untouched),
          host_found(rows, 0x77) {}
    // Also after a call that threw, whose first kernels may still be under way.
    ~Columns() { device.synchronize(stream); }

    void upload(const std::vector<DeviceRequest>& requests) {
      const HostColumns from_host(requests);
      const auto copy = [&](auto& to, const auto& from) {
        require_device(device.to_device(stream, to.data(), from.data(), to.bytes()), "copy");
      };
      copy(ops, from_host.ops);
      copy(keys, from_host.keys);
      copy(values, from_host.values);
      copy(expected, from_host.expected);
      copy(values_out, host_values);
      copy(found, host_found);
      require_device(device.synchronize(stream), "copy");
    }
    void download() {
      require_device(
          device.to_host(stream, host_values.data(), values_out.data(), values_out.bytes()) &&
              device.to_host(stream, host_found.data(), found.data(), found.bytes()) &&
              device.synchronize(stream),
          "copy");
    }

    Device& device;
    typename Device::Stream stream;
    DeviceArray<Device, DeviceOp> ops;
    DeviceArray<Device, uint64_t> keys;
    DeviceArray<Device, uint64_t> values;
    DeviceArray<Device, uint64_t> expected;
    DeviceArray<Device, uint64_t> values_out;
    DeviceArray<Device, uint8_t> found;
    std::vector<uint64_t> host_values;
    std::vector<uint8_t> host_found;
  };

  KeyState state_of(uint64_t key) const {
    const auto at = model_.find(key);
    return at == model_.end() ? KeyState{} : KeyState{at->second, 1};
  }

  KeyState apply_to_model(const DeviceRequest& request) {
    const KeyState before = state_of(request.key);
    const KeyState after = apply(request.op, request.value, request.expected, before);
    if (after.found != 0) {
      model_[request.key] = after.value;
    } else {
      model_.erase(request.key);
    }
    return before;
  }

  void compare(const std::vector<DeviceRequest>& requests, const std::vector<uint64_t>& values,
               const std::vector<uint8_t>& found) {
    for (uint64_t i = 0; i < requests.size(); ++i) {
      if (found[i] == reply_retry) {
        ++refused_;
        if (!is_write(requests[i].op) || state_of(requests[i].key).found != 0) {
          fail("row " + std::to_string(i) + " was refused: operation " +
               std::to_string(static_cast<int>(requests[i].op)) +
               " on a key that is there: " + std::to_string(state_of(requests[i].key).found));
        }
        continue;
      }
      const KeyState before = apply_to_model(requests[i]);
      const uint64_t value = before.found != 0 ? before.value : untouched;
      if (found[i] == before.found && values[i] == value) continue;
      fail("row " + std::to_string(i) + " of " + std::to_string(requests.size()) + ": operation " +
           std::to_string(static_cast<int>(requests[i].op)) + " key " +
           std::to_string(requests[i].key) + " found " + std::to_string(found[i]) + " value " +
           std::to_string(values[i]) + ", not " + std::to_string(before.found) + " " +
           std::to_string(value));
    }
  }

  Device& device_;
  DeviceMemory<Device> memory_;
  const FixedDeviceOptions options_;
  FixedDeviceTable<Device> table_;
  typename Device::Stream stream_;
  std::unordered_map<uint64_t, uint64_t> model_;
  uint64_t wrong_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace isotherm
