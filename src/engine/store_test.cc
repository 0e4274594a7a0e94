#include "isotherm/store.h"

#include <gtest/gtest.h>

#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"

namespace isotherm::store_test {
namespace {

class StoreTest : public ::testing::Test {
 protected:
  std::string get(std::string_view key) {
    std::string value = "untouched";
    return handle.get(key, value) == Status::ok ? value : "(absent)";
  }
  std::set<std::string> scan() {
    std::set<std::string> keys;
    uint64_t cursor = 0;
    do {
      cursor = handle.scan(cursor, 10, [&](std::string_view key) { keys.emplace(key); });
    } while (cursor != 0);
    return keys;
  }

  ManualClock clock{1'000'000};
  Store store{Options{}, clock};
  Handle handle{store};
};

TEST_F(StoreTest, PutGetErase) {
  EXPECT_EQ(get("key"), "(absent)");
  EXPECT_EQ(handle.put("key", "value"), Status::ok);
  EXPECT_EQ(get("key"), "value");
  EXPECT_EQ(store.size(), 1u);
  EXPECT_EQ(handle.erase("key"), Status::ok);
  EXPECT_EQ(handle.erase("key"), Status::not_found);
  EXPECT_EQ(store.size(), 0u);
}

// The memory of a store into which so many keys were put by nothing but batches.
uint64_t memory_of_batches(const Clock& clock, bool started, bool maintains) {
  Store store(Options{}, clock);
  Handle handle(store);
  Batch batch;
  std::vector<std::string> keys(500);
  for (int round = 0; round < 50; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) {
      keys[i] = std::to_string(round) + "." + std::to_string(i);
      batch.put(keys[i], "value");
    }
    if (!started) {
      handle.submit(batch);
    } else if (handle.start(batch) != Status::ok) {
      return 0;
    }
    batch.clear();
    if (maintains) handle.maintain();
  }
  return store.memory();
}

TEST_F(StoreTest, BatchesGrowTheIndexByThemselves) {
  const uint64_t grown = memory_of_batches(clock, false, true);
  EXPECT_GE(memory_of_batches(clock, false, false), grown * 9 / 10);
  EXPECT_GE(memory_of_batches(clock, true, false), grown * 9 / 10);
}

// The rest of the store does not wait for who reads replies at leisure.
TEST_F(StoreTest, BackgroundWorkIsDoneBesideABatchThatIsNotCleared) {
  const std::string value(100, 'v');
  ASSERT_EQ(handle.put("kept", value), Status::ok);
  ASSERT_EQ(handle.put("short-lived", "value", {.expiry = clock.now_ms() + 1}), Status::ok);
  Batch held;
  held.get("kept");
  handle.submit(held);
  handle.erase("kept");
  clock.advance(2);
  while (handle.maintain()) continue;
  EXPECT_EQ(store.size(), 0u);
  for (int i = 0; i < 1000; ++i) {
    ASSERT_EQ(handle.put("other " + std::to_string(i), std::string(100, 'o')), Status::ok);
    handle.maintain();
  }
  EXPECT_EQ(held.reply(0).value(), value);
}

TEST_F(StoreTest, BatchesAreStartedAndLookedAfterLater) {
  int done = 0;
  std::vector<Batch> batches(Handle::most_under_way + 1);
  for (Batch& batch : batches) {
    batch.on_done([](Batch&, void* count) { ++*static_cast<int*>(count); }, &done);
    batch.add("n", 1);
    const bool last = &batch == &batches.back();
    EXPECT_EQ(handle.start(batch), last ? Status::retry : Status::ok);
  }
  EXPECT_EQ(done, static_cast<int>(Handle::most_under_way));
  EXPECT_FALSE(batches.back().ready(0)) << "nothing ran";
  EXPECT_EQ(handle.poll(), 0u);
  // Single operations go on beside them.
  EXPECT_EQ(get("n"), std::to_string(Handle::most_under_way));
  batches.front().clear();
  EXPECT_EQ(handle.start(batches.back()), Status::ok);
  handle.wait(batches.back());
  EXPECT_EQ(batches.back().reply(0).number, int64_t{Handle::most_under_way} + 1);
  batches.clear();
  batches = std::vector<Batch>(1);
  batches[0].select(99);
  batches[0].get("n");
  EXPECT_EQ(handle.start(batches[0]), Status::ok);
  EXPECT_EQ(batches[0].reply(0).status, Status::invalid);
}

TEST_F(StoreTest, ABatchThatWasNotClearedRunsAgain) {
  auto batch = std::make_unique<Batch>();
  const Batch::Row sum = batch->add("n", 1);
  const Batch::Row seen = batch->get("n");
  handle.submit(*batch);
  Handle other(store);
  other.submit(*batch);
  EXPECT_EQ(batch->reply(sum).number, 2);
  EXPECT_EQ(batch->reply(seen).value(), "2");
  EXPECT_EQ(handle.start(*batch), Status::ok);
  handle.wait(*batch);
  EXPECT_EQ(batch->reply(sum).number, 3);
  batch.reset();
  // No handle has anything of it.
  EXPECT_EQ(handle.put("n", "0"), Status::ok);
  EXPECT_EQ(other.put("n", "1"), Status::ok);
}

TEST_F(StoreTest, AMissLeavesTheOutputAlone) {
  std::string value = "untouched";
  ItemInfo info{7, 8, 9};
  EXPECT_EQ(handle.get("key", value, &info), Status::not_found);
  EXPECT_EQ(value, "untouched");
  EXPECT_EQ(info.version, 7u);
}

TEST_F(StoreTest, KeysAndValuesAreBytes) {
  std::string bytes;
  for (int i = 0; i < 256; ++i) bytes.push_back(static_cast<char>(i));
  EXPECT_EQ(handle.put(bytes, bytes), Status::ok);
  EXPECT_EQ(get(bytes), bytes);
  EXPECT_EQ(handle.put("", ""), Status::ok);
  EXPECT_EQ(get(""), "");
  EXPECT_EQ(scan(), (std::set<std::string>{"", bytes}));
}

TEST_F(StoreTest, ValuesOfEverySizeComeBack) {
  for (uint64_t size = 0; size < 70'000; size = size * 5 / 4 + 1) {
    const std::string value(size, static_cast<char>('a' + size % 26));
    const std::string key = "key" + std::string(size % 1000, 'k') + std::to_string(size);
    ASSERT_EQ(handle.put(key, value), Status::ok);
    ASSERT_EQ(get(key), value);
  }
  const std::string large(20 << 20, 'L');
  EXPECT_EQ(handle.put(large, large), Status::ok);
  EXPECT_EQ(get(large), large);
}

TEST_F(StoreTest, TooLargeIsRefusedBeforeAnythingIsDone) {
  Options options;
  options.max_value_bytes = 100;
  Store small(options);
  Handle mine(small);
  const std::string fits(100, 'x');
  const std::string too_large(101, 'x');
  EXPECT_EQ(mine.put("key", fits), Status::ok);
  EXPECT_EQ(mine.put("key", too_large), Status::too_large);
  EXPECT_EQ(mine.put(too_large, "value"), Status::too_large);
  EXPECT_EQ(mine.put(fits, "value"), Status::ok);
  int64_t sum = 0;
  EXPECT_EQ(mine.add(too_large, 1, sum), Status::too_large);
  Batch batch;
  batch.append("key", "x");
  batch.prepend("key", "x");
  batch.get("key");
  mine.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::too_large);
  EXPECT_EQ(batch.reply(1).status, Status::too_large);
  EXPECT_EQ(batch.reply(2).value(), fits);
}

