// Growth never stops the world: the longest step of background work and the longest batch, in
// processor time of the thread that ran it, from empty to full under load.
//
//   growth_bench [entries]      default 50,000,000
//
// One thread puts new keys in batches, another reads random keys among those put; after each batch
// both call `maintain`, as a thread of the server does. Processor time, because what the machine's
// other work costs is not the store's doing.
//
// References, in the same run:
//   - abseil's flat_hash_map of u64 to u64, filled in batches of the same size: it moves everything
//     at once when it grows;
//   - a loop of fixed work, measured after every batch of reads: how long the machine makes
//     something that takes no memory;
//   - the first write to a fresh page of 2 MiB, which the kernel clears: a step may contain one.
//     Where the host of a virtual machine backs memory at its first use, that is part of it.
// Work during which the kernel handled a page fault is therefore counted apart, too.
#include <absl/container/flat_hash_map.h>
#include <sys/resource.h>
#include <time.h>

#include <array>
#include <atomic>

#include "bench_support.h"
#include "isotherm/fixed_table.h"
#include "isotherm/store.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

constexpr size_t batch_rows = 512;

double cpu_us() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) * 1e6 + static_cast<double>(now.tv_nsec) / 1e3;
}

uint64_t page_faults_of_thread() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return static_cast<uint64_t>(usage.ru_minflt);
}

// Processor times of many pieces of work of one kind, in microseconds.
class Times {
 public:
  template <class Work>
  auto measure(Work&& work) {
    const uint64_t faults = page_faults_of_thread();
    const double start = cpu_us();
    const auto result = work();
    const double took = cpu_us() - start;
    times_.push_back(static_cast<float>(took));
    if (page_faults_of_thread() == faults) without_fault_ = std::max(without_fault_, took);
    return result;
  }
  void add(const Times& other) {
    times_.insert(times_.end(), other.times_.begin(), other.times_.end());
    without_fault_ = std::max(without_fault_, other.without_fault_);
  }
  size_t count() const { return times_.size(); }
  double longest() const { return *std::max_element(times_.begin(), times_.end()); }
  double longest_without_fault() const { return without_fault_; }
  auto above(double limit) const {
    return std::count_if(times_.begin(), times_.end(), [=](float took) { return took > limit; });
  }
  // What `share` of them stay below.
  double quantile(double share) const {
    std::vector<float> times = times_;
    const auto at =
        times.begin() + static_cast<long>(static_cast<double>(times.size() - 1) * share);
    std::nth_element(times.begin(), at, times.end());
    return *at;
  }

 private:
  std::vector<float> times_;
  double without_fault_ = 0;
};

// What one thread measured, or several together.
struct Load {
  Times steps;
  Times batches;
  Times fixed_work;

  void add(const Load& other) {
    steps.add(other.steps);
    batches.add(other.batches);
    fixed_work.add(other.fixed_work);
  }
};

// A handle of a Store of 16-byte keys and 32-byte values.
class Items {
 public:
  using Table = Store;
  explicit Items(Store& store) : handle_(store) {}

  // Puts keys from `first` on.
  bool put(uint64_t first, size_t rows) {
    for (size_t i = 0; i < rows; ++i) batch_.put(key(i, first + i), value_);
    return run();
  }
  bool get(const std::vector<uint64_t>& numbers) {
    for (size_t i = 0; i < numbers.size(); ++i) batch_.get(key(i, numbers[i]));
    return run();
  }
  bool maintain() { return handle_.maintain(); }

 private:
  using Key = std::array<char, 16>;

  std::string_view key(size_t row, uint64_t number) {
    constexpr char digits[] = "0123456789abcdef";
    for (char& byte : keys_[row]) {
      byte = digits[number & 15];
      number >>= 4;
    }
    return {keys_[row].data(), keys_[row].size()};
  }
  bool run() {
    handle_.submit(batch_);
    bool all = true;
    for (Batch::Row row = 0; row < batch_.size(); ++row) {
      all &= batch_.reply(row).status.load() == Status::ok;
    }
    batch_.clear();
    return all;
  }

  Handle handle_;
  Batch batch_;
  const std::string value_ = std::string(32, 'v');
  std::vector<Key> keys_ = std::vector<Key>(batch_rows);
};

// A handle of a FixedTable; its put takes steps of growth by itself, too.
class Pairs {
 public:
  using Table = FixedTable;
  explicit Pairs(FixedTable& table) : handle_(table) {}

  bool put(uint64_t first, size_t rows) {
    for (size_t i = 0; i < rows; ++i) values_[i] = ~(keys_[i] = first + i);
    return handle_.put({keys_.data(), rows}, {values_.data(), rows}).status == Status::ok;
  }
  bool get(const std::vector<uint64_t>& numbers) {
    return handle_.get(numbers, {values_.data(), numbers.size()},
                       {found_.data(), numbers.size()}) == numbers.size();
  }
  bool maintain() { return handle_.maintain(); }

