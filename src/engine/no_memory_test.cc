// Memory that fails in the middle of a batch, at each of its allocations in turn: the batch ends,
// its rows that have not run are answered out_of_memory, and nothing of it is left in anybody's
// way.
#include <gtest/gtest.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engine/engine.h"
#include "models/failing_memory.h"

namespace isotherm::no_memory_test {
namespace {

// Has what the store has, by its own memory, which may fail; then it has changed nothing.
class Copy final : public CommitSink {
 public:
  Begun begins(const Batch& /*batch*/) override {
    begun_.push_back(0);
    return {begun_.size(), false};
  }
  void changed(const ItemChange& change) override {
    std::string key(change.key);
    if (change.new_item == nullptr) {
      items_.erase(key);
    } else {
      std::string value(change.new_item->value());
      items_[key].swap(value);
    }
  }
  void flushed(uint32_t /*database*/, uint64_t /*version*/, uint64_t /*token*/) override {
    items_.clear();
  }
  Awaited* ends(uint64_t token) override {
    ++begun_[token - 1];
    return nullptr;
  }
  bool all_ended_once() const {
    return std::all_of(begun_.begin(), begun_.end(), [](int ends) { return ends == 1; });
  }
  const std::map<std::string, std::string>& items() const { return items_; }

 private:
  std::vector<int> begun_;
  std::map<std::string, std::string> items_;
};

// Rows of the key "slow" run when they are told to, and each that waits takes memory.
class SlowKey final : public RowGate, public Awaited {
 public:
  Awaited* awaited(const Batch::Columns& columns, Batch::Row row) override {
    return !open && columns.key[row] == "slow" ? this : nullptr;
  }
  void begin(Waiter& waiter) override { waiters_.push_back(&waiter); }
  void tell() {
    open = true;
    for (Waiter* waiter : std::exchange(waiters_, {})) waiter->there();
  }
  bool open = false;

 private:
  std::vector<Waiter*> waiters_;
};

class NoMemoryTest : public ::testing::TestWithParam<bool> {
 protected:
  void open(uint64_t maxmemory = 0) {
    close();
    Options options;
    options.databases = 2;
    options.maxmemory = maxmemory;
    engine_ = std::make_unique<Engine>(options, clock_);
    copy_ = std::make_unique<Copy>();
    if (GetParam()) engine_->set_commit_sink(copy_.get());
    worker_ = std::make_unique<Worker>(*engine_, false);
  }
  void close() {
    worker_.reset();
    engine_.reset();
  }
  void TearDown() override { close(); }

  std::map<std::string, std::string> content() {
    std::map<std::string, std::string> all;
    Batch batch;
    for (const std::string& key : keys_) batch.get(key);
    worker_->submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      const Reply& reply = batch.reply(row);
      if (reply.status == Status::ok) all[keys_[row]] = std::string(reply.value());
    }
    return all;
  }
  // Nothing of a batch that has ended is in the way of others, in groups or not, or of a flush.
  void expect_free() {
    if (GetParam()) {
      EXPECT_TRUE(copy_->all_ended_once());
      EXPECT_EQ(content(), copy_->items());
    }
    Worker other(*engine_);
    Batch batch;
    for (const std::string& key : keys_) batch.put(key, "new");
    batch.group(0);
    other.submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      ASSERT_EQ(batch.reply(row).status, Status::ok);
    }
    batch.clear();
    other.flush_all();
    EXPECT_EQ(other.count(0), 0u);
    EXPECT_FALSE(worker_->busy());
  }
  // `fill` makes the batch, which is run with memory that fails at each allocation in turn, until
  // it fails no more. `between` is called while the batch waits, if it does.
  void try_all(const std::function<void(Batch&)>& fill, const std::function<void()>& between = {},
               uint64_t maxmemory = 0) {
    bool failed = true;
    int refused = 0;
    int tries = 0;
    for (; failed && !HasFailure(); ++tries) {
      open(maxmemory);
      Batch batch;
      fill(batch);
      {
        FailingMemory memory(tries);
        worker_->start(batch);
        if (between) between();
        worker_->wait_for(batch);
        failed = FailingMemory::failed();
      }
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        ASSERT_TRUE(batch.ready(row)) << row << " at " << tries;
        const Status status = batch.reply(row).status;
        refused += status == Status::out_of_memory;
        ASSERT_TRUE(failed || status != Status::out_of_memory) << row;
        ASSERT_NE(status, Status::pending);
      }
      batch.clear();
      expect_free();
    }
    EXPECT_GT(tries, 1) << "nothing allocates";
    EXPECT_GT(refused, 0);
  }

  const std::vector<std::string> keys_ = {"a", "b", "c", "slow"};
  const std::string long_value_ = std::string(3000, 'v');
  ManualClock clock_{1'700'000'000'000};
  std::unique_ptr<Engine> engine_;
  std::unique_ptr<Copy> copy_;
  std::unique_ptr<Worker> worker_;
};

