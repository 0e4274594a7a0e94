// A store whose index is on a device, a fake one: what happens when the device fails, runs out of
// memory or is not there; walks and flushes.
#include <gtest/gtest.h>

#include <memory>
#include <set>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "base/memory_node.h"
#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "items/pages.h"
#include "items/poison.h"
#include "models/history.h"
#include "models/pile.h"

namespace isotherm::device_engine_test {
namespace {

constexpr uint64_t device_bytes = uint64_t{1} << 28;

class DeviceEngineTest : public ::testing::Test {
 protected:
  static std::string key(uint64_t number) { return "key:" + std::to_string(number); }

  static Options options() {
    Options options;
    options.databases = 3;
    options.max_value_bytes = 50'000;
    return options;
  }
  static History::Setup setup(uint64_t seed) {
    History::Setup setup;
    setup.seed = seed;
    setup.keys = 300;
    setup.databases = 3;
    setup.max_value_bytes = 50'000;
    return setup;
  }
  std::unique_ptr<Engine> make_engine(uint64_t device_memory = 0) {
    return std::make_unique<Engine>(options(), clock, fake_root_tiers_maker(device, device_memory));
  }

  // Of an index with next to no entries: its segments are what grows.
  uint64_t bytes_beside_segments() {
    FakeDevice another(1, device_bytes);
    Engine engine(options(), clock, fake_root_tiers_maker(another, device_bytes));
    Worker worker(engine);
    put(worker, 0, 0, 1);
    return engine.stats().root_table.device_bytes;
  }

  // Batches of random requests, each answer checked.
  void run_some(Worker& worker, History& history, uint64_t batches) {
    const auto submit = [&](Batch& batch) { worker.submit(batch); };
    for (uint64_t i = 0; i < batches && !HasFatalFailure(); ++i) {
      history.step(clock.now_ms(), submit);
      worker.maintain();
      clock.advance(5);
    }
  }

  void put(Worker& worker, uint32_t database, uint64_t from, uint64_t count) {
    Batch batch;
    std::vector<std::string> keys;
    std::vector<std::string> values;
    for (uint64_t i = from; i < from + count; ++i) {
      keys.push_back(key(i));
      values.push_back("value of " + key(i));
    }
    batch.select(database);
    for (uint64_t i = 0; i < count; ++i) batch.put(keys[i], values[i]);
    worker.submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      ASSERT_EQ(batch.reply(row).status, Status::ok);
    }
    batch.clear();
  }
  // How many of the keys are there with the right value.
  uint64_t present(Worker& worker, uint32_t database, uint64_t from, uint64_t count) {
    Batch batch;
    std::vector<std::string> keys;
    for (uint64_t i = from; i < from + count; ++i) keys.push_back(key(i));
    batch.select(database);
    for (const std::string& one : keys) batch.get(one);
    worker.submit(batch);
    uint64_t found = 0;
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      const Reply& reply = batch.reply(row);
      if (reply.status == Status::ok && reply.value() == "value of " + keys[row]) ++found;
    }
    batch.clear();
    return found;
  }

  // A batch of one row, or group.
  static void put_one(Worker& worker, bool group) {
    Batch batch;
    batch.put("one", "value");
    if (group) batch.group(0);
    worker.submit(batch);
    EXPECT_EQ(batch.reply(0).status, Status::ok);
    batch.clear();
  }

  ManualClock clock{1'700'000'000'000};
  FakeDevice device{7, device_bytes};
};

TEST_F(DeviceEngineTest, NothingIsLostWhenTheDeviceIs) {
  const std::vector<uint64_t> operations = poison::sanitized
                                               ? std::vector<uint64_t>{3, 40}
                                               : std::vector<uint64_t>{0, 1, 2, 3, 7, 20, 50};
  for (const uint64_t left : operations) {
    FakeDevice lost(left + 1, device_bytes);
    Engine engine(options(), clock, fake_root_tiers_maker(lost));
    Worker worker(engine);
    History history(setup(left));
    run_some(worker, history, 10);
    ASSERT_TRUE(engine.stats().on_device);
    lost.lose_after(left);
    run_some(worker, history, 20);
    EXPECT_FALSE(engine.stats().on_device);
    history.check_all(clock.now_ms(), [&](Batch& batch) { worker.submit(batch); });
    if (HasFatalFailure()) return;
  }
}

