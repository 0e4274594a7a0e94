#include "isotherm_bench/line_reads.h"

#include <sys/mman.h>

#include <thread>
#include <vector>

#include "isotherm_bench/control.h"
#include "isotherm_bench/random.h"

namespace isotherm::bench {
namespace {

constexpr uint64_t line_words = 16;  // of 8 bytes
constexpr uint64_t reads_a_look = 4096;

// Reads random lines for a time; both cache lines of each.
double read_lines(const uint64_t* words, uint64_t lines, uint64_t stream, double seconds) {
  Random random(1, stream);
  const int64_t begin = now_ns();
  const auto limit = static_cast<int64_t>(seconds * 1e9);
  uint64_t reads = 0, sum = 0;
  int64_t passed = 0;
  while (passed < limit) {
    for (uint64_t i = 0; i < reads_a_look; ++i) {
      const uint64_t* line = words + random.below(lines) * line_words;
      sum += line[0] ^ line[line_words / 2];
    }
    reads += reads_a_look;
    passed = now_ns() - begin;
  }
  // The sum must look used, or the reads would be left out.
  asm volatile("" : : "r"(sum));
  return static_cast<double>(reads) * 1e9 / static_cast<double>(passed);
}

}  // namespace

double random_line_reads(uint64_t bytes, uint32_t threads, double seconds) {
  constexpr uint64_t huge_page = uint64_t{2} << 20;
  bytes = (bytes + huge_page - 1) / huge_page * huge_page;
  void* memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) return 0;
  madvise(memory, bytes, MADV_HUGEPAGE);
  auto* words = static_cast<uint64_t*>(memory);
  for (uint64_t i = 0; i < bytes / sizeof(uint64_t); i += line_words / 2) words[i] = i;
  std::vector<double> rates(threads, 0);
  std::vector<std::thread> running;
  for (uint32_t i = 0; i < threads; ++i) {
    running.emplace_back([&, i] {
      rates[i] = read_lines(words, bytes / (line_words * sizeof(uint64_t)), i, seconds);
    });
  }
  for (std::thread& thread : running) thread.join();
  munmap(memory, bytes);
  double sum = 0;
  for (double rate : rates) sum += rate;
  return sum;
}

}  // namespace isotherm::bench
