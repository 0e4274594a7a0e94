#include "isotherm/db_transaction.h"

#include <gtest/gtest.h>

#include <atomic>
#include <cerrno>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "isotherm/db_rows.h"
#include "items/poison.h"
#include "items/worth_threads.h"
#include "models/db_fixture.h"
#include "models/failing_memory.h"

namespace isotherm::db_transaction_test {
namespace {

class DbTransactionTest : public DbFixture {
 protected:
  // So many puts, of keys from `first` on.
  void put_all(DbTransaction& transaction, int first, int end, const std::string& value) {
    std::vector<std::string> keys;
    for (int i = first; i < end; ++i) keys.push_back("key" + std::to_string(i));
    DbRows rows;
    for (const std::string& key : keys) rows.put(key, value);
    ASSERT_TRUE(transaction.run(rows).ok());
  }
};

std::string text_of(const std::map<std::string, std::string>& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) text.append(key).append("=").append(value).append(" ");
  return text;
}

// Worth several threads, in a call and in a commit.
constexpr int many = worth_threads(20'000);

TEST_F(DbTransactionTest, ManyRowsAreThoseOfAModel) {
  std::mt19937 random(3);
  std::map<std::string, std::string> model;
  for (const uint32_t threads : {1u, 4u}) {
    const int rounds = poison::sanitized ? 1 : 4;
    for (int round = 0; round < rounds; ++round) {
      auto transaction = begin({.threads = threads});
      std::map<std::string, std::string> mine = model;
      for (int call = 0; call < 3; ++call) {
        const int count = call == 1 ? 50 : many;
        std::vector<std::string> keys;
        for (int i = 0; i < count; ++i) keys.push_back("key" + std::to_string(random() % many));
        DbRows rows;
        std::vector<std::pair<DbRows::Row, std::string>> right;  // "-": absent
        for (const std::string& key : keys) {
          const uint32_t kind = random() % 8;
          if (kind < 3) {
            rows.put(key, key);
            mine[key] = key;
          } else if (kind == 3) {
            rows.erase(key);
            mine.erase(key);
          } else if (kind == 4) {
            rows.put(key, "");
            mine[key] = "";
          } else {
            const auto there = mine.find(key);
            right.emplace_back(kind == 5 ? rows.get_for_update(key) : rows.get(key),
                               there == mine.end() ? "-" : there->second);
          }
        }
        ASSERT_TRUE(transaction->run(rows).ok());
        for (const auto& [row, value] : right) {
          ASSERT_EQ(rows.found(row) ? std::string(rows.value(row)) : "-", value);
        }
      }
      ASSERT_TRUE(transaction->set_savepoint().ok());
      put_all(*transaction, 0, many, "never");
      ASSERT_TRUE(transaction->put("never", "1").ok());
      ASSERT_TRUE(transaction->rollback_to_savepoint().ok());
      if (round == 2) {
        transaction->rollback();
        continue;
      }
      ASSERT_TRUE(transaction->commit().ok());
      model = mine;
      ASSERT_EQ(all(), text_of(model));
    }
  }
  ASSERT_TRUE(open().ok());  // what the journal and the files have
  EXPECT_EQ(all(), text_of(model));
}

TEST_F(DbTransactionTest, CallsOfOneRowSeeManyAndTheOtherWayRound) {
  put("a", "1");
  auto transaction = begin({.threads = 4});
  put_all(*transaction, 0, many, "v");
  std::string value;
  ASSERT_TRUE(transaction->get("key7", value).ok());
  EXPECT_EQ(value, "v");
  ASSERT_TRUE(transaction->merge("a", merge_by::append, "2").ok());
  ASSERT_TRUE(transaction->merge("key7", merge_by::append, "w").ok());
  DbRows rows;
  const auto a = rows.get("a");
  const auto seven = rows.get("key7");
  const auto none = rows.get("none");
  ASSERT_TRUE(transaction->run(rows).ok());
  EXPECT_EQ(rows.value(a), "12");
  EXPECT_EQ(rows.value(seven), "vw");
  EXPECT_FALSE(rows.found(none));
  ASSERT_TRUE(transaction->commit().ok());  // with merges, which one thread folds
  EXPECT_EQ(get("a"), "12");
  EXPECT_EQ(get("key7"), "vw");
  EXPECT_EQ(get("key8"), "v");
  EXPECT_EQ(transaction->run(rows).code(), Code::invalid);
}

TEST_F(DbTransactionTest, OneChangedKeyOfManyLeavesNothingWritten) {
  for (const bool locks : {false, true}) {
    put("key9", "0");
    auto transaction = begin({.locks = locks, .threads = 4});
    std::vector<std::string> keys;
    for (int i = 0; i < many; ++i) keys.push_back("key" + std::to_string(i));
    DbRows rows;
    for (const std::string& key : keys) rows.get_for_update(key);
    ASSERT_TRUE(transaction->run(rows).ok());
    EXPECT_EQ(rows.value(9), "0");
    put_all(*transaction, 0, many, locks ? "locks" : "none");
    put("key9", "1");
    EXPECT_EQ(transaction->commit().code(), Code::busy);
    EXPECT_EQ(all(), "key9=1 ");
  }
}

TEST_F(DbTransactionTest, RowsThatAreRefusedAreNotKept) {
  put("key5", "0");
  auto first = begin({.locks = true});
  std::string value;
  ASSERT_TRUE(first->get_for_update("key5", value).ok());
  auto second = begin({.locks = true, .timeout_ms = 1, .threads = 4});
  DbRows rows;
  rows.put("key1", "1");
  rows.put("key5", "1");
  EXPECT_EQ(second->run(rows).code(), Code::timed_out);
  ASSERT_TRUE(second->commit().ok());
  EXPECT_EQ(all(), "key5=0 ");
  auto third = begin({.snapshot = true, .threads = 4});
  first->rollback();
  put("key5", "2");
  rows.clear();
  rows.put("key1", "1");
  rows.get_for_update("key5");
  EXPECT_EQ(third->run(rows).code(), Code::busy);
  rows.clear();
  const auto row = rows.get("key5");
  ASSERT_TRUE(third->run(rows).ok());
  EXPECT_EQ(rows.value(row), "0");  // of the moment
  ASSERT_TRUE(third->commit().ok());
  EXPECT_EQ(all(), "key5=2 ");
}

// Erases of absent keys leave nothing in the journal, so parts of its block move together.
TEST_F(DbTransactionTest, CommitsByThreadsAreReadAgainFromTheJournal) {
  options_.sync = DbSync::always;
  ASSERT_TRUE(open().ok());
  for (const int step : {1, 2, 3}) {
    const std::string value = std::to_string(step);
    std::vector<std::string> keys;
    for (int i = 0; i < many; ++i) keys.push_back("key" + std::to_string(i));
    DbRows rows;
    for (int i = 0; i < many; ++i) {
      i % 3 < step ? rows.put(keys[i], value) : rows.erase(keys[i]);
    }
    const auto transaction = begin({.threads = 4});
    ASSERT_TRUE(transaction->run(rows).ok());
    ASSERT_TRUE(transaction->commit().ok());
    const std::unique_ptr<Db> other = open_after_power_loss(false);
    ASSERT_NE(other, nullptr);
    for (int i = 0; i < many; ++i) {
      ASSERT_EQ(get(*other, keys[i]), i % 3 < step ? value : get(*other, "none")) << i;
    }
  }
}

// A view sees a commit whole or not at all, while several of them share few workers.
TEST_F(DbTransactionTest, CommitsByThreadsAreSeenWhole) {
  options_.most_calls = 5;
  ASSERT_TRUE(open().ok());
  std::vector<std::thread> threads;
  std::atomic<bool> ends{false};
  std::atomic<uint64_t> looks{0};
  for (int writer = 0; writer < 2; ++writer) {
    threads.emplace_back([&, writer] {
      for (int round = 0; round < (poison::sanitized ? 2 : 4); ++round) {
        std::unique_ptr<DbTransaction> transaction;
        ASSERT_TRUE(db_->begin({.threads = 4}, transaction).ok());
        put_all(*transaction, 0, many, std::to_string(writer * 10 + round));
        ASSERT_TRUE(transaction->commit().ok());
      }
    });
  }
  std::thread reader([&] {
    const std::string last = "key" + std::to_string(many - 1);
    const std::vector<std::string_view> keys{"key1", "key777", last};
    std::vector<std::string> values;
    while (!ends.load()) {
      db_->multi_get(keys, values);
      ASSERT_EQ(values[0], values[1]);
      ASSERT_EQ(values[0], values[2]);
      ++looks;
    }
  });
  for (std::thread& thread : threads) thread.join();
  ends.store(true);
  reader.join();
  EXPECT_GT(looks.load(), 0u);
  const std::string last = get("key0");
  for (int i = 0; i < many; i += 97) ASSERT_EQ(get("key" + std::to_string(i)), last);
}

// Whichever memory is missing, a commit by threads is whole or nothing, as its status says.
TEST_F(DbTransactionTest, CommitsByThreadsThatLackMemoryAreWholeOrNothing) {
  ASSERT_TRUE(open().ok());
  const std::string last = "key" + std::to_string(many - 1);
  const std::vector<std::string_view> keys{"key1", "key777", "key999", last};
  std::vector<std::string> values;
  std::string now;
  int64_t refused = 0;
  bool failed = true;
  for (int64_t works = 0; failed; works += 1 + works / (poison::sanitized ? 3 : 32)) {
    const auto transaction = begin({.threads = 4});
    const std::string next = std::to_string(works);
    put_all(*transaction, 0, many, next);
    bool done = false;
    {
      const FailingMemory failing(works);
      done = transaction->commit().ok();
      failed = FailingMemory::failed();
    }
    refused += done ? 0 : 1;
    if (done) now = next;
    db_->multi_get(keys, values);
    for (const std::string& value : values) ASSERT_EQ(value, now) << works << " " << done;
  }
  EXPECT_GT(refused, 0);
}

// Whichever call fails on a full disk, and the power is lost behind it: it is whole or nothing, and
// whole where it was acknowledged.
TEST_F(DbTransactionTest, CommitsByThreadsOnAFullDiskAreWholeOrNothing) {
  options_.sync = DbSync::always;
  ASSERT_TRUE(open().ok());
  constexpr int most_calls = poison::sanitized ? 4 : 6;
  int refused = 0;
  for (int calls = 0; calls < most_calls; ++calls) {
    const auto transaction = begin({.threads = 4});
    const std::string next = std::to_string(calls);
    put_all(*transaction, 0, many, next);
    files_.fail_after(calls, 1'000'000, ENOSPC);
    const DbStatus status = transaction->commit();
    files_.heal();
    EXPECT_TRUE(status.ok() || status.is(Code::not_saved)) << status.text();
    refused += status.ok() ? 0 : 1;
    while (code(db_->put("healed", "1")) == Code::not_saved) {
    }
    const std::unique_ptr<Db> other = open_after_power_loss(false);
    ASSERT_NE(other, nullptr);
    const std::string found = get(*other, "key1");
    EXPECT_TRUE(!status.ok() || found == next) << found << " " << next;
    for (int i = 0; i < many; i += 97)
      ASSERT_EQ(get(*other, "key" + std::to_string(i)), found) << i;
  }
  EXPECT_GT(refused, 0);
  EXPECT_LT(refused, most_calls);
}

}  // namespace
}  // namespace isotherm::db_transaction_test
