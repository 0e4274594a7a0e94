// Checks of puts of new keys (gpu/batch/try_kernels.h) against the model, whatever is expected of
// the keys: parts that try to claim slots, parts that do not, and tables that judge by themselves.
// Read tests/device_checks/device_table_checks.h first.
//
// What goes wrong here would show as a reply (two rows of a key that both saw it absent), as a
// count of entries (a key with two slots), or as a value (not the last row's).
#pragma once

#include <algorithm>
#include <utility>
#include <vector>

#include "device_checks/device_table_checks.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

// Where a table judges by itself, parts of all sizes do.
inline FixedDeviceOptions put_options(TryPuts when, uint64_t seed, int line_bits, uint64_t rows) {
  FixedDeviceOptions options{0, seed, line_bits, static_cast<uint32_t>(rows)};
  options.tries = {when, 1};
  return options;
}

inline constexpr TryPuts all_tries[] = {TryPuts::always, TryPuts::where_new, TryPuts::never};

class DevicePutSource : public DeviceRequestSource {
 public:
  using DeviceRequestSource::DeviceRequestSource;

  // A put of each key, in this order, all of other values.
  DeviceBatch puts(const std::vector<uint64_t>& keys) {
    DeviceBatch batch;
    for (const uint64_t key : keys) batch.push_back({TableOp::put, key, random()(), 0});
    return batch;
  }

  // Each key up to `most` times. Copies lie side by side in about every third batch, a few rows
  // apart in another, and anywhere in the rest.
  std::vector<uint64_t> repeated(const std::vector<uint64_t>& keys, uint64_t most) {
    std::vector<uint64_t> rows;
    for (const uint64_t key : keys) rows.insert(rows.end(), 1 + random()() % most, key);
    constexpr uint64_t near = 40;
    const uint64_t reach[] = {1, near, rows.size()};
    const uint64_t range = reach[random()() % std::size(reach)];
    for (uint64_t i = 0; i < rows.size(); ++i) {
      std::swap(rows[i], rows[std::min(i + random()() % range, rows.size() - 1)]);
    }
    return rows;
  }

  // So many rows, skewed: the product of three uniform numbers picks the key.
  std::vector<uint64_t> skewed(const std::vector<uint64_t>& keys, uint64_t rows) {
    std::vector<uint64_t> picked;
    std::uniform_real_distribution<double> uniform(0, 1);
    for (uint64_t i = 0; i < rows; ++i) {
      const double at = uniform(random()) * uniform(random()) * uniform(random());
      picked.push_back(keys[static_cast<size_t>(at * static_cast<double>(keys.size() - 1))]);
    }
    return picked;
  }
};

// Replies are wanted by every other call.
template <class Device, class Kind>
void run_puts(ModelledTable<Device, Kind>& table, DevicePutSource& source,
              const std::vector<uint64_t>& keys) {
  table.run_uniform(TableOp::put, source.puts(keys), source.random()() % 2 == 0);
}

// Keys that come once, as the caller promises, with replies and without, in calls of one operation:
// new keys, the same again, and erased; with room for all of them from the start and without.
template <class Device, class Kind = LineKind>
uint64_t check_promised_keys(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const bool room : {true, false}) {
    DevicePutSource source(27);
    ModelledTable<Device, Kind> table(device, put_options(TryPuts::where_new, 37, 4, scale));
    if (room) table.table().reserve(scale * 16);
    for (const uint64_t rows : {uint64_t{1}, scale / 4, scale + 1, scale * 4}) {
      const std::vector<uint64_t> keys = source.keys(rows);
      for (const bool replies : {false, true}) {
        table.run_uniform(TableOp::put, source.puts(keys), replies, true);
      }
      const std::vector<uint64_t> some(keys.begin(), keys.begin() + static_cast<long>(rows / 3));
      const bool replies = source.random()() % 2 == 0;
      table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, some), replies, true);
      table.check_all();
    }
    faults += table.wrong() + table.refused();
  }
  return faults;
}