TEST_F(DeviceEngineTest, ThreadsLoseNothingWhenTheDeviceIsLostUnderThem) {
  constexpr uint64_t threads = 3;
  constexpr int batches = poison::sanitized ? 12 : 40;
  const auto engine = make_engine();
  device.lose_after(200);
  std::vector<std::thread> running;
  for (uint64_t thread = 0; thread < threads; ++thread) {
    running.emplace_back([&, thread] {
      Worker worker(*engine);
      History::Setup mine = setup(thread);
      mine.prefix = "thread " + std::to_string(thread) + ":";
      History history(mine);
      const auto submit = [&](Batch& batch) { worker.submit(batch); };
      // The clock stands still: nobody could know which time a batch of another thread saw.
      // Rounds of a busy machine have many batches each, so that the device does less for them.
      const auto goes_on = [&](int i) {
        return i < batches || (i < 20 * batches && engine->stats().on_device);
      };
      for (int i = 0; goes_on(i) && !HasFatalFailure(); ++i) {
        history.step(clock.now_ms(), submit);
        worker.maintain();
      }
      history.check_all(clock.now_ms(), submit);
    });
  }
  for (std::thread& thread : running) thread.join();
  EXPECT_FALSE(engine->stats().on_device);
}

TEST_F(DeviceEngineTest, AFailedLaunchMovesTheIndexToTheHost) {
  const auto engine = make_engine();
  Worker worker(*engine);
  put(worker, 0, 0, 200);
  device.fail_launches_after(4);
  put(worker, 0, 200, 200);
  EXPECT_EQ(present(worker, 0, 0, 400), 400u);
  EXPECT_FALSE(engine->stats().on_device);
  EXPECT_EQ(engine->database(0).keys, 400u);
}

TEST_F(DeviceEngineTest, AnIndexThatOutgrowsTheDevicesMemoryIsSharedWithTheHost) {
  const auto engine = make_engine(bytes_beside_segments() + (64 << 10));
  Worker worker(*engine);
  constexpr uint64_t keys = poison::sanitized ? 6'000 : 16'000;
  for (uint64_t at = 0; at < keys; at += 1000) put(worker, 1, at, 1000);
  EXPECT_TRUE(engine->stats().on_device);
  EXPECT_GT(engine->stats().root_table.host_entries, keys / 4);
  EXPECT_EQ(present(worker, 1, 0, keys), keys);
  EXPECT_EQ(present(worker, 0, 0, 100), 0u);
  EXPECT_EQ(engine->database(1).keys, keys);
  EXPECT_GT(engine->stats().index_bytes, 0u) << "the host's part counts as memory of the store";
  // And nothing is lost when the device is.
  device.lose();
  EXPECT_EQ(present(worker, 1, 0, keys), keys);
  EXPECT_FALSE(engine->stats().on_device);
  EXPECT_EQ(engine->stats().root_table.host_entries, 0u);
  worker.flush(1);
  EXPECT_EQ(present(worker, 1, 0, keys), 0u);
}

