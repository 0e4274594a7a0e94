// A store whose memory is a cache, of a tree's files or of items on a GPU: what it has forgotten is
// answered as if it were there.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "fake_device/fake_item_tier.h"
#include "fake_device/fake_sorted_tier.h"
#include "items/poison.h"
#include "tree/tree.h"

namespace isotherm::tree_store_test {
namespace {

// `split_items`: on several devices. `hot_…`: bins of keys become hot and cold all the time.
enum class Behind : uint8_t { files, sorted, hot_files, items, split_items, hot_items };

class TreeStoreTest : public ::testing::TestWithParam<Behind> {
 protected:
  TreeStoreTest() {
    if (lasts()) {
      std::string path = std::filesystem::temp_directory_path() / "isotherm-tree-XXXXXX";
      options_.tree = ::mkdtemp(path.data());
      if (GetParam() == Behind::sorted) options_.gpu_sorted = 64 << 20;
    } else {
      options_.device = DeviceChoice::cuda;
      options_.gpu_items = 64 << 20;
    }
    options_.maxmemory = 1 << 30;
    options_.databases = 2;
    options_.hash_seed = 1;
    if (GetParam() == Behind::hot_files || GetParam() == Behind::hot_items) {
      options_.router = {.choice = RouterChoice::chance,
                         .bins = 64,
                         .memory = RouterOptions::least_memory,
                         .interval_ms = 1};
    }
  }
  ~TreeStoreTest() override {
    close();
    if (!options_.tree.empty()) std::filesystem::remove_all(options_.tree);
    EXPECT_EQ(device_.take_errors(), std::vector<std::string>{});
  }
  void SetUp() override {
    try {
      open();
    } catch (const TreeError&) {
      GTEST_SKIP() << "built without RocksDB";
    }
  }
  void open() {
    close();
    std::vector<FakeDevice*> devices = {&device_};
    if (GetParam() == Behind::split_items) devices.push_back(&second_);
    engine_ = lasts() ? std::make_unique<Engine>(options_, clock_, fake_sorted_tier_maker(device_))
                      : std::make_unique<Engine>(options_, clock_, fake_item_tier_maker(devices));
    worker_ = std::make_unique<Worker>(*engine_);
  }
  void close() {
    worker_.reset();
    engine_.reset();
  }
  // Memory forgets what it has, as if others took nearly all of the cap.
  void forget() {
    const auto bytes =
        static_cast<int64_t>(engine_->maxmemory() - 1 - engine_->stats().buffer_bytes);
    engine_->add_sink_bytes(bytes);
    for (int i = 0; i < 100 && engine_->database(0).keys != 0; ++i) worker_->maintain();
    engine_->add_sink_bytes(-bytes);
    EXPECT_EQ(engine_->database(0).keys, 0u);
  }
  // The reply's status, with its data where there is some, and its number.
  std::string run(const std::function<void(Batch&)>& fill) {
    Batch batch;
    fill(batch);
    worker_->submit(batch);
    std::string text;
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      const Reply& reply = batch.reply(row);
      text += std::string(to_string(reply.status)) + ' ' + std::string(reply.value()) + ' ' +
              std::to_string(reply.number) + ' ';
    }
    return text;
  }
  std::set<std::string> all_keys(uint32_t database) {
    std::set<std::string> keys;
    uint64_t cursor = 0;
    do {
      cursor = worker_->scan(database, cursor, 100, [&](const ScanItem& item) {
        EXPECT_TRUE(keys.emplace(item.key).second) << "shown twice: " << item.key;
      });
    } while (cursor != 0);
    return keys;
  }

  static bool lasts() { return GetParam() <= Behind::hot_files; }

