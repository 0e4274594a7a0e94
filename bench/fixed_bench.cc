// Batches of u64 → u64 against the machine: GET by one thread beside random reads of 128-byte
// lines, and 95/5 under Zipf .99 by one and two threads.
//
//   fixed_bench [entries]      default 64,000,000
#include <atomic>

#include "bench_support.h"
#include "isotherm/fixed_table.h"
#include "isotherm_bench/distribution.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

constexpr size_t batch = 1 << 12;
constexpr size_t keys_a_round = 1 << 22;
constexpr int rounds = 5;

void fill(FixedHandle& handle, uint64_t entries) {
  std::vector<uint64_t> keys(batch);
  std::vector<uint64_t> values(batch);
  for (uint64_t from = 0; from < entries; from += batch) {
    const size_t rows = std::min<uint64_t>(batch, entries - from);
    for (size_t i = 0; i < rows; ++i) values[i] = ~(keys[i] = from + i);
    if (handle.put({keys.data(), rows}, {values.data(), rows}).status != Status::ok) std::abort();
  }
  while (handle.maintain()) {
  }
}

void get_row(FixedHandle& handle, const Lines& lines, uint64_t entries) {
  std::vector<double> rates, ratios;
  std::vector<uint64_t> keys(keys_a_round), values(batch);
  std::vector<uint8_t> found(batch);
  for (int round = 0; round < rounds; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = scramble(i + static_cast<uint64_t>(round) * keys.size()) % entries;
    }
    uint64_t hits = 0;
    const double limit = lines.reads_per_second(keys);
    const double took = seconds([&] {
      for (size_t i = 0; i < keys.size(); i += batch) {
        hits += handle.get({&keys[i], batch}, values, found);
      }
    });
    if (hits != keys.size()) std::abort();
    rates.push_back(static_cast<double>(keys.size()) / took / 1e6);
    ratios.push_back(static_cast<double>(keys.size()) / took / limit);
  }
  std::printf("get, 1 thread: %.1f M/s, %.2f of random 128-byte line reads (goal 0.70)\n",
              median(rates), median(ratios));
}

// Operations per second of `threads` at 95/5 under Zipf .99, keys scrambled.
double mixed_rate(FixedTable& table, int threads, const std::vector<std::vector<uint64_t>>& keys) {
  std::atomic<int> ready{0};
  std::vector<std::thread> workers;
  std::vector<double> rates(static_cast<size_t>(threads));
  for (int t = 0; t < threads; ++t) {
    workers.emplace_back([&, t] {
      FixedHandle handle(table);
      const std::vector<uint64_t>& mine = keys[static_cast<size_t>(t)];
      std::vector<uint64_t> values(batch);
      std::vector<uint8_t> found(batch);
      ++ready;
      while (ready.load() < threads) {
      }
      constexpr size_t puts = batch / 20;
      const double took = seconds([&] {
        for (size_t i = 0; i < mine.size(); i += batch) {
          handle.put({&mine[i], puts}, {&mine[i], puts});
          handle.get({&mine[i + puts], batch - puts}, {values.data(), batch - puts},
                     {found.data(), batch - puts});
        }
      });
      rates[static_cast<size_t>(t)] = static_cast<double>(mine.size()) / took;
    });
  }
  for (std::thread& worker : workers) worker.join();
  double sum = 0;
  for (const double rate : rates) sum += rate;
  return sum;
}

void mixed_row(FixedTable& table, uint64_t entries) {
  const Zipf zipf(entries, 0.99);
  std::vector<std::vector<uint64_t>> keys(2);
  for (size_t t = 0; t < keys.size(); ++t) {
    Random random(1, t);
    keys[t].resize(keys_a_round);
    for (uint64_t& key : keys[t]) key = scramble(zipf.draw(random)) % entries;
  }
  std::vector<double> one, ratios;
  for (int round = 0; round < rounds; ++round) {
    one.push_back(mixed_rate(table, 1, keys) / 1e6);
    ratios.push_back(mixed_rate(table, 2, keys) / 1e6 / one.back());
  }
  std::printf("95/5 Zipf .99: 1 thread %.1f M/s, 2 threads %.2f times that (goal 1.80)\n",
              median(one), median(ratios));
}

void run(uint64_t entries) {
  print_environment("fixed_bench");
  FixedTable table;
  FixedHandle handle(table);
  const double took = seconds([&] { fill(handle, entries); });
  std::printf("%.0f M entries, batches of %zu, medians of %d rounds\n",
              static_cast<double>(entries) / 1e6, batch, rounds);
  std::printf("fill, growth included: %.1f M/s; %.1f bytes an entry\n",
              static_cast<double>(entries) / took / 1e6,
              static_cast<double>(table.memory()) / static_cast<double>(entries));
  const Lines lines(table.memory());
  get_row(handle, lines, entries);
  mixed_row(table, entries);
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  run(take_number<uint64_t>(argc, argv, "Batches of u64 to u64 against the machine.", "entries",
                            64'000'000));
}
