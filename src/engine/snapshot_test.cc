// What a store has at one moment (engine/snapshot.h), as its file shows it, while others change,
// erase and flush it.
#include "engine/snapshot.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "durability/rdb_file.h"
#include "durability/rdb_format.h"
#include "engine/engine.h"
#include "items/poison.h"
#include "models/change_log.h"
#include "models/snapshot_fixture.h"

namespace isotherm::snapshot_test {
namespace {

using Content = SnapshotContent;
class SnapshotTest : public SnapshotFixture {};

TEST_F(SnapshotTest, ShowsWhatThereIs) {
  Worker worker(*engine_);
  const int64_t soon = clock_.now_ms() + 1000;
  const std::string large(3 << 20, 'l');
  put(worker, 0, "a", "1");
  put(worker, 2, "a", "2", soon);
  put(worker, 2, "large", large);
  put(worker, 2, "over", "x", clock_.now_ms() - 1);
  const Content expected{{{0, "a"}, {"1", 0}}, {{2, "a"}, {"2", soon}}, {{2, "large"}, {large, 0}}};
  EXPECT_EQ(whole(worker), expected);
  EXPECT_EQ(whole(worker), expected);  // it leaves nothing behind
}

// All that can happen to an item of the moment before the walk has come to it, or behind it.
TEST_F(SnapshotTest, WhatIsReplacedMeanwhileIsShownAsItWas) {
  Worker worker(*engine_);
  const int64_t soon = clock_.now_ms() + 1000;
  const std::string large(1 << 20, 'l');
  Content expected;
  for (int i = 0; i < 2000; ++i) {
    const std::string key = "key" + std::to_string(i);
    const int64_t expiry = i % 3 == 0 ? soon : no_expiry;
    const std::string& value = i % 500 == 0 ? large : key;
    put(worker, 1, key, value, expiry);
    expected[{1, key}] = {value, expiry};
  }
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  for (int round = 0; round < 2; ++round) {
    for (int i = 0; i < 2000; ++i) {
      const std::string key = "key" + std::to_string(i);
      Batch batch;
      batch.select(1);
      switch ((i + round) % 5) {
        case 0:
          batch.put(key, "new");
          break;
        case 1:
          batch.erase(key);
          break;
        case 2:
          batch.expire(key, soon + 5);  // with room for it in the item, or without
          break;
        case 3:
          batch.expire(key, no_expiry);
          batch.append(key, "more");
          break;
        default:
          batch.expire(key, soon + 7);
          batch.erase(key);
          batch.put(key, "again", 0, soon);
      }
      worker.submit(batch);
    }
    put(worker, 1, "fresh" + std::to_string(round), "x");
    put(worker, 0, "fresh", "x");
  }
  EXPECT_EQ(rest(worker), expected);
  EXPECT_EQ(snapshot_->memory(), 0u);
}

// One client's changes, each behind the one before; of each, what is there when so many are done.
class Changes {
 public:
  explicit Changes(uint32_t number) : number_(number) {}

  std::string key(uint64_t n) const {
    return "client" + std::to_string(number_) + ":" + std::to_string(n * 31 % keys);
  }
  // Two keys of several databases that are changed together, or one.
  void ask(uint64_t n, int64_t now_ms, Batch& batch) {
    text_ = std::to_string(n);
    key_ = key(n);
    batch.select(n % 3);
    switch (n % 5) {
      case 0:
        batch.erase(key_);
        break;
      case 1:
        batch.expire(key_, now_ms + 1'000'000 + static_cast<int64_t>(n));
        break;
      case 2: {
        const Batch::Row first = batch.size();
        batch.put(key_, text_);
        batch.select((n + 1) % 3);
        batch.put(key_, text_);
        batch.group(first);
        break;
      }
      default:
        batch.put(key_, text_, 0, n % 2 == 0 ? now_ms + 2'000'000 : no_expiry);
    }
  }
  // The same to a model.
  void apply(uint64_t n, int64_t now_ms, Content& content) const {
    const std::string its = key(n);
    const std::pair<uint32_t, std::string> name(n % 3, its);
    const std::string text = std::to_string(n);
    switch (n % 5) {
      case 0:
        content.erase(name);
        break;
      case 1:
        if (const auto found = content.find(name); found != content.end()) {
          found->second.second = now_ms + 1'000'000 + static_cast<int64_t>(n);
        }
        break;
      case 2:
        content[name] = {text, no_expiry};
        content[{(n + 1) % 3, its}] = {text, no_expiry};
        break;
      default:
        content[name] = {text, n % 2 == 0 ? now_ms + 2'000'000 : no_expiry};
    }
  }