TEST_F(StoreTest, ConditionsAndPreviousValues) {
  std::string previous = "x";
  EXPECT_EQ(handle.put("key", "one", {.conditions = option::if_present}), Status::not_found);
  EXPECT_EQ(handle.put("key", "one", {.conditions = option::if_absent}, &previous), Status::ok);
  EXPECT_EQ(previous, "");
  EXPECT_EQ(handle.put("key", "two", {.conditions = option::if_absent}, &previous),
            Status::condition_failed);
  EXPECT_EQ(previous, "one");
  EXPECT_EQ(handle.put("key", "two", {.conditions = option::if_present}, &previous), Status::ok);
  EXPECT_EQ(previous, "one");
  EXPECT_EQ(handle.erase("key", &previous), Status::ok);
  EXPECT_EQ(previous, "two");
  EXPECT_EQ(handle.erase("key", &previous), Status::not_found);
  EXPECT_EQ(previous, "");
}

TEST_F(StoreTest, CompareAndSwapComparesVersions) {
  EXPECT_EQ(handle.compare_and_swap("key", 1, "value"), Status::not_found);
  handle.put("key", "one", {.conditions = 0, .expiry = no_expiry, .flags = 5});
  std::string value;
  ItemInfo info;
  handle.get("key", value, &info);
  EXPECT_EQ(info.flags, 5u);
  EXPECT_EQ(info.expiry, no_expiry);
  const uint64_t first = info.version;
  EXPECT_EQ(handle.compare_and_swap("key", first, "two"), Status::ok);
  EXPECT_EQ(handle.compare_and_swap("key", first, "three"), Status::condition_failed);
  handle.get("key", value, &info);
  EXPECT_EQ(value, "two");
  EXPECT_GT(info.version, first);
  // An expiry is no new value.
  const uint64_t second = info.version;
  EXPECT_EQ(handle.expire("key", 2'000'000), Status::ok);
  EXPECT_EQ(handle.expire("key", 3'000'000), Status::ok);
  EXPECT_EQ(handle.compare_and_swap("key", second, "three"), Status::ok);
}

