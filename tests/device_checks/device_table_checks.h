// Checks of a table on a device against its model, for any device: the fake one in unit tests, the
// GPU in `make test-gpu`. A check returns the number of faults it found.
//
// `scale` is the size of large batches: a GPU takes a million rows, the fake device a few thousand.
#pragma once

#include <algorithm>
#include <ostream>
#include <random>
#include <unordered_map>
#include <vector>

#include "gpu/platform/device_stream.h"
#include "gpu/table/table_scan.h"
#include "isotherm/gpu/common.h"
#include "models/modelled_device_table.h"

namespace isotherm {

// An array on the device with these values, when the stream has passed the copy.
template <class Device, class T>
DeviceArray<Device, T> upload_to(Device& device, DeviceMemory<Device>& memory,
                                 typename Device::Stream stream, const std::vector<T>& from) {
  DeviceArray<Device, T> to(memory, from.size());
  require_device(
      device.to_device(stream, to.data(), from.data(), to.bytes()) && device.synchronize(stream),
      "copy");
  return to;
}

using DeviceBatch = std::vector<DeviceRequest>;

// `Kind`: of the table's index (gpu/kernel/index_kind.h).
template <class Device, class Kind>
using ModelledTable = ModelledDeviceTable<Device, FixedDeviceTable<Device, Kind>>;

class DeviceRequestSource {
 public:
  explicit DeviceRequestSource(uint64_t seed) : random_(seed) {}

  std::mt19937_64& random() { return random_; }

  // Keys are skewed: the square of a uniform number picks one.
  DeviceBatch mixed(const std::vector<uint64_t>& keys, uint64_t rows, double writes) {
    DeviceBatch batch;
    std::uniform_real_distribution<double> uniform(0, 1);
    for (uint64_t i = 0; i < rows; ++i) {
      const double at = uniform(random_) * uniform(random_) * static_cast<double>(keys.size());
      const uint64_t key = keys[std::min(static_cast<size_t>(at), keys.size() - 1)];
      const auto op =
          uniform(random_) < writes ? static_cast<TableOp>(1 + random_() % 5) : TableOp::get;
      batch.push_back({op, key, word(), word()});
    }
    return batch;
  }

  DeviceBatch uniform_op(TableOp op, const std::vector<uint64_t>& keys) {
    DeviceBatch batch;
    for (const uint64_t key : keys) batch.push_back({op, key, word(), word()});
    return batch;
  }

  std::vector<uint64_t> keys(uint64_t count) {
    std::vector<uint64_t> keys(count);
    for (uint64_t& key : keys) key = random_();
    return keys;
  }

  // Few values, so that compare-and-swaps succeed and fail, and the extremes among them.
  uint64_t word() {
    constexpr uint64_t common[] = {0, 1, 2, ~uint64_t{0}};
    return random_() % 4 == 0 ? random_() : common[random_() % std::size(common)];
  }

