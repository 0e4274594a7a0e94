// Checks of a table that its device and the host share against its model, for any device. Read
// tests/device_checks/device_table_checks.h first.
//
// `scale` is the size of large batches. Caps are made from what an empty table takes, so that the
// device has room for a part of the keys, in dozens of segments.
#pragma once

#include <algorithm>
#include <atomic>
#include <ostream>
#include <random>
#include <thread>
#include <vector>

#include "device_checks/device_table_checks.h"
#include "gpu/split/split_table.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Device>
using ModelledHostTable = ModelledDeviceTable<Device, SplitTable<Device>, SplitOptions>;

// A table whose device has room for some `fit` entries.
template <class Device>
SplitOptions host_memory_options(Device& device, uint64_t seed, uint64_t scale, uint64_t fit) {
  SplitOptions options;
  options.table.seed = seed;
  options.table.line_bits = scale > 1 << 14 ? 8 : 3;
  options.table.max_part_rows = static_cast<uint32_t>(scale);
  options.table.express = {2, 3, 20, 50};
  options.host_memory = uint64_t{1} << 30;
  options.host_threads = 3;
  options.part_rows = static_cast<uint32_t>(scale / 8);
  options.sampled = 4;
  options.most_bin_bits = 9;
  options.entries_at_once = 20;  // so that bins move in several steps
  options.table.gpu_memory = uint64_t{1} << 27;
  DeviceRequestSource source(seed);
  ModelledHostTable<Device> empty(device, options);
  empty.run(source.mixed({1, 2, 3}, scale, 0.5));
  const gpu::TableStats stats = empty.table().stats();
  constexpr uint64_t bytes_an_entry = 32;
  options.table.gpu_memory = stats.bytes + stats.workspace + fit * bytes_an_entry;
  return options;
}

inline bool on_both_sides(const gpu::TableStats& stats) {
  return stats.host_entries != 0 && stats.host_entries != stats.entries;
}

// Any operations over twice and four times what the device has room for, by calls of all kinds.
template <class Device>
uint64_t check_beyond_memory(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  for (const uint64_t times : {2, 4}) {
    DeviceRequestSource source(times);
    const uint64_t fit = scale * 2;
    const SplitOptions options = host_memory_options(device, 40 + times, scale, fit);
    ModelledHostTable<Device> table(device, options);
    std::vector<uint64_t> keys = source.keys(fit * times);
    keys.insert(keys.end(), {0, ~uint64_t{0}, table.key_of(0), table.key_of(~uint64_t{0}),
                             table.key_of(mark::top_bit | 1)});
    for (uint64_t at = 0; at < keys.size(); at += scale) {
      const auto from = keys.begin() + static_cast<int64_t>(at);
      const uint64_t some = std::min<uint64_t>(scale, keys.size() - at);
      table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, {from, from + some}), true);
      table.run(source.mixed(keys, scale + 7, 0.3));
    }
    const gpu::TableStats stats = table.table().stats();
    if (!on_both_sides(stats)) {
      table.fail(std::to_string(stats.host_entries) + " of " + std::to_string(stats.entries) +
                 " entries lie on the host");
    }
    if (stats.bytes + stats.workspace > options.table.gpu_memory) table.fail("over the cap");
    for (const TableOp op : {TableOp::add, TableOp::erase, TableOp::put_if_absent,
                             TableOp::compare_and_swap, TableOp::get}) {
      std::shuffle(keys.begin(), keys.end(), source.random());
      const std::vector<uint64_t> some(keys.begin(), keys.begin() + scale);
      table.run_uniform(op, source.uniform_op(op, some), true);
      if (op != TableOp::get) table.run_uniform(op, source.uniform_op(op, some), false);
    }
    table.run_host(source.mixed(keys, scale, 0.5));
    table.get_pinned(source.mixed(keys, scale, 0));
    table.run(source.mixed({keys.begin(), keys.begin() + 5}, scale, 0.7));
    table.check_all();
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// Both memories end: puts of new keys are refused and nothing is lost; what is erased makes room.
template <class Device>
uint64_t check_both_memories_end(Device& device, uint64_t scale) {
  DeviceRequestSource source(51);
  SplitOptions options = host_memory_options(device, 51, scale, scale * 2);
  options.host_memory = scale > 1 << 14 ? 8 << 20 : scale > 512 ? 2 << 20 : 700 << 10;
  ModelledHostTable<Device> table(device, options);
  std::vector<uint64_t> all;
  for (int round = 0, last = 200; round < last; ++round) {
    if (table.refused() != 0 && last == 200) last = round + 3;
    const std::vector<uint64_t> keys = source.keys(scale);
    all.insert(all.end(), keys.begin(), keys.end());
    table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), true);
    table.run(source.mixed(keys, scale / 2, 0.5));
  }
  if (table.refused() == 0) table.fail("no key was refused");
  table.check_all();
  const gpu::TableStats full = table.table().stats();
  if (!on_both_sides(full)) table.fail("all entries lie on one side");
  table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, all), true);
  table.check_all();
  const uint64_t refused = table.refused();
  const std::vector<uint64_t> again(all.begin(), all.begin() + static_cast<int64_t>(scale));
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, again), true);
  table.check_all();
  if (table.refused() != refused) table.fail("what was erased made no room");
  return table.wrong();
}

