// The loads of db_bench and rocksdb_bench: what is called, by how many threads, and what is
// checked.
//
// Loads: get, put (of present keys), update (a counter is incremented), erase, range (100 pairs),
// transactions (--group rows each, half gets, half puts, optimistic), and H-Rocks's ycsb-a to
// ycsb-d (reads Zipf .99, of d the latest; writes uniform; d inserts) and zippydb (78% get, 13%
// put, 6% erase, 3% range). Rates: calls a second that are offered, latency counts from when a call
// was due; 0: as many as can be, and where they are short one in 16 is timed. --batch: requests a
// call, of loads of gets and puts, or of ranges: a DbBatch, and of RocksDB a MultiGet and a
// WriteBatch, or one iterator. What was filled is flushed to files unless --flush 0, and what is
// left to be merged is merged before a load begins.
//
// Keys are numbers, the highest byte first; values follow from their key. Every value and every
// range is checked, the sum of all counters behind `update`, and that erased keys are gone.
#pragma once

#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "base/raise_to.h"
#include "bench_support.h"
#include "db_bench_options.h"
#include "db_system.h"
#include "isotherm_bench/control.h"
#include "isotherm_bench/distribution.h"
#include "isotherm_bench/histogram.h"
#include "isotherm_bench/workload.h"

namespace isotherm::bench {

inline constexpr uint64_t first_counter = uint64_t{1} << 48;  // behind all other keys
inline constexpr uint64_t range_length = 100;
// Four looks at a clock take a quarter of a get's time: of calls that are not long, as many as can
// be, one in so many is timed.
inline constexpr int calls_a_clock = 16;
inline constexpr int64_t long_call_ns = 10'000;

// Keys sort as their numbers do.
class Keys {
 public:
  explicit Keys(const DbBenchOptions& options) : options_(options) {}
  std::string key(uint64_t number) const {
    std::string key;
    write(number, key);
    return key;
  }
  std::string value(uint64_t number) const {
    std::string value(options_.value_bytes, 0);
    write_value(number, value.size(), value.data());
    return value;
  }
  // The key in the place of another, whose memory it takes.
  void write(uint64_t number, std::string& key) const {
    const uint64_t bytes = __builtin_bswap64(number);
    key.resize(options_.key_bytes, 'k');
    std::memcpy(key.data(), &bytes, sizeof bytes);
  }
  static uint64_t number_of(std::string_view key) {
    uint64_t number = 0;
    std::memcpy(&number, key.data(), sizeof number);
    return __builtin_bswap64(number);
  }
  bool is_value(uint64_t number, std::string_view value) const {
    return value.size() == options_.value_bytes && value_belongs(number, value);
  }

 private:
  const DbBenchOptions& options_;
};

// A system with what is known of its keys.
class Measured {
 public:
  Measured(std::unique_ptr<DbSystem> system, const DbBenchOptions& options)
      : system_(std::move(system)),
        options_(options),
        keys_(options),
        erased_(options.records),
        present_(options.records),
        next_(options.records),
        inserting_(options.threads) {
    const bool counts = std::any_of(options.loads.begin(), options.loads.end(),
                                    [](const DbLoad* load) { return load->update > 0; });
    std::vector<std::thread> filling;
    for (uint64_t i = 0; i < options.threads; ++i) {
      filling.emplace_back([&, i] {
        fill(options.records * i / options.threads, options.records * (i + 1) / options.threads,
             counts);
      });
    }
    for (std::thread& thread : filling) thread.join();
    if (options.flush) system_->flush();
  }

  void run(const DbLoad& load, uint64_t rate) {
    wait_until_quiet();
    std::vector<Thread> threads(options_.threads);
    std::vector<std::thread> running;
    const int64_t begin = now_ns();
    for (uint64_t i = 0; i < options_.threads; ++i) {
      running.emplace_back([&, i] { serve(load, rate, begin, i, threads[i]); });
    }
    for (std::thread& thread : running) thread.join();
    const double took = static_cast<double>(now_ns() - begin) / 1e9;
    Thread all;
    for (Thread& thread : threads) {
      demand(thread.failure.empty(), thread.failure);
      all.latency.merge(thread.latency);
      all.done += thread.done;
      for (const auto& [part, ns] : thread.parts) all.parts[part] += ns;
    }
    updates_ += load.update > 0 ? all.done : 0;
    check(load);
    report(load, rate, took, all);
  }

