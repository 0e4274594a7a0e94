// A sorted tier on a GPU: pairs of 8 and 8 bytes, ranges of them and gets, from several threads of
// the host, beside a plain copy over the bus in the same run.
//
//   sorted_bench [--pairs N] [--threads N] [--seconds S] [--front-bytes N] [--skip N]
//
// Keys are even numbers, the highest byte first; odd ones are asked, too. First all of them lie in
// one run, then every eighth in a newer one as well, with another value. A thread has two sets of
// columns, and checks every pair of the one while the GPU answers the other. With a front all keys
// begin with so many bytes more; --skip: bytes before each value, which ranges do not show.
#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "cuda/bench_flags.h"
#include "cuda/gpu_timer.cuh"
#include "gpu/store/cuda_sorted_tier.h"

namespace isotherm::bench::sorted_bench {
namespace {

using Clock = std::chrono::steady_clock;

constexpr uint32_t range_pairs = 100;
constexpr uint32_t ranges_a_call = 4096;
constexpr uint32_t gets_a_call = 1 << 17;
constexpr uint64_t newer_every = 8;

double seconds_since(Clock::time_point begin) {
  return std::chrono::duration<double>(Clock::now() - begin).count();
}

// The pairs, by number.
struct Pairs {
  uint64_t count = 20'000'000;
  uint32_t front_bytes = 0;
  uint32_t skip = 0;
  bool has_newer = false;

  uint32_t key_bytes() const { return front_bytes + 8; }
  uint32_t value_bytes() const { return skip + 8; }
  void write_key(uint64_t key, char* to) const {
    std::memset(to, 'k', front_bytes);
    const uint64_t number = __builtin_bswap64(key);
    std::memcpy(to + front_bytes, &number, sizeof number);
  }
  static uint64_t value(uint64_t pair, bool newer) { return pair * 5 + (newer ? 3 : 0); }
  uint64_t value(uint64_t pair) const { return value(pair, has_newer && pair % newer_every == 0); }
};

// Puts every `step`-th pair, some million at a time.
void load(SortedTier& tier, const Pairs& pairs, uint64_t step) {
  constexpr uint64_t at_a_time = 4 << 20;
  const uint64_t all = (pairs.count + step - 1) / step;
  const uint64_t bytes = pairs.key_bytes() + pairs.value_bytes();
  std::vector<char> text(std::min(all, at_a_time) * bytes);
  for (uint64_t begin = 0; begin < all; begin += at_a_time) {
    const uint64_t some = std::min(at_a_time, all - begin);
    std::vector<SortedPair> put(some);
    for (uint64_t i = 0; i < some; ++i) {
      const uint64_t pair = (begin + i) * step;
      char* const key = text.data() + i * bytes;
      char* const value = key + pairs.key_bytes();
      const uint64_t number = Pairs::value(pair, step != 1);
      pairs.write_key(2 * pair, key);
      std::memset(value, 'v', pairs.skip);
      std::memcpy(value + pairs.skip, &number, sizeof number);
      put[i].key = {key, pairs.key_bytes()};
      put[i].value = {value, pairs.value_bytes()};
    }
    if (!tier.put(put)) {
      std::fprintf(stderr, "sorted_bench: no room\n");
      std::exit(EXIT_FAILURE);
    }
  }
}

// One thread's calls of ranges.
class Ranges {
 public:
  using Reader = DirectRanges;
  static constexpr uint64_t a_call = ranges_a_call;