TEST_F(DeviceEngineTest, AnIndexMovesToTheHostWhereTheDeviceIsTooSmallToShareIt) {
  const auto engine = make_engine(bytes_beside_segments() + (8 << 10));
  std::vector<std::string> said;
  engine->log_to([&](const std::string& line) { said.push_back(line); });
  Worker worker(*engine);
  uint64_t keys = 0;
  for (; engine->stats().on_device && keys < 20'000; keys += 500) put(worker, 1, keys, 500);
  EXPECT_FALSE(engine->stats().on_device);
  ASSERT_EQ(said.size(), 1u) << "once, and why";
  EXPECT_NE(said[0].find("memory"), std::string::npos) << said[0];
  EXPECT_EQ(present(worker, 1, 0, keys), keys);
  EXPECT_EQ(engine->database(1).keys, keys);
}

TEST_F(DeviceEngineTest, ColumnsOfRoundsCountAsBuffers) {
  const auto engine = make_engine();
  Worker worker(*engine);
  put(worker, 0, 0, 10);
  const uint64_t before = engine->stats().buffer_bytes;
  constexpr uint64_t rows = 20'000;
  put(worker, 0, 0, rows);
  // Key, root and both of a change.
  EXPECT_GT(engine->stats().buffer_bytes, before + rows * 4 * sizeof(uint64_t));
}

TEST_F(DeviceEngineTest, SeveralDevicesShareAnIndex) {
  FakeDevice other(8, device_bytes);
  Engine engine(options(), clock, fake_root_tiers_maker({&device, &other}));
  Worker worker(engine);
  put(worker, 0, 0, 2000);
  EXPECT_EQ(present(worker, 0, 0, 2100), 2000u);
  EXPECT_GT(device.allocated_bytes(), 0u);
  EXPECT_GT(other.allocated_bytes(), 0u);
  other.lose();
  EXPECT_EQ(present(worker, 0, 0, 2100), 2000u);
  EXPECT_FALSE(engine.stats().on_device);
}

TEST_F(DeviceEngineTest, OptionsThatAskForAMissingDeviceAreRefused) {
  device.fail_allocations_after(0);
  EXPECT_THROW(make_engine(), std::runtime_error);
  device.fail_allocations_after(FakeDevice::never);
}

TEST_F(DeviceEngineTest, VersionsGoOnWhenTheHostTakesOver) {
  const auto engine = make_engine();
  Worker worker(*engine);
  const auto version = [&] {
    Batch batch;
    batch.put("a", "b");
    worker.submit(batch);
    const uint64_t given = batch.reply(0).version;
    batch.clear();
    return given;
  };
  uint64_t last = 0;
  for (int i = 0; i < 20; ++i) {
    if (i == 10) device.lose();
    const uint64_t next = version();
    EXPECT_GT(next, last);
    last = next;
  }
  EXPECT_FALSE(engine->stats().on_device);
}

TEST_F(DeviceEngineTest, AWalkMeetsEveryKeyWhileTheIndexGrows) {
  const auto engine = make_engine();
  Worker worker(*engine);
  constexpr uint64_t before = poison::sanitized ? 200 : 500;
  put(worker, 0, 0, before);
  put(worker, 1, 0, 50);
  std::set<std::string> seen;
  uint64_t cursor = 0;
  uint64_t added = before;
  do {
    cursor = worker.scan(0, cursor, 10, [&](const ScanItem& item) { seen.emplace(item.key); });
    put(worker, 0, added, 40);
    added += 40;
  } while (cursor != 0 && added < 100'000);
  EXPECT_EQ(cursor, 0u);
  for (uint64_t i = 0; i < before; ++i) EXPECT_TRUE(seen.contains(key(i))) << i;
}

TEST_F(DeviceEngineTest, AWalkMeetsEveryKeyThoughTheDeviceIsLostOnTheWay) {
  const auto engine = make_engine();
  Worker worker(*engine);
  constexpr uint64_t keys = 500;
  put(worker, 0, 0, keys);
  std::set<std::string> seen;
  const auto see = [&](const ScanItem& item) { seen.emplace(item.key); };
  uint64_t cursor = 0;
  for (int i = 0; i < 5; ++i) cursor = worker.scan(0, cursor, 10, see);
  EXPECT_NE(cursor, 0u);
  EXPECT_LT(seen.size(), keys);
  device.lose();
  seen.clear();
  for (uint64_t calls = 0; cursor != 0 && calls < keys; ++calls) {
    cursor = worker.scan(0, cursor, 10, see);
  }
  EXPECT_FALSE(engine->stats().on_device);
  EXPECT_EQ(cursor, 0u);
  EXPECT_EQ(seen.size(), keys);
}

TEST_F(DeviceEngineTest, FlushingOneDatabaseLeavesTheOthers) {
  const auto engine = make_engine();
  Worker worker(*engine);
  put(worker, 0, 0, 300);
  put(worker, 2, 0, 300);
  worker.flush(0);
  EXPECT_EQ(present(worker, 0, 0, 300), 0u);
  EXPECT_EQ(present(worker, 2, 0, 300), 300u);
  EXPECT_EQ(engine->database(0).keys, 0u);
  EXPECT_EQ(engine->database(2).keys, 300u);
  worker.flush_all();
  EXPECT_EQ(present(worker, 2, 0, 300), 0u);
  EXPECT_EQ(engine->database(2).keys, 0u);
  put(worker, 2, 0, 300);
  EXPECT_EQ(present(worker, 2, 0, 300), 300u);
  EXPECT_TRUE(engine->stats().on_device);
}

// Whoever waits for the keys waits for one index that is made anew, not for one a database.
TEST_F(DeviceEngineTest, AFlushOfManyDatabasesIsOneStep) {
  Options many = options();
  many.databases = 64;
  Engine engine(many, clock, fake_root_tiers_maker(device));
  Worker worker(engine);
  for (const uint32_t database : {0, 1}) put(worker, database, 0, 5);
  constexpr uint64_t operations = 60;
  device.lose_after(operations);
  worker.flush_all();
  EXPECT_TRUE(engine.stats().on_device);
  for (const uint32_t database : {0, 1}) EXPECT_EQ(engine.database(database).keys, 0u);
}

// Each command must come through while a batch of another worker waits for more rows, by a clock
// that stands still; and that batch behind it, without a wait that is over.
TEST_F(DeviceEngineTest, AGroupComesThroughThoughABatchWaitsForMore) {
  using Command = void (*)(Worker&);
  const std::vector<Command> commands = {[](Worker& worker) { put_one(worker, true); },
                                         [](Worker& worker) { worker.flush(0); },
                                         [](Worker& worker) { worker.flush_all(); }};
  Options waiting = options();
  waiting.rounds = {Scheduling::fixed_size, 1000, 1'000'000};
  for (const Command command : commands) {
    ManualWaitClock round_clock;
    Engine engine(waiting, clock, fake_root_tiers_maker(device), &round_clock);
    Worker leader(engine);
    Worker worker(engine);
    put_one(leader, true);
    put_one(worker, true);
    std::thread leads([&] { put_one(leader, false); });
    while (round_clock.waits() == 0) std::this_thread::yield();
    EXPECT_EQ(engine.stats().rounds.rounds, 2u) << "statistics are not kept waiting either";
    command(worker);
    leads.join();
    EXPECT_EQ(engine.stats().rounds.timeouts, 0u);
  }
}

// A round of two, who only read: neither changes the index, so what has expired stays for the
// sweep.
TEST_F(DeviceEngineTest, CallsThatOnlyReadShareARound) {
  Options waiting = options();
  waiting.rounds = {Scheduling::fixed_size, 1000, 1'000'000};
  ManualWaitClock round_clock;
  Engine engine(waiting, clock, fake_root_tiers_maker(device), &round_clock);
  Worker leader(engine);
  const std::string_view parts[] = {"a", "b"};
  Batch piles;
  piles.call("stays", pile::push, parts);
  piles.call("expires", pile::push, parts);
  piles.expire("expires", clock.now_ms() + 10, option::any_type);
  leader.submit(piles);
  piles.clear();
  clock.advance(20);
  Worker worker(engine);
  const auto read = [](Worker& its) {
    Batch batch;
    for (const char* key : {"stays", "expires", "none"}) batch.call(key, pile::size);
    its.submit(batch);
    EXPECT_EQ(batch.reply(0).number, 2);
    EXPECT_EQ(batch.reply(1).status, Status::not_found);
    EXPECT_EQ(batch.reply(2).status, Status::not_found);
  };
  put_one(worker, true);
  const uint64_t rounds = engine.stats().rounds.rounds;
  const uint64_t waits = round_clock.waits();
  std::thread leads([&] { read(leader); });
  while (round_clock.waits() == waits) std::this_thread::yield();
  read(worker);
  leads.join();
  EXPECT_EQ(engine.stats().rounds.rounds, rounds + 1);
  EXPECT_EQ(engine.database(0).keys, 3u) << "nobody has erased what has expired";
}

TEST_F(DeviceEngineTest, OptionsOfRoundsThatCannotWorkAreRefused) {
  Options wrong = options();
  wrong.rounds = {Scheduling::adaptive, 0, 1};
  EXPECT_THROW(Engine(wrong, clock, fake_root_tiers_maker(device)), std::invalid_argument);
  EXPECT_THROW(Engine(wrong, clock), std::invalid_argument);
}

TEST_F(DeviceEngineTest, ItemsLieNearTheDevices) {
  EXPECT_TRUE(make_engine()->stats().memory_nodes.empty()) << "which know no memory node";
  FakeDevice other(8, device_bytes);
  device.set_memory_node(0);
  other.set_memory_node(MemoryPolicy::most_nodes);
  const bool agrees = Pages(64 << 20).prefer({0});
  for (const std::vector<FakeDevice*>& devices :
       std::vector<std::vector<FakeDevice*>>{{&device}, {&device, &device}}) {
    Engine engine(options(), clock, fake_root_tiers_maker(devices));
    EXPECT_EQ(engine.stats().memory_nodes, agrees ? std::vector<int>{0} : std::vector<int>{});
    Worker worker(engine);
    put(worker, 0, 0, 100);
    EXPECT_EQ(present(worker, 0, 0, 100), 100u);
  }
  Engine engine(options(), clock, fake_root_tiers_maker(other));
  EXPECT_TRUE(engine.stats().memory_nodes.empty()) << "there is no such node";
  Worker worker(engine);
  put(worker, 0, 0, 100);
  EXPECT_EQ(present(worker, 0, 0, 100), 100u);
}

TEST_F(DeviceEngineTest, TheCpuIsUsedWhereAutomaticFindsNoGpu) {
  Options wanted = options();
  wanted.device = DeviceChoice::automatic;
  const Engine engine(wanted, clock);
  if (engine.stats().on_device) GTEST_SKIP() << "there is a GPU";
  EXPECT_FALSE(engine.device_problem().empty());
  wanted.device = DeviceChoice::cuda;
  EXPECT_THROW(Engine(wanted, clock), std::runtime_error);
}

}  // namespace
}  // namespace isotherm::device_engine_test
