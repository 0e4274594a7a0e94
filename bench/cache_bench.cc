// Indexes of a fixed size beside the line index, on the host: rates of one thread, bytes an entry,
// and hit rates beside exact LRU and CLOCK.
//
//   cache_bench [both|speed|hits|stores] [entries]      default both (of tables), 4,000,000
//
// Rates: batches of 4,096, processor time, medians of 5 rounds. Hit rates: a read that misses puts
// its key in; batches of 16. Of three traces over `entries` keys: Zipf .99, uniform, and Zipf .99
// whose ranks move by a tenth of the keys ten times. As many reads are not counted as are counted,
// `entries` times 4 each. Reported by the share of the keys for which there is room, and by bytes,
// where an entry of a chained store takes 48 with LRU (key, value, link of the chain, two of the
// list, a place in the table) and 32 with CLOCK (without the list's).
//
// Stores: hit rates of the same traces at equal `maxmemory`, of keys of 16 bytes and values of 64,
// with policy allkeys-lru. Exact LRU has room for as many items as the cap holds with 32 bytes
// beside each, for the links of a chain and a list and a place in a table, and wastes nothing.
#include <time.h>

#include <array>
#include <functional>
#include <memory>
#include <string>

#include "bench_support.h"
#include "cache_policies.h"
#include "isotherm/fixed_table.h"
#include "isotherm/store.h"
#include "isotherm_bench/distribution.h"
#include "items/item.h"
#include "items/size_classes.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

constexpr size_t batch = 1 << 12;
constexpr size_t keys_a_round = 1 << 20;
constexpr int rounds = 5;
constexpr FixedIndexKind kinds[] = {FixedIndexKind::line, FixedIndexKind::cuckoo,
                                    FixedIndexKind::set};

const char* name_of(FixedIndexKind kind) {
  constexpr const char* names[] = {"line", "cuckoo", "set"};
  return names[static_cast<size_t>(kind)];
}