const auto name = [](const auto& param) { return param.param ? "Told" : "Plain"; };
INSTANTIATE_TEST_SUITE_P(Sink, NoMemoryTest, ::testing::Bool(), name);

TEST_P(NoMemoryTest, RowsOfABatch) {
  try_all([&](Batch& batch) {
    for (const std::string& key : keys_) {
      batch.put(key, long_value_);
      batch.append(key, "x");
      batch.get(key);
    }
    batch.erase("a");
  });
}

TEST_P(NoMemoryTest, RowsOfABatchAtTheCap) {
  try_all(
      [&](Batch& batch) {
        for (const std::string& key : keys_) batch.put(key, long_value_);
      },
      {}, 8 << 20);
}

TEST_P(NoMemoryTest, AGroupWithAGuardThatTakesMemory) {
  try_all([&](Batch& batch) {
    batch.put("a", "1");
    batch.put("b", long_value_);
    const auto check = [](Batch& its, Batch::Row row, void*) {
      const std::string copy(its.reply(row - 1).size + 100, 'x');
      ASSERT_EQ(copy.front(), 'x');
    };
    batch.guard(check, nullptr);
    batch.put("c", long_value_);
    batch.group(0);
  });
}

TEST_P(NoMemoryTest, AFlushAmongRows) {
  try_all([&](Batch& batch) {
    batch.put("a", long_value_);
    batch.flush(0, 1);
    batch.put("b", long_value_);
    batch.group(0);
  });
}

TEST_P(NoMemoryTest, RowsThatWait) {
  SlowKey slow;
  try_all(
      [&](Batch& batch) {
        slow.open = false;
        engine_->set_row_gate(&slow);
        batch.put("a", long_value_);
        batch.put("slow", long_value_);
        batch.append("slow", "x");
        batch.get("b");
        batch.get("slow");
      },
      [&] { slow.tell(); });
}

TEST_P(NoMemoryTest, GroupsThatWait) {
  SlowKey slow;
  try_all(
      [&](Batch& batch) {
        slow.open = false;
        engine_->set_row_gate(&slow);
        batch.put("a", long_value_);
        const Batch::Row first = batch.put("slow", long_value_);
        batch.put("b", "1");
        batch.group(first);
        batch.get("c");
      },
      [&] { slow.tell(); });
}

// A walk that would be short is none.
TEST_P(NoMemoryTest, AScan) {
  open();
  Batch batch;
  for (const std::string& key : keys_) batch.put(key, "1");
  worker_->submit(batch);
  batch.clear();
  bool failed = true;
  for (int tries = 0; failed; ++tries) {
    std::vector<std::string> found;
    bool thrown = false;
    {
      FailingMemory memory(tries);
      try {
        uint64_t cursor = 0;
        do {
          cursor = worker_->scan(0, cursor, 100,
                                 [&](const ScanItem& item) { found.emplace_back(item.key); });
        } while (cursor != 0);
      } catch (const std::bad_alloc&) {
        thrown = true;
      }
      failed = FailingMemory::failed();
    }
    ASSERT_TRUE(thrown || found.size() == keys_.size());
    ASSERT_TRUE(failed || !thrown);
  }
  expect_free();
}

}  // namespace
}  // namespace isotherm::no_memory_test