 private:
  std::mt19937_64 random_;
};

// Every operation in every mix, over few keys and over many, in batches of many sizes.
template <class Device, class Kind = LineKind>
uint64_t check_mixed_batches(Device& device, uint64_t scale) {
  DeviceRequestSource source(1);
  FixedDeviceOptions options{0, 77, 6, static_cast<uint32_t>(scale)};
  ModelledTable<Device, Kind> table(device, options);
  const std::vector<uint64_t> keys = source.keys(scale / 2);
  const std::vector<uint64_t> few(keys.begin(), keys.begin() + 5);
  for (const uint64_t rows : {uint64_t{1}, uint64_t{2}, uint64_t{7}, uint64_t{31}, uint64_t{33},
                              uint64_t{255}, uint64_t{257}, scale / 16, scale, scale + 5}) {
    for (const double writes : {0.05, 0.5, 1.0}) {
      table.run(source.mixed(keys, rows, writes));
      table.run(source.mixed(few, std::min(rows, scale / 4), writes));
    }
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Calls of one operation, with replies and without.
template <class Device, class Kind = LineKind>
uint64_t check_uniform_calls(Device& device, uint64_t scale) {
  DeviceRequestSource source(2);
  ModelledTable<Device, Kind> table(device, {0, 5, 8, static_cast<uint32_t>(scale)});
  std::vector<uint64_t> keys = source.keys(scale);
  for (uint64_t i = 0; i < scale / 8; ++i) keys.push_back(keys[source.random()() % scale]);
  for (const TableOp op : {TableOp::put, TableOp::put_if_absent, TableOp::add, TableOp::erase,
                           TableOp::compare_and_swap, TableOp::add, TableOp::get}) {
    std::shuffle(keys.begin(), keys.end(), source.random());
    const std::vector<uint64_t> some(keys.begin(), keys.begin() + keys.size() / 2);
    table.run_uniform(op, source.uniform_op(op, some), true);
    if (op != TableOp::get) table.run_uniform(op, source.uniform_op(op, keys), false);
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Batches of all operations in which no key comes twice, as their calls promise.
template <class Device, class Kind = LineKind>
uint64_t check_distinct_keys(Device& device, uint64_t scale) {
  DeviceRequestSource source(9);
  ModelledTable<Device, Kind> table(device, {0, 21, 4, static_cast<uint32_t>(scale / 2)});
  std::vector<uint64_t> keys = source.keys(scale);
  keys.insert(keys.end(), {0, ~uint64_t{0}, table.key_of(0), table.key_of(mark::top_bit | 1)});
  for (const uint64_t rows : {uint64_t{1}, uint64_t{33}, scale / 4, scale, scale, scale}) {
    std::shuffle(keys.begin(), keys.end(), source.random());
    DeviceBatch batch = source.uniform_op(TableOp::get, {keys.begin(), keys.begin() + rows});
    for (DeviceRequest& request : batch) request.op = static_cast<TableOp>(source.random()() % 6);
    table.run(batch, true);
    // Calls with and without the promise share a work space.
    table.run(source.mixed(keys, rows, 0.5));
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// From an empty table through many splits, and back by erasing.
template <class Device, class Kind = LineKind>
uint64_t check_growth(Device& device, uint64_t scale) {
  DeviceRequestSource source(3);
  ModelledTable<Device, Kind> table(device, {0, 9, 4, static_cast<uint32_t>(scale)});
  for (uint64_t rows = 100; rows <= scale; rows *= 3) {
    const std::vector<uint64_t> keys = source.keys(rows);
    table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), true);
    table.check_all();
    const std::vector<uint64_t> half(keys.begin(), keys.begin() + keys.size() / 2);
    table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, half), true);
  }
  table.check_all();
  const gpu::TableStats stats = table.table().stats();
  if (stats.segments < std::max<uint64_t>(2, stats.entries / 256)) {
    table.fail("the table did not grow");
  }
  return table.wrong() + table.refused();
}

// Keys whose hashes are 0, extreme, look like marks, or agree in their upper bits; 0 and ~0.
template <class Device, class Kind = LineKind>
uint64_t check_special_keys(Device& device, uint64_t scale) {
  DeviceRequestSource source(4);
  ModelledTable<Device, Kind> table(device, {0, 11, 4, static_cast<uint32_t>(scale)});
  std::vector<uint64_t> keys = {0, ~uint64_t{0}, table.key_of(0), table.key_of(~uint64_t{0})};
  for (const uint64_t base : {source.random()(), source.random()()}) {
    for (const int same : {32, 48, 63}) {
      keys.push_back(table.key_of(base));
      keys.push_back(table.key_of(base ^ uint64_t{1} << (63 - same)));
    }
  }
  for (uint64_t low = 1; low < 4; ++low) {
    keys.push_back(table.key_of(low));
    keys.push_back(table.key_of(mark::top_bit | low));
  }
  for (int i = 0; i < 20; ++i) {
    table.run(source.mixed(keys, 1 + source.random()() % scale, 0.5));
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// All keys in the chain of one line: their hashes agree in the top 20 bits.
template <class Device, class Kind = LineKind>
uint64_t check_one_line(Device& device, uint64_t scale) {
  DeviceRequestSource source(5);
  ModelledTable<Device, Kind> table(device, {0, 13, 4, static_cast<uint32_t>(scale)});
  std::vector<uint64_t> keys;
  for (uint64_t i = 0; i < std::min<uint64_t>(scale / 16, 3000); ++i) {
    keys.push_back(table.key_of(uint64_t{0xabcde} << 44 | source.random()() >> 20));
  }
  for (int i = 0; i < 4; ++i) {
    table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), true);
    table.run(source.mixed(keys, keys.size(), 0.5));
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// A whole batch on one key, of each operation and of all.
template <class Device, class Kind = LineKind>
uint64_t check_one_key(Device& device, uint64_t scale) {
  DeviceRequestSource source(6);
  ModelledTable<Device, Kind> table(device, {0, 15, 6, static_cast<uint32_t>(scale)});
  const std::vector<uint64_t> same(scale, 42);
  for (const TableOp op :
       {TableOp::add, TableOp::put, TableOp::compare_and_swap, TableOp::put_if_absent,
        TableOp::erase, TableOp::put_if_absent, TableOp::get}) {
    table.run_uniform(op, source.uniform_op(op, same), true);
  }
  table.run(source.mixed({42}, scale, 1.0));
  table.run(source.mixed({42}, scale, 0.3));
  table.check_all();
  return table.wrong() + table.refused();
}

// Device memory ends: keys are refused, whole groups at a time, and nothing else goes wrong.
template <class Device, class Kind = LineKind>
uint64_t check_memory_ends(Device& device, uint64_t scale) {
  DeviceRequestSource source(7);
  FixedDeviceOptions options{0, 17, 4, static_cast<uint32_t>(std::min<uint64_t>(scale, 1 << 14))};
  {
    ModelledTable<Device, Kind> empty(device, options);
    empty.run(source.mixed({1, 2, 3}, options.max_part_rows, 0.5));
    const gpu::TableStats stats = empty.table().stats();
    options.gpu_memory = stats.bytes + stats.workspace + (64 << 10);
  }
  ModelledTable<Device, Kind> table(device, options);
  table.run(source.mixed({1, 2, 3}, options.max_part_rows, 0.5));
  // Until the first is refused, and some more.
  for (int round = 0, last = 100; round < last; ++round) {
    if (table.refused() != 0 && last == 100) last = round + 3;
    std::vector<uint64_t> keys = source.keys(options.max_part_rows);
    for (uint64_t k = 0; k < keys.size() / 4; ++k) keys.push_back(keys[k]);
    table.run(source.mixed(keys, keys.size(), 0.9));
    table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), true);
  }
  if (table.refused() == 0) table.fail("no key was refused");
  table.check_all();
  return table.wrong();
}

// Arrays in host memory, in more chunks than the pipeline has buffers.
template <class Device, class Kind = LineKind>
uint64_t check_host_arrays(Device& device, uint64_t scale) {
  DeviceRequestSource source(8);
  ModelledTable<Device, Kind> table(device, {0, 19, 8, static_cast<uint32_t>(scale)});
  const uint64_t rows = scale < 1 << 16 ? scale : 5 * HostPipeline<Device>::chunk_rows + 3;
  const std::vector<uint64_t> keys = source.keys(rows / 2);
  for (const double writes : {1.0, 0.3}) table.run_host(source.mixed(keys, rows, writes));
  table.get_pinned(source.mixed(keys, rows, 0));
  table.check_all();
  return table.wrong() + table.refused();
}

// Gets from pinned memory that are awaited: parts of hits alone, of misses alone, and mixed ones
// follow each other in any order.
template <class Device, class Kind = LineKind>
uint64_t check_awaited_gets(Device& device, uint64_t scale) {
  DeviceRequestSource source(31);
  ModelledTable<Device, Kind> table(device, {0, 37, 8, static_cast<uint32_t>(scale)});
  const std::vector<uint64_t> keys = source.keys(scale);
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), false);
  const uint64_t part = std::max<uint64_t>(scale / 32, 16);
  AwaitedGets gets(device, table.table(), part);
  for (const uint64_t rows : {uint64_t{1}, part / 8, part + 1, scale - 1, scale * 3 + 5}) {
    for (const uint64_t run : {uint64_t{1}, part / 2, part, part * 5, scale * 4}) {
      for (const uint64_t first : {uint64_t{0}, run}) {
        DeviceBatch batch = source.uniform_op(TableOp::get, keys);
        batch.resize(rows, batch[0]);
        for (uint64_t i = 0; i < rows; ++i) {
          const bool absent = (i + first) / run % 2 != 0;
          batch[i].key = absent ? source.random()() : keys[i % keys.size()];
        }
        table.get_awaited(gets, batch);
        batch.back().key = source.random()();  // one miss, in the last part
        table.get_awaited(gets, batch);
      }
    }
  }
  return table.wrong() + table.refused();
}

// Few requests at a time go by express, between calls that do not, while the table grows; those
// with a key twice beside writes are refused.
template <class Device, class Kind = LineKind>
uint64_t check_express(Device& device, uint64_t scale) {
  DeviceRequestSource source(10);
  FixedDeviceOptions options{0, 23, 4, static_cast<uint32_t>(scale)};
  options.express = {2, 3, 20, 50};  // kernels end soon, and mail begins anew
  ModelledTable<Device, Kind> table(device, options);
  std::vector<uint64_t> keys = source.keys(scale);
  keys.insert(keys.end(), {0, ~uint64_t{0}, table.key_of(0), table.key_of(mark::top_bit | 1)});
  uint64_t expressed = 0;
  uint64_t calls = 0;
  for (uint64_t i = 0; i < std::min<uint64_t>(scale / 8, 2000); ++i) {
    std::shuffle(keys.begin(), keys.end(), source.random());
    const uint64_t rows = 1 + source.random()() % (i % 4 == 0 ? 128 : 5);
    DeviceBatch batch = source.uniform_op(TableOp::get, {keys.begin(), keys.begin() + rows});
    for (DeviceRequest& request : batch) request.op = static_cast<TableOp>(source.random()() % 6);
    ++calls;
    if (table.run_express(batch, i % 2 == 0)) {
      ++expressed;
    } else {
      table.run_host(batch);
    }
    if (i % 16 == 0) table.run(source.mixed(keys, scale / 16, 0.5));
  }
  if (expressed < calls * 3 / 4) table.fail("only " + std::to_string(expressed) + " by express");
  const DeviceBatch twice = source.uniform_op(TableOp::put, {keys[0], keys[1], keys[0]});
  if (table.run_express(twice)) table.fail("a key came twice");
  table.check_all();
  return table.wrong() + table.refused();
}

// Walks over all entries, in steps of many sizes, beside a growing table.
template <class Device, class Kind = LineKind>
uint64_t check_walks(Device& device, uint64_t scale) {
  DeviceRequestSource source(41);
  const FixedDeviceOptions options{0, 43, 4, static_cast<uint32_t>(scale)};
  ModelledTable<Device, Kind> table(device, options);
  const DeviceStream<Device> stream(device);
  TableScan<Device> scan(device);
  std::vector<uint64_t> keys = source.keys(scale / 2);
  keys.push_back(table.key_of(0));
  for (const uint64_t wanted : {uint64_t{1} << 30, uint64_t{7}, scale / 8}) {
    table.run(source.mixed(keys, scale, 1.0));
    std::unordered_map<uint64_t, uint64_t> seen;
    uint64_t twice = 0;
    uint64_t bound = 0;
    do {
      bound = scan.run(
          table.table(), options.seed, bound, scale, std::min(wanted, scale * 2), stream.get(),
          [&](uint64_t key, uint64_t value) { twice += seen.emplace(key, value).second ? 0 : 1; });
    } while (bound != 0);
    if (seen != table.model() || twice != 0) table.fail("a walk met other entries");
  }
  table.check_all();
  return table.wrong() + table.refused();
}

template <class Device>
struct DeviceTableCheck {
  const char* name;
  uint64_t (*run)(Device& device, uint64_t scale);

  friend std::ostream& operator<<(std::ostream& out, const DeviceTableCheck& check) {
    return out << check.name;
  }
};

template <class Device, class Kind = LineKind>
constexpr DeviceTableCheck<Device> device_table_checks[] = {
    {"mixed batches", check_mixed_batches<Device, Kind>},
    {"uniform calls", check_uniform_calls<Device, Kind>},
    {"distinct keys", check_distinct_keys<Device, Kind>},
    {"growth", check_growth<Device, Kind>},
    {"special keys", check_special_keys<Device, Kind>},
    {"one line", check_one_line<Device, Kind>},
    {"one key", check_one_key<Device, Kind>},
    {"memory ends", check_memory_ends<Device, Kind>},
    {"host arrays", check_host_arrays<Device, Kind>},
    {"awaited gets", check_awaited_gets<Device, Kind>},
    {"express", check_express<Device, Kind>},
    {"walks", check_walks<Device, Kind>},
};

}  // namespace isotherm
