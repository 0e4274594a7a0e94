// Checks of a table over one or more devices, and the host beyond their memory, against its model,
// for any devices: fake ones in unit tests, GPUs in `make test-gpu`. A check returns the number of
// faults it found.
//
// `scale` is the size of large slices.
#pragma once

#include <algorithm>
#include <ostream>
#include <span>
#include <utility>
#include <vector>

#include "device_checks/device_table_checks.h"
#include "device_checks/table_queue_checks.h"
#include "isotherm/gpu/common.h"
#include "models/modelled_split_table.h"

namespace isotherm {

// Where a table lies.
template <class Device>
struct SplitSetup {
  std::span<Device* const> devices;
  bool with_host = false;  // and devices have room for few entries

  // Parts are so small that a large slice has several.
  SplitOptions small_parts(uint64_t seed, int line_bits, uint64_t scale) const {
    SplitOptions options;
    options.table = {0, seed, line_bits, static_cast<uint32_t>(scale)};
    options.table.express = {2, 3, 20, 50};
    options.part_rows = static_cast<uint32_t>(scale / 4);
    if (!with_host) return options;
    options.table.line_bits = scale > 1 << 14 ? 8 : 3;
    options.host_memory = uint64_t{1} << 30;
    options.host_threads = devices.size() > 2 ? 1 : 3;
    options.sampled = 4;
    options.most_bin_bits = 9;
    options.entries_at_once = 20;  // so that bins move in several steps
    options.table.gpu_memory = uint64_t{1} << 27;
    const uint64_t empty = bytes_of_empty(options, scale) / devices.size();
    constexpr uint64_t least_stock = 1024 * sizeof(Bucket);
    options.table.gpu_memory = empty + least_stock / 2 + scale * 48;
    return options;
  }

 private:
  uint64_t bytes_of_empty(const SplitOptions& options, uint64_t scale) const;
};

// Cuts a batch into a slice for each device, of random lengths, some of them empty.
inline std::vector<DeviceBatch> cut(const DeviceBatch& batch, size_t devices,
                                    std::mt19937_64& random) {
  std::vector<size_t> ends = {batch.size()};
  while (ends.size() < devices) {
    const size_t at = random() % (batch.size() + 1);
    ends.push_back(random() % 3 == 0 ? ends[random() % ends.size()] : at);
  }
  std::sort(ends.begin(), ends.end());
  std::vector<DeviceBatch> slices;
  size_t begin = 0;
  for (const size_t end : ends) {
    slices.emplace_back(batch.begin() + static_cast<long>(begin),
                        batch.begin() + static_cast<long>(end));
    begin = end;
  }
  return slices;
}

template <class Device>
uint64_t SplitSetup<Device>::bytes_of_empty(const SplitOptions& options, uint64_t scale) const {
  DeviceRequestSource source(1);
  ModelledSplitTable<Device> empty(devices, options);
  empty.run(cut(source.mixed({1, 2, 3}, scale, 0.5), devices.size(), source.random()));
  const gpu::TableStats stats = empty.table().stats();
  return stats.bytes + stats.workspace;
}

// Every operation in every mix, over few keys and over many, in slices of all lengths.
template <class Device>
uint64_t check_mixed_slices(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(1);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(77, 6, scale));
  const std::vector<uint64_t> keys = source.keys(scale / 2);
  const std::vector<uint64_t> few(keys.begin(), keys.begin() + 5);
  for (const uint64_t rows :
       {uint64_t{0}, uint64_t{1}, uint64_t{2}, uint64_t{33}, scale / 16, scale, 2 * scale + 5}) {
    for (const double writes : {0.0, 0.05, 1.0}) {
      const auto run = [&](const std::vector<uint64_t>& some) {
        table.run(cut(source.mixed(some, rows, writes), setup.devices.size(), source.random()));
      };
      run(keys);
      run(few);
    }
  }
  // Full slices on all devices.
  std::vector<DeviceBatch> slices;
  for (size_t i = 0; i < setup.devices.size(); ++i)
    slices.push_back(source.mixed(keys, scale, 0.5));
  table.run(std::move(slices));
  table.check_all();
  return table.wrong() + table.refused();
}