// All keys new, each once, in calls of many sizes and of several parts.
template <class Device, class Kind = LineKind>
uint64_t check_new_keys(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const TryPuts when : all_tries) {
    DevicePutSource source(20);
    ModelledTable<Device, Kind> table(device, put_options(when, 31, 4, scale));
    for (const uint64_t rows : {uint64_t{1}, uint64_t{31}, uint64_t{33}, uint64_t{257}, scale / 4,
                                scale, scale * 2 + 5}) {
      run_puts(table, source, source.keys(rows));
    }
    table.check_all();
    faults += table.wrong() + table.refused();
  }
  return faults;
}

// Keys that are new and come up to 30 times; then all of them again among others; nearly all once;
// and a few of them most of the times.
template <class Device, class Kind = LineKind>
uint64_t check_repeated_new_keys(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const TryPuts when : all_tries) {
    DevicePutSource source(21);
    ModelledTable<Device, Kind> table(device, put_options(when, 33, 4, scale));
    for (const uint64_t most : {2, 2, 3, 8, 30}) {
      std::vector<uint64_t> keys = source.keys(scale / most);
      run_puts(table, source, source.repeated(keys, most));
      const std::vector<uint64_t> others = source.keys(scale / most / 4);
      keys.insert(keys.end(), others.begin(), others.end());
      run_puts(table, source, source.repeated(keys, 2));
      // Nearly all keys come once, and few of them meet another row of theirs.
      std::vector<uint64_t> once = source.keys(scale / 2);
      for (uint64_t i = 0; i < 1 + most; ++i) once.push_back(once[source.random()() % once.size()]);
      std::shuffle(once.begin(), once.end(), source.random());
      run_puts(table, source, once);
      run_puts(table, source, source.skewed(source.keys(scale), scale / 2));
    }
    table.check_all();
    faults += table.wrong() + table.refused();
  }
  return faults;
}

// New keys among present ones, then all present, then all new: what is expected is wrong in turn.
// Between them other operations, and puts by express, which say nothing of it.
template <class Device, class Kind = LineKind>
uint64_t check_wrong_guesses(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const TryPuts when : all_tries) {
    DevicePutSource source(22);
    ModelledTable<Device, Kind> table(device, put_options(when, 35, 6, scale));
    std::vector<uint64_t> keys = source.keys(scale / 2);
    run_puts(table, source, keys);
    for (int i = 0; i < 2; ++i) {
      const std::vector<uint64_t> fresh = source.keys(scale / 2);
      keys.insert(keys.end(), fresh.begin(), fresh.end());
      std::shuffle(keys.begin(), keys.end(), source.random());
      run_puts(table, source, keys);
      run_puts(table, source, keys);
      run_puts(table, source, source.repeated(keys, 3));
      run_puts(table, source, source.keys(scale / 2));
      table.run(source.mixed(keys, scale / 4, 0.5));
      const DeviceBatch few = source.puts({source.random()(), keys[0], source.random()()});
      if (!table.run_express(few)) table.fail("three puts did not go by express");
    }
    table.check_all();
    faults += table.wrong() + table.refused();
  }
  return faults;
}

// Chains of one line and more: keys that agree in the top 20 bits of their hashes, as many as fit
// and more, repeated; and slots that were freed in front of entries, the last one among them.
template <class Device, class Kind = LineKind>
uint64_t check_puts_in_full_chains(Device& device, uint64_t scale) {
  uint64_t faults = 0;
  for (const TryPuts when : {TryPuts::always, TryPuts::never}) {
    DevicePutSource source(23);
    ModelledTable<Device, Kind> table(device, put_options(when, 37, 4, scale));
    const auto keys_of_lines = [&](uint64_t lines, uint64_t most) {
      std::vector<uint64_t> keys;
      for (uint64_t i = 0; i < lines; ++i) {
        const uint64_t line = i * (~uint64_t{0} / lines + 1) >> 44 << 44;
        for (uint64_t k = 1 + source.random()() % most; k != 0; --k) {
          keys.push_back(table.key_of(line | source.random()() >> 20));
        }
      }
      return keys;
    };
    const uint64_t lines = scale / 64;
    std::vector<uint64_t> all;
    for (const uint64_t most : {8, 4, 16, 24}) {
      const std::vector<uint64_t> keys = keys_of_lines(lines, most);
      run_puts(table, source, source.repeated(keys, most < 16 ? 4 : 2));
      all.insert(all.end(), keys.begin(), keys.end());
      std::shuffle(all.begin(), all.end(), source.random());
      const std::vector<uint64_t> some(all.begin(), all.begin() + all.size() / 2);
      table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, some), true);
      // Keys that are behind the free slots, and new ones that go there.
      std::vector<uint64_t> mixed = keys_of_lines(lines, 4);
      mixed.insert(mixed.end(), all.begin(), all.end());
      run_puts(table, source, source.repeated(mixed, 2));
    }
    table.check_all();
    faults += table.wrong() + table.refused();
  }
  return faults;
}