  ManualClock clock_{1'700'000'000'000};
  FakeDevice device_{1, uint64_t{1} << 28};
  FakeDevice second_{2, uint64_t{1} << 28, device_};
  Options options_;
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Worker> worker_;
};

std::string name_of(const ::testing::TestParamInfo<Behind>& test) {
  const char* const all[] = {"Files", "Sorted", "HotFiles", "Items", "SplitItems", "HotItems"};
  return all[static_cast<int>(test.param)];
}
INSTANTIATE_TEST_SUITE_P(Behind, TreeStoreTest,
                         ::testing::Values(Behind::files, Behind::sorted, Behind::hot_files,
                                           Behind::items, Behind::split_items, Behind::hot_items),
                         name_of);

// So nobody has to wait for all keys of a group until all keys are counted.
TEST_P(TreeStoreTest, ACountIsOfTheMomentAtWhichItBegan) {
  run([](Batch& batch) { batch.put("key", "1"); });
  const KeyCount count = engine_->begin_count(0);
  run([](Batch& batch) { batch.put("later", "1"); });
  EXPECT_EQ(count(), 1u);
  EXPECT_EQ(engine_->count(0), 2u);
}

// What a batch asks for at once need not fit into memory: its replies hold copies of the rest.
TEST_P(TreeStoreTest, GetsThatMemoryHasNoRoomForAreAnswered) {
  constexpr int count = 60;
  const auto key = [](int number) { return "key" + std::to_string(number); };
  const auto value = [](int number) { return std::string(50'000 + number, 'v'); };
  std::vector<std::string> keys, values;
  for (int i = 0; i < count; ++i) {
    keys.push_back(key(i));
    values.push_back(value(i));
    run([&](Batch& batch) { batch.put(keys.back(), values.back(), 0, no_expiry, i); });
  }
  forget();
  const auto taken = static_cast<int64_t>(engine_->maxmemory() - engine_->stats().buffer_bytes);
  engine_->add_sink_bytes(taken);
  {
    Batch batch;
    for (const std::string& one : keys) batch.get(one);
    worker_->submit(batch);
    for (int i = 0; i < count; ++i) {
      const Reply& reply = batch.reply(static_cast<Batch::Row>(i));
      ASSERT_EQ(reply.status, Status::ok) << i;
      EXPECT_EQ(reply.value(), values[static_cast<size_t>(i)]);
      EXPECT_EQ(reply.flags, static_cast<uint32_t>(i));
    }
  }
  engine_->add_sink_bytes(-taken);
  EXPECT_EQ(engine_->stats().hits, uint64_t{count});
}

TEST_P(TreeStoreTest, AKeyThatMemoryHasNoRoomForCanBeErased) {
  const std::string value(300'000, 'v');
  for (const char* key : {"a", "b"}) run([&](Batch& batch) { batch.put(key, value); });
  forget();
  const auto taken = static_cast<int64_t>(engine_->maxmemory() - engine_->stats().buffer_bytes);
  engine_->add_sink_bytes(taken);
  EXPECT_EQ(run([](Batch& batch) {
              batch.erase("a");
              batch.erase("none");
              batch.erase("a");
            }),
            "ok  0 not found  0 not found  0 ");
  engine_->add_sink_bytes(-taken);
  forget();
  EXPECT_EQ(run([](Batch& batch) { batch.get("a", option::no_value); }), "not found  0 ");
  EXPECT_EQ(all_keys(0), std::set<std::string>{"b"});
  if (lasts()) {
    ASSERT_TRUE(engine_->tree()->flush());
    open();
  }
  EXPECT_EQ(all_keys(0), std::set<std::string>{"b"});
}

// One that is larger than what loads may take is not dropped before its row has it; nor are several
// that are asked for at once.
TEST_P(TreeStoreTest, ValuesLargerThanWhatLoadsMayTakeAreRead) {
  const std::string names[] = {"a", "b", std::string(60'000, 'k')};
  options_.maxmemory = 4 << 20;
  open();
  const std::string value(300'000, 'v');
  for (const std::string& name : names) {
    run([&](Batch& batch) { batch.put(name, value); });
    ASSERT_TRUE(engine_->tree()->flush());
  }
  for (int round = 0; round < 3; ++round) {
    forget();
    Batch batch;
    for (const std::string& name : names) batch.get(name);
    worker_->submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      ASSERT_EQ(batch.reply(row).status, Status::ok);
      EXPECT_EQ(batch.reply(row).value(), value);
    }
  }
}

// The same requests to a store that forgets, and to one that has all in memory.
TEST_P(TreeStoreTest, EveryAnswerIsThatOfAStoreWithoutATree) {
  Options plain;
  plain.databases = 2;
  Engine other(plain, clock_);
  Worker others(other);
  std::mt19937_64 random(7);
  const auto name_of = [](uint64_t number) {
    if (number == 0) return std::string();
    return (number % 8 == 1 ? "\xffkey" : "key") + std::to_string(number);
  };
  const auto draw = [&](uint64_t below) { return random() % below; };
  // A fake device takes its time.
  const int steps = lasts() ? (poison::sanitized ? 400 : 800) : 300;
  for (int step = 0; step < steps; ++step) {
    Batch mine;
    Batch its;
    std::vector<std::string> texts;
    texts.reserve(256);
    for (uint64_t rows = 1 + draw(step % 8 == 5 ? 70 : 8); rows != 0; --rows) {
      const std::string& key = texts.emplace_back(name_of(draw(60)));
      const std::string& value = texts.emplace_back(draw(3) == 0 ? std::to_string(draw(1000))
                                                                 : std::string(draw(200), 'v'));
      const int64_t expiry = draw(4) == 0 ? clock_.now_ms() + 1 + int64_t(draw(50)) : no_expiry;
      const auto database = static_cast<uint32_t>(draw(2));
      const uint64_t kind = draw(10);
      constexpr uint16_t conditions[] = {0, option::if_absent, option::if_present,
                                         option::keep_expiry, option::want_previous};
      const uint16_t how = conditions[draw(5)];
      for (Batch* batch : {&mine, &its}) {
        batch->select(database);
        if (kind < 3) batch->get(key);
        if (kind == 3 || kind == 4) batch->put(key, value, how, expiry, kind);
        if (kind == 5) batch->erase(key, how & option::want_previous);
        if (kind == 6) batch->add(key, 3);
        if (kind == 7) batch->append(key, value);
        if (kind == 8) batch->expire(key, expiry);
        if (kind == 9) batch->set_range(key, 3, "xyz");
      }
    }
    if (draw(3) == 0) {
      mine.group(0);
      its.group(0);
    } else if (step % 4 == 0) {
      // As many gets as a device answers directly, some of them of one key.
      for (Batch* batch : {&mine, &its}) {
        batch->clear();
        for (uint64_t i = 0; i < 80; ++i) {
          batch->select(static_cast<uint32_t>(i % 2));
          batch->get(texts.emplace_back(name_of(i * 7 % 60)));
        }
      }
    }
    worker_->submit(mine, clock_.now_ms());
    others.submit(its, clock_.now_ms());
    for (Batch::Row row = 0; row < mine.size(); ++row) {
      const Reply& a = mine.reply(row);
      const Reply& b = its.reply(row);
      ASSERT_EQ(to_string(a.status), to_string(b.status)) << step << " row " << row;
      ASSERT_EQ(a.value(), b.value()) << step;
      ASSERT_EQ(a.number, b.number) << step;
      ASSERT_EQ(a.expiry, b.expiry) << step;
      ASSERT_EQ(a.flags, b.flags) << step;
    }
    mine.clear();
    its.clear();
    if (draw(20) == 0) clock_.advance(int64_t(draw(30)));
    if (draw(8) == 0) forget();
    if (draw(30) == 0) {
      ASSERT_TRUE(engine_->tree()->flush());
    }
    if (draw(200) == 0) {
      worker_->flush(1);
      others.flush(1);
    }
    if (step % 300 == 299 && lasts()) open();
  }
  for (const uint32_t database : {0, 1}) {
    std::set<std::string> keys;
    others.scan(database, 0, 1000, [&](const ScanItem& item) { keys.emplace(item.key); });
    EXPECT_EQ(all_keys(database), keys);
    EXPECT_EQ(worker_->count(database), keys.size());
  }
}

TEST_P(TreeStoreTest, VersionsGoOnAndAreThoseOfTheItemsAfterAStart) {
  if (!lasts()) GTEST_SKIP() << "nothing is left";
  run([](Batch& batch) { batch.put("key", "1"); });
  Batch first;
  first.get("key");
  worker_->submit(first);
  const uint64_t version = first.reply(0).version;
  first.clear();
  open();
  Batch batch;
  batch.get("key");
  batch.put("key", "2", option::if_version, no_expiry, 0, version);
  batch.put("key", "3", option::if_version, no_expiry, 0, version);
  worker_->submit(batch);
  EXPECT_EQ(batch.reply(0).version, version);
  EXPECT_EQ(batch.reply(1).status, Status::ok);
  EXPECT_GT(batch.reply(1).version, version);
  EXPECT_EQ(batch.reply(2).status, Status::condition_failed);
  batch.clear();
}

TEST_P(TreeStoreTest, ThreadsLoseNoIncrementWhileMemoryForgets) {
  constexpr int threads = 3;
  constexpr int rounds = 150;
  constexpr int keys = 5;
  std::atomic<int> running{threads};
  std::vector<std::thread> all;
  for (int i = 0; i < threads; ++i) {
    all.emplace_back([&, i] {
      Worker worker(*engine_);
      std::mt19937 random(static_cast<uint32_t>(i));
      for (int round = 0; round < rounds; ++round) {
        const std::string names[2] = {"key" + std::to_string(random() % keys),
                                      "key" + std::to_string(random() % keys)};
        Batch batch;
        for (const std::string& name : names) batch.add(name, 1);
        worker.submit(batch);
        EXPECT_EQ(batch.reply(0).status, Status::ok);
        batch.clear();
      }
      --running;
    });
  }
  const auto bytes = static_cast<int64_t>(engine_->maxmemory() / 2);
  while (running != 0) {
    engine_->add_sink_bytes(bytes);
    engine_->set_maxmemory(1 << 20);
    worker_->maintain();
    engine_->set_maxmemory(1 << 30);
    engine_->add_sink_bytes(-bytes);
    engine_->tree()->flush();
  }
  for (std::thread& thread : all) thread.join();
  for (const bool opens : {false, true}) {
    if (opens && !lasts()) break;
    if (opens) open();
    int64_t sum = 0;
    for (int i = 0; i < keys; ++i) {
      Batch batch;
      const std::string name = "key" + std::to_string(i);
      batch.add(name, 0);
      worker_->submit(batch);
      sum += batch.reply(0).number;
      batch.clear();
    }
    EXPECT_EQ(sum, threads * rounds * 2);
  }
}

// Where reading is dear. What replies hold counts, and is bounded however long values are.
TEST_P(TreeStoreTest, WhatIsReadFromFilesIsInMemoryFromThenOn) {
  if (!lasts() || GetParam() == Behind::sorted) GTEST_SKIP() << "a device leaves it where it is";
  constexpr int keys = 100;
  std::vector<std::string> names;
  std::vector<std::string> values;
  for (int i = 0; i < keys; ++i) {
    names.push_back("key" + std::to_string(i));
    values.emplace_back(i == 0 ? 17 << 20 : 1000 + i, 'v');
    run([&](Batch& batch) { batch.put(names.back(), values.back()); });
  }
  ASSERT_TRUE(engine_->tree()->flush());
  forget();
  const auto loads = [this] { return engine_->tree()->stats().loads; };
  const uint64_t loaded = loads();
  for (int round = 0; round < 2; ++round) {
    const uint64_t before = engine_->tree()->stats().memory;
    Batch batch;
    batch.get("absent");
    for (const std::string& name : names) batch.get(name);
    worker_->submit(batch);
    EXPECT_EQ(batch.reply(0).status, Status::not_found);
    for (int i = 0; i < keys; ++i)
      EXPECT_EQ(batch.reply(static_cast<Batch::Row>(i + 1)).value(), values[i]) << i;
    EXPECT_EQ(engine_->database(0).keys, uint64_t{keys});
    if (round == 0) {
      EXPECT_GT(engine_->tree()->stats().memory, before + (17 << 20));
    }
    batch.clear();
    // A thread that helped to read may be about to let go of what it read.
    const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(30);
    const auto is_given_back = [&] { return engine_->tree()->stats().memory < before + (1 << 20); };
    while (!is_given_back() && std::chrono::steady_clock::now() < deadline) {
      std::this_thread::yield();
    }
    EXPECT_TRUE(is_given_back());
  }
  // The absent key is asked for each time.
  EXPECT_EQ(loads(), loaded + keys + 2);
}

// Who does not wait for the batch has others read.
TEST_P(TreeStoreTest, ABatchThatIsStartedDoesNotReadFiles) {
  if (!lasts() || GetParam() == Behind::sorted) GTEST_SKIP() << "a device is asked by who asks";
  const std::string value(2 << 20, 'v');
  run([&](Batch& batch) { batch.put("key", value); });
  ASSERT_TRUE(engine_->tree()->flush());
  for (const bool starts : {true, false}) {
    forget();
    const uint64_t before = engine_->tree()->stats().memory;
    Batch batch;
    batch.get("key");
    if (starts) {
      worker_->start(batch);
      worker_->wait_for(batch);
    } else {
      worker_->submit(batch);
    }
    EXPECT_EQ(batch.reply(0).value(), value);
    // What a thread has read itself its batch holds.
    const bool holds = engine_->tree()->stats().memory > before + (1 << 20);
    EXPECT_EQ(holds, !starts);
    batch.clear();
  }
}

// Requests of one batch on a key that is on its way keep their order, whatever they are.
TEST_P(TreeStoreTest, RowsBehindOneThatIsReadKeepTheirOrder) {
  run([](Batch& batch) { batch.put("key", "old"); });
  ASSERT_TRUE(engine_->tree()->flush());
  forget();
  EXPECT_EQ(run([](Batch& batch) {
              batch.get("key");
              batch.put("key", "new");
              batch.get("key");
              batch.append("key", "er");
              batch.get("other");
              batch.get("key");
            }),
            "ok old 0 ok  0 ok new 0 ok  5 not found  0 ok newer 0 ");
}

// Rows of a view are seen together, and what memory lacks of them is read together.
TEST_P(TreeStoreTest, AViewWaitsAsAWhole) {
  const std::string names[] = {"a", "b", "c", "d"};
  run([&](Batch& batch) {
    for (const std::string& name : names) batch.put(name, "1");
  });
  ASSERT_TRUE(engine_->tree()->flush());
  forget();
  run([&](Batch& batch) { batch.put("b", "2"); });
  const uint64_t before = engine_->tree()->stats().loads;
  EXPECT_EQ(run([&](Batch& batch) {
              batch.get("d");
              for (const std::string& name : names) batch.get(name);
              batch.view(1);
              batch.put("a", "3");
              batch.get("a");
            }),
            "ok 1 0 ok 1 0 ok 2 0 ok 1 0 ok 1 0 ok  0 ok 3 0 ");
  EXPECT_LE(engine_->tree()->stats().loads - before, 3u);
}

TEST_P(TreeStoreTest, MemoryStaysWithinTheCapWithTenTimesAsMuchData) {
  options_.maxmemory = 2 << 20;
  open();
  if (!lasts()) GTEST_SKIP() << "a fake device takes its time";
  constexpr int keys = poison::sanitized ? 2'000 : 5'000;
  const std::string value(20'000'000 / keys, 'v');
  uint64_t most = 0;
  for (int i = 0; i < keys; i += keys / 50) {
    Batch batch;
    std::vector<std::string> names;
    for (int j = i; j < i + keys / 50; ++j) names.push_back("key" + std::to_string(j));
    for (const std::string& name : names) batch.put(name, value);
    worker_->submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row)
      ASSERT_EQ(batch.reply(row).status, Status::ok);
    batch.clear();
    worker_->maintain();
    most = std::max(most, engine_->stats().used_memory);
  }
  EXPECT_LT(most, options_.maxmemory * 3 / 2);
  EXPECT_LT(engine_->database(0).keys, keys / 5);
  for (int i = 0; i < keys; i += keys / 20) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(run([&](Batch& batch) { batch.get(key); }), "ok " + value + " 0 ");
  }
  EXPECT_EQ(worker_->count(0), static_cast<uint64_t>(keys));
}

}  // namespace
}  // namespace isotherm::tree_store_test
