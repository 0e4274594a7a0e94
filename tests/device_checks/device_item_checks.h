// Checks of a table of device items against a model, for any device; see
// tests/device_checks/device_table_checks.h.
#pragma once

#include <algorithm>
#include <ostream>
#include <string>
#include <vector>

#include "isotherm/gpu/common.h"
#include "models/modelled_items.h"

namespace isotherm {

// Keys and values of many lengths, as many of them short as not.
class ItemSource {
 public:
  ItemSource(uint64_t seed, uint64_t longest_key, uint64_t longest_value)
      : random_(seed), longest_key_(longest_key), longest_value_(longest_value) {}

  std::mt19937_64& random() { return random_; }

  // Different ones; the empty key, and keys that differ by zeros at their ends, among them.
  std::vector<std::string> keys(uint64_t count) {
    std::set<std::string> keys{""};
    for (uint64_t zeros = 1; zeros < 4 && keys.size() < count; ++zeros) {
      keys.insert(std::string(zeros, '\0'));
    }
    while (keys.size() < count) keys.insert(bytes(longest_key_));
    std::vector<std::string> shuffled(keys.begin(), keys.end());
    std::shuffle(shuffled.begin(), shuffled.end(), random_);
    return shuffled;
  }
  std::string value() { return bytes(longest_value_); }

  ItemBatch mixed(const std::vector<std::string>& keys, uint64_t rows, double writes) {
    ItemBatch batch;
    std::uniform_real_distribution<double> uniform(0, 1);
    for (uint64_t i = 0; i < rows; ++i) {
      const double at = uniform(random_) * uniform(random_) * static_cast<double>(keys.size());
      ItemRequest request{TableOp::get, keys[static_cast<size_t>(at)], {}};
      if (uniform(random_) < writes) {
        request.op = random_() % 3 == 0 ? TableOp::erase : TableOp::put;
      }
      if (request.op == TableOp::put) {
        request.value = value();
        // Times from 1 to 20; the model's clock stands at 10.
        if (random_() % 4 == 0) request.expiry = static_cast<int64_t>(1 + random_() % 20);
      }
      batch.push_back(request);
    }
    return batch;
  }
  ItemBatch uniform_op(TableOp op, const std::vector<std::string>& keys) {
    ItemBatch batch;
    for (const std::string& key : keys) {
      batch.push_back({op, key, op == TableOp::put ? value() : std::string(), 0});
    }
    return batch;
  }

 private:
  std::string bytes(uint64_t longest) {
    const uint64_t most = random_() % 2 == 0 ? std::min<uint64_t>(longest, 40) : longest;
    std::string bytes(random_() % (most + 1), '\0');
    for (char& byte : bytes) byte = static_cast<char>(random_());
    return bytes;
  }