 private:
  struct alignas(64) Inserting {
    static constexpr uint64_t none = ~uint64_t{0};
    std::atomic<uint64_t> number{none};
  };
  struct Thread {
    Histogram latency;
    uint64_t done = 0;
    std::map<std::string, uint64_t> parts;
    std::string failure;
  };

  void fill(uint64_t first, uint64_t end, bool counts) {
    constexpr uint64_t rows_at_once = 1000;
    std::vector<BatchRow> rows;
    for (uint64_t i = first; i < end; ++i) {
      rows.push_back({true, keys_.key(i), keys_.value(i)});
      if (counts) rows.push_back({true, keys_.key(first_counter + i), std::string(8, 0)});
      if (rows.size() < rows_at_once && i + 1 != end) continue;
      system_->batch(rows);
      rows.clear();
    }
  }

  void report(const DbLoad& load, uint64_t rate, double took, const Thread& all) const {
    const auto us = [&](double percent) {
      return static_cast<double>(all.latency.percentile(percent)) / 1e3;
    };
    std::printf("%s %s offered %llu: %.4f M/s, mean %.2f us, p50 %.2f us, p99 %.2f us\n",
                system_->name(), load.name, static_cast<unsigned long long>(rate),
                static_cast<double>(all.done) / took / 1e6, all.latency.mean() / 1e3, us(50),
                us(99));
    for (const auto& [part, ns] : all.parts) {
      std::printf("%s %s part %s: %.2f %%\n", system_->name(), load.name, part.c_str(),
                  static_cast<double>(ns) * 100 /
                      (all.latency.mean() * static_cast<double>(all.latency.count())));
    }
    std::fflush(stdout);
  }

  void serve(const DbLoad& load, uint64_t rate, int64_t begin, uint64_t number, Thread& thread) {
    try {
      Random random(1 + number, ++streams_);
      const Zipf zipf(options_.records, .99);
      const Scramble scramble(options_.records);
      const auto read_key = [&] {
        if (load.reads == Distribution::zipf) return scramble(zipf.draw(random));
        if (load.reads == Distribution::latest) return present_.load() - 1 - zipf.draw(random);
        return random.below(options_.records);
      };
      const double gap =
          rate == 0 ? 0 : 1e9 * static_cast<double>(options_.threads) / static_cast<double>(rate);
      const int64_t end = begin + static_cast<int64_t>(options_.seconds * 1e9);
      if (options_.parts) system_->begin_parts();
      for (uint64_t i = 0;; ++i) {
        const int64_t now = now_ns();
        const int64_t due =
            rate == 0
                ? now
                : begin + static_cast<int64_t>(gap * (static_cast<double>(i) +
                                                      static_cast<double>(number) /
                                                          static_cast<double>(options_.threads)));
        if (i > 0 && std::max(due, now) >= end) break;
        if (rate != 0) wait_until(due);
        thread.done += call(load, number, random, read_key);
        const int64_t took = now_ns() - due;
        thread.latency.record(static_cast<uint64_t>(took));
        if (rate != 0 || options_.parts || took >= long_call_ns) continue;
        for (int untimed = 1; untimed < calls_a_clock; ++untimed) {
          thread.done += call(load, number, random, read_key);
        }
      }
      if (options_.parts) {
        for (const auto& [part, ns] : system_->end_parts()) thread.parts[part] += ns;
      }
    } catch (const std::exception& error) {
      thread.failure = error.what();
    }
  }

