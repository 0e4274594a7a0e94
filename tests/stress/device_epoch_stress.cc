// The promise of epochs where the index is on a device: whoever reads an item that the device has
// found for him never sees it reused, neither between the device's answer and his first look nor
// until he clears the batch (MemcachedGPU, section 4.3). The device is a fake one.
//
// Values say whose they are: words of 16 bytes, key number and a number that no other value has.
// Freed items are poisoned. The cap is small, and the policy evicts keys with an expiry only:
//   kept keys     have none, and are put again and again: a get that does not find one was shown
//                 an item that somebody had freed in the same round
//   passing keys  have one, far away, and are more than fit: evicted all the time
// Writers put both. Readers get both and look at all replies; later they also hold their batches,
// and look again when the writers have put as much as fits: it must be what they saw first.
//
// In a build without epochs one writer is enough, and no more should be asked for: several would
// sweep over each other's damage and may crash before it is counted. Either part of the run, looks
// and holds, ends with the first damage.
//
// With a fourth argument values lie on the device, too, in so many bytes
// (executor/values/value_log.h), of which segments are emptied and written again all the time: a
// get must not be shown what lies there since.
//
// Usage: device_epoch_stress [writers] [looks] [holds] [bytes of values on the device]. Prints the
// bad replies; the exit code is 1 if there was one. `make test-long`: four times as many looks, and
// three times as many holds.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <iostream>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "device_checks/test_size.h"
#include "engine/engine.h"
#include "fake_device/fake_root_table.h"

namespace isotherm {
namespace {

constexpr uint64_t readers = 2;
constexpr uint64_t kept_keys = 64;
constexpr uint64_t passing_keys = 20'000;
constexpr uint64_t rows = 64;
constexpr uint64_t cap = 2 << 20;
// How many times as many looks there are where nothing was evicted, or fetched, before.
constexpr uint64_t most_longer = 60;
constexpr int64_t begin_ms = 1'700'000'000'000;
constexpr int64_t some_day_ms = begin_ms + 1'000'000'000;

std::vector<std::string> make_keys() {
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < kept_keys + passing_keys; ++i)
    keys.push_back("key:" + std::to_string(i));
  return keys;
}

constexpr bool kept(uint64_t key) { return key < kept_keys; }

// Shown instead of a number.
constexpr uint64_t absent = 0;
constexpr uint64_t damaged = ~uint64_t{0};

// The number of the value, or `damaged` if it is not one of this key.
uint64_t number_of(uint64_t key, std::string_view value) {
  uint64_t first[2];
  if (value.size() < sizeof(first) || value.size() % sizeof(first) != 0) return damaged;
  std::memcpy(first, value.data(), sizeof(first));
  if (first[0] != key) return damaged;
  for (size_t at = 0; at < value.size(); at += sizeof(first)) {
    if (std::memcmp(value.data() + at, first, sizeof(first)) != 0) return damaged;
  }
  return first[1];
}

uint64_t shown_by(const Reply& reply, uint64_t key) {
  if (reply.status != Status::ok) return kept(key) ? damaged : absent;
  return number_of(key, reply.value());
}

class Stress {
 public:
  Stress(uint64_t writers, uint64_t looks, uint64_t holds, uint64_t values)
      : writers_(writers), looks_(looks), holds_(holds), values_(values) {}

  void run() {
    Worker worker(engine_);
    put_kept(worker);
    std::vector<std::thread> threads;
    for (uint64_t i = 0; i < writers_; ++i) threads.emplace_back([this, i] { write(i + 1); });
    for (uint64_t i = 0; i < readers; ++i) threads.emplace_back([this, i] { read(i + 100); });
    for (std::thread& thread : threads) thread.join();
  }

  bool report() {
    const EngineStats stats = engine_.stats();
    std::cout << stats.requests << " requests, " << stats.evicted << " items evicted\n"
              << "bad replies: " << when_answered_ << " when answered, " << later_
              << " before their batch was cleared\n";
    if (!stats.on_device) std::cout << "the device was lost\n";
    if (values_ != 0) std::cout << stats.values.fetched << " values fetched\n";
    return when_answered_ + later_ == 0 && stats.on_device && has_both(stats) &&
           device_.take_errors().empty();
  }

 private:
  // One thread's values, and the random choice of what it does.
  struct Writer {
    explicit Writer(uint64_t its_seed) : random(its_seed), seed(its_seed) {}

    std::string_view value(uint64_t key, uint64_t row) {
      constexpr uint64_t large = 40'000;
      const uint64_t dice = random();
      const uint64_t bytes = dice % 256 == 255 ? large : 16 + dice % 64 * 16;
      const uint64_t word[2] = {key, seed << 48 | ++put};
      std::string& value = values[row];
      value.resize(bytes);
      for (uint64_t at = 0; at < bytes; at += sizeof(word)) {
        std::memcpy(value.data() + at, word, sizeof(word));
      }
      return value;
    }

