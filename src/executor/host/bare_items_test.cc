// Puts and gets of nothing but a key and a value take a way of their own. It must do what the usual
// way does, and tell the same, so stores get the same requests, and one of them with an option that
// says nothing to a put, but keeps it from that way.
#include "executor/host/bare_items.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <tuple>
#include <vector>

#include "executor/commit_sink.h"
#include "items/poison.h"

namespace isotherm::bare_items_test {
namespace {

uint64_t one_hash(std::string_view, uint64_t) { return 0x1234'5678'9ABC'DEF0; }
uint64_t few_hashes(std::string_view key, uint64_t) {
  return (key.size() % 5 + 1) * 0x9E37'79B9'7F4A'7C15;
}

struct Subject {
  Subject(HostStore::Hash hash, uint64_t maxmemory, CommitSink* sink)
      : store(options(maxmemory), 1, hash), taken(store.epochs), executor(store) {
    store.sink = sink;
  }
  static Options options(uint64_t maxmemory) {
    Options options;
    options.maxmemory = maxmemory;
    options.max_value_bytes = 100'000;
    return options;
  }

  void run(Batch& batch, int64_t now_ms, bool writable) {
    executor.set_token(7);
    executor.run(batch, now_ms, writable);
  }

  HostStore store;
  TakenSlot taken;
  HostExecutor executor;
};

// What was told, in order.
struct Log final : CommitSink {
  Begun begins(const Batch& /*batch*/) override { return {}; }
  void changed(const ItemChange& change) override {
    const auto value_of = [](const Item* item) {
      return item != nullptr ? std::string(item->value()) : std::string();
    };
    changes.push_back({change.reason, change.database, std::string(change.key),
                       change.old_item != nullptr, value_of(change.old_item),
                       change.new_item != nullptr, value_of(change.new_item), change.expiry,
                       change.version, change.token});
  }
  void flushed(uint32_t /*database*/, uint64_t /*version*/, uint64_t /*token*/) override {}
  Awaited* ends(uint64_t /*token*/) override { return nullptr; }
  using Change = std::tuple<ItemChange::Reason, uint32_t, std::string, bool, std::string, bool,
                            std::string, int64_t, uint64_t, uint64_t>;
  std::vector<Change> changes;
};

class BareItemsTest : public ::testing::TestWithParam<HostStore::Hash> {
 protected:
  uint64_t random(uint64_t below) { return random_() % below; }
  std::mt19937_64 random_{7};

  // Mostly bare puts and gets; the others leave what a bare put must not replace as if it were
  // bare.
  void fill(Batch& batch, const std::vector<std::string>& keys, const std::string& values,
            uint16_t of_puts) {
    static constexpr size_t sizes[] = {0, 1, 7, 16, 32, 40, 64, 100, 300, 4'000, 40'000, 100'001};
    const uint64_t rows = random(4) == 0 ? 1 : 1 + random(60);
    const bool reads = random(4) == 0;
    for (uint64_t i = 0; i < rows; ++i) {
      const std::string& key = keys[random(keys.size())];
      const size_t size = sizes[random(random(8) == 0 ? std::size(sizes) : 8)];
      const std::string_view value(values.data() + random(100), size);
      batch.select(random(8) == 0 ? 1 : 0);
      switch (reads ? 0 : random(16)) {
        case 0:
        case 1:
        case 2:
          batch.get(key);
          break;
        case 3:
          batch.put(key, value, 0, 1000 + static_cast<int64_t>(random(100)));
          break;
        case 4:
          batch.put(key, value, 0, no_expiry, 7);
          break;
        case 5:
          batch.put(key, value, random(2) == 0 ? option::if_absent : option::want_previous);
          break;
        case 6:
          batch.erase(key);
          break;
        case 7:
          batch.expire(key, 1000 + static_cast<int64_t>(random(100)));
          break;
        case 8:
          batch.append(key, value);
          break;
        case 9:
          batch.put(key, value, option::over_cap | of_puts);
          break;
        default:
          batch.put(key, value, of_puts);
      }
    }
  }

  void compare(const Batch& one, const Batch& other) {
    for (Batch::Row row = 0; row < one.size(); ++row) {
      const Reply& a = one.reply(row);
      const Reply& b = other.reply(row);
      ASSERT_EQ(a.status.load(), b.status.load()) << row;
      ASSERT_EQ(a.value(), b.value()) << row;
      ASSERT_EQ(a.type, b.type) << row;
      ASSERT_EQ(a.version, b.version) << row;
      ASSERT_EQ(a.number, b.number) << row;
      ASSERT_EQ(a.expiry, b.expiry) << row;
      ASSERT_EQ(a.flags, b.flags) << row;
    }
  }
};

TEST_P(BareItemsTest, AnswerAndLeaveWhatTheUsualWayDoes) {
  Log log;
  Log usual_log;
  Subject bare(GetParam(), 0, nullptr);
  Subject told(GetParam(), 0, &log);
  Subject usual(GetParam(), 0, &usual_log);
  std::vector<std::string> keys;
  for (size_t i = 0; i < 60; ++i) keys.push_back(std::string(i % 40, 'k') + std::to_string(i));
  keys.emplace_back();
  keys.emplace_back(3'000, 'k');
  keys.emplace_back(100'001, 'k');
  std::string values;
  for (size_t i = 0; i < 110'000; ++i) values += static_cast<char>('a' + i % 25);
  int64_t now_ms = 1000;
  uint64_t told_changes = 0;
  constexpr int rounds = poison::sanitized ? 400 : 1'500;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    Batch batches[3];
    const std::mt19937_64 before = random_;
    Subject* const subjects[] = {&usual, &bare, &told};
    const bool writable = round % 50 != 0;
    for (int i = 0; i < 3; ++i) {
      random_ = before;
      const EpochGuard guard(subjects[i]->store.epochs, *subjects[i]->taken.slot);
      fill(batches[i], keys, values, i == 0 ? option::no_touch : 0);
      subjects[i]->run(batches[i], now_ms, writable);
    }
    compare(batches[0], batches[1]);
    compare(batches[0], batches[2]);
    ASSERT_EQ(log.changes, usual_log.changes);
    for (Log* each : {&log, &usual_log}) {
      told_changes += each->changes.size();
      each->changes.clear();
    }
    for (Subject* subject : subjects) subject->executor.cache().reclaim();
    if (round % 10 == 0) ++now_ms;
  }
  EXPECT_GT(told_changes, uint64_t{rounds} * 13);
  for (Subject* subject : {&bare, &told}) {
    const HostExecutor::Counters& counters = subject->executor.counters();
    EXPECT_EQ(counters.changes.get(), usual.executor.counters().changes.get());
    EXPECT_EQ(counters.hits.get(), usual.executor.counters().hits.get());
    EXPECT_EQ(counters.misses.get(), usual.executor.counters().misses.get());
    for (int database = 0; database < 2; ++database) {
      const Database& its = subject->store.databases[database];
      EXPECT_EQ(its.count(), usual.store.databases[database].count());
      EXPECT_EQ(its.expires, usual.store.databases[database].expires);
    }
    const auto items = subject->store.items.class_uses();
    const auto usual_items = usual.store.items.class_uses();
    for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i].items, usual_items[i].items) << i;
  }
}

// Of what it answers, a get at once says what a batch says, and it is counted alike; the rest, and
// what a sink does not call safe, it leaves to a batch.
TEST_P(BareItemsTest, AGetAtOnceAnswersWhatABatchDoes) {
  Log log;
  Subject store(GetParam(), 0, nullptr);
  HostExecutor& executor = store.executor;
  std::vector<std::string> keys;
  for (size_t i = 0; i < 60; ++i) keys.push_back(std::string(i % 40, 'k') + std::to_string(i));
  const std::string values(110'000, 'v');
  uint64_t answered = 0;
  uint64_t left = 0;
  for (int round = 0; round < 100 && !HasFailure(); ++round) {
    const EpochGuard guard(store.store.epochs, *store.taken.slot);
    Batch change;
    fill(change, keys, values, 0);
    store.run(change, 1000 + round, true);
    for (const std::string& key : keys) {
      Batch get;
      get.get(key);
      store.run(get, 1000 + round, true);
      const uint64_t hits = executor.counters().hits.get();
      const uint64_t requests = executor.counters().requests.get();
      Reply reply;
      const bool at_once = executor.get_at_once(0, key, reply);
      (at_once ? answered : left) += 1;
      EXPECT_EQ(executor.counters().hits.get(), hits + (at_once ? 1 : 0));
      EXPECT_EQ(executor.counters().requests.get(), requests + (at_once ? 1 : 0));
      if (!at_once) continue;
      EXPECT_EQ(get.reply(0).status, Status::ok);
      EXPECT_EQ(get.reply(0).value(), reply.value());
      EXPECT_EQ(get.reply(0).version, reply.version);
      EXPECT_EQ(get.reply(0).expiry, no_expiry);
      EXPECT_EQ(get.reply(0).flags, 0u);
    }
    Reply unused;
    store.store.sink = &log;
    for (const std::string& key : keys) EXPECT_FALSE(executor.get_at_once(0, key, unused));
    store.store.sink = nullptr;
  }
  EXPECT_GT(left, 500u);
  const bool collides = GetParam() != static_cast<HostStore::Hash>(hash_bytes);
  EXPECT_TRUE(answered > 500 || collides) << answered;
}

INSTANTIATE_TEST_SUITE_P(Hash, BareItemsTest,
                         ::testing::Values(static_cast<HostStore::Hash>(hash_bytes), few_hashes,
                                           one_hash));

}  // namespace
}  // namespace isotherm::bare_items_test
