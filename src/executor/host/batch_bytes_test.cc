#include "executor/batch_bytes.h"

#include <gtest/gtest.h>

#include <string>

#include "base/worker_pool.h"
#include "executor/host/host_executor.h"

namespace isotherm::batch_bytes_test {
namespace {

class BatchBytesTest : public ::testing::Test {
 protected:
  static constexpr uint64_t cap = 16 << 20;

  BatchBytesTest() : store_(options(), 1), slot_(store_.epochs.acquire()), executor_(store_) {}
  ~BatchBytesTest() override { store_.epochs.release(slot_); }

  static Options options() {
    Options options;
    options.databases = 1;
    options.maxmemory = cap;
    options.maxmemory_policy = EvictionPolicy::allkeys_lru;
    return options;
  }
  void put(std::string_view key, std::string_view value) {
    Batch batch;
    batch.put(key, value);
    const EpochGuard guard(store_.epochs, *slot_);
    executor_.run(batch, 0, true);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
  }
  // Of the batch, which is cleared.
  uint64_t bytes() {
    needed_ = bytes_to_store(store_, slot_, batch_);
    batch_.clear();
    return needed_.at_once;
  }

  HostStore store_;
  EpochDomain::Slot* slot_;
  HostExecutor executor_;
  Batch batch_;
  BatchBytes needed_;  // of the last batch
};

TEST_F(BatchBytesTest, SumsWhatRowsMayStore) {
  batch_.get("key");
  batch_.erase("key");
  EXPECT_EQ(bytes(), 0u);
  const std::string value(1000, 'v');
  batch_.put("key", value);
  batch_.append("key", value);
  EXPECT_EQ(bytes(), 2 * Item::bytes(3, 1000, true, true));
}

TEST_F(BatchBytesTest, ARowThatCannotFitCountsNothing) {
  const std::string above(cap, 'a');
  batch_.put("above", above);
  EXPECT_EQ(bytes(), 0u);
  batch_.put("above", above);
  batch_.put("one", "1");
  EXPECT_EQ(bytes(), Item::bytes(3, 1, true, true));
}

TEST_F(BatchBytesTest, IsNeverMoreThanEvictionCanGive) {
  const std::string most(cap * 3 / 4, 'm');
  batch_.put("one", most);
  batch_.put("two", most);
  EXPECT_EQ(bytes(), store_.largest_item());
}

TEST_F(BatchBytesTest, CopiesOfLargeValuesCountWhereTheyMatter) {
  const std::string part(cap / 4, 'p');
  put("part", part);
  batch_.append("part", "x");
  EXPECT_EQ(bytes(), Item::bytes(4, 1, true, true)) << "there is room";
  put("other", std::string(cap / 2, 'o'));
  const uint64_t copy = Item::bytes(4, part.size(), true, true);
  batch_.append("part", "x");
  EXPECT_EQ(bytes(), copy + 1);
  batch_.expire("part", 1'000);
  EXPECT_EQ(bytes(), copy);
  EXPECT_LT(needed_.lasting, 100u) << "the old one goes";
  EXPECT_EQ(needed_.replaced, part.size());
  batch_.put("part", part);
  EXPECT_EQ(bytes(), copy);
  EXPECT_LT(needed_.lasting, 100u);
  batch_.put("another", part);
  EXPECT_GT(bytes(), copy);
  EXPECT_EQ(needed_.lasting, needed_.at_once);
  // Together with what it has the value is too large.
  const std::string rest(cap * 3 / 4, 'r');
  batch_.append("part", rest);
  batch_.append("absent", "x");
  EXPECT_EQ(bytes(), Item::bytes(6, 1, true, true));
}

TEST_F(BatchBytesTest, ThreadsThatShareRowsFindTheSame) {
  for (int i = 0; i < 50'000; ++i) batch_.put("key", "value");
  const std::string large(100'000, 'v');
  batch_.put("large", large);
  WorkerPool pool(4);
  const BatchBytes shared = bytes_to_store(store_, slot_, batch_, &pool);
  const BatchBytes alone = bytes_to_store(store_, slot_, batch_);
  EXPECT_EQ(shared.at_once, alone.at_once);
  EXPECT_EQ(shared.lasting, alone.lasting);
  EXPECT_EQ(shared.alone, alone.alone);
  EXPECT_GT(shared.alone, large.size());
  EXPECT_GT(shared.at_once, 50'000u * 16);
}

}  // namespace
}  // namespace isotherm::batch_bytes_test
