// Checks of tables with an index of a fixed size (gpu/kernel/cache_kind.h), for any device: those
// of all tables, as far as nothing is evicted, and what eviction must keep to. Read
// tests/device_checks/device_table_checks.h first.
#pragma once

#include <algorithm>
#include <string>
#include <type_traits>
#include <vector>

#include "device_checks/device_table_checks.h"
#include "gpu/table/cache_owner.h"
#include "isotherm/gpu/common.h"
#include "models/cache_model.h"

namespace isotherm {

// A table beside a model that knows what eviction may do.
template <class Device, class Kind>
class CheckedCache {
 public:
  CheckedCache(Device& device, uint64_t entries, uint32_t part_rows)
      : device_(device),
        memory_(device, 0),
        table_(device, options(entries, part_rows)),
        stream_(device) {}

  void run(const DeviceBatch& requests, bool distinct_keys) {
    UploadedRequests<Device> columns(memory_, stream_.get(), requests.size());
    columns.upload(requests);
    TableRequests call = columns.call();
    call.distinct_keys = distinct_keys;
    table_.run(call, stream_.get());
    columns.download();
    model_.compare(requests, columns.host_values, columns.host_found);
  }
  // Gets, asked for in another way: ask(call, stream).
  template <class Ask>
  void run_by(Ask&& ask, const DeviceBatch& gets) {
    UploadedRequests<Device> columns(memory_, stream_.get(), gets.size());
    columns.upload(gets);
    ask(columns.uniform_call(TableOp::get, true), stream_.get());
    columns.download();
    model_.compare(gets, columns.host_values, columns.host_found);
  }
  // Every key that is there is found, with itself.
  uint64_t check_stored(const DeviceBatch& gets) {
    UploadedRequests<Device> columns(memory_, stream_.get(), gets.size());
    DeviceArray<Device, uint64_t> stored(memory_, gets.size());
    columns.upload(gets);
    table_.get_stored(columns.uniform_call(TableOp::get, true), stored.data(), stream_.get());
    std::vector<uint64_t> keys(gets.size());
    require_device(device_.to_host(stream_.get(), keys.data(), stored.data(), stored.bytes()),
                   "copy");
    columns.download();
    uint64_t wrong = 0;
    for (size_t i = 0; i < gets.size(); ++i) {
      const auto known = model_.entries().find(gets[i].key);
      const bool is_there = columns.host_found[i] == 1 && keys[i] == gets[i].key;
      if (is_there != (known != model_.entries().end())) ++wrong;
      if (is_there && columns.host_values[i] != known->second) ++wrong;
    }
    return wrong;
  }

  // Whether it has the last `kept` of these keys, and no other of them.
  bool has_last(const std::vector<uint64_t>& keys, uint64_t kept) {
    DeviceBatch gets;
    for (const uint64_t key : keys) gets.push_back({TableOp::get, key, 0, 0});
    run(gets, false);
    const auto has = [&](uint64_t key) { return model_.entries().contains(key); };
    const auto first = keys.end() - static_cast<int64_t>(std::min<uint64_t>(kept, keys.size()));
    return std::none_of(keys.begin(), first, has) && std::all_of(first, keys.end(), has);
  }

  // The faults, `exact`: evictions that nobody noticed among them.
  uint64_t end(bool exact) {
    run(model_.gets(), true);
    const gpu::TableStats stats = table_.stats();
    fail_unless(model_.forgotten() <= stats.evictions, "keys were lost");
    fail_unless(!exact || model_.forgotten() == stats.evictions, "evictions were miscounted");
    fail_unless(stats.entries == model_.entries().size(), "entries were miscounted");
    return faults_ + model_.wrong();
  }
  void fail_unless(bool condition, const char* what) {
    if (condition) return;
    const gpu::TableStats stats = table_.stats();
    std::printf("  %s: %llu evictions, %llu forgotten, %llu entries, %llu known\n", what,
                static_cast<unsigned long long>(stats.evictions),
                static_cast<unsigned long long>(model_.forgotten()),
                static_cast<unsigned long long>(stats.entries),
                static_cast<unsigned long long>(model_.entries().size()));
    ++faults_;
  }

  uint64_t key_of(uint64_t hash) const { return unmix(hash, seed); }
  FixedDeviceTable<Device, Kind>& table() { return table_; }

 private:
  static constexpr uint64_t seed = 41;

  static FixedDeviceOptions options(uint64_t entries, uint32_t part_rows) {
    FixedDeviceOptions options;
    options.seed = seed;
    options.max_part_rows = part_rows;
    options.entries = entries;
    return options;
  }

  Device& device_;
  DeviceMemory<Device> memory_;
  FixedDeviceTable<Device, Kind> table_;
  const DeviceStream<Device> stream_;
  CacheModel model_;
  uint64_t faults_ = 0;
};

// More keys than there is room for, in batches with a key twice and without.
template <class Device, class Kind>
uint64_t check_evictions(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const bool distinct : {true, false}) {
    DeviceRequestSource source(61);
    CheckedCache<Device, Kind> cache(device, scale * 2, static_cast<uint32_t>(scale));
    std::vector<uint64_t> keys = source.keys(scale * 6);
    for (int i = 0; i < 5; ++i) {
      std::shuffle(keys.begin(), keys.end(), source.random());
      if (distinct) {
        DeviceBatch batch =
            source.uniform_op(TableOp::put, {keys.begin(), keys.begin() + scale * 5 / 4});
        for (DeviceRequest& request : batch) {
          if (source.random()() % 3 != 0) continue;
          request.op = static_cast<TableOp>(source.random()() % 6);
        }
        cache.run(batch, true);
      } else {
        cache.run(source.mixed(keys, scale * 5 / 4, 0.8), false);
      }
    }
    const gpu::TableStats stats = cache.table().stats();
    cache.fail_unless(stats.evictions > scale / 16, "too few were evicted");
    faults += cache.end(distinct);
  }
  return faults;
}