// Few keys in many short calls: what two rows of one key do at the same time. The keys of extreme
// hashes are among them, that of hash 0, which lies in the table's head, and those like marks.
template <class Device, class Kind = LineKind>
uint64_t check_puts_of_few_keys(Device& device, uint64_t scale) {
  DevicePutSource source(24);
  ModelledTable<Device, Kind> table(device, put_options(TryPuts::always, 39, 4, scale));
  std::vector<uint64_t> special = {0, ~uint64_t{0}, table.key_of(0), table.key_of(~uint64_t{0})};
  for (uint64_t low = 1; low < 4; ++low) {
    special.push_back(table.key_of(low));
    special.push_back(table.key_of(mark::top_bit | low));
  }
  for (uint64_t i = 0; i < std::min<uint64_t>(scale / 16, 200); ++i) {
    std::vector<uint64_t> keys = source.keys(1 + source.random()() % 20);
    keys.insert(keys.end(), special.begin(), special.end());
    std::shuffle(keys.begin(), keys.end(), source.random());
    run_puts(table, source, source.repeated(keys, 30));
    table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, keys), true);
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Device memory ends within calls of puts whose keys come several times: all rows of a key are
// refused or none.
template <class Device, class Kind = LineKind>
uint64_t check_memory_ends_for_puts(Device& device, uint64_t scale) {
  DevicePutSource source(25);
  const uint64_t rows = std::min<uint64_t>(scale, 1 << 14);
  FixedDeviceOptions options = put_options(TryPuts::always, 41, 4, rows);
  {
    ModelledTable<Device, Kind> empty(device, options);
    empty.run_uniform(TableOp::put, source.puts(std::vector<uint64_t>(rows, 1)), true);
    const gpu::TableStats stats = empty.table().stats();
    options.gpu_memory = stats.bytes + stats.workspace + (64 << 10);
  }
  ModelledTable<Device, Kind> table(device, options);
  table.run_uniform(TableOp::put, source.puts(std::vector<uint64_t>(rows, 1)), true);
  // Until the first is refused, and some more.
  for (int round = 0, last = 100; round < last; ++round) {
    if (table.refused() != 0 && last == 100) last = round + 3;
    const std::vector<uint64_t> keys = source.repeated(source.keys(rows / 2), 1 + round % 3);
    table.run_uniform(TableOp::put, source.puts(keys), true);
  }
  if (table.refused() == 0) table.fail("no key was refused");
  table.check_all();
  return table.wrong();
}

template <class Device, class Kind = LineKind>
constexpr DeviceTableCheck<Device> device_put_checks[] = {
    {"promised keys", check_promised_keys<Device, Kind>},
    {"new keys", check_new_keys<Device, Kind>},
    {"repeated new keys", check_repeated_new_keys<Device, Kind>},
    {"wrong guesses", check_wrong_guesses<Device, Kind>},
    {"puts in full chains", check_puts_in_full_chains<Device, Kind>},
    {"puts of few keys", check_puts_of_few_keys<Device, Kind>},
    {"memory ends for puts", check_memory_ends_for_puts<Device, Kind>},
};

}  // namespace isotherm