  static void wait_until(int64_t due) {
    constexpr int64_t sleep_from = 100'000;
    for (int64_t left = due - now_ns(); left > 0; left = due - now_ns()) {
      if (left > sleep_from) {
        std::this_thread::sleep_for(std::chrono::nanoseconds(left - sleep_from / 2));
      } else {
        std::this_thread::yield();
      }
    }
  }

  // Requests that the call was.
  template <class ReadKey>
  uint64_t call(const DbLoad& load, uint64_t thread, Random& random, ReadKey&& read_key) {
    if (options_.batch > 1) {
      return load.range == 100 ? ranges(random) : batch(load, random, read_key);
    }
    double chance = random.unit() * 100;
    const auto is = [&](double share) { return (chance -= share) < 0; };
    std::string value;
    if (is(load.get)) {
      const uint64_t number = read_key();
      const bool there = system_->get(keys_.key(number), value);
      demand(there ? keys_.is_value(number, value) : load.erase > 0, "a wrong reply to a get");
      return 1;
    }
    if (is(load.put)) {
      const uint64_t number = random.below(options_.records);
      system_->put(keys_.key(number), keys_.value(number));
      return 1;
    }
    if (is(load.update)) {
      system_->add_one(keys_.key(first_counter + random.below(options_.records)));
      return 1;
    }
    if (is(load.erase)) {
      const uint64_t number = random.below(options_.records);
      erased_[number].store(true, std::memory_order_relaxed);
      system_->erase(keys_.key(number));
      return 1;
    }
    if (is(load.range)) return range(load, random.below(options_.records));
    if (is(load.insert)) return insert(thread);
    return transaction(random);
  }

  // Threads insert side by side. Each shows a bound of its number before it takes it, so what is
  // below all bounds is there.
  uint64_t insert(uint64_t thread) {
    std::atomic<uint64_t>& mine = inserting_[thread].number;
    mine.store(next_.load());
    const uint64_t number = next_.fetch_add(1);
    mine.store(number);
    system_->put(keys_.key(number), keys_.value(number));
    mine.store(Inserting::none);
    uint64_t below = next_.load();
    for (const Inserting& one : inserting_) below = std::min(below, one.number.load());
    raise_to(present_, below);
    return 1;
  }

  template <class ReadKey>
  uint64_t batch(const DbLoad& load, Random& random, ReadKey&& read_key) {
    thread_local std::vector<uint64_t> numbers;
    thread_local std::vector<BatchRow> rows;
    numbers.resize(options_.batch);
    rows.resize(options_.batch);
    for (size_t i = 0; i < rows.size(); ++i) {
      rows[i].puts = random.unit() * 100 < load.put;
      numbers[i] = rows[i].puts ? random.below(options_.records) : read_key();
      keys_.write(numbers[i], rows[i].key);
      if (!rows[i].puts) continue;
      rows[i].value.resize(options_.value_bytes);
      write_value(numbers[i], rows[i].value.size(), rows[i].value.data());
    }
    system_->batch(rows);
    for (size_t i = 0; i < rows.size(); ++i) {
      demand(rows[i].puts || (rows[i].found && keys_.is_value(numbers[i], rows[i].value)),
             "a wrong reply to a get of a batch");
    }
    return rows.size();
  }

  uint64_t ranges(Random& random) {
    thread_local std::vector<uint64_t> numbers;
    thread_local std::vector<std::string> firsts;
    numbers.resize(options_.batch);
    firsts.resize(options_.batch);
    for (size_t i = 0; i < firsts.size(); ++i) {
      numbers[i] = random.below(options_.records);
      keys_.write(numbers[i], firsts[i]);
    }
    thread_local SeenPairs seen;
    seen.begin(numbers, options_.records);
    system_->ranges(firsts, range_length, seen);
    for (size_t i = 0; i < numbers.size(); ++i) {
      demand(seen.is_right(i, numbers[i], range_length), "a wrong range of a batch");
    }
    return firsts.size();
  }