// All keys lead to one place: the same buckets and signature, or the same set and tag.
template <class Device, class Kind>
uint64_t check_one_place(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const uint64_t differ : {uint64_t{0xffffff} << 40, uint64_t{0xff0000}}) {
    DeviceRequestSource source(63);
    CheckedCache<Device, Kind> cache(device, 16, static_cast<uint32_t>(scale));
    std::vector<uint64_t> keys;
    for (uint64_t i = 0; i < std::min<uint64_t>(scale / 4, 1000); ++i) {
      keys.push_back(cache.key_of((0x123456789abcdef & ~differ) | (source.random()() & differ)));
    }
    std::sort(keys.begin(), keys.end());
    keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
    for (int i = 0; i < 3; ++i) {
      std::shuffle(keys.begin(), keys.end(), source.random());
      cache.run(source.uniform_op(TableOp::put, keys), true);
      cache.run(source.mixed(keys, keys.size(), 0.5), false);
    }
    faults += cache.end(false);
  }
  return faults;
}

// The keys that a set has after a batch are the last that the batch put, in any kind of batch.
template <class Device, class Kind>
uint64_t check_arrival_order(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  if constexpr (std::is_same_v<Kind, SetKind>) {
    for (const bool distinct : {true, false}) {
      DeviceRequestSource source(67);
      CheckedCache<Device, Kind> cache(device, 16, static_cast<uint32_t>(scale));
      for (uint64_t rows = 8; rows <= std::min<uint64_t>(scale / 2, 300); rows *= 3) {
        std::vector<uint64_t> keys = source.keys(rows);
        if (!distinct) keys.insert(keys.begin(), keys.begin(), keys.begin() + rows / 2);
        cache.run(source.uniform_op(TableOp::put, keys), distinct);
        keys.erase(keys.begin(), keys.end() - static_cast<int64_t>(rows));
        cache.fail_unless(cache.has_last(keys, 16), "not the last of a batch");
      }
      faults += cache.end(false);
    }
  }
  return faults;
}

// Few parts with more keys than they have room for, each of which is written many times: new keys
// come in while lookups of others stamp, or mark, the entries of their part.
template <class Device, class Kind>
uint64_t check_crowded_parts(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const uint64_t room : {16, 64, 256}) {
    DeviceRequestSource source(73);
    CheckedCache<Device, Kind> cache(device, room, static_cast<uint32_t>(scale));
    const uint64_t all = std::is_same_v<Kind, SetKind> ? room : uint64_t{CuckooPart::entries};
    const std::vector<uint64_t> keys = source.keys(all * 3 / 2);
    for (int i = 0; i < 5; ++i) {
      std::vector<uint64_t> some(scale);
      for (uint64_t& key : some) key = keys[source.random()() % keys.size()];
      cache.run(source.uniform_op(TableOp::put, some), false);
    }
    faults += cache.end(false);
  }
  return faults;
}

// Units of every size find the same; and without a comparison the entry is there with its key.
template <class Device, class Kind>
uint64_t check_units(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  if constexpr (!std::is_same_v<Kind, SetKind>) {
    DeviceRequestSource source(71);
    CheckedCache<Device, Kind> cache(device, scale, static_cast<uint32_t>(scale));
    const std::vector<uint64_t> keys = source.keys(scale * 9 / 8);
    cache.run(source.uniform_op(TableOp::put, {keys.begin(), keys.begin() + scale * 7 / 8}), true);
    const DeviceBatch gets = source.uniform_op(TableOp::get, keys);
    cache.run_by([&](const auto& call, auto stream) { cache.table().run(call, stream); }, gets);
    cache.run_by([&](const auto& call,
                     auto stream) { cache.table().template get_by<CuckooKind<1>>(call, stream); },
                 gets);
    cache.run_by([&](const auto& call,
                     auto stream) { cache.table().template get_by<CuckooKind<2>>(call, stream); },
                 gets);
    cache.run_by([&](const auto& call,
                     auto stream) { cache.table().template get_by<CuckooKind<8>>(call, stream); },
                 gets);
    faults += cache.check_stored(gets) + cache.end(true);
  }
  return faults;
}

template <class Device, class Kind>
constexpr DeviceTableCheck<Device> cache_checks[] = {
    {"mixed batches", check_mixed_batches<Device, Kind>},
    {"uniform calls", check_uniform_calls<Device, Kind>},
    {"distinct keys", check_distinct_keys<Device, Kind>},
    {"special keys", check_special_keys<Device, Kind>},
    {"one key", check_one_key<Device, Kind>},
    {"express", check_express<Device, Kind>},
    {"walks", check_walks<Device, Kind>},
    {"evictions", check_evictions<Device, Kind>},
    {"one place", check_one_place<Device, Kind>},
    {"arrival order", check_arrival_order<Device, Kind>},
    {"crowded parts", check_crowded_parts<Device, Kind>},
    {"units", check_units<Device, Kind>},
};

}  // namespace isotherm