// Calls of one operation, with replies and without.
template <class Device>
uint64_t check_uniform_slices(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(2);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(5, 8, scale));
  const std::vector<uint64_t> keys = source.keys(scale);
  for (const TableOp op : {TableOp::put, TableOp::put_if_absent, TableOp::add, TableOp::erase,
                           TableOp::compare_and_swap, TableOp::get}) {
    for (const bool replies : {true, false}) {
      if (op == TableOp::get && !replies) continue;
      std::vector<uint64_t> some;
      for (uint64_t i = 0; i < scale; ++i) some.push_back(keys[source.random()() % scale]);
      table.run_uniform(op, cut(source.uniform_op(op, some), setup.devices.size(), source.random()),
                        replies);
    }
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Calls in which no key comes twice, as they promise.
template <class Device>
uint64_t check_distinct_slices(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(9);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(21, 4, scale));
  std::vector<uint64_t> keys = source.keys(scale);
  keys.insert(keys.end(), {0, ~uint64_t{0}, table.key_of(0), table.key_of(~uint64_t{0})});
  for (const uint64_t rows : {uint64_t{1}, scale / 4, scale, scale}) {
    std::shuffle(keys.begin(), keys.end(), source.random());
    DeviceBatch batch = source.uniform_op(TableOp::get, {keys.begin(), keys.begin() + rows});
    for (DeviceRequest& request : batch) request.op = static_cast<TableOp>(source.random()() % 6);
    table.run(cut(batch, setup.devices.size(), source.random()), true);
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Every row of every slice on one key.
template <class Device>
uint64_t check_one_key_in_all_slices(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(6);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(15, 6, scale));
  for (const uint64_t key : {uint64_t{42}, uint64_t{43}, table.key_of(0)}) {
    for (const TableOp op : {TableOp::add, TableOp::put, TableOp::compare_and_swap}) {
      std::vector<DeviceBatch> slices;
      for (size_t i = 0; i < setup.devices.size(); ++i) {
        slices.push_back(source.uniform_op(op, std::vector<uint64_t>(scale / 2 + i, key)));
      }
      table.run_uniform(op, std::move(slices), true);
    }
    table.run(cut(source.mixed({key}, scale, 0.7), setup.devices.size(), source.random()));
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// From an empty table through many splits on every device.
template <class Device>
uint64_t check_growth_of_shards(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(3);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(9, 4, scale));
  for (uint64_t rows = 100; rows <= 2 * scale; rows *= 3) {
    const std::vector<uint64_t> keys = source.keys(rows);
    const auto slices = [&](TableOp op, uint64_t some) {
      return cut(source.uniform_op(op, {keys.begin(), keys.begin() + static_cast<long>(some)}),
                 setup.devices.size(), source.random());
    };
    table.run_uniform(TableOp::put, slices(TableOp::put, rows), true);
    table.run_uniform(TableOp::erase, slices(TableOp::erase, rows / 2), true);
  }
  table.check_all();
  const gpu::TableStats stats = table.table().stats();
  if (!setup.with_host &&
      stats.segments < std::max<uint64_t>(2 * setup.devices.size(), stats.entries / 256)) {
    table.fail("the table did not grow");
  }
  return table.wrong() + table.refused();
}

// Several calls under way at once, on streams that take turns; each sees what those before did.
template <class Device>
uint64_t check_order_of_calls(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(12);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(31, 4, scale));
  const std::vector<uint64_t> keys = source.keys(20);
  for (int round = 0; round < 3; ++round) {
    std::vector<typename ModelledSplitTable<Device>::Call> calls;
    for (int i = 0; i < 6; ++i) {
      const DeviceBatch batch = source.mixed(keys, scale / 8, i % 3 == 2 ? 0 : 0.5);
      calls.push_back(table.start(cut(batch, setup.devices.size(), source.random())));
    }
    for (auto& call : calls) table.finish(call);
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Arrays in host memory, in more chunks than there are buffers, between calls with slices.
template <class Device>
uint64_t check_host_arrays_of_shards(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(8);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(19, 8, scale));
  const std::vector<uint64_t> keys = source.keys(scale / 2);
  for (const double writes : {1.0, 0.3, 0.0}) {
    for (const uint64_t rows : {uint64_t{1}, uint64_t{40}, scale}) {
      table.run_host(source.mixed(keys, rows, writes));
      table.run(cut(source.mixed(keys, scale / 8, 0.5), setup.devices.size(), source.random()));
    }
  }
  for (const uint64_t rows : {uint64_t{1}, scale * 2}) {
    DeviceBatch gets = source.mixed(keys, rows, 0);
    for (uint64_t i = 0; i < rows; i += 3) gets[i].key = source.random()();
    table.get_pinned(gets);
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// All ways to a table, one after another in any order: slices, arrays of the first device with and
// without a mark of their end, host arrays, pinned ones, and a few requests by express; on more
// keys than devices have room for where the host takes part.
template <class Device>
uint64_t check_every_way(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(27);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(27, 4, scale));
  std::vector<uint64_t> keys = {0, ~uint64_t{0}, table.key_of(0), table.key_of(~uint64_t{0})};
  long put = 0;
  const auto put_more = [&] {
    const std::vector<uint64_t> more = source.keys(scale);
    keys.insert(keys.end(), more.begin(), more.end());
    table.run_host(source.uniform_op(TableOp::put, {keys.begin() + put, keys.end()}));
    put = static_cast<long>(keys.size());
  };
  put_more();
  if (setup.with_host) {
    for (int i = 0; i < 40 && table.table().stats().host_entries == 0; ++i) put_more();
    put_more();
    const gpu::TableStats stats = table.table().stats();
    if (stats.host_entries == 0 || stats.host_entries == stats.entries) {
      table.fail(std::to_string(stats.host_entries) + " of " + std::to_string(stats.entries) +
                 " entries lie on the host");
    }
  }
  uint64_t expressed = 0;
  for (uint64_t i = 0; i < 56; ++i) {
    const bool gets = i % 3 == 0;
    const DeviceBatch batch = source.mixed(keys, scale / 8 + source.random()() % scale, 0.5);
    const DeviceBatch reads = source.mixed(keys, scale / 4, 0);
    switch (i % 7) {
      case 0:
        table.run(cut(gets ? reads : batch, setup.devices.size(), source.random()));
        break;
      case 1:
        table.run_first(gets ? reads : batch);
        break;
      case 2:
        table.run_host(gets ? reads : batch);
        break;
      case 3:
        table.get_pinned(reads);
        break;
      case 4:
        table.get_pinned_in_order(reads);
        break;
      case 5:
        table.get_marked(reads);
        break;
      default:
        for (uint64_t few = 0; few < 16; ++few) {
          std::shuffle(keys.begin(), keys.end(), source.random());
          DeviceBatch some = source.uniform_op(TableOp::get, {keys.begin(), keys.begin() + 2});
          for (DeviceRequest& request : some) {
            request.op = static_cast<TableOp>(source.random()() % 6);
          }
          if (table.run_express(some, few % 2 == 0)) {
            ++expressed;
          } else {
            table.run_host(some);
          }
        }
    }
  }
  if (expressed == 0) table.fail("nothing went by express");
  table.check_all();
  return table.wrong() + table.refused();
}

// A queue in front.
template <class Device>
uint64_t check_queue_in_front(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(29);
  ModelledSplitTable<Device> table(setup.devices, setup.small_parts(29, 4, scale));
  const std::vector<uint64_t> others = source.keys(scale * (setup.with_host ? 3 : 1));
  table.run_host(source.uniform_op(TableOp::put, others));
  gpu::QueueOptions options = small_queue(Scheduling::adaptive);
  options.scheduling.adaptive.threshold = 100;
  Device& device = *setup.devices[0];
  require_device(device.enter(), "enter");
  const uint64_t wrong = table_queue_checks_internal::check_clients(
      device, table.table(), options, std::min<uint64_t>(scale / 8, 1000), 30);
  for (uint64_t i = 0; i < others.size(); i += scale) {
    const uint64_t some = std::min(scale, others.size() - i);
    const auto from = others.begin() + static_cast<long>(i);
    table.run_host(source.uniform_op(TableOp::get, {from, from + static_cast<long>(some)}));
  }
  return table.wrong() + table.refused() + wrong;
}

// Memory ends on one device: its keys are refused, and the other devices go on.
template <class Device>
uint64_t check_memory_of_one_ends(const SplitSetup<Device>& setup, uint64_t scale) {
  DeviceRequestSource source(7);
  SplitOptions options = SplitSetup<Device>{setup.devices}.small_parts(17, 4, scale);
  options.table.max_part_rows = static_cast<uint32_t>(std::min<uint64_t>(scale, 1 << 14));
  {
    ModelledSplitTable<Device> empty(setup.devices, options);
    empty.run(cut(source.mixed({1, 2, 3}, scale, 0.5), setup.devices.size(), source.random()));
    const gpu::TableStats stats = empty.table().stats();
    options.table.gpu_memory = (stats.bytes + stats.workspace) / setup.devices.size() * 9 / 8;
  }
  ModelledSplitTable<Device> table(setup.devices, options);
  const auto keys_of = [&](uint32_t shard) {
    std::vector<uint64_t> keys = source.keys(scale * setup.devices.size() * 2);
    std::erase_if(keys, [&](uint64_t key) { return table.shard(key) != shard; });
    return keys;
  };
  const auto last = static_cast<uint32_t>(setup.devices.size() - 1);
  const auto put = [&](const std::vector<uint64_t>& keys) {
    table.run_uniform(
        TableOp::put,
        cut(source.uniform_op(TableOp::put, keys), setup.devices.size(), source.random()), true);
  };
  for (int round = 0; round < 100 && table.refused() == 0; ++round) put(keys_of(last));
  if (table.refused() == 0) table.fail("no key was refused");
  for (uint32_t shard = 0; shard < last; ++shard) {
    const uint64_t refused = table.refused();
    put(keys_of(shard));
    if (table.refused() != refused) table.fail("a key of a device with memory was refused");
  }
  put(keys_of(last));
  table.check_all();
  const gpu::TableStats stats = table.table().stats();
  if (stats.bytes + stats.workspace > options.table.gpu_memory * setup.devices.size()) {
    table.fail("more memory than the caps");
  }
  return table.wrong();
}

template <class Device>
struct SplitTableCheck {
  const char* name;
  uint64_t (*run)(const SplitSetup<Device>& setup, uint64_t scale);

  friend std::ostream& operator<<(std::ostream& out, const SplitTableCheck& check) {
    return out << check.name;
  }
};

template <class Device>
constexpr SplitTableCheck<Device> split_table_checks[] = {
    {"mixed slices", check_mixed_slices<Device>},
    {"uniform slices", check_uniform_slices<Device>},
    {"distinct keys in slices", check_distinct_slices<Device>},
    {"one key in all slices", check_one_key_in_all_slices<Device>},
    {"growth of shards", check_growth_of_shards<Device>},
    {"order of calls", check_order_of_calls<Device>},
    {"host arrays of shards", check_host_arrays_of_shards<Device>},
    {"every way", check_every_way<Device>},
    {"queue in front", check_queue_in_front<Device>},
    {"memory of one ends", check_memory_of_one_ends<Device>},
};

}  // namespace isotherm
