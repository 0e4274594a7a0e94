// Nanoseconds to read 1 to 16 cache lines one behind the other at a random place, each place known
// only when the one before it was read: what a miss of the cache costs, and what its neighbours do.
//
//   lines_bench [--megabytes N]        default 1,000; on huge pages where there are any
//
// The places are a cycle through all blocks of 16 lines; that each was met once is checked.
#include <time.h>

#include <numeric>
#include <random>
#include <string>

#include "bench_support.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

constexpr uint64_t line_words = 8;
constexpr uint64_t most_lines = 16;
constexpr uint64_t block_words = line_words * most_lines;
constexpr uint64_t block_bytes = block_words * 8;
constexpr int rounds = 5;

// Of this thread, which other work on the machine disturbs less than wall time.
double busy_seconds() {
  timespec now{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9;
}

class Blocks {
 public:
  explicit Blocks(uint64_t bytes) : count_(std::max<uint64_t>(bytes / block_bytes, 2)) {
    constexpr uint64_t huge = 2 << 20;
    const uint64_t all = (count_ * block_bytes + huge - 1) / huge * huge;
    words_ = static_cast<uint64_t*>(std::aligned_alloc(huge, all));
    if (words_ == nullptr) throw std::bad_alloc();
    madvise(words_, all, MADV_HUGEPAGE);
    std::fill_n(words_, count_ * block_words, uint64_t{1});
    // One cycle through all of them.
    std::vector<uint64_t> order(count_);
    std::iota(order.begin(), order.end(), uint64_t{0});
    std::shuffle(order.begin(), order.end(), std::mt19937_64(1));
    for (uint64_t i = 0; i < count_; ++i) {
      words_[order[i] * block_words] = order[(i + 1) % count_];
    }
  }

  ~Blocks() { std::free(words_); }
  Blocks(const Blocks&) = delete;
  Blocks& operator=(const Blocks&) = delete;

  uint64_t count() const { return count_; }

  // Follows the cycle for `steps` blocks from `at` on, which it moves, and reads `lines` of each;
  // the sum of what they hold but for the first words.
  uint64_t follow(uint64_t lines, uint64_t steps, uint64_t& at) const {
    uint64_t sum = 0;
    for (uint64_t i = 0; i < steps; ++i) {
      const volatile uint64_t* block = words_ + at * block_words;
      at = block[0];
      for (uint64_t line = 1; line < lines; ++line) {
        sum += block[line * line_words];
      }
      at += sum >> 60;  // 0: the next block is asked for when the last line of this one is here
    }
    return sum;
  }

 private:
  uint64_t count_;
  uint64_t* words_;
};

int run(uint64_t bytes) {
  print_environment("lines_bench");
  const Blocks blocks(bytes);
  const uint64_t steps = std::min<uint64_t>(blocks.count(), 500'000);
  std::printf("%llu MB, %llu blocks of 16 lines a row, median of %d\n",
              static_cast<unsigned long long>(bytes / 1'000'000),
              static_cast<unsigned long long>(steps), rounds);
  for (const uint64_t lines : {1, 2, 4, 6, 8, 10, 12, 14, 16}) {
    std::vector<double> took;
    uint64_t at = 0;
    for (int round = 0; round < rounds; ++round) {
      uint64_t sum = 0;
      const double begin = busy_seconds();
      sum = blocks.follow(lines, steps, at);
      took.push_back(busy_seconds() - begin);
      if (sum != steps * (lines - 1)) return EXIT_FAILURE;
      if (steps == blocks.count() && at != 0) return EXIT_FAILURE;
    }
    std::printf("%llu line%s %.1f ns\n", static_cast<unsigned long long>(lines),
                lines == 1 ? "" : "s", median(took) * 1e9 / static_cast<double>(steps));
  }
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  const char* const what = "Nanoseconds to read cache lines one behind the other.";
  return run(take_number<uint64_t>(argc, argv, what, "--megabytes", 1'000) * 1'000'000);
}
