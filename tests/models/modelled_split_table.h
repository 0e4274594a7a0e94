// ModelledSplitTable: a table over some devices, and the host, beside a model of it on the host
// (tests/models/table_model.h).
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "gpu/split/split_table.h"
#include "models/table_model.h"

namespace isotherm {

template <class Device>
class ModelledSplitTable {
  using Columns = UploadedRequests<Device>;

  // What a device has for its slices.
  struct Side {
    static constexpr uint32_t most_streams = 2;
    // The device has been entered.
    explicit Side(Device& its_device) : device(its_device), memory(its_device, 0) {}
    Device& device;
    DeviceMemory<Device> memory;
    DeviceStream<Device> streams[most_streams] = {DeviceStream<Device>(device),
                                                  DeviceStream<Device>(device)};
  };

 public:
  using Devices = std::span<Device* const>;
  using Stream = typename Device::Stream;
  using Slices = std::vector<std::vector<DeviceRequest>>;  // one for each device

  ModelledSplitTable(Devices devices, const SplitOptions& options)
      : seed_(options.table.seed), table_(devices, options) {
    for (Device* device : devices) {
      require_device(device->enter(), "enter");
      sides_.push_back(std::make_unique<Side>(*device));
    }
  }

  uint64_t wrong() const { return model_.wrong(); }
  uint64_t refused() const { return model_.refused(); }
  SplitTable<Device>& table() { return table_; }
  uint64_t key_of(uint64_t hash) const { return unmix(hash, seed_); }
  uint32_t shard(uint64_t key) const {
    return shard_of(key, seed_, static_cast<uint32_t>(sides_.size()));
  }
  void fail(const std::string& what) { model_.fail(what); }

  // A call that is under way: its slices and their columns.
  class Call {
   public:
    Call(ModelledSplitTable& table, Slices slices) : slices_(std::move(slices)) {
      for (size_t i = 0; i < slices_.size(); ++i) {
        Side& side = *table.sides_[i];
        require_device(side.device.enter(), "enter");
        columns_.push_back(slices_[i].empty() ? nullptr
                                              : std::make_unique<Columns>(
                                                    side.memory, side.streams[table.turn_].get(),
                                                    slices_[i].size()));
        if (columns_[i]) columns_[i]->upload(slices_[i]);
      }
    }

   private:
    friend class ModelledSplitTable;
    Slices slices_;
    std::vector<std::unique_ptr<Columns>> columns_;  // null without rows
  };

  // All columns are given; `distinct_keys`: the call promises it.
  Call start(Slices slices, bool distinct_keys = false) {
    turn_ = (turn_ + 1) % Side::most_streams;
    Call call(*this, std::move(slices));
    queue(call, [&](const Columns& columns) {
      TableRequests requests = columns.call();
      requests.distinct_keys = distinct_keys;
      return requests;
    });
    return call;
  }
  // Waits for the replies; calls are finished in the order of their starts.
  void finish(Call& call) {
    for (size_t i = 0; i < call.slices_.size(); ++i) {
      if (!call.columns_[i]) continue;
      call.columns_[i]->download();
      model_.compare(call.slices_[i], call.columns_[i]->host_values, call.columns_[i]->host_found);
    }
  }
  void run(Slices slices, bool distinct_keys = false) {
    Call call = start(std::move(slices), distinct_keys);
    finish(call);
  }

  // All of one kind, without the column of operations; `replies`: whether the call asks for them.
  void run_uniform(TableOp op, Slices slices, bool replies) {
    Call call(*this, std::move(slices));
    queue(call, [&](const Columns& columns) { return columns.uniform_call(op, replies); });
    if (replies) return finish(call);
    for (const auto& slice : call.slices_) {
      for (const DeviceRequest& request : slice) model_.apply_request(request);
    }
  }

  void run_host(const std::vector<DeviceRequest>& requests) {
    HostRequests columns(requests);
    table_.run_host(columns.call());
    model_.compare(requests, columns.values_out, columns.found);
  }