TEST_F(StoreTest, AddCounts) {
  int64_t sum = 0;
  EXPECT_EQ(handle.add("counter", 5, sum), Status::ok);
  EXPECT_EQ(handle.add("counter", -7, sum), Status::ok);
  EXPECT_EQ(sum, -2);
  EXPECT_EQ(get("counter"), "-2");
  handle.put("counter", "9223372036854775807");
  sum = 42;
  EXPECT_EQ(handle.add("counter", 1, sum), Status::overflow);
  handle.put("counter", "ten");
  EXPECT_EQ(handle.add("counter", 1, sum), Status::not_an_integer);
  EXPECT_EQ(sum, 42);
  EXPECT_EQ(get("counter"), "ten");
}

TEST_F(StoreTest, ExpiryFollowsTheClock) {
  handle.put("soon", "v", {.conditions = 0, .expiry = 1'000'100, .flags = 0});
  handle.put("later", "v");
  EXPECT_EQ(handle.expire("later", 1'000'200), Status::ok);
  EXPECT_EQ(handle.expire("nobody", 1'000'200), Status::not_found);
  clock.advance(99);
  EXPECT_EQ(get("soon"), "v");
  clock.advance(1);
  EXPECT_EQ(get("soon"), "(absent)");
  EXPECT_EQ(get("later"), "v");
  EXPECT_EQ(handle.expire("later", no_expiry), Status::ok);
  clock.advance(1'000'000);
  EXPECT_EQ(get("later"), "v");
  EXPECT_EQ(handle.expire("later", 5), Status::ok);  // long past
  EXPECT_EQ(get("later"), "(absent)");
}

TEST_F(StoreTest, KeepExpiryKeepsIt) {
  handle.put("key", "one", {.conditions = 0, .expiry = 1'000'100, .flags = 0});
  handle.put("key", "two", {.conditions = option::keep_expiry, .expiry = no_expiry, .flags = 0});
  std::string value;
  ItemInfo info;
  handle.get("key", value, &info);
  EXPECT_EQ(info.expiry, 1'000'100);
  handle.put("key", "three");
  handle.get("key", value, &info);
  EXPECT_EQ(info.expiry, no_expiry);
}

TEST_F(StoreTest, DatabasesAreApart) {
  handle.put("key", "zero");
  handle.select(15);
  EXPECT_EQ(get("key"), "(absent)");
  handle.put("key", "fifteen");
  EXPECT_EQ(store.size(0), 1u);
  EXPECT_EQ(store.size(15), 1u);
  EXPECT_EQ(handle.put("key", "v"), Status::ok);
  handle.clear();
  EXPECT_EQ(get("key"), "(absent)");
  handle.select(0);
  EXPECT_EQ(get("key"), "zero");
  handle.select(16);
  EXPECT_EQ(handle.put("key", "v"), Status::invalid);
  EXPECT_EQ(get("key"), "(absent)");
  EXPECT_EQ(store.size(16), 0u);
  handle.clear();
  Batch batch;
  const Batch::Row row = batch.get("key");
  batch.columns().op[row] = static_cast<Op>(77);
  handle.submit(batch);
  EXPECT_EQ(batch.reply(row).status, Status::invalid);
}

TEST_F(StoreTest, ClearRemovesEveryKey) {
  for (int i = 0; i < 5000; ++i) handle.put("key" + std::to_string(i), "v");
  EXPECT_EQ(scan().size(), 5000u);
  handle.clear();
  EXPECT_EQ(store.size(), 0u);
  EXPECT_TRUE(scan().empty());
  handle.put("key", "again");
  EXPECT_EQ(get("key"), "again");
}

