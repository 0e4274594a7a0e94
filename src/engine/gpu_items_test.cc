// A store whose items live on a GPU (Options::gpu_items): what a GPU does that files do not.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "items/poison.h"
#include "models/gpu_items_fixture.h"

namespace isotherm::gpu_items_test {
namespace {

class GpuItemsTest : public GpuItemsFixture {
 protected:
  GpuItemsTest() {
    options_.databases = 3;
    open();
  }
  void open() {
    worker_.reset();
    open_engine();
    worker_ = std::make_unique<Worker>(*engine_);
  }
  using GpuItemsFixture::forget;
  void forget() { forget(*worker_); }
  Status put(std::string_view key, std::string_view value, uint32_t database = 0) {
    Batch batch;
    batch.select(database);
    batch.put(key, value);
    worker_->submit(batch);
    const Status status = batch.reply(0).status;
    batch.clear();
    return status;
  }
  Status erase(std::string_view key) {
    Batch batch;
    batch.erase(key);
    worker_->submit(batch);
    return batch.reply(0).status;
  }
  // What is there, or "(none)".
  std::string get(std::string_view key, uint32_t database = 0) {
    Batch batch;
    batch.select(database);
    batch.get(key);
    worker_->submit(batch);
    const Reply& reply = batch.reply(0);
    std::string value = reply.status == Status::ok ? std::string(reply.value()) : "(none)";
    batch.clear();
    return value;
  }
  std::set<std::string> all_keys(uint32_t database) {
    std::set<std::string> keys;
    uint64_t cursor = 0;
    do {
      cursor = worker_->scan(database, cursor, 10, [&](const ScanItem& item) {
        EXPECT_TRUE(keys.emplace(item.key).second) << "shown twice: " << item.key;
      });
    } while (cursor != 0);
    return keys;
  }