  uint64_t range(const DbLoad& load, uint64_t first) {
    DbSystem::Pairs pairs;
    system_->range(keys_.key(first), range_length, pairs);
    const uint64_t most = std::min<uint64_t>(range_length, present_.load() - first);
    demand(load.erase > 0 || pairs.size() >= most, "a range that is too short");
    for (size_t i = 0; i < pairs.size(); ++i) {
      const uint64_t number = Keys::number_of(pairs[i].first);
      if (number >= first_counter) break;
      demand(load.erase > 0 ? number >= first + i : number == first + i, "a wrong key of a range");
      demand(keys_.is_value(number, pairs[i].second), "a wrong value of a range");
    }
    return 1;
  }

  uint64_t transaction(Random& random) {
    std::vector<TransactionRow> rows(options_.group);
    for (TransactionRow& row : rows) {
      const uint64_t number = random.below(options_.records);
      row.key = keys_.key(number);
      if (random.below(2) == 0) row.value = keys_.value(number);
    }
    system_->transaction(rows);
    return rows.size();
  }

  void check(const DbLoad& load) {
    std::string value;
    if (load.update > 0) {
      uint64_t sum = 0;
      for (uint64_t i = 0; i < options_.records; ++i) {
        uint64_t count = 0;
        demand(system_->get(keys_.key(first_counter + i), value), "a counter is gone");
        std::memcpy(&count, value.data(), sizeof count);
        sum += count;
      }
      demand(sum == updates_, "increments are lost");
    }
    if (load.erase == 100) {
      for (uint64_t i = 0; i < options_.records; i += 7) {
        if (erased_[i].load()) demand(!system_->get(keys_.key(i), value), "an erased key is there");
      }
    }
  }

  const std::unique_ptr<DbSystem> system_;
  const DbBenchOptions& options_;
  const Keys keys_;
  std::vector<std::atomic<bool>> erased_;
  std::atomic<uint64_t> present_;  // keys below are there
  std::atomic<uint64_t> next_;     // to be inserted
  std::vector<Inserting> inserting_;
  std::atomic<uint64_t> streams_{0};
  uint64_t updates_ = 0;
};

// What a program measures, and what it is told for that.
struct DbSystems {
  const char* program;
  const char* purpose;
  // Adds the systems, whose files are to lie in a folder.
  void (*add)(const DbBenchOptions& options, const std::string& folder,
              std::vector<std::unique_ptr<DbSystem>>& systems);
};

inline void run_loads(const DbSystems& measured, int argc, char** argv) {
  const DbBenchOptions options = parse(measured.purpose, argc, argv);
  print_environment(measured.program);
  std::printf("%llu records of %llu + %llu bytes, %llu MB each, %llu threads, RocksDB: %s\n",
              static_cast<unsigned long long>(options.records),
              static_cast<unsigned long long>(options.key_bytes),
              static_cast<unsigned long long>(options.value_bytes),
              static_cast<unsigned long long>(options.memory),
              static_cast<unsigned long long>(options.threads), options.rocksdb.c_str());
  std::string folder = std::filesystem::temp_directory_path() / "isotherm-db-bench-XXXXXX";
  demand(mkdtemp(folder.data()) != nullptr, "no folder for the files");
  const auto remove = [](const std::string* path) { std::filesystem::remove_all(*path); };
  const std::unique_ptr<const std::string, decltype(remove)> removed(&folder, remove);
  std::vector<std::unique_ptr<DbSystem>> systems;
  measured.add(options, folder, systems);
  std::vector<std::unique_ptr<Measured>> all;
  for (auto& system : systems)
    all.push_back(std::make_unique<Measured>(std::move(system), options));
  for (const DbLoad* load : options.loads) {
    for (const uint64_t rate : options.rates) {
      for (uint64_t round = 0; round < options.rounds; ++round) {
        for (const auto& system : all) system->run(*load, rate);
        std::reverse(all.begin(), all.end());
      }
    }
  }
}

inline int main_of(const DbSystems& measured, int argc, char** argv) {
  try {
    run_loads(measured, argc, argv);
    return EXIT_SUCCESS;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s: %s\n", measured.program, error.what());
    return EXIT_FAILURE;
  }
}

}  // namespace isotherm::bench
