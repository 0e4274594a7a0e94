// Puts and gets of nothing but a key and a value take a way of their own, where nobody is told of
// changes. It must do what the usual way does, so two stores get the same requests, one with a
// sink.
#include "executor/host/bare_items.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <vector>

#include "executor/commit_sink.h"

namespace isotherm::bare_items_test {
namespace {

uint64_t one_hash(std::string_view, uint64_t) { return 0x1234'5678'9ABC'DEF0; }
uint64_t few_hashes(std::string_view key, uint64_t) {
  return (key.size() % 5 + 1) * 0x9E37'79B9'7F4A'7C15;
}

struct Subject {
  Subject(HostStore::Hash hash, uint64_t maxmemory, CommitSink* sink)
      : store(options(maxmemory), 1, hash), taken(store.epochs), executor(store), log(sink) {
    store.sink = sink;
  }
  static Options options(uint64_t maxmemory) {
    Options options;
    options.maxmemory = maxmemory;
    options.max_value_bytes = 100'000;
    return options;
  }

  void run(Batch& batch, int64_t now_ms, bool writable) {
    if (log != nullptr) executor.set_token(log->begins(batch).token);
    executor.run(batch, now_ms, writable);
    if (log != nullptr) log->ends(0);
  }

  HostStore store;
  TakenSlot taken;
  HostExecutor executor;
  CommitSink* const log;
};

struct NoLog final : CommitSink {
  Begun begins(const Batch& /*batch*/) override { return {}; }
  void changed(const ItemChange& /*change*/) override { ++changes; }
  void flushed(uint32_t /*database*/, uint64_t /*version*/, uint64_t /*token*/) override {}
  Awaited* ends(uint64_t /*token*/) override { return nullptr; }
  uint64_t changes = 0;
};

class BareItemsTest : public ::testing::TestWithParam<HostStore::Hash> {
 protected:
  uint64_t random(uint64_t below) { return random_() % below; }
  std::mt19937_64 random_{7};

  // Mostly bare puts and gets; the others leave what a bare put must not replace as if it were
  // bare.
  void fill(Batch& batch, const std::vector<std::string>& keys, const std::string& values) {
    static constexpr size_t sizes[] = {0, 1, 7, 16, 32, 40, 64, 100, 300, 4'000, 40'000, 100'001};
    const uint64_t rows = 1 + random(60);
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
        default:
          batch.put(key, value);
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
  NoLog log;
  Subject bare(GetParam(), 0, nullptr);
  Subject usual(GetParam(), 0, &log);
  std::vector<std::string> keys;
  for (size_t i = 0; i < 60; ++i) keys.push_back(std::string(i % 40, 'k') + std::to_string(i));
  keys.emplace_back();
  keys.emplace_back(3'000, 'k');
  keys.emplace_back(100'001, 'k');
  std::string values;
  for (size_t i = 0; i < 110'000; ++i) values += static_cast<char>('a' + i % 25);
  int64_t now_ms = 1000;
  for (int round = 0; round < 2'000 && !HasFailure(); ++round) {
    Batch batches[2];
    const std::mt19937_64 before = random_;
    Subject* const subjects[] = {&bare, &usual};
    const bool writable = round % 50 != 0;
    for (int i = 0; i < 2; ++i) {
      random_ = before;
      const EpochGuard guard(subjects[i]->store.epochs, *subjects[i]->taken.slot);
      fill(batches[i], keys, values);
      subjects[i]->run(batches[i], now_ms, writable);
    }
    compare(batches[0], batches[1]);
    for (Subject* subject : subjects) subject->executor.cache().reclaim();
    if (round % 10 == 0) ++now_ms;
  }
  EXPECT_GT(log.changes, 10'000u);
  EXPECT_EQ(bare.executor.counters().changes.get(), usual.executor.counters().changes.get());
  EXPECT_EQ(bare.executor.counters().hits.get(), usual.executor.counters().hits.get());
  EXPECT_EQ(bare.executor.counters().misses.get(), usual.executor.counters().misses.get());
  for (int database = 0; database < 2; ++database) {
    EXPECT_EQ(bare.store.databases[database].count(), usual.store.databases[database].count());
    EXPECT_EQ(bare.store.databases[database].expires, usual.store.databases[database].expires);
  }
  const auto items = bare.store.items.class_uses();
  const auto usual_items = usual.store.items.class_uses();
  for (size_t i = 0; i < items.size(); ++i) EXPECT_EQ(items[i].items, usual_items[i].items) << i;
}

INSTANTIATE_TEST_SUITE_P(Hash, BareItemsTest,
                         ::testing::Values(static_cast<HostStore::Hash>(hash_bytes), few_hashes,
                                           one_hash));

}  // namespace
}  // namespace isotherm::bare_items_test