  Ranges(SortedTier& tier, const Pairs& pairs, uint64_t seed)
      : pairs_(pairs), view_(tier.view()), random_(seed) {
    RangeShape shape;
    shape.ranges = ranges_a_call;
    shape.key_room = 2 * ranges_a_call * (pairs.key_bytes() + 1);
    shape.most_bytes = range_pairs * static_cast<uint32_t>(head(pairs).bytes());
    shape.reply_room = uint64_t{ranges_a_call} * (shape.most_bytes + RangeShape::unit);
    shape.value_skip = pairs.skip;
    reader_ = tier.make_ranges(shape);
    first_.resize(ranges_a_call);
  }
  void start() {
    const RangeColumns& columns = reader_->columns();
    uint32_t at = 0;
    for (uint32_t i = 0; i < ranges_a_call; ++i) {
      const uint64_t key = random_() % (2 * (pairs_.count - range_pairs) - 1);
      first_[i] = (key + 1) / 2;
      pairs_.write_key(key, columns.keys + at);
      columns.key_ends[2 * i + 1] = at += pairs_.key_bytes();
      pairs_.write_key(~uint64_t{0}, columns.keys + at);
      columns.key_ends[2 * i + 2] = at += pairs_.key_bytes();
      columns.limits[i] = range_pairs;
    }
    reader_->start(*view_, ranges_a_call);
  }
  void wait() { reader_->wait(); }
  uint64_t wrong() const {
    const RangeColumns& columns = reader_->columns();
    const PairHead wanted = head(pairs_);
    uint64_t wrong = 0;
    std::vector<char> key(pairs_.key_bytes());
    for (uint32_t i = 0; i < ranges_a_call; ++i) {
      const RangeHead& range = columns.heads[i];
      if (range.pairs != range_pairs || range.end != RangeHead::End::limit) {
        ++wrong;
        continue;
      }
      const char* at = columns.replies + range.at;
      for (uint64_t pair = first_[i]; pair < first_[i] + range_pairs; ++pair) {
        pairs_.write_key(2 * pair, key.data());
        const uint64_t value = pairs_.value(pair);
        wrong += std::memcmp(at, &wanted, sizeof wanted) != 0 ||
                 std::memcmp(at + sizeof wanted, key.data(), key.size()) != 0 ||
                 std::memcmp(at + sizeof wanted + key.size(), &value, sizeof value) != 0;
        at += wanted.bytes();
      }
    }
    return wrong;
  }
  static PairHead head(const Pairs& pairs) { return {pairs.key_bytes(), 8}; }
  static uint64_t bytes_each(const Pairs& pairs) { return range_pairs * head(pairs).bytes(); }

 private:
  const Pairs& pairs_;
  const std::shared_ptr<const SortedView> view_;
  std::mt19937_64 random_;
  std::unique_ptr<DirectRanges> reader_;
  std::vector<uint64_t> first_;
};

// One thread's calls of gets, of which half find a pair.
class Gets {
 public:
  static constexpr uint64_t a_call = gets_a_call;

  Gets(SortedTier& tier, const Pairs& pairs, uint64_t seed) : pairs_(pairs), random_(seed) {
    reader_ = tier.make_direct({gets_a_call, gets_a_call * pairs.key_bytes(), stride(pairs)});
    keys_.resize(gets_a_call);
  }
  void start() {
    const DirectColumns& columns = reader_->columns();
    for (uint32_t i = 0; i < gets_a_call; ++i) {
      keys_[i] = random_() % (2 * pairs_.count);
      pairs_.write_key(keys_[i], columns.keys + i * pairs_.key_bytes());
      columns.key_ends[i + 1] = (i + 1) * pairs_.key_bytes();
    }
    reader_->start(gets_a_call);
  }
  void wait() { reader_->wait(); }
  uint64_t wrong() const {
    uint64_t wrong = 0;
    const char* slot = reader_->columns().replies;
    for (uint32_t i = 0; i < gets_a_call; ++i, slot += stride(pairs_)) {
      DirectHead head;
      std::memcpy(&head, slot, sizeof head);
      if (keys_[i] % 2 != 0) {
        wrong += head.bytes != DirectHead::absent;
        continue;
      }
      uint64_t value = 0;
      std::memcpy(&value, slot + sizeof head + pairs_.skip, sizeof value);
      wrong += head.bytes != pairs_.value_bytes() || value != pairs_.value(keys_[i] / 2);
    }
    return wrong;
  }
  static uint32_t stride(const Pairs& pairs) {
    return (static_cast<uint32_t>(sizeof(DirectHead)) + pairs.value_bytes() + 15) / 16 * 16;
  }
  static uint64_t bytes_each(const Pairs& pairs) { return stride(pairs); }

