// Upkeep's steps: the lines of the index that one of them moves are bounded, however the index has
// to grow or shrink.
#include "executor/upkeep/host_upkeep.h"

#include <gtest/gtest.h>

#include <string>
#include <thread>
#include <vector>

#include "items/poison.h"

namespace isotherm::host_upkeep_test {
namespace {

constexpr uint64_t rows = 1000;
constexpr uint64_t keys = poison::sanitized ? 60'000 : 400'000;

class HostUpkeepTest : public ::testing::Test {
 protected:
  HostUpkeepTest()
      : store_(options(), 1),
        slot_(store_.epochs.acquire()),
        executor_(store_),
        upkeep_(executor_, *slot_) {}
  ~HostUpkeepTest() override { store_.epochs.release(slot_); }

  static Options options() {
    Options options;
    options.databases = 1;
    return options;
  }

  // Runs a batch of `rows` and one step; the lines that the step moved.
  template <class Add>
  uint64_t turn(Add add, uint64_t first) {
    batch_.clear();
    names_.clear();
    for (uint64_t i = 0; i < rows; ++i) names_.push_back("key " + std::to_string(first + i));
    for (const std::string& name : names_) add(batch_, name);
    {
      const EpochGuard guard(store_.epochs, *slot_);
      executor_.run(batch_, 0, true);
    }
    return step(rows);
  }
  uint64_t step(uint64_t writes) {
    const LineIndex& index = *store_.databases[0].index();
    const uint64_t before = index.lines_moved();
    more_ = upkeep_.step(writes, 0);
    return index.lines_moved() - before;
  }

