// What a change of all hot keys does to latency: a store with a router (histogram) beside one
// without, in turns, a batch each (KVCG, figure 7).
//
//   router_change_bench [--keys N] [--theta T] [--seconds S] [--window MS]
//
// Batches of 512, 95/5, Zipf, 8 + 8 bytes, one thread. Both run for S seconds; then, at time 0,
// other keys become the hot ones, and both run for S seconds more. Each line is a mean over a
// window: of wall time, which both share. Every reply is checked.
#include <cmath>
#include <map>
#include <string>
#include <utility>

#include "bench_support.h"
#include "isotherm/store.h"
#include "isotherm_bench/distribution.h"
#include "isotherm_bench/random.h"
#include "program_flags.h"

namespace isotherm::bench {
namespace {

constexpr size_t batch_rows = 512;

struct ChangeOptions {
  uint64_t keys = 1'000'000;
  double theta = 0.99;
  double seconds = 2;
  double window_ms = 100;
};

// A store and what its batches took.
class Changed {
 public:
  Changed(const char* name, RouterChoice choice, const ChangeOptions& options)
      : name_(name), store_(store_options(choice)), handle_(store_) {
    for (uint64_t i = 0; i < options.keys; ++i) {
      put(i);
      if (batch_.size() == batch_rows || i + 1 == options.keys) run(nullptr);
    }
  }

  void get(uint64_t key) {
    numbers_.push_back(key);
    batch_.get(bytes(key));
  }
  void put(uint64_t key) {
    numbers_.push_back(key);
    batch_.put(bytes(key), bytes(~key));
  }

  // Runs what was added; the time goes to `window`, where there is one.
  void run(std::map<long, std::pair<double, uint64_t>>* window, long at = 0) {
    double took = seconds([&] { handle_.submit(batch_); });
    for (Batch::Row row = 0; row < batch_.size(); ++row) {
      const Reply& reply = batch_.reply(row);
      const uint64_t value = ~numbers_[row];
      const bool right =
          reply.status.load() == Status::ok &&
          (batch_.columns().op[row] == Op::put ||
           reply.value() == std::string_view(reinterpret_cast<const char*>(&value), sizeof value));
      if (!right) {
        std::fprintf(stderr, "router_change_bench: a wrong reply\n");
        std::exit(EXIT_FAILURE);
      }
    }
    batch_.clear();
    used_ = 0;
    numbers_.clear();
    // Behind it: while replies are there, upkeep frees nothing and the index cannot grow.
    took += seconds([&] { handle_.maintain(); });
    if (window == nullptr) return;
    (*window)[at].first += took;
    ++(*window)[at].second;
  }

  void show(const std::map<long, std::pair<double, uint64_t>>& windows) const {
    for (const auto& [at, sum] : windows) {
      std::printf("%-6s %6ld ms %8.1f us\n", name_, at,
                  sum.first * 1e6 / static_cast<double>(sum.second));
    }
  }

 private:
  static Options store_options(RouterChoice choice) {
    Options options;
    options.router.choice = choice;
    return options;
  }
  // Eight bytes that live until the batch has run.
  std::string_view bytes(uint64_t number) {
    char* at = bytes_ + used_;
    std::memcpy(at, &number, sizeof number);
    used_ += sizeof number;
    return {at, sizeof number};
  }

  const char* const name_;
  Store store_;
  Handle handle_;
  Batch batch_;
  char bytes_[8 * 2 * batch_rows] = {};
  size_t used_ = 0;
  std::vector<uint64_t> numbers_;
};

int run(const ChangeOptions& options) {
  print_environment("router_change_bench");
  std::printf("%llu keys, theta %.2f, batches of %zu, windows of %.0f ms\n",
              static_cast<unsigned long long>(options.keys), options.theta, batch_rows,
              options.window_ms);
  Changed stores[] = {{"router", RouterChoice::histogram, options},
                      {"off", RouterChoice::off, options}};
  std::map<long, std::pair<double, uint64_t>> windows[2];
  const Zipf zipf(options.keys, options.theta);
  const Scramble scramble(options.keys);
  Random random(1);
  const auto begin = std::chrono::steady_clock::now();
  for (uint64_t turn = 0;; ++turn) {
    const double now = seconds_since(begin) - options.seconds;
    if (now >= options.seconds && turn > 1) break;
    const uint64_t moved = now < 0 ? 0 : options.keys / 2;
    const long window = static_cast<long>(std::floor(now * 1e3 / options.window_ms)) *
                        static_cast<long>(options.window_ms);
    uint64_t keys[batch_rows];
    bool puts[batch_rows];
    for (size_t i = 0; i < batch_rows; ++i) {
      keys[i] = scramble((zipf.draw(random) + moved) % options.keys);
      puts[i] = random.below(20) == 0;
    }
    for (const size_t which : {turn % 2, 1 - turn % 2}) {
      for (size_t i = 0; i < batch_rows; ++i) {
        puts[i] ? stores[which].put(keys[i]) : stores[which].get(keys[i]);
      }
      stores[which].run(&windows[which], window);
    }
  }
  for (const size_t which : {0, 1}) stores[which].show(windows[which]);
  return EXIT_SUCCESS;
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) {
  using namespace isotherm::bench;
  ChangeOptions options;
  ProgramFlags flags("What a change of all hot keys does to latency.");
  flags.add("--keys", options.keys);
  flags.add("--theta", options.theta);
  flags.add("--seconds", options.seconds, "before the change, and behind it");
  flags.add("--window", options.window_ms, "milliseconds, of a line");
  flags.take(argc, argv);
  return run(options);
}