 private:
  const Pairs& pairs_;
  std::mt19937_64 random_;
  std::unique_ptr<DirectGets> reader_;
  std::vector<uint64_t> keys_;
};

template <class Calls>
uint64_t measure(SortedTier& tier, const Pairs& pairs, const char* what, uint32_t threads,
                 double seconds, double copy) {
  std::atomic<uint64_t> calls{0};
  std::atomic<uint64_t> wrong{0};
  std::atomic<uint32_t> ready{0};
  std::atomic<bool> go{false};
  std::atomic<bool> stop{false};
  std::vector<std::thread> all;
  for (uint32_t thread = 0; thread < threads; ++thread) {
    all.emplace_back([&, thread] {
      Calls sets[2] = {{tier, pairs, 2 * thread}, {tier, pairs, 2 * thread + 1}};
      ++ready;
      while (!go) std::this_thread::yield();
      sets[0].start();
      for (uint32_t turn = 0; !stop; turn ^= 1) {
        sets[turn ^ 1].start();
        sets[turn].wait();
        ++calls;
        wrong += sets[turn].wrong();
      }
      for (Calls& set : sets) set.wait();
    });
  }
  while (ready != threads) std::this_thread::yield();
  const auto begin = Clock::now();
  go = true;
  std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
  const double rate = static_cast<double>(calls * Calls::a_call) / seconds_since(begin);
  stop = true;
  for (std::thread& thread : all) thread.join();
  const double bytes = rate * static_cast<double>(Calls::bytes_each(pairs));
  std::printf("%-6s %2u threads %8.1f M/s, %5.1f GB/s of replies, %.2f of the copy\n", what,
              threads, rate / 1e6, bytes / 1e9, bytes / copy);
  std::fflush(stdout);
  return wrong;
}

// Runs of a million pairs, in the order of keys or in none, merged as they come.
void measure_puts(SortedTier& tier, const Pairs& pairs, bool sorted) {
  constexpr uint64_t a_put = 1 << 20;
  constexpr uint64_t puts = 8;
  std::vector<char> text(a_put * pairs.key_bytes());
  const std::string value(pairs.value_bytes(), 'v');
  std::vector<SortedPair> put(a_put);
  std::mt19937_64 random(1);
  double took = 0;
  for (uint64_t number = 0; number < puts; ++number) {
    for (uint64_t i = 0; i < a_put; ++i) {
      pairs.write_key(i * puts + number, text.data() + i * pairs.key_bytes());
      put[i] = {{text.data() + i * pairs.key_bytes(), pairs.key_bytes()}, value, 0, false};
    }
    if (!sorted) std::shuffle(put.begin(), put.end(), random);
    const auto begin = Clock::now();
    if (!tier.put(put)) std::printf("no room\n");
    took += seconds_since(begin);
  }
  const SortedStats stats = tier.stats();
  std::printf("puts of a million pairs in %s order: %6.1f M/s, %llu entries in %llu runs\n",
              sorted ? "the" : "any", puts * a_put / took / 1e6,
              static_cast<unsigned long long>(stats.entries),
              static_cast<unsigned long long>(stats.runs));
  tier.clear();
}

double copy_rate() {
  constexpr uint64_t bytes = uint64_t{256} << 20;
  char* const device = device_array<char>(bytes);
  void* host = nullptr;
  check(cudaMallocHost(&host, bytes));
  const double rate = bytes / median_seconds(5, [&](int) {
                        check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost));
                      });
  check(cudaFreeHost(host));
  check(cudaFree(device));
  return rate;
}

uint64_t run(Pairs pairs, uint32_t threads, double seconds) {
  const double copy = copy_rate();
  std::printf("sorted_bench: %llu pairs of %u and %u bytes; a plain copy to the host: %.1f GB/s\n",
              static_cast<unsigned long long>(pairs.count), pairs.key_bytes(), pairs.value_bytes(),
              copy / 1e9);
  SortedTierOptions options;
  options.bytes = uint64_t{64} << 30;
  options.front = std::string(pairs.front_bytes, 'k');
  const std::unique_ptr<SortedTier> tier = cuda_sorted_tier_maker(0)(options);
  for (const bool sorted : {true, false}) measure_puts(*tier, pairs, sorted);
  uint64_t wrong = 0;
  for (const bool newer : {false, true}) {
    pairs.has_newer = newer;
    const auto begin = Clock::now();
    load(*tier, pairs, newer ? newer_every : 1);
    const double took = seconds_since(begin);
    const SortedStats stats = tier->stats();
    std::printf("%llu runs, %llu entries, %.1f bytes each; loaded in %.2f s\n",
                static_cast<unsigned long long>(stats.runs),
                static_cast<unsigned long long>(stats.entries),
                static_cast<double>(stats.bytes) / static_cast<double>(stats.entries), took);
    for (uint32_t some = 1; some <= threads; some *= 4) {
      wrong += measure<Ranges>(*tier, pairs, "ranges", some, seconds, copy);
    }
    wrong += measure<Gets>(*tier, pairs, "gets", threads, seconds, copy);
  }
  if (wrong != 0) std::printf("WRONG: %llu replies\n", static_cast<unsigned long long>(wrong));
  return wrong;
}

}  // namespace
}  // namespace isotherm::bench::sorted_bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  sorted_bench::Pairs pairs;
  uint32_t threads = 16;
  double seconds = 0.4;
  if (!begin_bench(
          "sorted_bench", argc, argv,
          {flag("--pairs", pairs.count), flag("--threads", threads), flag("--seconds", seconds),
           flag("--front-bytes", pairs.front_bytes), flag("--skip", pairs.skip)})) {
    return EXIT_SUCCESS;
  }
  return sorted_bench::run(pairs, threads, seconds) == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