 private:
  static constexpr uint64_t keys = 97;
  const uint32_t number_;
  std::string key_, text_;
};

// What a snapshot has of a client is what there was behind one of its changes, no earlier than the
// last that had ended before it began, and no later than those that had begun when it had.
TEST_F(SnapshotTest, IsOfOneMomentWhileOthersWrite) {
  constexpr uint32_t clients = 3;
  const int rounds = poison::sanitized ? 12 : 60;
  const int64_t now_ms = clock_.now_ms();
  std::atomic<bool> ends{false};
  std::atomic<uint64_t> allowed{0};  // the model has to keep up
  std::atomic<uint64_t> begun[clients] = {};
  std::atomic<uint64_t> ended[clients] = {};
  std::vector<std::thread> threads;
  for (uint32_t i = 0; i < clients; ++i) {
    threads.emplace_back([&, i] {
      Worker worker(*engine_);
      Changes changes(i);
      for (uint64_t n = 1; !ends.load(); ++n) {
        while (n > allowed.load() && !ends.load()) std::this_thread::yield();
        Batch batch;
        changes.ask(n, now_ms, batch);
        begun[i].store(n);
        worker.submit(batch);
        ended[i].store(n);
        if (n % 64 == 0) worker.maintain();
      }
    });
  }
  Worker worker(*engine_);
  Content at[clients];
  uint64_t applied[clients] = {};
  for (int round = 0; round < rounds; ++round) {
    constexpr uint64_t a_round = 1000;
    const uint64_t before = allowed.fetch_add(a_round);
    while (begun[0].load() <= before) std::this_thread::yield();
    uint64_t least[clients];
    for (uint32_t i = 0; i < clients; ++i) least[i] = ended[i].load();
    ASSERT_NE(snapshot_->begin(worker, false), nullptr);
    uint64_t most[clients];
    for (uint32_t i = 0; i < clients; ++i) most[i] = begun[i].load();
    const auto all = rest(worker);
    ASSERT_TRUE(all);
    for (uint32_t i = 0; i < clients; ++i) {
      Content its;
      const std::string prefix = "client" + std::to_string(i) + ":";
      for (const auto& [name, value] : *all) {
        if (name.second.starts_with(prefix)) its.emplace(name, value);
      }
      const Changes changes(i);
      while (applied[i] < least[i]) changes.apply(++applied[i], now_ms, at[i]);
      while (at[i] != its && applied[i] < most[i]) changes.apply(++applied[i], now_ms, at[i]);
      ASSERT_EQ(at[i], its) << "client " << i << ", round " << round << ", changes " << least[i]
                            << " to " << most[i];
    }
  }
  ends = true;
  for (std::thread& thread : threads) thread.join();
}

// While segments split and are joined, each item is shown once.
TEST_F(SnapshotTest, EachItemIsShownOnceWhileTheIndexGrowsAndShrinks) {
  const int count = poison::sanitized ? 5'000 : 20'000;
  Worker worker(*engine_);
  for (int i = 0; i < count; ++i) put(worker, 0, "stays" + std::to_string(i), "x");
  std::atomic<bool> ends{false};
  std::thread thread([&] {
    Worker other(*engine_);
    for (bool puts = true; !ends.load(); puts = !puts) {
      for (int i = 0; i < 2 * count && !ends.load(); ++i) {
        Batch batch;
        const std::string key = "comes" + std::to_string(i);
        puts ? batch.put(key, "x") : batch.erase(key);
        other.submit(batch);
        if (i % 8 == 0) other.maintain();
      }
    }
  });
  for (int round = 0; round < 3; ++round) {
    const auto content = whole(worker);
    ASSERT_TRUE(content);
    int stays = 0;
    for (const auto& [name, value] : *content) stays += name.second.starts_with("stays");
    EXPECT_EQ(stays, count);
  }
  ends = true;
  thread.join();
}

TEST_F(SnapshotTest, LaterVersionsAreLarger) {
  Worker worker(*engine_);
  put(worker, 0, "a", "1");
  for (int i = 0; i < 10; ++i) put(worker, 1, "b", "1");
  const Snapshot::Moment* const moment = snapshot_->begin(worker, false);
  ASSERT_NE(moment, nullptr);
  for (const uint32_t database : {0u, 1u, 2u}) {
    Batch batch;
    batch.select(database);
    batch.put("c", "1");
    worker.submit(batch);
    EXPECT_GT(batch.reply(0).version, moment->version);
  }
  EXPECT_EQ(moment->changes, 11u);
  rest(worker);
}

// Batches that replace more than the log has room for end when it has been written.
TEST_F(SnapshotTest, WhoReplacesMoreThanTheLogHoldsWaits) {
  Worker worker(*engine_);
  const std::string value(16 << 10, 'v');
  const int count = static_cast<int>(Snapshot::most_log / value.size()) + 10;
  Content expected;
  for (int i = 0; i < count; ++i) {
    put(worker, 0, "key" + std::to_string(i), value);
    expected[{0, "key" + std::to_string(i)}] = {value, 0};
  }
  const uint64_t before = engine_->stats().buffer_bytes;
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  Worker other(*engine_, false);
  std::vector<std::string> keys;
  for (const auto& [name, its] : expected) keys.push_back(name.second);
  Batch batch;
  for (const std::string& key : keys) batch.put(key, "new");
  ASSERT_EQ(other.start(batch), Worker::Started::under_way);
  EXPECT_FALSE(batch.ready(0));
  EXPECT_EQ(other.poll([](Batch&, bool) {}), 1u);
  // Who reads does not.
  Worker reader(*engine_, false);
  Batch reads;
  reads.get("key0");
  EXPECT_EQ(reader.start(reads), Worker::Started::ended);
  EXPECT_EQ(rest(worker), expected);
  other.wait();
  EXPECT_EQ(other.poll([](Batch&, bool ended) { EXPECT_TRUE(ended); }), 0u);
  EXPECT_TRUE(batch.ready(0));
  EXPECT_EQ(engine_->stats().buffer_bytes, before);
}

// Only the walk takes the earlier expiries, so whoever waited for room would wait for all of it.
TEST_F(SnapshotTest, ExpiriesThatAreSetTakeMemoryAndKeepNobodyWaiting) {
  Worker worker(*engine_);
  const std::string longer(1000, 'k');
  const int count = static_cast<int>(Snapshot::most_log / longer.size()) + 500;
  const int64_t soon = clock_.now_ms() + 1000;
  std::vector<std::string> keys;
  for (int i = 0; i < count; ++i) keys.push_back(longer + std::to_string(i));
  for (const std::string& key : keys) put(worker, 0, key, "v", soon);
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  Worker other(*engine_, false);
  Batch batch;
  for (const std::string& key : keys) batch.expire(key, soon + 1);
  EXPECT_EQ(other.start(batch), Worker::Started::ended);
  EXPECT_FALSE(snapshot_->full());
  const auto write = [](std::string_view) { return true; };
  ASSERT_EQ(snapshot_->step(write), Snapshot::Step::more);
  EXPECT_GT(snapshot_->memory(), Snapshot::most_log / 2);
  while (snapshot_->step(write) == Snapshot::Step::more) {
  }
  EXPECT_EQ(snapshot_->memory(), 0u);
  snapshot_->end(worker);
}

// What nobody would read is not copied; what only expires because of a later change is.
TEST_F(SnapshotTest, WhatExpiresMeanwhileTakesNoRoom) {
  Worker worker(*engine_);
  const int64_t soon = clock_.now_ms() + 1000;
  std::vector<std::string> keys;
  for (int i = 0; i < 24; ++i) keys.push_back("short" + std::to_string(i));
  for (const std::string& key : keys) put(worker, 0, key, std::string(1 << 20, 'v'), soon);
  put(worker, 0, "long", "l");
  put(worker, 0, "longer", "l", soon + 5000);
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  Batch batch;
  for (const char* const key : {"long", "longer"}) batch.expire(key, soon);
  worker.submit(batch);
  clock_.advance(1000);
  Batch reads;
  for (const std::string& key : keys) reads.get(key);
  for (const char* const key : {"long", "longer"}) reads.get(key);
  worker.submit(reads);
  EXPECT_EQ(worker.count(0), 0u);
  EXPECT_FALSE(snapshot_->full());
  EXPECT_EQ(rest(worker), (Content{{{0, "long"}, {"l", 0}}, {{0, "longer"}, {"l", soon + 5000}}}));
}

// Others go on where there is no memory for what is done meanwhile.
TEST_F(SnapshotTest, WhoCannotStandStillKeepsNobody) {
  Worker worker(*engine_);
  EXPECT_FALSE(worker.stand_still([] { throw std::bad_alloc(); }));
  put(worker, 0, "a", "1");
  EXPECT_EQ(whole(worker), (Content{{{0, "a"}, {"1", 0}}}));
}

// A sink that was there is told of all as before, of batches that began before it, too.
TEST_F(SnapshotTest, TheSinkBehindIsToldOfEverything) {
  ChangeLog log;
  engine_->set_commit_sink(&log);
  Worker worker(*engine_);
  put(worker, 0, "a", "1");
  const size_t before = log.changes();
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  put(worker, 0, "a", "2");
  worker.flush(1);
  EXPECT_GT(log.changes(), before);
  EXPECT_EQ(rest(worker), (Content{{{0, "a"}, {"1", 0}}}));
  const size_t meanwhile = log.changes();
  put(worker, 0, "a", "3");
  EXPECT_GT(log.changes(), meanwhile);
}

}  // namespace
}  // namespace isotherm::snapshot_test
