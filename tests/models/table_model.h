// TableModel: what a table of u64 keys and values must hold and answer, on the host; and requests
// as columns on either side, for tests.
//
// Every batch is run one request after another on the model; each reply must be the model's. A
// group of requests on one key may be refused whole where memory is full: then the model leaves the
// key alone.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "gpu/kernel/request_columns.h"
#include "gpu/kernel/request_op.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/pinned_block.h"

namespace isotherm {

struct DeviceRequest {
  TableOp op = TableOp::get;
  uint64_t key = 0;
  uint64_t value = 0;
  uint64_t expected = 0;
};

class TableModel {
 public:
  // In the columns of replies before a call.
  static constexpr uint64_t untouched = 0xabababababababab;

  uint64_t wrong() const { return wrong_; }
  uint64_t refused() const { return refused_; }
  const std::unordered_map<uint64_t, uint64_t>& entries() const { return model_; }

  void fail(const std::string& what) {
    if (++wrong_ <= 10) std::printf("  %s\n", what.c_str());
  }

  // The state before.
  KeyState apply_request(const DeviceRequest& request) {
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
      const KeyState before = apply_request(requests[i]);
      const uint64_t value = before.found != 0 ? before.value : untouched;
      if (found[i] == before.found && values[i] == value) continue;
      fail("row " + std::to_string(i) + " of " + std::to_string(requests.size()) + ": operation " +
           std::to_string(static_cast<int>(requests[i].op)) + " key " +
           std::to_string(requests[i].key) + " found " + std::to_string(found[i]) + " value " +
           std::to_string(values[i]) + ", not " + std::to_string(before.found) + " " +
           std::to_string(value));
    }
  }

 private:
  KeyState state_of(uint64_t key) const {
    const auto at = model_.find(key);
    return at == model_.end() ? KeyState{} : KeyState{at->second, 1};
  }

  std::unordered_map<uint64_t, uint64_t> model_;
  uint64_t wrong_ = 0;
  uint64_t refused_ = 0;
};

// Requests and their replies as columns in host memory.
struct HostRequests {
  explicit HostRequests(const std::vector<DeviceRequest>& requests)
      : values_out(requests.size(), TableModel::untouched), found(requests.size(), 0x77) {
    for (const DeviceRequest& request : requests) {
      ops.push_back(request.op);
      keys.push_back(request.key);
      values.push_back(request.value);
      expected.push_back(request.expected);
    }
  }
  TableRequests call() {
    TableRequests call;
    call.rows = ops.size();
    call.ops = ops.data();
    call.keys = keys.data();
    call.values = values.data();
    call.expected = expected.data();
    call.values_out = values_out.data();
    call.found = found.data();
    return call;
  }

  std::vector<TableOp> ops;
  std::vector<uint64_t> keys, values, expected, values_out;
  std::vector<uint8_t> found;
};

// Gets and their replies as columns in pinned memory.
template <class Device>
struct PinnedRequests {
  PinnedRequests(Device& device, const std::vector<DeviceRequest>& requests)
      : block(device, requests.size() * RequestColumns::row_bytes),
        columns{block.data(), requests.size()} {
    for (uint64_t i = 0; i < requests.size(); ++i) columns.keys()[i] = requests[i].key;
    std::fill_n(columns.values_out(), requests.size(), TableModel::untouched);
  }
  TableRequests call() const {
    TableRequests call;
    call.rows = columns.rows;
    call.keys = columns.keys();
    call.values_out = columns.values_out();
    call.found = columns.found();
    return call;
  }
  std::vector<uint64_t> values() const {
    return {columns.values_out(), columns.values_out() + columns.rows};
  }
  std::vector<uint8_t> found() const { return {columns.found(), columns.found() + columns.rows}; }

  PinnedBlock<Device> block;
  const RequestColumns columns;
};

template <class Device>
struct UploadedRequests {
  UploadedRequests(DeviceMemory<Device>& memory, typename Device::Stream its_stream, uint64_t rows)
      : device(memory.device()),
        stream(its_stream),
        ops(memory, rows),
        keys(memory, rows),
        values(memory, rows),
        expected(memory, rows),
        values_out(memory, rows),
        found(memory, rows),
        host_values(rows, TableModel::untouched),
        host_found(rows, 0x77) {}
  // Also after a call that threw, whose first kernels may still be under way.
  ~UploadedRequests() { device.synchronize(stream); }

  // All columns.
  TableRequests call() const {
    TableRequests call;
    call.rows = host_found.size();
    call.ops = ops.data();
    call.keys = keys.data();
    call.values = values.data();
    call.expected = expected.data();
    call.values_out = values_out.data();
    call.found = found.data();
    return call;
  }
  // Of one kind, without the column of operations; `replies`: whether the call asks for them.
  TableRequests uniform_call(TableOp op, bool replies) const {
    TableRequests call;
    call.rows = host_found.size();
    call.op = op;
    call.keys = keys.data();
    if (op != TableOp::get && op != TableOp::erase) call.values = values.data();
    if (op == TableOp::compare_and_swap) call.expected = expected.data();
    if (replies) {
      call.values_out = values_out.data();
      call.found = found.data();
    }
    return call;
  }

  void upload(const std::vector<DeviceRequest>& requests) {
    const HostRequests from_host(requests);
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
  DeviceArray<Device, TableOp> ops;
  DeviceArray<Device, uint64_t> keys;
  DeviceArray<Device, uint64_t> values;
  DeviceArray<Device, uint64_t> expected;
  DeviceArray<Device, uint64_t> values_out;
  DeviceArray<Device, uint8_t> found;
  std::vector<uint64_t> host_values;
  std::vector<uint8_t> host_found;
};

}  // namespace isotherm