    std::mt19937_64 random;
    const uint64_t seed;
    uint64_t put = 0;
    std::string values[rows];
  };

  // One thread's gets, and what their replies showed.
  struct Gets {
    explicit Gets(uint64_t seed) : random(seed) {}

    std::mt19937_64 random;
    Batch batch;
    uint64_t keys[rows];
    uint64_t seen[rows];
  };

  void put_kept(Worker& worker) {
    Writer writer(0xFFFF);
    for (uint64_t key = 0; key < kept_keys; ++key) {
      Batch batch;
      batch.put(keys_[key], writer.value(key, 0));
      worker.submit(batch);
      batch.clear();
    }
  }

  void write(uint64_t seed) {
    Worker worker(engine_);
    Writer writer(seed);
    Batch batch;
    while (reading_ != 0) {
      uint64_t bytes = 0;
      for (uint64_t row = 0; row < rows; ++row) {
        const bool keeps = writer.random() % 2 == 0;
        const uint64_t key =
            keeps ? writer.random() % kept_keys : kept_keys + writer.random() % passing_keys;
        const std::string_view value = writer.value(key, row);
        batch.put(keys_[key], value, 0, keeps ? no_expiry : some_day_ms);
        bytes += value.size();
      }
      worker.submit(batch);
      batch.clear();
      bytes_put_ += bytes;
      bytes_put_.notify_all();
      worker.maintain();
    }
  }

  void read(uint64_t seed) {
    Worker worker(engine_);
    Gets gets(seed);
    for (uint64_t i = 0; goes_on(i) && when_answered_ == 0; ++i) {
      look(worker, gets);
      gets.batch.clear();
    }
    for (uint64_t i = 0; i < holds_ && later_ == 0; ++i) {
      look(worker, gets);
      hold();
      look_again(gets);
      gets.batch.clear();
    }
    --reading_;
  }

  bool goes_on(uint64_t looks) const {
    return looks < looks_ || (looks < most_longer * looks_ && !has_both(engine_.stats()));
  }
  bool has_both(const EngineStats& stats) const {
    return stats.evicted != 0 && (values_ == 0 || stats.values.fetched != 0);
  }

  void look(Worker& worker, Gets& gets) {
    for (uint64_t& key : gets.keys) {
      const uint64_t dice = gets.random();
      key = dice % 4 != 0 ? (dice >> 8) % kept_keys : kept_keys + (dice >> 8) % passing_keys;
      gets.batch.get(keys_[key]);
    }
    worker.submit(gets.batch);
    for (Batch::Row row = 0; row < rows; ++row) {
      gets.seen[row] = shown_by(gets.batch.reply(row), gets.keys[row]);
      if (gets.seen[row] == damaged) ++when_answered_;
    }
  }

  // Until the writers have put as much as fits.
  void hold() {
    const uint64_t until = bytes_put_ + cap;
    for (uint64_t put = bytes_put_; put < until; put = bytes_put_) bytes_put_.wait(put);
  }

  void look_again(const Gets& gets) {
    for (Batch::Row row = 0; row < rows; ++row) {
      if (gets.seen[row] == damaged) continue;
      if (shown_by(gets.batch.reply(row), gets.keys[row]) != gets.seen[row]) ++later_;
    }
  }

  static Options options(uint64_t values) {
    Options options;
    options.gpu_values = values;
    options.gpu_values_from = 64;
    options.databases = 1;
    options.maxmemory = cap;
    options.maxmemory_policy = EvictionPolicy::volatile_lru;
    options.hash_seed = 1;
    return options;
  }

  const uint64_t writers_;
  const uint64_t looks_;
  const uint64_t holds_;
  const uint64_t values_;
  const std::vector<std::string> keys_ = make_keys();
  const ManualClock clock_{begin_ms};
  FakeDevice device_{1, uint64_t{1} << 28};
  Engine engine_{options(values_), clock_, fake_root_tiers_maker(device_)};
  std::atomic<uint64_t> reading_{readers};
  std::atomic<uint64_t> bytes_put_{0};
  std::atomic<uint64_t> when_answered_{0};
  std::atomic<uint64_t> later_{0};
};

}  // namespace
}  // namespace isotherm

int main(int argc, char** argv) {
  const uint64_t writers = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2;
  const uint64_t looks = argc > 2 ? std::strtoull(argv[2], nullptr, 10) : 3000;
  const uint64_t holds = argc > 3 ? std::strtoull(argv[3], nullptr, 10) : 4;
  const uint64_t values = argc > 4 ? std::strtoull(argv[4], nullptr, 10) : 0;
  using isotherm::test_size;
  isotherm::Stress stress(writers, looks * test_size(1, 4), holds * test_size(1, 3), values);
  stress.run();
  return stress.report() ? 0 : 1;
}