// Processor time, which other work on the machine disturbs less.
template <class Work>
double busy_seconds(Work&& work) {
  const auto now = [] {
    timespec time{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
  };
  const double start = now();
  work();
  return now() - start;
}

uint64_t key_of(uint64_t number) { return scramble(number + 1); }

// A table with room for `room` entries and `entries` in it.
class Filled {
 public:
  Filled(FixedIndexKind kind, uint64_t room, uint64_t entries)
      : table_(options(kind, room)), handle_(table_) {
    std::vector<uint64_t> keys(batch);
    for (uint64_t from = 0; from < entries; from += batch) {
      const size_t rows = std::min<uint64_t>(batch, entries - from);
      for (size_t i = 0; i < rows; ++i) keys[i] = key_of(from + i);
      if (handle_.put({keys.data(), rows}, {keys.data(), rows}).status != Status::ok) std::abort();
    }
    while (handle_.maintain()) {
    }
  }
  FixedTable& table() { return table_; }

  // Million keys a second, of keys that `number` draws; wrong values end the program.
  double gets(const std::function<uint64_t()>& number) {
    std::vector<uint64_t> values(batch);
    std::vector<uint8_t> found(batch);
    return rate(number, [&](std::span<const uint64_t> keys) {
      handle_.get(keys, values, found);
      for (size_t i = 0; i < keys.size(); ++i) {
        if (found[i] != 0 && values[i] != keys[i]) std::abort();
      }
    });
  }
  double puts(const std::function<uint64_t()>& number) {
    return rate(number, [&](std::span<const uint64_t> keys) { handle_.put(keys, keys); });
  }

 private:
  static FixedOptions options(FixedIndexKind kind, uint64_t room) {
    FixedOptions options;
    options.index = kind;
    options.expected_entries = kind == FixedIndexKind::line ? 0 : room;
    options.hash_seed = 7;
    return options;
  }
  template <class Work>
  static double rate(const std::function<uint64_t()>& number, Work&& work) {
    std::vector<double> rates;
    std::vector<uint64_t> keys(keys_a_round);
    for (int round = 0; round < rounds; ++round) {
      for (uint64_t& key : keys) key = key_of(number());
      const double took = busy_seconds([&] {
        for (size_t i = 0; i < keys.size(); i += batch) work(std::span(&keys[i], batch));
      });
      rates.push_back(static_cast<double>(keys.size()) / took / 1e6);
    }
    return median(rates);
  }

  FixedTable table_;
  FixedHandle handle_;
};

void speed(uint64_t room) {
  std::printf(
      "M/s of one thread        GET hits  misses    Zipf  SET present     new  bytes  kept\n");
  Random random(1);
  for (const FixedIndexKind kind : kinds) {
    for (const double load : {0.5, 0.75, 0.9, 1.0}) {
      const auto entries = static_cast<uint64_t>(static_cast<double>(room) * load);
      Filled its(kind, room, entries);
      const Zipf zipf(entries, 0.99);
      const Scramble spread(entries);
      uint64_t fresh = entries;
      const auto uniform = [&] { return random.below(entries); };
      const double size = static_cast<double>(its.table().size());
      const double bytes = static_cast<double>(its.table().memory()) / size;
      const double hits = its.gets(uniform);
      const double misses = its.gets([&] { return entries * 4 + random.below(entries); });
      const double skewed = its.gets([&] { return spread(zipf.draw(random)); });
      const double present = its.puts(uniform);
      const double added = its.puts([&] { return ++fresh; });
      std::printf("%-6s load %.2f %16.1f %7.1f %7.1f %12.1f %7.1f %6.1f %5.3f\n", name_of(kind),
                  load, hits, misses, skewed, present, added, bytes,
                  size / static_cast<double>(entries));
      std::fflush(stdout);
    }
  }
}

// Reads of a trace: number i of so many.
using Trace = std::function<uint64_t(uint64_t i)>;

double hit_rate(uint64_t reads, const Trace& trace, const std::function<bool(uint64_t)>& read) {
  uint64_t hits = 0;
  for (uint64_t i = 0; i < 2 * reads; ++i) hits += read(trace(i)) && i >= reads ? 1 : 0;
  return static_cast<double>(hits) / static_cast<double>(reads);
}

// A trace of eight reads a key; "shifting": with ranks that move ten times meanwhile.
Trace draw(const std::string& of, uint64_t keys, const Zipf& zipf, const Scramble& spread) {
  auto random = std::make_shared<Random>(3);
  if (of == "uniform") return [random, keys](uint64_t) { return random->below(keys); };
  const uint64_t step = of == "shifting" ? keys / 10 : 0;
  return [random, keys, step, &zipf, &spread](uint64_t i) {
    const uint64_t moved = (zipf.draw(*random) + i * 10 / (8 * keys) * step) % keys;
    return spread(moved);
  };
}

double table_hit_rate(FixedIndexKind kind, uint64_t room, uint64_t reads, const Trace& trace) {
  FixedOptions options;
  options.index = kind;
  options.expected_entries = room;
  options.hash_seed = 7;
  FixedTable table(options);
  FixedHandle handle(table);
  constexpr size_t rows = 16;
  std::array<uint64_t, rows> keys, values, missing;
  std::array<uint8_t, rows> found;
  uint64_t hits = 0;
  for (uint64_t i = 0; i < 2 * reads; i += rows) {
    for (size_t k = 0; k < rows; ++k) keys[k] = key_of(trace(i + k));
    const uint64_t hit = handle.get(keys, values, found);
    hits += i >= reads ? hit : 0;
    size_t missed = 0;
    for (size_t k = 0; k < rows; ++k) {
      if (found[k] == 0) missing[missed++] = keys[k];
    }
    handle.put({missing.data(), missed}, {missing.data(), missed});
  }
  return static_cast<double>(hits) / static_cast<double>(reads);
}

void hits(uint64_t keys) {
  const uint64_t reads = keys * 4;
  const Zipf zipf(keys, 0.99);
  const Scramble spread(keys);
  const auto draw = [&](const char* name) { return bench::draw(name, keys, zipf, spread); };
  std::printf(
      "hit rate in %%, room for this share of the keys: LRU, CLOCK, sets of 1 2 4 8 16 ways; "
      "tables: set, cuckoo (of LRU's)\n");
  for (const char* name : {"Zipf .99", "uniform", "shifting"}) {
    for (const double share : {0.1, 0.25, 0.5, 0.8, 1.0, 1.25}) {
      const auto room = static_cast<uint64_t>(static_cast<double>(keys) * share);
      ExactLru lru(keys, room);
      ExactClock clock(keys, room);
      const double best = hit_rate(reads, draw(name), [&](uint64_t key) { return lru.read(key); });
      std::printf("%-8s %.2f %6.1f %6.1f ", name, share, best * 100,
                  hit_rate(reads, draw(name), [&](uint64_t key) { return clock.read(key); }) * 100);
      for (const uint64_t ways : {1, 2, 4, 8, 16}) {
        SetLru sets(room, ways);
        std::printf(" %5.1f", hit_rate(reads, draw(name), [&](uint64_t key) {
                                return sets.read(key);
                              }) * 100);
      }
      for (const FixedIndexKind kind : {FixedIndexKind::set, FixedIndexKind::cuckoo}) {
        const double rate = table_hit_rate(kind, room, reads, draw(name));
        std::printf("  %5.1f (%.3f)", rate * 100, rate / best);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
  std::printf("hit rate in %%, bytes for each key: chained LRU, chained CLOCK, set, cuckoo\n");
  for (const char* name : {"Zipf .99", "uniform", "shifting"}) {
    for (const double bytes : {4.0, 12.0, 24.0}) {
      const auto room = [&](double an_entry) {
        return static_cast<uint64_t>(static_cast<double>(keys) * bytes / an_entry);
      };
      ExactLru lru(keys, room(48));
      ExactClock clock(keys, room(32));
      std::printf("%-8s %4.0f %6.1f %6.1f %6.1f %6.1f\n", name, bytes,
                  hit_rate(reads, draw(name), [&](uint64_t key) { return lru.read(key); }) * 100,
                  hit_rate(reads, draw(name), [&](uint64_t key) { return clock.read(key); }) * 100,
                  table_hit_rate(FixedIndexKind::set, room(22), reads, draw(name)) * 100,
                  table_hit_rate(FixedIndexKind::cuckoo, room(24.125), reads, draw(name)) * 100);
      std::fflush(stdout);
    }
  }
}

// One request a batch, and one that puts the key in where it missed.
double store_hit_rate(IndexChoice index, uint64_t cap, uint64_t item_bytes, uint64_t reads,
                      const Trace& trace) {
  isotherm::Options options;
  options.maxmemory = cap;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  options.databases = 1;
  options.hash_seed = 7;
  options.index = index;
  options.index_item_bytes = item_bytes;
  Store store(options);
  Handle handle(store);
  Batch one;
  char key[16 + 1];
  const std::string value(64, 'v');
  return hit_rate(reads, trace, [&](uint64_t number) {
    std::snprintf(key, sizeof key, "%016llx", static_cast<unsigned long long>(key_of(number)));
    const std::string_view name(key, 16);
    one.get(name);
    handle.submit(one);
    const bool hit = one.reply(0).status == Status::ok;
    one.clear();
    if (hit) return true;
    one.put(name, value);
    handle.submit(one);
    one.clear();
    return false;
  });
}

void stores(uint64_t keys) {
  const uint64_t item_bytes =
      size_classes::bytes_of(size_classes::class_of(Item::bytes(16, 64, false, false)));
  constexpr uint64_t links = 32;
  const uint64_t reads = keys * 4;
  const Zipf zipf(keys, 0.99);
  const Scramble spread(keys);
  std::printf(
      "hit rate in %% of stores, items of %llu bytes, by the share of the keys for which "
      "exact LRU has room: exact LRU, line, cuckoo, set (of LRU's)\n",
      static_cast<unsigned long long>(item_bytes));
  for (const char* name : {"Zipf .99", "uniform", "shifting"}) {
    for (const double share : {0.25, 0.5, 0.8}) {
      const auto room = static_cast<uint64_t>(static_cast<double>(keys) * share);
      const uint64_t cap = room * (item_bytes + links);
      ExactLru lru(keys, room);
      const double best = hit_rate(reads, draw(name, keys, zipf, spread),
                                   [&](uint64_t key) { return lru.read(key); });
      std::printf("%-8s %.2f %6.1f ", name, share, best * 100);
      for (const IndexChoice index : {IndexChoice::line, IndexChoice::cuckoo, IndexChoice::set}) {
        const double rate =
            store_hit_rate(index, cap, item_bytes, reads, draw(name, keys, zipf, spread));
        std::printf("  %5.1f (%.3f)", rate * 100, rate / best);
      }
      std::printf("\n");
      std::fflush(stdout);
    }
  }
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  std::string what = "both";
  uint64_t entries = 4'000'000;
  ProgramFlags flags("Indexes of a fixed size: rates, bytes an entry and hit rates.");
  flags.add("what", what).one_of({"both", "speed", "hits", "stores"});
  flags.add("entries", entries).between(1000, uint64_t{1} << 40);
  flags.take(argc, argv);
  print_environment("cache_bench");
  if (what == "stores") {
    stores(entries);
    return 0;
  }
  if (what != "hits") speed(entries);
  if (what != "speed") hits(entries);
}
