// No allocation per request: once batches, caches and queues have reached their size, requests of
// every kind run without a call of operator new, also while items are evicted at the cap.
//
// The program replaces operator new by one that counts. Exit code 1 if a request allocated.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <new>
#include <random>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace {

std::atomic<uint64_t> allocations{0};

void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

void* operator new(std::size_t bytes) { return counted(bytes); }
void* operator new[](std::size_t bytes) { return counted(bytes); }
void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete[](void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
void operator delete[](void* memory, std::size_t) noexcept { std::free(memory); }

namespace isotherm {
namespace {

class Load {
 public:
  explicit Load(const Options& options) : engine_(options, clock_), worker_(engine_) {
    for (uint64_t i = 0; i < key_count; ++i) keys_.push_back("key:" + std::to_string(i));
  }

  // Runs batches and returns how many allocations they made.
  uint64_t run(uint64_t batches) {
    const uint64_t before = allocations.load();
    for (uint64_t i = 0; i < batches; ++i) {
      fill();
      worker_.submit(batch_);
      batch_.clear();
      worker_.maintain();
      if (i % 16 == 0) clock_.advance(1);
    }
    return allocations.load() - before;
  }

  uint64_t evicted() const { return engine_.stats().evicted; }

 private:
  static constexpr uint64_t key_count = 20'000;
  static constexpr uint64_t rows = 200;

  void fill() {
    for (uint64_t row = 0; row < rows; ++row) {
      const std::string& key = keys_[random_() % key_count];
      const std::string_view value = std::string_view(bytes_).substr(0, random_() % bytes_.size());
      switch (random_() % 12) {
        case 0:
          batch_.erase(key, option::want_previous);
          break;
        case 1:
          batch_.expire(key, clock_.now_ms() + 500);
          break;
        case 2:
          batch_.add("counter", 1);
          break;
        case 3:
          batch_.append(key, "x", option::if_present);
          break;
        case 4:
          batch_.put(key, value, 0, clock_.now_ms() + 200);
          break;
        case 5:
        case 6:
        case 7:
          batch_.put(key, value);
          break;
        default:
          batch_.get(key);
      }
    }
  }

  ManualClock clock_{1'000'000};
  Engine engine_;
  Worker worker_;
  Batch batch_;
  std::mt19937_64 random_{1};
  std::vector<std::string> keys_;
  const std::string bytes_ = std::string(1000, 'v');
};

bool check(const char* name, const Options& options, bool evicts) {
  Load load(options);
  load.run(5000);
  const uint64_t evicted = load.evicted();
  constexpr uint64_t batches = 5000;
  const uint64_t made = load.run(batches);
  const bool evicted_more = load.evicted() > evicted;
  std::cout << name << ": " << made << " allocations in " << batches << " batches of 200 requests, "
            << load.evicted() - evicted << " items evicted\n";
  // A list that goes with chunks may still reach a new size once; nothing may go with requests.
  constexpr uint64_t tolerated = 10;
  return made <= tolerated && evicted_more == evicts;
}

}  // namespace
}  // namespace isotherm

int main() {
  isotherm::Options options;
  options.hash_seed = 1;
  const bool plain = isotherm::check("no cap", options, false);
  options.maxmemory = 8 << 20;
  options.maxmemory_policy = isotherm::EvictionPolicy::allkeys_lru;
  const bool evicting = isotherm::check("at the cap", options, true);
  return plain && evicting ? 0 : 1;
}
