// ModelledRows: a table of rows beside a model of it, on one device or more; all calls by arrays of
// a device. See tests/device_checks/device_row_checks.h.
#pragma once

#include <array>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <random>
#include <span>
#include <unordered_map>
#include <vector>

#include "device_checks/device_table_checks.h"
#include "gpu/rows/split_row_store.h"

namespace isotherm {

// On one device or more: each call comes from one of them, drawn at random.
template <class Device>
class ModelledRows {
 public:
  using Devices = std::span<Device* const>;

  ModelledRows(Devices devices, const DeviceRowOptions& options)
      : units_(options.row_bytes / sizeof(Pair)), store_(devices, options) {
    for (Device* device : devices) {
      require_device(device->enter(), "choose the GPU");
      homes_.push_back(std::make_unique<Home>(*device));
    }
  }
  ModelledRows(Device& device, const DeviceRowOptions& options)
      : ModelledRows(Devices(std::array<Device*, 1>{&device}), options) {}

  uint64_t wrong() const { return wrong_; }
  uint64_t refused() const { return refused_; }
  gpu::TableStats stats() { return store_.stats(); }
  void reserve(uint64_t entries) { store_.reserve(entries); }

  // Rows filled with the number of the put and the row's own.
  void put(const std::vector<uint64_t>& keys, bool ask) {
    choose_home();
    ++puts_;
    std::vector<Pair> rows(keys.size() * units_);
    for (uint64_t i = 0; i < rows.size(); ++i) rows[i] = {puts_, i};
    DeviceArray<Device, uint64_t> to_keys = upload(keys);
    DeviceArray<Device, Pair> to_rows = upload(rows);
    DeviceArray<Device, uint8_t> stored = upload(std::vector<uint8_t>(keys.size(), 0));
    run({gpu::RowOp::put, keys.size(), to_keys.data(), to_rows.data(),
         ask ? stored.data() : nullptr});
    const std::vector<uint8_t> replies = download(stored);
    for (uint64_t i = 0; i < keys.size(); ++i) {
      if (ask && replies[i] == reply_retry) {
        ++refused_;
        if (model_.count(keys[i]) != 0) fail("a present key was refused");
        continue;
      }
      if (ask && replies[i] != 1) fail("no reply to a put");
      model_[keys[i]] = {puts_, i * units_};
    }
  }

  // Rows of absent keys stay, others are read. Every key of the batch may be refused.
  void get_or_insert(const std::vector<uint64_t>& keys) {
    choose_home();
    ++puts_;
    std::vector<Pair> rows(keys.size() * units_);
    for (uint64_t i = 0; i < rows.size(); ++i) rows[i] = {puts_, i};
    DeviceArray<Device, uint64_t> to_keys = upload(keys);
    DeviceArray<Device, Pair> to_rows = upload(rows);
    DeviceArray<Device, uint8_t> to_found = upload(std::vector<uint8_t>(keys.size(), 9));
    run({gpu::RowOp::get_or_insert, keys.size(), to_keys.data(), to_rows.data(), to_found.data()});
    const std::vector<Pair> got = download(to_rows);
    const std::vector<uint8_t> found = download(to_found);
    for (uint64_t i = 0; i < keys.size(); ++i) {
      const bool present = model_.count(keys[i]) != 0;
      if (found[i] == reply_retry && !present) {
        ++refused_;
        continue;
      }
      if (found[i] != static_cast<uint8_t>(present)) fail("found a row or missed it");
      if (!present) model_[keys[i]] = {puts_, i * units_};
      const Pair first = model_.at(keys[i]);
      for (uint64_t u = 0; u < units_; ++u) {
        if (got[i * units_ + u] != Pair{first.first, first.second + u}) fail("a row is wrong");
      }
    }
  }

  void erase(const std::vector<uint64_t>& keys) {
    choose_home();
    DeviceArray<Device, uint64_t> to_keys = upload(keys);
    run({gpu::RowOp::erase, keys.size(), to_keys.data(), nullptr, nullptr});
    download(to_keys);
    for (const uint64_t key : keys) model_.erase(key);
  }

  void get(const std::vector<uint64_t>& keys) {
    choose_home();
    constexpr Pair untouched{0xabab, 0xcdcd};
    DeviceArray<Device, uint64_t> to_keys = upload(keys);
    DeviceArray<Device, Pair> to_rows = upload(std::vector<Pair>(keys.size() * units_, untouched));
    DeviceArray<Device, uint8_t> to_found = upload(std::vector<uint8_t>(keys.size(), 9));
    run({gpu::RowOp::get, keys.size(), to_keys.data(), to_rows.data(), to_found.data()});
    const std::vector<Pair> rows = download(to_rows);
    const std::vector<uint8_t> found = download(to_found);
    for (uint64_t i = 0; i < keys.size(); ++i) {
      const auto at = model_.find(keys[i]);
      const bool present = at != model_.end();
      if (found[i] != static_cast<uint8_t>(present)) fail("found a row or missed it");
      for (uint64_t u = 0; u < units_; ++u) {
        const Pair right = present ? Pair{at->second.first, at->second.second + u} : untouched;
        if (rows[i * units_ + u] == right) continue;
        fail("a row is not the one that was put");
        break;
      }
    }
  }

  // The keys of a walk in steps of about so many.
  std::vector<uint64_t> walk(uint64_t step) {
    std::vector<uint64_t> keys;
    uint64_t cursor = 0;
    do {
      cursor = store_.scan(cursor, step, [&](uint64_t key) { keys.push_back(key); });
    } while (cursor != 0);
    return keys;
  }

  void check_all() {
    std::vector<uint64_t> keys;
    for (const auto& [key, row] : model_) keys.push_back(key);
    get(keys);
    if (stats().entries != model_.size()) fail("the count is wrong");
  }
  void fail(const char* what) {
    if (++wrong_ <= 10) std::printf("  %s\n", what);
  }

 private:
  // Where a call comes from.
  struct Home {
    explicit Home(Device& its_device)
        : device(its_device), memory(its_device, 0), stream(its_device) {}
    Device& device;
    DeviceMemory<Device> memory;
    DeviceStream<Device> stream;
  };
  Home& home() { return *homes_[home_]; }
  void choose_home() {
    home_ = static_cast<uint32_t>(random_() % homes_.size());
    require_device(home().device.enter(), "choose the GPU");
  }
  void run(const gpu::RowRequests& call) { store_.run(call, home_, home().stream.get()); }

  template <class T>
  DeviceArray<Device, T> upload(const std::vector<T>& from) {
    return upload_to(home().device, home().memory, home().stream.get(), from);
  }
  template <class T>
  std::vector<T> download(const DeviceArray<Device, T>& from) {
    require_device(home().device.enter(), "choose the GPU");
    std::vector<T> to(from.size());
    const auto stream = home().stream.get();
    require_device(home().device.to_host(stream, to.data(), from.data(), from.bytes()) &&
                       home().device.synchronize(stream),
                   "copy");
    return to;
  }

  const uint64_t units_;
  std::vector<std::unique_ptr<Home>> homes_;
  uint32_t home_ = 0;  // of the call
  std::mt19937_64 random_{1};
  SplitRowStore<Device> store_;
  std::unordered_map<uint64_t, Pair> model_;  // what the first unit of the row holds
  uint64_t puts_ = 0;
  uint64_t wrong_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace isotherm