// Bins that are read come to the device, bins that are not leave it.
template <class Device>
uint64_t check_read_bins_move_in(Device& device, uint64_t scale) {
  DeviceRequestSource source(61);
  const SplitOptions options = host_memory_options(device, 61, scale, scale * 2);
  ModelledHostTable<Device> table(device, options);
  const std::vector<uint64_t> keys = source.keys(scale * 6);
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), true);
  // The sixteenth of the hashes that lies on the host most.
  const auto by_share = [&](uint64_t share) {
    std::vector<uint64_t> some;
    for (const uint64_t key : keys) {
      if (mix(key, options.table.seed) >> 60 == share) some.push_back(key);
    }
    return some;
  };
  std::vector<uint64_t> hot;
  for (uint64_t share = 0; share < 16; ++share) {
    const uint64_t before = table.table().stats().host_requests;
    const std::vector<uint64_t> some = by_share(share);
    table.run_uniform(TableOp::get, source.uniform_op(TableOp::get, some), true);
    if (table.table().stats().host_requests - before > some.size() / 2) hot = some;
  }
  if (hot.empty()) table.fail("no part of the keys lies on the host");
  const auto share_on_host = [&] {
    const uint64_t before = table.table().stats().host_requests;
    table.run_uniform(TableOp::get, source.uniform_op(TableOp::get, hot), true);
    return static_cast<double>(table.table().stats().host_requests - before) /
           static_cast<double>(std::max<uint64_t>(hot.size(), 1));
  };
  std::vector<uint64_t> often;
  while (often.size() < scale) often.insert(often.end(), hot.begin(), hot.end());
  for (int i = 0; i < 2000 && share_on_host() > 0.1; ++i) {
    table.run_uniform(TableOp::get, source.uniform_op(TableOp::get, often), true);
  }
  if (share_on_host() > 0.1) table.fail("what is read stays on the host");
  if (table.table().stats().bins_to_device == 0) table.fail("no bin came to the device");
  table.check_all();
  return table.wrong() + table.refused();
}

// Few requests go by express while all their keys are the device's, and another way otherwise.
template <class Device>
uint64_t check_shared_express(Device& device, uint64_t scale) {
  DeviceRequestSource source(71);
  ModelledHostTable<Device> table(device, host_memory_options(device, 71, scale, scale * 2));
  const std::vector<uint64_t> keys = source.keys(scale * 4);
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), true);
  uint64_t expressed = 0, others = 0;
  for (uint64_t i = 0; i < 300; ++i) {
    const uint64_t key = keys[source.random()() % keys.size()];
    DeviceBatch batch = source.uniform_op(TableOp::get, {key});
    batch[0].op = static_cast<TableOp>(source.random()() % 6);
    if (table.run_express(batch, i % 2 == 0)) {
      ++expressed;
    } else {
      table.run_host(batch);
      ++others;
    }
  }
  if (expressed == 0 || others == 0) table.fail("all requests went the same way");
  table.check_all();
  return table.wrong() + table.refused();
}

// Gets of several threads, each on a stream of its own, while one writes other keys.
template <class Device>
uint64_t check_shared_threads(Device& device, uint64_t scale) {
  DeviceRequestSource source(81);
  const SplitOptions options = host_memory_options(device, 81, scale, scale * 2);
  ModelledHostTable<Device> table(device, options);
  const std::vector<uint64_t> fixed = source.keys(scale * 3), others = source.keys(scale);
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, fixed), true);
  std::atomic<uint64_t> wrong{0};
  constexpr int count = 2;
  std::vector<std::thread> readers;
  readers.reserve(count);
  for (int reader = 0; reader < count; ++reader) {
    readers.emplace_back([&, reader] {
      require_device(device.enter(), "choose the device");
      DeviceMemory<Device> memory(device, 0);
      const DeviceStream<Device> stream(device);
      DeviceRequestSource mine(90 + static_cast<uint64_t>(reader));
      for (int i = 0; i < 5; ++i) {
        std::vector<uint64_t> some(scale);
        for (uint64_t& key : some) key = fixed[mine.random()() % fixed.size()];
        UploadedRequests<Device> columns(memory, stream.get(), scale);
        columns.upload(mine.uniform_op(TableOp::get, some));
        table.table().run(columns.uniform_call(TableOp::get, true), stream.get());
        columns.download();
        for (uint64_t row = 0; row < scale; ++row) {
          wrong += columns.host_found[row] != 1 ||
                   columns.host_values[row] != table.model().at(some[row]);
        }
      }
    });
  }
  DeviceMemory<Device> memory(device, 0);
  const DeviceStream<Device> stream(device);
  for (int i = 0; i < 5; ++i) {
    UploadedRequests<Device> columns(memory, stream.get(), scale);
    columns.upload(source.uniform_op(i % 2 == 0 ? TableOp::put : TableOp::erase, others));
    table.table().run(columns.call(), stream.get());
    columns.download();
  }
  for (std::thread& reader : readers) reader.join();
  table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, others), false);
  table.check_all();
  return table.wrong() + table.refused() + wrong;
}

template <class Device>
constexpr DeviceTableCheck<Device> host_memory_checks[] = {
    {"beyond memory", check_beyond_memory<Device>},
    {"both memories end", check_both_memories_end<Device>},
    {"read bins move in", check_read_bins_move_in<Device>},
    {"shared express", check_shared_express<Device>},
    {"shared threads", check_shared_threads<Device>},
};

}  // namespace isotherm
