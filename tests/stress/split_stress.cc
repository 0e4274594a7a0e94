// The promise of splits and joins, under threads: whoever reads a key sees every write to it that
// was acknowledged before the read began, however the lines move meanwhile.
//
// Each key has one writer, which counts the writes it has begun and those that were acknowledged;
// the number is the word stored, and every fourth write erases. A reader notes the acknowledged
// count before and the begun count after its find: what it saw must be a write in between. Threads
// find home lines some requests ahead, as batches do, and take the steps of growth in between.
//
// The run is made of cycles. In the first half of one the set of keys grows, so segments split; in
// the second each thread erases its keys one after another, so they are joined. What the threads do
// not own they read all the time.
//
// Usage: split_stress [operations per thread]. Prints what was not seen; the exit code is 1 if
// there was anything.
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <memory>
#include <random>
#include <thread>
#include <vector>

#include "base/hash.h"
#include "base/tile.h"
#include "index/line_index.h"

namespace isotherm {
namespace {

constexpr uint64_t threads = 3;
constexpr uint64_t keys_per_thread = 1 << 19;
constexpr uint64_t rows_per_batch = 32;

struct Key {
  std::atomic<uint64_t> begun{0};
  std::atomic<uint64_t> acknowledged{0};
};

// Every fourth write of a key erases it; before the first it is absent. Where keys are erased on
// purpose, numbers are skipped.
constexpr bool erases(uint64_t number) { return number % 4 == 0; }
constexpr uint64_t next_erasing(uint64_t number) { return number / 4 * 4 + 4; }

// Operations of a thread in one cycle, unless the run is shorter.
constexpr uint64_t operations_per_cycle = 1'000'000;

class Stress {
 public:
  explicit Stress(uint64_t operations)
      : operations_(operations), keys_(new Key[threads * keys_per_thread]) {}

  void run() {
    std::vector<std::thread> workers;
    for (uint64_t i = 0; i < threads; ++i) workers.emplace_back([this, i] { work(i); });
    for (std::thread& worker : workers) worker.join();
    check_end();
  }

  bool report() const {
    const uint64_t bad = own_ + others_ + at_end_;
    std::cout << operations_ * threads << " operations, " << index_.splits() << " splits, "
              << index_.joins() << " joins\n"
              << "own acknowledged writes not seen: " << own_ << "\n"
              << "others' acknowledged writes not seen: " << others_ << "\n"
              << "wrong at the end: " << at_end_ << "\n"
              << "in all not seen: " << bad << "\n";
    return bad == 0;
  }

 private:
  struct Row {
    uint64_t key;
    bool writes;
  };
  // What a thread is at.
  struct Phase {
    uint64_t in_use;  // of its keys, from the first on
    bool shrinks;
    uint64_t next_erased = 0;
  };

  void work(uint64_t thread) {
    EpochDomain::Slot* slot = epochs_.acquire();
    std::mt19937_64 random(thread + 1);
    const uint64_t cycle = std::min(operations_, operations_per_cycle);
    Phase phase{};
    for (uint64_t done = 0; done < operations_; done += rows_per_batch) {
      const uint64_t at = done_.fetch_add(rows_per_batch) / threads % cycle;  // all in one phase
      phase.shrinks = at > cycle / 2;
      if (!phase.shrinks) {
        phase.in_use = std::min(keys_per_thread, at / 2 + 1000);
        phase.next_erased = 0;
      }
      {
        const EpochGuard guard(epochs_, *slot);
        run_batch(thread, phase, random);
      }
      if (index_.wants_step()) index_.step(static_cast<uint32_t>(random() % 64));
    }
    epochs_.release(slot);
  }

  void run_batch(uint64_t thread, Phase& phase, std::mt19937_64& random) {
    Row rows[rows_per_batch];
    for (uint64_t i = 0; i < rows_per_batch; ++i) {
      const uint64_t dice = random();
      const bool own = dice % 10 < 7;
      const uint64_t owner = own ? thread : (dice >> 8) % threads;
      rows[i] = {owner * keys_per_thread + (dice >> 16) % phase.in_use,
                 owner == thread && (dice >> 4) % 2 == 0};
      if (phase.shrinks && own) {
        rows[i] = {thread * keys_per_thread + phase.next_erased++ % phase.in_use, true};
      }
      // Often the key of the row before: a read right behind a write.
      if (i != 0 && (dice >> 60) < 6) rows[i] = {rows[i - 1].key, false};
      __builtin_prefetch(index_.view().home(hash_of(rows[i].key)));
    }
    for (const Row& row : rows)
      row.writes ? write(row.key, phase.shrinks)
                 : read(row.key, row.key / keys_per_thread == thread);
  }

  // Never 0, which marks an empty slot.
  static uint64_t hash_of(uint64_t key) { return mix(key, 7) | 1; }

  void write(uint64_t number, bool erase) {
    Key& key = keys_[number];
    const uint64_t last = key.begun.load(std::memory_order_relaxed);
    const uint64_t word = erase ? next_erasing(last) : last + 1;
    key.begun.store(word);
    index_.update<TilePlain>(hash_of(number), [&](bool, uint64_t, Segment&) {
      return Decision{erases(word) ? Action::erase : Action::store, word};
    });
    key.acknowledged.store(word);
  }

  void read(uint64_t number, bool own) {
    const Key& key = keys_[number];
    const uint64_t from = key.acknowledged.load();
    const Found found = index_.find<TilePlain>(hash_of(number));
    const uint64_t to = key.begun.load();
    bool allowed = false;
    for (uint64_t word = from; word <= to && !allowed; ++word) {
      allowed = found.found ? found.word == word && !erases(word) : erases(word);
    }
    if (!allowed) ++(own ? own_ : others_);
  }

  void check_end() {
    EpochDomain::Slot* slot = epochs_.acquire();
    {
      const EpochGuard guard(epochs_, *slot);
      for (uint64_t number = 0; number < threads * keys_per_thread; ++number) {
        const uint64_t word = keys_[number].acknowledged.load();
        const Found found = index_.find<TilePlain>(hash_of(number));
        if (found.found == erases(word) || (found.found && found.word != word)) ++at_end_;
      }
    }
    epochs_.release(slot);
  }

  const uint64_t operations_;
  const std::unique_ptr<Key[]> keys_;
  Pages pages_;
  MemoryBudget budget_{0};
  EpochDomain epochs_;
  LineIndex index_{pages_, budget_, epochs_};
  std::atomic<uint64_t> done_{0};
  std::atomic<uint64_t> own_{0};
  std::atomic<uint64_t> others_{0};
  uint64_t at_end_ = 0;
};

}  // namespace
}  // namespace isotherm

int main(int argc, char** argv) {
  const uint64_t operations = argc > 1 ? std::strtoull(argv[1], nullptr, 10) : 2'000'000;
  isotherm::Stress stress(operations);
  stress.run();
  return stress.report() ? 0 : 1;
}
