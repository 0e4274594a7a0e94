// Batches of GET on items of 16-byte keys and 32-byte values, beside abseil's flat_hash_map looked
// up one by one; and the memory an item takes, all in, also the worst while the count doubles.
//
//   items_bench [items]        default 20,000,000
#include <absl/container/flat_hash_map.h>

#include <array>

#include "bench_support.h"
#include "isotherm/store.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

constexpr size_t key_bytes = 16;
constexpr size_t value_bytes = 32;
constexpr size_t batch_rows = 512;
constexpr size_t gets_a_round = 1 << 21;
constexpr int rounds = 5;

using Key = std::array<char, key_bytes>;

Key make_key(uint64_t number) {
  constexpr char digits[] = "0123456789abcdef";
  Key key;
  for (char& byte : key) {
    byte = digits[number & 15];
    number >>= 4;
  }
  return key;
}

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0;
  uint64_t resident = 0;
  statm >> total >> resident;
  return resident * 4096;
}

// Puts items `from` to `to` in batches.
void put_range(Handle& handle, Batch& batch, uint64_t from, uint64_t to) {
  const std::string value(value_bytes, 'v');
  std::vector<Key> keys(batch_rows);
  while (from < to) {
    const size_t rows = std::min<uint64_t>(batch_rows, to - from);
    for (size_t i = 0; i < rows; ++i) {
      keys[i] = make_key(from + i);
      batch.put({keys[i].data(), key_bytes}, value);
    }
    handle.submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      if (batch.reply(row).status.load() != Status::ok) std::abort();
    }
    batch.clear();
    handle.maintain();
    from += rows;
  }
}

void memory_rows(Store& store, Handle& handle, Batch& batch, uint64_t items,
                 uint64_t resident_before) {
  const auto per_item = [](uint64_t bytes, uint64_t count) {
    return static_cast<double>(bytes) / static_cast<double>(count);
  };
  put_range(handle, batch, 0, items / 2);
  double worst = 0;
  constexpr uint64_t steps = 32;
  for (uint64_t step = 0; step < steps; ++step) {
    const uint64_t to = items / 2 + items / 2 * (step + 1) / steps;
    put_range(handle, batch, items / 2 + items / 2 * step / steps, to);
    worst = std::max(worst, per_item(store.memory(), to));
  }
  while (handle.maintain()) {
  }
  std::printf(
      "memory: %.1f bytes an item by the store's account, %.1f resident; worst from %.0f M to %.0f "
      "M "
      "items %.1f (goal 100, aim 90)\n",
      per_item(store.memory(), items), per_item(resident_bytes() - resident_before, items),
      static_cast<double>(items) / 2e6, static_cast<double>(items) / 1e6, worst);
}

using Map = absl::flat_hash_map<std::string, std::string>;

Map make_map(uint64_t items) {
  Map map;
  map.reserve(items);
  const std::string value(value_bytes, 'v');
  for (uint64_t i = 0; i < items; ++i) {
    const Key key = make_key(i);
    map.emplace(std::string(key.data(), key_bytes), value);
  }
  return map;
}

double map_gets(const Map& map, const std::vector<Key>& keys) {
  uint64_t bytes = 0;
  const double took = seconds([&] {
    for (const Key& key : keys) {
      const auto found = map.find(absl::string_view(key.data(), key_bytes));
      if (found != map.end())
        bytes += found->second.size() + static_cast<uint8_t>(found->second[0]);
    }
  });
  if (bytes != keys.size() * (value_bytes + 'v')) std::abort();
  return static_cast<double>(keys.size()) / took;
}

double store_gets(Handle& handle, Batch& batch, const std::vector<Key>& keys) {
  uint64_t bytes = 0;
  const double took = seconds([&] {
    for (size_t from = 0; from < keys.size(); from += batch_rows) {
      for (size_t i = 0; i < batch_rows; ++i) batch.get({keys[from + i].data(), key_bytes});
      handle.submit(batch);
      for (Batch::Row row = 0; row < batch_rows; ++row) {
        const Reply& reply = batch.reply(row);
        bytes += reply.size + static_cast<uint8_t>(reply.data[0]);
      }
      batch.clear();
    }
  });
  if (bytes != keys.size() * (value_bytes + 'v')) std::abort();
  return static_cast<double>(keys.size()) / took;
}

void get_rows(Handle& handle, Batch& batch, uint64_t items) {
  const Map map = make_map(items);
  std::vector<double> rates, map_rates, ratios;
  std::vector<Key> keys(gets_a_round);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = make_key(scramble(i + static_cast<uint64_t>(round) * keys.size()) % items);
    }
    map_rates.push_back(map_gets(map, keys) / 1e6);
    rates.push_back(store_gets(handle, batch, keys) / 1e6);
    ratios.push_back(rates.back() / map_rates.back());
  }
  std::printf(
      "get, 1 thread: %.2f M/s in batches of %zu, flat_hash_map one by one %.2f M/s, ratio %.2f "
      "(goal 3)\n",
      median(rates), batch_rows, median(map_rates), median(ratios));
}

void run(uint64_t items) {
  print_environment("items_bench");
  const uint64_t resident_before = resident_bytes();
  Store store;
  Handle handle(store);
  Batch batch;
  std::printf("%.0f M items of %zu + %zu bytes, medians of %d rounds\n",
              static_cast<double>(items) / 1e6, key_bytes, value_bytes, rounds);
  memory_rows(store, handle, batch, items, resident_before);
  get_rows(handle, batch, items);
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  run(take_number<uint64_t>(
      argc, argv, "Batches of GET on items beside a flat_hash_map, and the memory an item takes.",
      "items", 20'000'000));
}