  HostStore store_;
  EpochDomain::Slot* slot_;
  HostExecutor executor_;
  HostUpkeep upkeep_;
  Batch batch_;
  std::vector<std::string> names_;  // of the batch
  bool more_ = false;
};

TEST_F(HostUpkeepTest, AStepMovesABoundedNumberOfLines) {
  uint64_t moved = 0;
  const auto count = [&](uint64_t lines, uint64_t bound) {
    EXPECT_LE(lines, bound);
    moved += lines;
  };
  for (uint64_t first = 0; first < keys; first += rows) {
    count(turn([](Batch& batch, const std::string& key) { batch.put(key, "value"); }, first),
          rows / 2);
  }
  const LineIndex& index = *store_.databases[0].index();
  EXPECT_GT(index.splits(), 0u);
  EXPECT_GE(moved, index.splits() * segment_lines);
  for (uint64_t first = 0; first < keys; first += rows) {
    count(turn([](Batch& batch, const std::string& key) { batch.erase(key); }, first), rows / 2);
  }
  // A burst of writes without a step between them is not made up for at once.
  count(step(1'000'000), GrowthShare::most_owed);
  for (int i = 0; i < 10'000; ++i) count(step(0), GrowthShare::most_lines);
  EXPECT_GT(index.joins(), 0u);
  EXPECT_EQ(index.count(), 0u);
}

TEST_F(HostUpkeepTest, AnIndexThatExpectsItsKeysDoesNotGrow) {
  store_.make_indexes({{0, keys}, {7, keys}});  // there is one database
  for (uint64_t first = 0; first < keys; first += rows) {
    turn([](Batch& batch, const std::string& key) { batch.put(key, "value"); }, first);
  }
  EXPECT_EQ(store_.databases[0].count(), keys);
  EXPECT_EQ(store_.databases[0].index()->splits(), 0u);
}

TEST_F(HostUpkeepTest, OfACapAnExpectedIndexTakesASmallPart) {
  constexpr uint64_t cap = 32 << 20;
  store_.budget.set_limit(cap);
  store_.make_indexes({{0, 1'000'000'000}});
  ASSERT_NE(store_.databases[0].index(), nullptr);
  EXPECT_LE(static_cast<uint64_t>(store_.budget.index.load()), cap / 8);
}

// One step a batch is enough, however large the batches are.
TEST_F(HostUpkeepTest, GrowthKeepsUpWithLargeBatches) {
  constexpr uint64_t large = keys / 4;
  for (uint64_t first = 0; first < keys; first += large) {
    names_.clear();
    batch_.clear();
    for (uint64_t i = 0; i < large; ++i) names_.push_back("key " + std::to_string(first + i));
    for (const std::string& name : names_) batch_.put(name, "value");
    {
      const EpochGuard guard(store_.epochs, *slot_);
      executor_.run(batch_, 0, true);
    }
    step(large);
  }
  const LineIndex& index = *store_.databases[0].index();
  const uint64_t slots = (index.splits() + 1) * segment_lines * Bucket::slots;
  EXPECT_LE(index.count(), slots);
}

TEST_F(HostUpkeepTest, ExpiryKeepsUpWithLargeBatches) {
  for (uint64_t i = 0; i < rows; ++i) names_.push_back("key " + std::to_string(i));
  for (const std::string& name : names_) batch_.put(name, "value", 0, 1);
  {
    const EpochGuard guard(store_.epochs, *slot_);
    executor_.run(batch_, 0, true);
  }
  ASSERT_EQ(store_.databases[0].count(), rows);
  upkeep_.step(rows, 2);
  EXPECT_EQ(store_.databases[0].count(), 0u);
}

// Who fills a database, flushes it and fills it again does not leave the old items behind.
TEST_F(HostUpkeepTest, DrainingKeepsUpWithLargeBatches) {
  for (uint64_t first = 0; first < keys; first += rows) {
    turn([](Batch& batch, const std::string& key) { batch.put(key, "value"); }, first);
  }
  store_.flushed.push_back({store_.databases[0].detach(), store_.epochs.current(), 0});
  store_.any_flushed = true;
  upkeep_.step(keys, 0);
  EXPECT_TRUE(store_.flushed.empty());
}

// A flushed index gives its memory back in few steps, which leave its items where they are.
TEST_F(HostUpkeepTest, AFlushedIndexGoesInFewSteps) {
  const std::string value((40 << 20) / keys, 'v');  // 40 MB in all, so that a page is little of it
  for (uint64_t first = 0; first < keys; first += rows) {
    turn([&](Batch& batch, const std::string& key) { batch.put(key, value); }, first);
  }
  const int64_t full = store_.budget.items.load();
  store_.flushed.push_back({store_.databases[0].detach(), store_.epochs.current(), 0});
  store_.any_flushed = true;
  uint64_t steps = 0;
  for (; upkeep_.step(0, 0); ++steps) ASSERT_LT(steps, keys / 500);
  EXPECT_TRUE(store_.flushed.empty());
  EXPECT_EQ(store_.budget.index.load(), 0);
  for (int i = 0; i < 100; ++i) upkeep_.step(0, 0);
  EXPECT_LT(store_.budget.items.load(), full / 4);
}

// Threads that pass by while another one moves lines pay later.
TEST_F(HostUpkeepTest, GrowthKeepsUpWithThreads) {
  constexpr uint64_t threads = 16;
  constexpr uint64_t each = keys / threads;
  const auto fill = [&](uint64_t thread) {
    EpochDomain::Slot* slot = store_.epochs.acquire();
    {
      HostExecutor executor(store_);
      HostUpkeep upkeep(executor, *slot);
      Batch batch;
      std::vector<std::string> names(rows);
      for (uint64_t first = 0; first < each; first += rows) {
        for (uint64_t i = 0; i < rows; ++i) {
          names[i] = std::to_string(thread) + " " + std::to_string(first + i);
          batch.put(names[i], "value");
        }
        {
          const EpochGuard guard(store_.epochs, *slot);
          executor.run(batch, 0, true);
        }
        batch.clear();
        upkeep.step(rows, 0);
      }
    }
    store_.epochs.release(slot);
  };
  std::vector<std::thread> running;
  for (uint64_t thread = 0; thread < threads; ++thread) running.emplace_back(fill, thread);
  for (std::thread& thread : running) thread.join();
  const LineIndex& index = *store_.databases[0].index();
  const uint64_t slots = (index.splits() + 1) * segment_lines * Bucket::slots;
  EXPECT_LE(index.count(), slots);
}

}  // namespace
}  // namespace isotherm::host_upkeep_test
