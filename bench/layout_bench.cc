// Settles how a line of 128 bytes is cut: 8 slots, or 7 behind a header. Tables of one size at four
// loads, filled and asked by one thread, beside random reads of the same lines in the same run.
//
//   layout_bench [entries]     default 16,000,000
//
// A load is the share of the home lines' slots that the entries would fill, so equal loads are not
// equal memory: compare rows of about equal bytes per entry.
#include <time.h>

#include <memory>

#include "base/instruction_set.h"
#include "bench_support.h"
#include "layout_loops.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

constexpr size_t gets_a_round = 1 << 22;
constexpr int rounds = 5;
constexpr double loads[] = {0.6, 0.7, 0.8, 0.9};

// Processor time of this thread: what the machine does besides costs the table no second.
template <class Work>
double cpu_seconds(Work&& work) {
  const auto now = [] {
    timespec at{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &at);
    return static_cast<double>(at.tv_sec) + static_cast<double>(at.tv_nsec) * 1e-9;
  };
  const double start = now();
  work();
  return now() - start;
}

// Zeroed lines on huge pages, all of them touched.
class LineMemory {
 public:
  explicit LineMemory(uint64_t lines) : bytes_(lines * sizeof(Bucket) + huge) {
    mapped_ = mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (mapped_ == MAP_FAILED) throw std::bad_alloc();
    const auto aligned = (reinterpret_cast<uintptr_t>(mapped_) + huge - 1) & ~(huge - 1);
    lines_ = reinterpret_cast<Bucket*>(aligned);
    madvise(lines_, lines * sizeof(Bucket), MADV_HUGEPAGE);
    std::memset(static_cast<void*>(lines_), 0, lines * sizeof(Bucket));
  }
  ~LineMemory() { munmap(mapped_, bytes_); }
  LineMemory(const LineMemory&) = delete;
  LineMemory& operator=(const LineMemory&) = delete;
  Bucket* lines() { return lines_; }

 private:
  static constexpr uint64_t huge = 2 << 20;
  uint64_t bytes_;
  void* mapped_;
  Bucket* lines_;
};

// Millions a second, and sizes.
struct Figures {
  double bytes_per_entry = 0;
  double overflow = 0;  // lines per home line
  double lines_per_hit = 0;
  double lines_per_miss = 0;
  double limit = 0;
  double inserts = 0;
  double hits = 0;
  double misses = 0;
};

// Both halves of the home line of every key.
double line_reads(const LayoutLines& lines, const std::vector<uint64_t>& keys) {
  uint64_t sum = 0;
  const double took = cpu_seconds([&] {
    for (const uint64_t key : keys) {
      const Bucket* line = lines.home + lines.number(layout_hash(key));
      sum += line->slot[0].first + line->slot[4].first;
    }
  });
  asm volatile("" : : "r"(sum));
  return static_cast<double>(keys.size()) / took / 1e6;
}

double gets(const LayoutLoops& loops, const LayoutLines& lines, const std::vector<uint64_t>& keys,
            uint64_t expected) {
  uint64_t found = 0;
  const double took = cpu_seconds([&] { found = loops.get(lines, keys.data(), keys.size()); });
  if (found != expected) std::abort();
  return static_cast<double>(keys.size()) / took / 1e6;
}

Figures measure(const LayoutLoops& loops, int slots, double load, uint64_t entries) {
  const auto entry_slots = static_cast<double>(entries) / load;
  const uint64_t count = static_cast<uint64_t>(entry_slots / slots) / 2 * 2;
  LineMemory memory(count * 2);
  const std::unique_ptr<std::atomic<uint8_t>[]> locks(new std::atomic<uint8_t>[count] {});
  LayoutLines lines{memory.lines(), count, memory.lines() + count, count, 0, locks.get()};
  std::vector<uint64_t> present(gets_a_round), absent(gets_a_round);
  for (size_t i = 0; i < gets_a_round; ++i) {
    present[i] = scramble(i + 1) % entries;
    absent[i] = present[i] + 2 * entries;
  }

  Figures figures;
  const double filling = cpu_seconds([&] {
    if (!loops.insert(lines, 0, entries)) std::abort();
  });
  figures.inserts = static_cast<double>(entries) / filling / 1e6;
  figures.limit = line_reads(lines, present);
  figures.hits = gets(loops, lines, present, gets_a_round);
  figures.misses = gets(loops, lines, absent, 0);

  const auto rows = static_cast<double>(gets_a_round);
  figures.lines_per_hit =
      static_cast<double>(loops.lines_read(lines, present.data(), gets_a_round)) / rows;
  figures.lines_per_miss =
      static_cast<double>(loops.lines_read(lines, absent.data(), gets_a_round)) / rows;
  figures.overflow = static_cast<double>(lines.overflow_used) / static_cast<double>(count);
  const bool locks_beside = slots == Bucket::slots;
  const uint64_t bytes =
      (count + lines.overflow_used) * sizeof(Bucket) + (locks_beside ? count : 0);
  figures.bytes_per_entry = static_cast<double>(bytes) / static_cast<double>(entries);
  return figures;
}

double median_of(const std::vector<Figures>& runs, double (*value)(const Figures&)) {
  std::vector<double> values;
  for (const Figures& run : runs) values.push_back(value(run));
  return median(values);
}

void print_row(double load, const char* layout, const std::vector<Figures>& runs) {
  const Figures& sizes = runs[0];
  std::printf(
      "| %.1f | %s | %.1f | %4.1f%% | %.3f | %.3f | %4.1f | %4.1f | %4.1f (%.2f) | %4.1f (%.2f) "
      "|\n",
      load, layout, sizes.bytes_per_entry, sizes.overflow * 100, sizes.lines_per_hit,
      sizes.lines_per_miss, median_of(runs, [](const Figures& f) { return f.limit; }),
      median_of(runs, [](const Figures& f) { return f.inserts; }),
      median_of(runs, [](const Figures& f) { return f.hits; }),
      median_of(runs, [](const Figures& f) { return f.hits / f.limit; }),
      median_of(runs, [](const Figures& f) { return f.misses; }),
      median_of(runs, [](const Figures& f) { return f.misses / f.limit; }));
  std::fflush(stdout);
}

const LayoutChoice& choice() {
  switch (instruction_set()) {
    case InstructionSet::avx512:
      return layout_avx512;
    case InstructionSet::avx2:
      return layout_avx2;
    case InstructionSet::plain:
      break;
  }
  return layout_plain;
}

void run(uint64_t entries) {
  print_environment("layout_bench");
  std::printf(
      "%llu entries of 16 bytes, one thread; millions a second of processor time; medians\n",
      static_cast<unsigned long long>(entries));
  std::printf("of %d; in brackets the share of line reads, medians of the ratios\n\n", rounds);
  std::printf(
      "| load | layout | bytes/entry | overflow | lines/hit | lines/miss | line reads | inserts "
      "| hits | misses |\n|---|---|---|---|---|---|---|---|---|---|\n");
  const LayoutChoice& loops = choice();
  for (const double load : loads) {
    std::vector<Figures> eight, seven;
    for (int round = 0; round < rounds; ++round) {
      eight.push_back(measure(loops.eight_slots, 8, load, entries));
      seven.push_back(measure(loops.header, 7, load, entries));
    }
    print_row(load, "8 slots", eight);
    print_row(load, "header + 7", seven);
  }
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  run(take_number<uint64_t>(argc, argv, "How a line of 128 bytes is cut.", "entries", 16'000'000));
}