  std::mt19937_64 random_;
  const uint64_t longest_key_;
  const uint64_t longest_value_;
};

inline DeviceItemOptions small_items(uint64_t seed, uint64_t part_rows) {
  DeviceItemOptions options;
  options.part_rows = static_cast<uint32_t>(part_rows);
  options.index = {0, seed, 6, options.part_rows};
  options.slab_bytes = 64 << 10;
  options.key_room = part_rows * 64;
  options.value_room = part_rows * 256;
  options.reply_room = part_rows * 128;
  return options;
}

// All operations mixed, over few keys and over many, in batches of many sizes, from both sides.
template <class Device>
uint64_t check_mixed_items(Device& device, uint64_t scale) {
  ItemSource source(1, 300, 2000);
  ModelledItems<Device> table(device, small_items(7, scale / 4));
  const std::vector<std::string> keys = source.keys(scale / 2);
  const std::vector<std::string> few(keys.begin(), keys.begin() + 5);
  for (const uint64_t rows : {uint64_t{1}, uint64_t{2}, uint64_t{31}, uint64_t{33}, uint64_t{257},
                              scale / 4, scale + 5}) {
    for (const double writes : {0.0, 0.05, 0.5, 1.0}) {
      table.run(source.mixed(keys, rows, writes));
      table.run_host(source.mixed(keys, rows, writes));
      table.run(source.mixed(few, std::min(rows, scale / 4), writes));
    }
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Calls of one operation, with replies and without.
template <class Device>
uint64_t check_uniform_items(Device& device, uint64_t scale) {
  ItemSource source(2, 40, 300);
  ModelledItems<Device> table(device, small_items(5, scale / 2));
  std::vector<std::string> keys = source.keys(scale);
  for (uint64_t i = 0; i < scale / 8; ++i) keys.push_back(keys[source.random()() % scale]);
  for (const TableOp op : {TableOp::put, TableOp::get, TableOp::erase, TableOp::put}) {
    for (const bool host : {false, true}) {
      std::shuffle(keys.begin(), keys.end(), source.random());
      const std::vector<std::string> some(keys.begin(), keys.begin() + keys.size() / 2);
      table.run_uniform(op, source.uniform_op(op, some), host, true);
      if (op != TableOp::get) table.run_uniform(op, source.uniform_op(op, keys), host, false);
    }
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Few hashes for all keys: every chain has many items, in batches that change them.
template <class Device>
uint64_t check_colliding_items(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  const uint64_t rows = std::min<uint64_t>(scale / 4, 500);
  for (const uint64_t mask : {uint64_t{0}, uint64_t{1} << 63, uint64_t{5}, uint64_t{255}}) {
    ItemSource source(mask + 3, 40, 100);
    DeviceItemOptions options = small_items(9, rows);
    options.hash_mask = mask;
    ModelledItems<Device> table(device, options);
    const std::vector<std::string> keys = source.keys(rows / 4);
    for (int round = 0; round < 3; ++round) {
      for (const double writes : {0.0, 0.1, 0.5, 1.0}) {
        table.run(source.mixed(keys, rows, writes));
        table.run_host(source.mixed(keys, rows, writes));
      }
      table.check_all();
    }
    table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, keys), false, true);
    table.check_all();
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// Values of up to the limit, among short ones.
template <class Device>
uint64_t check_long_values(Device& device, uint64_t /*scale*/) {
  ItemSource source(4, 40, 100);
  DeviceItemOptions options = small_items(11, 64);
  options.reply_room = 1 << 20;
  ModelledItems<Device> table(device, options);
  const std::vector<std::string> keys = source.keys(12);
  std::vector<ItemBatch> batches(2);
  for (const uint64_t bytes :
       {uint64_t{32} << 10, (uint64_t{32} << 10) + 1, uint64_t{100'003}, (uint64_t{1} << 20) + 7,
        gpu::max_item_value_bytes - 1, gpu::max_item_value_bytes}) {
    std::string value(bytes, '\0');
    for (uint64_t i = 0; i < bytes; ++i) value[i] = static_cast<char>(i * 31 + i / 255 + bytes);
    batches[bytes % 2].push_back({TableOp::put, keys[bytes % 11], value, 0});
    for (const std::string& key : keys) {
      if (source.random()() % 3 == 0) batches[0].push_back({TableOp::get, key, {}});
    }
  }
  const std::string long_key(gpu::max_item_key_bytes, 'k');
  batches[1].push_back({TableOp::put, long_key, "value"});
  table.run(batches[0]);
  table.run_host(batches[1]);
  table.run_host(batches[0]);
  table.run(batches[1]);
  table.run({{TableOp::get, long_key, {}}});
  table.check_all();
  return table.wrong() + table.refused();
}

// What erased and replaced items leave is used again: memory stays where the first rounds left it.
template <class Device>
uint64_t check_reuse(Device& device, uint64_t scale) {
  ItemSource source(5, 30, 200);
  ModelledItems<Device> table(device, small_items(13, scale / 2));
  const std::vector<std::string> keys = source.keys(scale / 2);
  uint64_t settled = 0;
  for (int round = 0; round < 12; ++round) {
    table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), false, false);
    table.run(source.mixed(keys, scale / 2, 0.5));
    table.run_uniform(TableOp::erase, source.uniform_op(TableOp::erase, keys), true, true);
    if (table.stats().entries != 0) table.fail("items are left");
    const uint64_t bytes = table.stats().bytes;
    if (round == 5) settled = bytes;
    // Lengths are drawn anew, so the classes' peaks still rise a little.
    if (round > 5 && bytes > settled + settled / 4) table.fail("memory is not used again");
  }
  return table.wrong() + table.refused();
}

// What an index takes for the first items and has ahead, and a little more.
inline constexpr uint64_t first_index_bytes = 400'000;

// Options of a table that takes so many bytes for index and items; where the host has some, too, so
// many beside what the index begins with.
template <class Device>
DeviceItemOptions capped_items(Device& device, DeviceItemOptions options, uint64_t bytes,
                               uint64_t host_bytes = 0) {
  ModelledItems<Device> empty(device, options);
  const gpu::ItemStats stats = empty.stats();
  options.index.gpu_memory = stats.bytes + stats.workspace + bytes;
  if (host_bytes != 0) options.index.gpu_memory += first_index_bytes;
  options.host_memory = host_bytes;
  return options;
}

// Batches of `rows` rows until device memory ends, and a few more.
template <class Device>
uint64_t fill_to_the_end(Device& device, uint64_t rows, uint64_t hash_mask) {
  ItemSource source(6, 40, 300);
  DeviceItemOptions options = small_items(15, rows);
  options = capped_items(device, options, rows * 600);
  options.hash_mask = hash_mask;
  ModelledItems<Device> table(device, options);
  std::vector<std::string> all;
  for (int round = 0, last = 60; round < last; ++round) {
    if (table.refused() != 0 && last == 60) last = round + 3;
    const std::vector<std::string> keys = source.keys(rows / 2);
    all.insert(all.end(), keys.begin(), keys.end());
    table.run(source.mixed(keys, rows, 0.7));
    table.run_host(source.mixed(all, rows, 0.3));
  }
  if (table.refused() == 0) table.fail("no put was refused");
  table.check_caps(options);
  table.check_all();
  return table.wrong();
}

// Device memory ends: puts are refused and change nothing; what is there stays right.
template <class Device>
uint64_t check_items_without_memory(Device& device, uint64_t scale) {
  const uint64_t many = std::min<uint64_t>(scale / 2, 4096);
  const uint64_t few = std::min<uint64_t>(many, 512);
  return fill_to_the_end(device, many, ~uint64_t{0}) +
         fill_to_the_end(device, few, uint64_t{0xf} << 60);
}

// Where memory ends, items that are not read make room for new ones, and those that are stay.
template <class Device>
uint64_t evict_unread(Device& device, uint64_t rows, uint64_t bytes, uint64_t host_bytes) {
  DeviceItemOptions options = small_items(23, rows);
  options.evicts = true;
  options = capped_items(device, options, bytes - host_bytes, host_bytes);
  ModelledItems<Device> table(device, options);
  constexpr uint64_t value_bytes = 90;
  const ItemBatch read = of_keys(TableOp::get, numbered_puts(0, rows / 2, 0));
  table.run(numbered_puts(0, rows / 2, value_bytes));
  for (uint64_t round = 0; round < 24; ++round) {
    const uint64_t first = rows / 2 + round * rows;
    table.run_from(round % 2 == 0, numbered_puts(first, rows, value_bytes));
    table.run_uniform(TableOp::get, read, round % 3 == 0, true);
  }
  if (table.missed() > read.size() / 10) table.fail("items that are read were evicted");
  if (table.stats().evicted < rows * 8) table.fail("too little was evicted");
  if (table.refused() > rows) table.fail("puts were refused");
  table.check_caps(options);
  table.check_all();
  return table.wrong();
}
template <class Device>
uint64_t check_eviction(Device& device, uint64_t scale) {
  const uint64_t rows = std::min<uint64_t>(scale / 4, 4096);
  return evict_unread(device, rows, rows * 8 * 160, 0);
}

// Histories where memory ends: bytes a row of a batch, and the sizes that values have.
struct FullHistories {
  uint64_t seed = 0;
  uint64_t rounds = 0;
  uint64_t most_value_bytes = 0;
  uint64_t device_bytes = 0;
  uint64_t host_bytes = 0;
};

// The same under histories of all operations and sizes, and with hashes that are shared.
template <class Device>
uint64_t evict_under_histories(Device& device, uint64_t scale, const FullHistories& full) {
  uint64_t wrong = 0;
  for (const uint64_t mask : {~uint64_t{0}, uint64_t{0x3ff} << 54}) {
    const uint64_t rows = std::min<uint64_t>(scale / 4, mask == ~uint64_t{0} ? 4096 : 256);
    ItemSource source(full.seed, 40, full.most_value_bytes);
    DeviceItemOptions options = small_items(full.seed + 2, rows);
    options.evicts = true;
    options.hash_mask = mask;
    options = capped_items(device, options, rows * full.device_bytes, rows * full.host_bytes);
    ModelledItems<Device> table(device, options);
    const std::vector<std::string> keys = source.keys(rows * 10);
    for (uint64_t round = 0; round < full.rounds; ++round) {
      ItemBatch batch = source.mixed(keys, rows + rows / 2, round % 2 == 0 ? 0.7 : 0.2);
      for (ItemRequest& request : batch) request.expiry = 0;
      table.run_from(round % 3 == 0, batch);
    }
    const gpu::ItemStats stats = table.stats();
    if (stats.evicted == 0) table.fail("nothing was evicted");
    const bool on_both = stats.host_entries != 0 && stats.host_entries != stats.entries;
    if (on_both != (full.host_bytes != 0)) table.fail("items lie in the wrong memories");
    table.check_caps(options);
    table.check_all();
    wrong += table.wrong();
  }
  return wrong;
}
template <class Device>
uint64_t check_evicting_histories(Device& device, uint64_t scale) {
  return evict_under_histories(device, scale, {11, 12, 150, 2 * 160, 0});
}

// Sizes of values change while memory is full: soon the new ones have most of it, but for what the
// index took while there were more items.
template <class Device>
uint64_t change_sizes(Device& device, uint64_t rows, uint64_t bytes, uint64_t host_bytes) {
  constexpr uint64_t sizes[] = {40, 1000, 200, 3000};
  DeviceItemOptions options = small_items(27, rows);
  options.evicts = true;
  options = capped_items(device, options, bytes - host_bytes, host_bytes);
  ModelledItems<Device> table(device, options);
  uint64_t next = 0;
  for (const uint64_t size : sizes) {
    const uint64_t fit = bytes / (size + 120);  // with their shares of index and lists
    const uint64_t first = next;
    for (; next < first + fit * 3; next += rows) table.run_host(numbered_puts(next, rows, size));
    const uint64_t hits = table.hits();
    table.run(of_keys(TableOp::get, numbered_puts(first, next - first, size)));
    if (table.hits() - hits < fit * 2 / 5) table.fail("the new size has too little memory");
  }
  table.check_caps(options);
  table.check_all();
  return table.wrong();
}
template <class Device>
uint64_t check_changing_sizes(Device& device, uint64_t scale) {
  const uint64_t rows = std::min<uint64_t>(scale / 8, 1024);
  return change_sizes(device, rows, rows * 1000, 0);
}

// What was erased serves other sizes, also where nothing may be evicted.
template <class Device>
uint64_t erase_sizes(Device& device, uint64_t rows, uint64_t bytes, uint64_t host_bytes) {
  const DeviceItemOptions options =
      capped_items(device, small_items(29, rows), bytes - host_bytes, host_bytes);
  ModelledItems<Device> table(device, options);
  uint64_t next = 0;
  for (const uint64_t size : {40, 1000, 200, 3000, 40}) {
    const uint64_t refused = table.refused();
    const uint64_t fit = bytes / (size + 120);  // with their shares of index and lists
    const ItemBatch puts = numbered_puts(next, fit / 2, size);
    next += fit;
    table.run_host(puts);
    if (table.refused() - refused > fit / 16) table.fail("a put was refused");
    table.run_host(of_keys(TableOp::get, puts));
    if (host_bytes != 0 && table.stats().host_entries == 0) table.fail("nothing lies on the host");
    table.run(of_keys(TableOp::erase, puts));
  }
  table.check_caps(options);
  table.check_all();
  return table.wrong();
}
template <class Device>
uint64_t check_erased_sizes(Device& device, uint64_t scale) {
  const uint64_t rows = std::min<uint64_t>(scale / 8, 1024);
  return erase_sizes(device, rows, rows * 1000, 0);
}

// Items that have expired are freed though nobody asks for their keys, and no others are.
template <class Device>
uint64_t sweep_expired(Device& device, const DeviceItemOptions& options) {
  const uint64_t rows = options.part_rows;
  ModelledItems<Device> table(device, options);
  constexpr int64_t past = 5;
  constexpr int64_t future = 50;
  uint64_t next = 0;
  for (const int64_t expiry : {future, past, int64_t{0}, past}) {
    for (const uint64_t size : {10, 1000}) {
      table.run_host(numbered_puts(next, rows, size, expiry));
      next += rows;
    }
  }
  // Each row pays for several looks: these for more than all there is.
  const ItemBatch few = numbered_puts(next, rows / 4, 30, future);
  for (int round = 0; round < 24; ++round) table.run_from(round % 2 == 0, few);
  const gpu::ItemStats stats = table.stats();
  if (stats.entries != table.live()) table.fail("expired items are left");
  if (stats.expired != rows * 4) table.fail("others were freed, or not all");
  // Their memory serves new items, so only the index may grow.
  next += rows;
  for (const uint64_t size : {10, 1000}) {
    table.run(numbered_puts(next, rows / 2, size, future));
    next += rows;
  }
  const gpu::ItemStats after = table.stats();
  if (after.bytes + after.host_bytes > stats.bytes + stats.host_bytes + rows * 400) {
    table.fail("memory is not used again");
  }
  table.check_all();
  return table.wrong() + table.refused();
}
template <class Device>
uint64_t check_expired_sweep(Device& device, uint64_t scale) {
  return sweep_expired(device, small_items(31, std::min<uint64_t>(scale / 8, 1024)));
}

// The reply does not fit: its size and all else are told, and nothing is written behind it.
template <class Device>
uint64_t check_small_capacity(Device& device, uint64_t scale) {
  ItemSource source(7, 40, 300);
  ModelledItems<Device> table(device, small_items(17, scale / 4));
  const std::vector<std::string> keys = source.keys(scale / 2);
  table.run_uniform(TableOp::put, source.uniform_op(TableOp::put, keys), true, true);
  const ItemBatch gets = source.mixed(keys, scale, 0);
  for (const bool host : {false, true}) {
    for (const double share : {0.0, 0.3, 0.999}) {
      table.limit_capacity(share);
      table.run_from(host, gets);
      table.run_from(host, source.mixed(keys, scale / 2, 0.3));
    }
    table.limit_capacity(1);
    table.run_from(host, gets);
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// Host arrays in very many parts, whose changes follow close on each other.
template <class Device>
uint64_t check_many_parts(Device& device, uint64_t scale) {
  ItemSource source(9, 20, 60);
  ModelledItems<Device> table(device, small_items(21, 32));
  const std::vector<std::string> keys = source.keys(100);
  for (int round = 0; round < 3; ++round) {
    for (const double writes : {0.0, 0.5, 1.0}) {
      table.run_host(source.mixed(keys, scale / 2, writes));
    }
  }
  table.check_all();
  return table.wrong() + table.refused();
}

// From an empty table through many splits of the index.
template <class Device>
uint64_t check_item_growth(Device& device, uint64_t scale) {
  ItemSource source(8, 20, 20);
  DeviceItemOptions options = small_items(19, scale);
  options.index.line_bits = 4;
  ModelledItems<Device> table(device, options);
  for (uint64_t rows = 100; rows <= scale * 2; rows *= 3) {
    const std::vector<std::string> keys = source.keys(rows);
    table.run_from(rows % 2 == 0, source.uniform_op(TableOp::put, keys));
  }
  table.check_all();
  const gpu::ItemStats stats = table.stats();
  if (stats.segments < std::max<uint64_t>(2, stats.entries / 256)) table.fail("did not grow");
  return table.wrong() + table.refused();
}

template <class Device>
struct DeviceItemCheck {
  const char* name;
  uint64_t (*run)(Device& device, uint64_t scale);

  friend std::ostream& operator<<(std::ostream& out, const DeviceItemCheck& check) {
    return out << check.name;
  }
};

template <class Device>
constexpr DeviceItemCheck<Device> device_item_checks[] = {
    {"mixed items", check_mixed_items<Device>},
    {"uniform items", check_uniform_items<Device>},
    {"colliding items", check_colliding_items<Device>},
    {"long values", check_long_values<Device>},
    {"reuse", check_reuse<Device>},
    {"items without memory", check_items_without_memory<Device>},
    {"small capacity", check_small_capacity<Device>},
    {"eviction", check_eviction<Device>},
    {"evicting histories", check_evicting_histories<Device>},
    {"many parts", check_many_parts<Device>},
    {"changing sizes", check_changing_sizes<Device>},
    {"erased sizes", check_erased_sizes<Device>},
    {"expired sweep", check_expired_sweep<Device>},
    {"item growth", check_item_growth<Device>},
};

}  // namespace isotherm