  // From arrays of the first device.
  void run_first(const std::vector<DeviceRequest>& requests) {
    on_first(requests,
             [&](const Columns& columns, Stream stream) { table_.run(columns.call(), stream); });
  }
  // Gets; the word that they set is there behind them.
  void get_marked(const std::vector<DeviceRequest>& requests) {
    Side& side = *sides_[0];
    require_device(side.device.enter(), "enter");
    const PinnedBlock<Device> word(side.device, sizeof(uint64_t));
    DeviceArray<Device, uint32_t> done(side.memory, 1);
    auto* at = reinterpret_cast<uint64_t*>(word.data());
    *at = 0;
    on_first(requests, [&](const Columns& columns, Stream stream) {
      require_device(side.device.clear(stream, done.data(), done.bytes()), "clear a count");
      table_.get_marked(columns.uniform_call(TableOp::get, true), {at, 7}, done.data(), stream);
    });
    if (*at != 7) fail("the end was not marked");
  }
  // A few, by express, in one step or in two; false where the table wants them to go another way.
  bool run_express(const std::vector<DeviceRequest>& requests, bool in_steps) {
    HostRequests columns(requests);
    const TableRequests call = columns.call();
    if (in_steps) {
      if (!table_.post(call)) return false;
      while (!table_.ready()) {
      }
      table_.take();
    } else if (!table_.express(call)) {
      return false;
    }
    model_.compare(requests, columns.values_out, columns.found);
    return true;
  }

  // In the order of a stream of the first device.
  void get_pinned_in_order(const std::vector<DeviceRequest>& requests) {
    Side& side = *sides_[0];
    require_device(side.device.enter(), "enter");
    const PinnedRequests<Device> pinned(side.device, requests);
    const Stream stream = side.streams[0].get();
    table_.get_pinned(pinned.call(), stream);
    require_device(side.device.synchronize(stream), "wait for replies");
    model_.compare(requests, pinned.values(), pinned.found());
  }
  void get_pinned(const std::vector<DeviceRequest>& requests) {
    const PinnedRequests<Device> pinned(sides_[0]->device, requests);
    table_.get_pinned(pinned.call());
    model_.compare(requests, pinned.values(), pinned.found());
  }

  // Reads back every key of the model from a slice of each device, and the count.
  void check_all() {
    Slices slices(sides_.size());
    for (const auto& [key, value] : model_.entries()) {
      slices[slices[0].size() % slices.size()].push_back({TableOp::get, key, 0, 0});
    }
    run_uniform(TableOp::get, std::move(slices), true);
    const uint64_t entries = table_.stats().entries;
    if (entries != model_.entries().size()) {
      fail(std::to_string(entries) + " entries, not " + std::to_string(model_.entries().size()));
    }
  }

 private:
  template <class Work>
  void on_first(const std::vector<DeviceRequest>& requests, Work&& work) {
    Side& side = *sides_[0];
    require_device(side.device.enter(), "enter");
    const Stream stream = side.streams[0].get();
    Columns columns(side.memory, stream, requests.size());
    columns.upload(requests);
    work(columns, stream);
    columns.download();
    model_.compare(requests, columns.host_values, columns.host_found);
  }

  template <class Requests>
  void queue(const Call& call, Requests&& requests) {
    std::vector<TableRequests> slices;
    std::vector<Stream> streams;
    for (size_t i = 0; i < sides_.size(); ++i) {
      slices.push_back(call.columns_[i] ? requests(*call.columns_[i]) : TableRequests{});
      streams.push_back(sides_[i]->streams[turn_].get());
    }
    table_.run(slices, streams);
  }

  const uint64_t seed_;
  SplitTable<Device> table_;
  std::vector<std::unique_ptr<Side>> sides_;
  uint32_t turn_ = 0;  // the streams of the last call
  TableModel model_;
};

}  // namespace isotherm