  std::unique_ptr<Worker> worker_;
};

TEST_F(GpuItemsTest, KeysAndValuesThatAreTooLongForTheDeviceStayOnTheHost) {
  options_.maxmemory = 256 << 20;
  open();
  const std::string long_key(70'000, 'k');
  const std::string long_value((8 << 20) + 1, 'v');
  EXPECT_EQ(put(long_key, "1"), Status::ok);
  EXPECT_EQ(put("key", "short"), Status::ok);
  forget();
  EXPECT_EQ(put("key", long_value), Status::ok);
  forget();
  EXPECT_EQ(get(long_key), "1");
  EXPECT_TRUE(get("key") == long_value);
  const std::set<std::string> both{long_key, "key"};
  EXPECT_TRUE(all_keys(0) == both);
  EXPECT_EQ(worker_->count(0), 2u);
  EXPECT_EQ(put("key", "short again"), Status::ok);
  forget();
  EXPECT_EQ(get("key"), "short again");
  EXPECT_TRUE(all_keys(0) == both);
}

// Gets of a batch are answered where items live, without bringing them into memory, but for those
// of keys that are asked for again.
TEST_F(GpuItemsTest, GetsAreAnsweredInPlaceAndHotKeysAreBroughtIn) {
  constexpr int keys = 200;
  const auto name = [](int i) { return "key" + std::to_string(i); };
  // Some are too long for the slots at first.
  const auto value = [](int i) { return std::string(i % 50 == 7 ? 300 : i % 90, 'a'); };
  for (int i = 0; i < keys; ++i) put(name(i), value(i), i % 3);
  forget();
  const auto get_all = [&](bool absent) {
    Batch batch;
    std::vector<std::string> names;
    for (int i = 0; i < keys; ++i) names.push_back((absent ? "no" : "") + name(i));
    for (int i = 0; i < keys; ++i) {
      batch.select(static_cast<uint32_t>(i % 3));
      batch.get(names[i]);
    }
    worker_->submit(batch);
    for (int i = 0; i < keys; ++i) {
      const Reply& reply = batch.reply(static_cast<Batch::Row>(i));
      ASSERT_EQ(reply.status, absent ? Status::not_found : Status::ok) << i;
      ASSERT_TRUE(absent || reply.value() == value(i)) << i;
    }
    batch.clear();
  };
  const auto here = [&] { return engine_->database(0).keys + engine_->database(1).keys; };
  get_all(false);
  EXPECT_LT(here(), 20u) << "those that were too long";
  const EngineStats before = engine_->stats();
  get_all(true);
  EXPECT_EQ(engine_->stats().misses - before.misses, static_cast<uint64_t>(keys));
  for (int i = 0; i < 40; ++i) get_all(false);  // hot keys are looked for in some batches only
  EXPECT_GT(here(), 100u);
}

// Where memory misses many it is not always asked, and whatever is newer there is shown all the
// same, as are keys that come and go, and those that batches write themselves.
TEST_F(GpuItemsTest, GetsThatSkipMemoryShowWhatIsNewest) {
  constexpr int keys = 128;
  const auto name = [](int i) { return "key" + std::to_string(i); };
  std::vector<std::string> names;
  std::vector<std::string> absent;
  for (int i = 0; i < keys; ++i) {
    names.push_back(name(i));
    absent.push_back("absent" + std::to_string(i));
  }
  for (int i = 0; i < keys; ++i) put(names[i], "0");
  forget();
  std::vector<std::string> expected(keys, "0");
  std::vector<std::string> values;
  // Nobody is brought in by misses, so most gets go on being such.
  const auto ask = [&](int from, int to, bool writes) {
    Batch batch;
    values.clear();
    values.reserve(keys);
    for (int i = 0; i < keys; ++i) batch.get(absent[i]);
    std::vector<std::pair<Batch::Row, std::string>> rows;
    for (int i = from; i < to; ++i) {
      rows.emplace_back(batch.size(), expected[i]);
      batch.get(names[i]);
      if (!writes) continue;
      values.push_back(expected[i] + "w");
      batch.put(names[i], values.back());
      expected[i] = values.back();
      rows.emplace_back(batch.size(), expected[i]);
      batch.get(names[i]);
    }
    worker_->submit(batch);
    for (Batch::Row row = 0; row < keys; ++row) {
      ASSERT_EQ(batch.reply(row).status, Status::not_found) << row;
    }
    for (const auto& [row, value] : rows) {
      ASSERT_EQ(batch.reply(row).status, Status::ok) << row;
      ASSERT_EQ(batch.reply(row).value(), value) << row;
    }
    batch.clear();
  };
  for (int i = 0; i < 40; ++i) ask(0, 1, false);
  for (int round = 0; round < 8; ++round) {
    const int at = round * 8;
    for (int i = at; i < at + 4; ++i) {
      expected[i] = "new" + std::to_string(round);
      put(names[i], expected[i]);
    }
    ask(at, at + 8, false);
    ask(at, at + 8, round % 2 == 1);
    if (round % 3 == 1) forget();
    ask(at, at + 8, false);
  }
  Batch batch;
  batch.put("short-lived", "1", 0, clock_.now_ms() + 10);
  worker_->submit(batch);
  batch.clear();
  forget();
  clock_.advance(20);
  absent[7] = "short-lived";
  for (const std::string& key : absent) batch.get(key);
  worker_->submit(batch);
  EXPECT_EQ(batch.reply(7).status, Status::not_found);
  batch.clear();
}

// A batch that is too large for all columns there are is answered in place all the same.
TEST_F(GpuItemsTest, GetsGoOnWhereAllColumnsAreHeld) {
  options_.maxmemory = 2 << 20;  // so 256 KiB of columns
  open();
  constexpr int keys = 2000;
  std::vector<std::string> names;
  for (int i = 0; i < keys; ++i) names.push_back("key" + std::to_string(i));
  Batch batch;
  for (const std::string& key : names) batch.put(key, key);
  worker_->submit(batch);
  batch.clear();
  forget();
  for (int times = 0; times < 2; ++times) {
    for (const std::string& key : names) batch.get(key);
    worker_->submit(batch);
    for (int i = 0; i < keys; ++i) {
      const Reply& reply = batch.reply(static_cast<Batch::Row>(i));
      ASSERT_EQ(reply.status, Status::ok) << i;
      ASSERT_EQ(reply.value(), names[i]);
    }
    batch.clear();
    if (times == 0) {
      EXPECT_LT(engine_->database(0).keys, keys / 10u) << "they went through memory";
    }
  }
}

// A writer counts up; whoever reads later than a count was written reads it, or a later one.
TEST_F(GpuItemsTest, ADirectGetIsNeverOvertakenByAWrite) {
  constexpr int keys = 24;
  constexpr int rounds = 60;
  std::vector<std::string> names;
  for (int i = 0; i < keys; ++i) names.push_back("key" + std::to_string(i));
  for (const std::string& name : names) put(name, "0");
  forget();
  std::atomic<int> written{0};
  std::thread writer = count_up(names, rounds, written);
  bool ends = false;
  while (!ends) {
    ends = written == rounds;
    const int least = written;
    Batch batch;
    for (const std::string& name : names) batch.get(name);
    worker_->submit(batch);
    for (int i = 0; i < keys; ++i) {
      const Reply& reply = batch.reply(static_cast<Batch::Row>(i));
      EXPECT_EQ(reply.status, Status::ok);
      const std::string text = reply.status == Status::ok ? std::string(reply.value()) : "-1";
      EXPECT_GE(std::stoi(text), least);
    }
    batch.clear();
  }
  writer.join();
}

TEST_F(GpuItemsTest, AFlushLeavesTheItemsOfOtherDatabases) {
  for (uint32_t database = 0; database < 3; ++database) {
    for (int i = 0; i < 20; ++i) put("key" + std::to_string(i), "1", database);
  }
  forget();
  worker_->flush(1);
  put("new", "2", 1);
  forget();
  EXPECT_EQ(get("key7", 1), "(none)");
  EXPECT_EQ(get("key7", 0) + get("key7", 2), "11");
  EXPECT_EQ(all_keys(1), (std::set<std::string>{"new"}));
  EXPECT_EQ(worker_->count(0).value_or(0) + worker_->count(2).value_or(0), 40u);
}

TEST_F(GpuItemsTest, WritesAreRefusedWhereTheDeviceIsFullAndGoOnBehindErases) {
  options_.gpu_items = 2 << 20;
  options_.maxmemory = 4 << 20;
  open();
  const std::string value(2'000, 'v');
  std::vector<std::string> stored;
  Status status = Status::ok;
  for (int i = 0; i < 4000 && status == Status::ok; ++i) {
    const std::string key = "key" + std::to_string(i);
    status = put(key, value);
    if (status == Status::ok) stored.push_back(key);
    worker_->maintain();
  }
  EXPECT_EQ(status, Status::not_saved);
  EXPECT_EQ(engine_->tree()->last_error(), "gpu-items: the memory of the GPU is full");
  for (size_t i = 0; i < stored.size(); i += 17) EXPECT_EQ(get(stored[i]), value) << stored[i];
  for (size_t i = 0; i < stored.size(); i += 2) ASSERT_EQ(erase(stored[i]), Status::ok) << i;
  while (put("new", value) != Status::ok) worker_->maintain();
  forget();
  for (size_t i = 0; i < stored.size(); i += 17) {
    EXPECT_EQ(get(stored[i]), i % 2 == 0 ? "(none)" : value) << stored[i];
  }
  EXPECT_FALSE(engine_->tree()->stats().failing);
}

// It stays in host memory, and the others go on when it is gone.
TEST_F(GpuItemsTest, AValueForWhichTheDeviceNeverHasRoomCanBeErased) {
  options_.gpu_items = 2 << 20;
  options_.maxmemory = 64 << 20;
  open();
  const std::string value(6 << 20, 'v');
  ASSERT_EQ(put("large", "1"), Status::ok);
  forget();
  ASSERT_EQ(put("large", value), Status::ok);
  EXPECT_EQ(engine_->count(0), 1u);
  EXPECT_FALSE(engine_->tree()->flush());
  EXPECT_EQ(put("small", "1"), Status::not_saved);
  EXPECT_EQ(get("large"), value);
  EXPECT_EQ(all_keys(0), (std::set<std::string>{"large"}));
  EXPECT_EQ(erase("large"), Status::ok);
  while (put("small", "1") != Status::ok) worker_->maintain();
  forget();
  EXPECT_EQ(get("large"), "(none)");
  EXPECT_EQ(get("small"), "1");
}

// Their part of memory is that of the cap of today, whether it is raised before they come or behind
// them.
// Those of one batch do not know of each other.
TEST_F(GpuItemsTest, ARaisedCapHasRoomForLongValues) {
  options_.gpu_items = 2 << 20;
  options_.maxmemory = 100 << 20;
  open();
  const std::string value(9 << 20, 'v');
  Batch batch;
  for (const char* const key : {"first", "second"}) batch.put(key, value);
  worker_->submit(batch);
  for (Batch::Row row = 0; row < 2; ++row) EXPECT_EQ(batch.reply(row).status, Status::ok);
  batch.clear();
  EXPECT_FALSE(engine_->tree()->flush());
  EXPECT_EQ(engine_->tree()->last_error(),
            "gpu-items: what is too long for the GPU takes 19mb of host memory, and its part of "
            "maxmemory, an eighth, is 12mb");
  EXPECT_EQ(put("small", "1"), Status::not_saved);
  engine_->set_maxmemory(300 << 20);
  while (put("small", "1") != Status::ok) worker_->maintain();
  ASSERT_EQ(put("third", value), Status::ok);
  EXPECT_TRUE(engine_->tree()->flush());
}

TEST_F(GpuItemsTest, ADeviceThatIsToldToEvictsItems) {
  options_.gpu_items = 2 << 20;
  options_.maxmemory = 4 << 20;
  options_.maxmemory_policy = EvictionPolicy::allkeys_lru;
  open();
  const std::string value(2'000, 'v');
  constexpr int keys = 2400;
  for (int i = 0; i < keys; ++i) {
    ASSERT_EQ(put("key" + std::to_string(i), value + std::to_string(i)), Status::ok);
    worker_->maintain();
  }
  forget();
  int there = 0;
  for (int i = 0; i < keys; i += 7) {
    const std::string found = get("key" + std::to_string(i));
    if (found == "(none)") continue;
    EXPECT_EQ(found, value + std::to_string(i));
    ++there;
  }
  EXPECT_GT(there, 0);
  EXPECT_LT(there, keys / 7);
  EXPECT_FALSE(engine_->tree()->stats().failing);
}

TEST_F(GpuItemsTest, ItemsThatSeveralDevicesHaveNoRoomForLieInHostMemory) {
  devices_.push_back(&second_);
  options_.gpu_items = 1 << 20;
  options_.gpu_items_host = 16 << 20;
  options_.maxmemory = 40 << 20;
  open();
  EXPECT_GE(engine_->used_memory(), options_.gpu_items_host);
  const std::string value(poison::sanitized ? 8'000 : 2'000, 'v');
  constexpr int keys = poison::sanitized ? 600 : 2'400;
  std::set<std::string> names;
  for (int i = 0; i < keys; ++i) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(put(key, value + std::to_string(i)), Status::ok);
    names.insert(key);
  }
  forget();
  const TreeStats stats = engine_->tree()->stats();
  EXPECT_GT(stats.host_bytes, uint64_t{2} << 20);
  EXPECT_LE(stats.host_bytes, options_.gpu_items_host);
  EXPECT_LE(engine_->used_memory(), options_.maxmemory);
  for (int i = 0; i < keys; i += 3) {
    const std::string key = "key" + std::to_string(i);
    ASSERT_EQ(get(key), value + std::to_string(i));
    ASSERT_EQ(erase(key), Status::ok);
    names.erase(key);
  }
  forget();
  EXPECT_EQ(all_keys(0), names);
  EXPECT_EQ(worker_->count(0), names.size());
  EXPECT_LT(engine_->tree()->stats().host_bytes, stats.host_bytes) << "of items alone";
}

// But for those that it has let go.
TEST_F(GpuItemsTest, TheLossOfADeviceThatEvictsCountsTheKeysThatItHad) {
  options_.gpu_items = 2 << 20;
  options_.maxmemory = 4 << 20;
  options_.maxmemory_policy = EvictionPolicy::allkeys_lru;
  open();
  const std::string value(2'000, 'v');
  for (int i = 0; i < 2400; ++i) {
    ASSERT_EQ(put("key" + std::to_string(i), value), Status::ok);
    worker_->maintain();
  }
  forget();
  const uint64_t had = engine_->tree()->stats().keys;
  EXPECT_LT(had, 1200u);
  device_.lose();
  EXPECT_EQ(get("other"), "(none)");
  EXPECT_TRUE(engine_->tree()->is_lost());
  EXPECT_EQ(engine_->tree()->stats().lost_keys, had);
}

// What was on the device alone is gone and counted; what memory and runs have stays, and so does
// all that is written later.
TEST_F(GpuItemsTest, TheLossOfTheDeviceLosesWhatLivedThereAlone) {
  for (int i = 0; i < 50; ++i) put("cold" + std::to_string(i), "1");
  forget();
  for (int i = 0; i < 5; ++i) EXPECT_EQ(get("cold" + std::to_string(i)), "1");
  std::vector<std::string> said;
  engine_->log_to([&](const std::string& line) { said.push_back(line); });
  device_.lose();
  for (int i = 0; i < 5; ++i) put("dirty" + std::to_string(i), "2");
  EXPECT_EQ(get("cold30"), "(none)");
  EXPECT_EQ(get("cold3"), "1") << "memory has it";
  EXPECT_EQ(get("dirty3"), "2");
  EXPECT_TRUE(engine_->tree()->is_lost());
  EXPECT_EQ(engine_->tree()->stats().lost_keys, 50u);
  ASSERT_EQ(said.size(), 1u) << "once";
  EXPECT_NE(said[0].find("of 50 keys"), std::string::npos) << said[0];
  const std::set<std::string> still = all_keys(0);
  EXPECT_TRUE(still.contains("cold3") && still.contains("dirty0") && !still.contains("cold30"));
  EXPECT_EQ(still.size(), 10u);
  EXPECT_EQ(engine_->count(0), 10u);
  EXPECT_EQ(put("new", "3"), Status::ok);
  EXPECT_TRUE(engine_->tree()->flush());
  EXPECT_EQ(put("dirty1", "4"), Status::ok);
  EXPECT_EQ(put("cold30", "5"), Status::ok);
  forget();
  EXPECT_EQ(get("new") + get("dirty1") + get("dirty3") + get("cold30"), "3425");
  EXPECT_EQ(get("cold31"), "(none)");
  EXPECT_EQ(all_keys(0), (std::set<std::string>{"new", "dirty0", "dirty1", "dirty2", "dirty3",
                                                "dirty4", "cold30"}));
  device_.take_errors();
}

// Where it went on from is of another order than what is left has.
TEST_F(GpuItemsTest, AWalkThatMeetsTheLossOfTheDeviceBeginsAnew) {
  constexpr int keys = 300;
  for (int i = 0; i < keys; ++i) put("key" + std::to_string(i), "1");
  ASSERT_TRUE(engine_->tree()->flush());
  struct Visitor final : ItemVisitor {
    void visit(const ScanItem& item) override { shown.emplace(item.key); }
    std::multiset<std::string> shown;
  } visitor;
  bool anew = false;
  const auto step = [&](uint64_t cursor) {
    Batch batch;
    batch.walk(cursor, 10, visitor);
    worker_->submit(batch);
    EXPECT_EQ(batch.reply(0).status, Status::ok);
    anew = batch.reply(0).flags != 0;
    return static_cast<uint64_t>(batch.reply(0).number);
  };
  const uint64_t before = step(0);
  ASSERT_NE(before, 0u);
  EXPECT_FALSE(anew);
  device_.lose();
  step(before);
  EXPECT_TRUE(anew) << "it was lost in this step";
  visitor.shown.clear();
  uint64_t cursor = step(before);
  EXPECT_TRUE(anew) << "it was lost before this step";
  while (cursor != 0) {
    cursor = step(cursor);
    EXPECT_FALSE(anew);
  }
  EXPECT_EQ(visitor.shown.size(), size_t{keys});
  EXPECT_EQ(std::set<std::string>(visitor.shown.begin(), visitor.shown.end()).size(), size_t{keys});
  device_.take_errors();
}

TEST_F(GpuItemsTest, OptionsThatDoNotGoTogetherAreRefused) {
  const auto refuses = [&](const std::function<void(Options&)>& change) {
    Options options = options_;
    change(options);
    EXPECT_THROW(Engine(options, clock_, fake_item_tier_maker(device_)), std::invalid_argument);
  };
  refuses([](Options& options) { options.device = DeviceChoice::cpu; });
  refuses([](Options& options) { options.tree = "folder"; });
  refuses([](Options& options) { options.gpu_values = 1 << 20; });
  refuses([](Options& options) { options.maxmemory_policy = EvictionPolicy::volatile_ttl; });
  refuses([](Options& options) { options.gpu_items_host = options.maxmemory / 2 + 1; });
}

}  // namespace
}  // namespace isotherm::gpu_items_test