 private:
  FixedHandle handle_;
  std::vector<uint64_t> keys_ = std::vector<uint64_t>(batch_rows);
  std::vector<uint64_t> values_ = std::vector<uint64_t>(batch_rows);
  std::vector<uint8_t> found_ = std::vector<uint8_t>(batch_rows);
};

void require(bool all) {
  if (all) return;
  std::fprintf(stderr, "growth_bench: a request failed\n");
  std::abort();
}

// Takes about as long as a batch.
uint64_t fixed_work(uint64_t state) {
  for (int i = 0; i < 10'000; ++i) state = scramble(state + 1);
  return state;
}

template <class Keys>
void read_until_full(typename Keys::Table& table, const std::atomic<uint64_t>& written,
                     uint64_t entries, Load& load) {
  Keys keys(table);
  std::vector<uint64_t> numbers(batch_rows);
  uint64_t state = 1;
  for (uint64_t count; (count = written.load()) < entries;) {
    if (count == 0) continue;
    for (uint64_t& number : numbers) number = scramble(++state) % count;
    require(load.batches.measure([&] { return keys.get(numbers); }));
    load.steps.measure([&] { return keys.maintain(); });
    state = load.fixed_work.measure([&] { return fixed_work(state); });
  }
}

// Fills an empty table while a second thread reads.
template <class Keys>
Load fill(uint64_t entries) {
  typename Keys::Table table;
  std::atomic<uint64_t> written{0};
  Load load, readers;
  std::thread reader([&] { read_until_full<Keys>(table, written, entries, readers); });
  {
    Keys keys(table);
    for (uint64_t from = 0; from < entries; from += batch_rows) {
      const size_t rows = std::min<uint64_t>(batch_rows, entries - from);
      require(load.batches.measure([&] { return keys.put(from, rows); }));
      load.steps.measure([&] { return keys.maintain(); });
      written.store(from + rows);
    }
  }
  reader.join();
  load.add(readers);
  return load;
}

// The longest batch of inserts into a flat_hash_map.
double longest_batch_of_map(uint64_t entries) {
  absl::flat_hash_map<uint64_t, uint64_t> map;
  Times batches;
  for (uint64_t from = 0; from < entries; from += batch_rows) {
    const uint64_t to = std::min(entries, from + batch_rows);
    batches.measure([&] {
      for (uint64_t key = from; key < to; ++key) map.emplace(key, ~key);
      return map.size();
    });
  }
  return batches.longest();
}

// Times of the first write to fresh pages of 2 MiB.
Times first_writes() {
  constexpr uint64_t page_bytes = 2 << 20;
  constexpr uint64_t pages = 1024;
  void* mapped = mmap(nullptr, (pages + 1) * page_bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED) throw std::bad_alloc();
  auto* first = reinterpret_cast<char*>((reinterpret_cast<uintptr_t>(mapped) + page_bytes - 1) &
                                        ~(page_bytes - 1));
  madvise(first, pages * page_bytes, MADV_HUGEPAGE);
  Times times;
  for (uint64_t page = 0; page < pages; ++page) {
    times.measure([&] { return std::memset(first + page * page_bytes, 1, 1); });
  }
  munmap(mapped, (pages + 1) * page_bytes);
  return times;
}

void print_times(const char* what, const char* kind, const Times& times) {
  std::printf(
      "%s: longest %s %.0f us of CPU, %.0f without a page fault; p99.9 %.0f us, %zu times, "
      "%ld above 1 ms\n",
      what, kind, times.longest(), times.longest_without_fault(), times.quantile(0.999),
      times.count(), times.above(1000));
}

void print_rows(const char* what, const Load& load, double map_longest) {
  print_times(what, "step", load.steps);
  print_times(what, "batch", load.batches);
  print_times(what, "loop of fixed work", load.fixed_work);
  std::printf("%s: longest step / longest batch of flat_hash_map %.5f\n", what,
              load.steps.longest() / map_longest);
}

void run(uint64_t entries) {
  print_environment("growth_bench");
  std::printf(
      "%.1f M entries, batches of %zu, 1 thread puts and 1 reads, maintain after each; goal: no "
      "step longer than 1000 us\n",
      static_cast<double>(entries) / 1e6, batch_rows);
  const Times pages = first_writes();
  std::printf("first write to a page of 2 MiB: median %.0f us of CPU, longest %.0f us\n",
              pages.quantile(0.5), pages.longest());
  const double map_longest = longest_batch_of_map(entries);
  std::printf("flat_hash_map, u64: longest batch %.0f us of CPU\n", map_longest);
  print_rows("16+32 B items", fill<Items>(entries), map_longest);
  print_rows("u64 pairs", fill<Pairs>(entries), map_longest);
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  run(take_number<uint64_t>(argc, argv, "The longest step of growth under load.", "entries",
                            50'000'000));
}