TEST_F(StoreTest, ThreadsShareAStore) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&, i] {
      Handle mine(store);
      int64_t sum = 0;
      for (int j = 0; j < 2000; ++j) {
        mine.add("shared", 1, sum);
        mine.put("own" + std::to_string(i) + ":" + std::to_string(j), std::to_string(j));
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(get("shared"), "6000");
  EXPECT_EQ(get("own2:1999"), "1999");
  EXPECT_EQ(store.size(), 6001u);
}

TEST_F(StoreTest, RepliesBecomeReadyAndOnDoneIsCalled) {
  Batch batch;
  int calls = 0;
  batch.on_done(
      [](Batch& its, void* context) {
        EXPECT_TRUE(its.ready(0));
        ++*static_cast<int*>(context);
      },
      &calls);
  batch.put("key", "value");
  EXPECT_FALSE(batch.ready(0));
  handle.submit(batch);
  EXPECT_TRUE(batch.ready(0));
  EXPECT_EQ(calls, 1);
}

TEST_F(StoreTest, BatchesMayOutliveTheirHandle) {
  Batch first;
  Batch second;
  {
    Handle other(store);
    first.put("a", "1");
    second.put("b", "1");
    other.submit(first);
    ASSERT_EQ(other.start(second), Status::ok);
  }
  EXPECT_EQ(get("a") + get("b"), "11");
  first.clear();
  first.get("a");
  handle.submit(first);
  EXPECT_EQ(first.reply(0).value(), "1");
}

std::string why_refused(const Options& options) {
  try {
    const Store refused(options);
  } catch (const std::invalid_argument& error) {
    return error.what();
  }
  return "not at all";
}

TEST_F(StoreTest, RefusesOptionsOutOfRange) {
  Options options;
  options.databases = 0;
  EXPECT_EQ(why_refused(options), "databases must be from 1 to 16384");
  for (const size_t count : {0, 17}) {
    Options of_gpus;
    for (of_gpus.gpus.clear(); of_gpus.gpus.size() < count;) {
      of_gpus.gpus.push_back(static_cast<uint32_t>(of_gpus.gpus.size()));
    }
    EXPECT_EQ(why_refused(of_gpus), "gpus: must name 1 to 16 GPUs, also where none is used");
  }
  Options of_tree;
  of_tree.tree_options = "max_open_files=10";
  EXPECT_EQ(why_refused(of_tree), "tree_options: needs a tree");
  Options small;
  small.tree = "folder";
  small.maxmemory = Options::least_with_tree - 1;
  EXPECT_EQ(why_refused(small), "maxmemory: must be 0, for no cap, or at least 2mb with a tree");
}

TEST_F(StoreTest, TheLeastMemoryHasRoomForAnItem) {
  for (const auto policy : {EvictionPolicy::noeviction, EvictionPolicy::allkeys_lru}) {
    Options options;
    options.maxmemory_policy = policy;
    options.maxmemory = Options::least_maxmemory - 1;
    EXPECT_EQ(why_refused(options), "maxmemory must be 0, for no cap, or at least 786432 bytes");
    ++options.maxmemory;
    Store smallest(options);
    EXPECT_EQ(Handle(smallest).put("key", "value"), Status::ok);
  }
}

TEST_F(StoreTest, HasAsManyHandlesAsItSays) {
  Store many;
  std::vector<std::unique_ptr<Handle>> handles;
  while (handles.size() < Store::most_handles) {
    handles.push_back(std::make_unique<Handle>(many));
  }
  EXPECT_THROW(Handle{many}, std::runtime_error);
  handles.pop_back();
  EXPECT_EQ(Handle(many).put("key", "value"), Status::ok);
}

TEST_F(StoreTest, MemoryCountsAndIsCapped) {
  Options options;
  options.maxmemory = 8 << 20;
  Store capped(options);
  Handle mine(capped);
  Status status = Status::ok;
  for (int i = 0; i < 20'000 && status == Status::ok; ++i) {
    status = mine.put("key" + std::to_string(i), std::string(1000, 'v'));
  }
  EXPECT_EQ(status, Status::out_of_memory);
  EXPECT_GT(capped.memory(), 6u << 20);
  EXPECT_LE(capped.memory(), 9u << 20);
}

}  // namespace
}  // namespace isotherm::store_test
