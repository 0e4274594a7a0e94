// Long values that grow where they lie (items/changing_item.h) at a cap: it holds, and nobody goes
// without memory for their room, or for copies that are not made.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"
#include "engine/eviction_policy_test.h"

namespace isotherm::growing_at_cap_test {
namespace {

constexpr int64_t some_day = 100'000;

class GrowingValuesAtTheCap : public EvictionPolicyTest {};

// Room for more is taken only from what memory has left, so what fits without it fits.
TEST_P(GrowingValuesAtTheCap, FitAndStayBelowIt) {
  constexpr uint64_t cap = 20 << 20;
  constexpr uint64_t values = 10;
  constexpr uint64_t longest = cap / values * 7 / 10;
  const bool evicts = GetParam() != EvictionPolicy::noeviction;
  Engine engine(options(GetParam(), cap), clock);
  Worker worker(engine);
  const std::string more(20'000, 'm');
  uint64_t length = 0;
  const auto append = [&](uint64_t number) {
    const std::string name = key(number);
    Batch batch;
    batch.append(name, more);
    if (evicts) batch.expire(name, some_day);
    worker.submit(batch);
    const Status status = batch.reply(0).status;
    length = static_cast<uint64_t>(batch.reply(0).number);
    batch.clear();
    worker.maintain();
    return status;
  };
  for (uint64_t bytes = 0; bytes < longest; bytes += more.size()) {
    for (uint64_t number = 0; number < values; ++number) {
      ASSERT_EQ(append(number), Status::ok) << number << " of " << bytes;
      ASSERT_EQ(length, bytes + more.size()) << number;
      ASSERT_LE(engine.stats().used_memory, cap) << number << " of " << bytes;
    }
  }
  EXPECT_EQ(engine.stats().evicted, 0u);
  // On to more than there is room for: what does not fit is refused, or others go.
  bool refused = false;
  for (uint64_t bytes = 0; bytes < cap / values && !refused; bytes += more.size()) {
    for (uint64_t number = 0; number < values; ++number) {
      const Status status = append(number);
      refused |= status != Status::ok;
      ASSERT_TRUE(status == Status::ok || (!evicts && status == Status::out_of_memory));
      ASSERT_LE(engine.stats().used_memory, cap);
    }
  }
  EXPECT_EQ(refused, !evicts);
  EXPECT_EQ(engine.stats().evicted != 0, evicts);
}

// A batch of them is not admitted for a copy a row.
TEST_P(GrowingValuesAtTheCap, EvictNothingForCopiesThatAreNotMade) {
  constexpr uint64_t cap = 40 << 20;
  if (GetParam() == EvictionPolicy::noeviction) GTEST_SKIP() << "nothing is evicted";
  Engine engine(options(GetParam(), cap), clock);
  Worker worker(engine);
  const std::string small(1000, 's');
  Batch batch;
  for (uint64_t number = 0; number < 30'000; number += 100) {
    std::vector<std::string> names;
    for (uint64_t next = number; next < number + 100; ++next) names.push_back(key(next));
    for (const std::string& name : names) batch.put(name, small, 0, some_day);
    worker.submit(batch);
    worker.maintain();
    batch.clear();
  }
  const std::string value(2'500'000, 'v');
  batch.put("long", value);
  worker.submit(batch);
  for (int i = 0; i < 6; ++i) {
    batch.clear();
    for (int row = 0; row < 16; ++row) batch.append("long", small);
    worker.submit(batch);
    for (Batch::Row row = 0; row < 16; ++row) ASSERT_EQ(batch.reply(row).status, Status::ok);
    ASSERT_EQ(batch.reply(15).number, static_cast<int64_t>(value.size() + (i + 1) * 16'000));
    worker.maintain();
  }
  batch.clear();
  for (int step = 0; step < 100; ++step) worker.maintain();
  EXPECT_GE(worker.count(0).value(), 20'000u);
  EXPECT_LE(engine.stats().used_memory, cap);
}

INSTANTIATE_TEST_SUITE_P(Policies, GrowingValuesAtTheCap,
                         ::testing::Values(EvictionPolicy::noeviction, EvictionPolicy::allkeys_lru,
                                           EvictionPolicy::volatile_lru),
                         policy_name);

}  // namespace
}  // namespace isotherm::growing_at_cap_test
