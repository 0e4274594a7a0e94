// The loops of every instruction set that this processor has give the same answers.
#include "gpu/table/fixed_loops.h"

#include <gtest/gtest.h>

#include <random>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/instruction_set.h"
#include "items/poison.h"
#include "models/table_model.h"

namespace isotherm::fixed_loops_test {
namespace {

struct Named {
  const char* name;
  const FixedLoops* loops;
  InstructionSet needs;
};

const Named all_loops[] = {
    {"plain", &fixed_loops_plain, InstructionSet::plain},
#if !defined(ISOTHERM_TSAN)
    {"avx2", &fixed_loops_avx2, InstructionSet::avx2},
    {"avx512", &fixed_loops_avx512, InstructionSet::avx512},
#endif
};

class FixedLoopsTest : public ::testing::TestWithParam<Named> {
 protected:
  void SetUp() override {
    if (instruction_set() < GetParam().needs) GTEST_SKIP() << "not on this processor";
  }

  FixedRun run(const std::vector<uint64_t>& keys) const {
    return {const_cast<FixedIndex&>(index), keys.data(), keys.size()};
  }
  FixedDone put(const std::vector<uint64_t>& keys, const std::vector<uint64_t>& values) {
    FixedRun columns = run(keys);
    columns.values = values.data();
    return GetParam().loops->put(columns);
  }
  struct Got {
    std::vector<uint64_t> values;
    std::vector<uint8_t> found;
  };
  Got get(const std::vector<uint64_t>& keys) const {
    Got got{std::vector<uint64_t>(keys.size(), untouched), std::vector<uint8_t>(keys.size())};
    FixedRun columns = run(keys);
    columns.values_out = got.values.data();
    columns.found_out = got.found.data();
    const FixedDone done = GetParam().loops->get(columns);
    EXPECT_EQ(done.rows, keys.size());
    size_t hits = 0;
    for (const uint8_t found : got.found) hits += found;
    EXPECT_EQ(done.found, hits);
    return got;
  }
  // The key whose hash is `hash`.
  static uint64_t key_of(uint64_t hash) { return unmix(hash, seed); }

  static constexpr uint64_t seed = 99;
  static constexpr uint64_t untouched = 0x5555;
  Pages pages;
  MemoryBudget budget{0};
  EpochDomain epochs;
  FixedIndex index{pages, budget, epochs, seed};
};

// 40 keys of one line, so every slot of the home line and of its overflow lines is looked at.
TEST_P(FixedLoopsTest, FindEverySlotOfAChain) {
  for (const uint64_t half : {uint64_t{0}, uint64_t{1} << 63}) {
    std::vector<uint64_t> keys;
    std::vector<uint64_t> values;
    std::vector<uint64_t> absent;
    for (uint64_t i = 1; i <= 40; ++i) {
      keys.push_back(key_of(half | i));
      // Words that are others' hashes must not be taken for them.
      values.push_back(half | (i + 100));
      absent.push_back(key_of(half | (i + 100)));
      ASSERT_EQ(put({keys.back()}, {values.back()}).rows, 1u);
      const Got got = get(keys);
      EXPECT_EQ(got.values, values);
      EXPECT_EQ(got.found, std::vector<uint8_t>(i, 1));
      const Got misses = get(absent);
      EXPECT_EQ(misses.values, std::vector<uint64_t>(i, untouched));
      EXPECT_EQ(misses.found, std::vector<uint8_t>(i, 0));
    }
  }
}

TEST_P(FixedLoopsTest, AHoleInEverySlotIsFilledAgain) {
  std::vector<uint64_t> keys;
  std::vector<uint64_t> values;
  for (uint64_t i = 1; i <= 20; ++i) {
    keys.push_back(key_of(i));
    values.push_back(i);
  }
  put(keys, values);
  const int64_t before = budget.index.load();
  for (size_t i = 0; i < keys.size(); ++i) {
    const std::vector<uint64_t> one = {keys[i]};
    std::vector<uint64_t> previous = {untouched};
    std::vector<uint8_t> found = {9};
    FixedRun columns = run(one);
    columns.values_out = previous.data();
    columns.found_out = found.data();
    EXPECT_EQ(GetParam().loops->erase(columns).found, 1u);
    EXPECT_EQ(previous[0], values[i]);
    EXPECT_EQ(found[0], 1u);
    EXPECT_EQ(get(one).found[0], 0u);
    keys[i] = key_of(1000 + i);
    EXPECT_EQ(put({keys[i]}, {values[i]}).found, 0u);
    EXPECT_EQ(get(keys).values, values);
  }
  EXPECT_EQ(budget.index.load(), before);
}

TEST_P(FixedLoopsTest, RandomArraysEqualAMap) {
  std::mt19937_64 random(1);
  std::unordered_map<uint64_t, uint64_t> model;
  for (int round = 0; round < (poison::sanitized ? 40 : 400); ++round) {
    std::vector<uint64_t> keys(random() % 300);
    std::vector<uint64_t> values(keys.size());
    for (uint64_t& key : keys) key = random() % 8 == 0 ? key_of(random() % 4) : random() % 3000;
    for (uint64_t& value : values) value = random();
    std::vector<uint64_t> expected(keys.size(), untouched);
    std::vector<uint8_t> expected_found(keys.size());
    std::vector<uint64_t> shown(keys.size(), untouched);
    std::vector<uint8_t> found(keys.size());
    const uint64_t kind = random() % 4;
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = model.find(keys[i]);
      const bool present = at != model.end();
      expected_found[i] = kind == 3 ? !present : present;
      if (present && kind != 3) expected[i] = at->second;
      if (kind == 1 || (kind == 3 && !present)) model[keys[i]] = values[i];
      if (kind == 2) model.erase(keys[i]);
    }
    FixedRun columns = run(keys);
    columns.values = values.data();
    columns.values_out = shown.data();
    columns.found_out = found.data();
    columns.only_absent = kind == 3;
    const FixedLoops& loops = *GetParam().loops;
    const FixedDone done = kind == 0   ? loops.get(columns)
                           : kind == 2 ? loops.erase(columns)
                                       : loops.put(columns);
    ASSERT_EQ(done.rows, keys.size());
    ASSERT_EQ(found, expected_found);
    ASSERT_EQ(shown, expected);
    index.lines().step(100);
  }
  EXPECT_EQ(index.count(), model.size());
}

TEST_P(FixedLoopsTest, MixedRequestsEqualAModel) {
  std::mt19937_64 random(2);
  TableModel model;
  for (int round = 0; round < (poison::sanitized ? 40 : 400); ++round) {
    std::vector<DeviceRequest> requests(1 + random() % 300);
    for (DeviceRequest& request : requests) {
      request.op = static_cast<TableOp>(random() % 6);
      request.key = random() % 8 == 0 ? key_of(random() % 4) : random() % 500;
      request.value = random() % 3 == 0 ? ~uint64_t{0} : random() % 4;
      request.expected = random() % 4;
    }
    const bool uniform = round % 4 == 0;
    for (DeviceRequest& request : requests) {
      if (uniform) request.op = static_cast<TableOp>(1 + round / 4 % 5);
    }
    HostRequests columns(requests);
    TableRequests call = columns.call();
    if (uniform) {
      call.ops = nullptr;
      call.op = requests[0].op;
    }
    GetParam().loops->answer(index, call);
    model.compare(requests, columns.values_out, columns.found);
    index.lines().step(100);
  }
  EXPECT_EQ(model.wrong() + model.refused(), 0u);
  EXPECT_EQ(index.count(), model.entries().size());
}

INSTANTIATE_TEST_SUITE_P(InstructionSets, FixedLoopsTest, ::testing::ValuesIn(all_loops),
                         [](const auto& param) { return std::string(param.param.name); });

TEST(FixedLoops, TheBestOfThisProcessorIsChosen) {
  const InstructionSet best = instruction_set();
  for (const Named& named : all_loops) {
    if (named.needs == best) {
      EXPECT_EQ(&fixed_loops(), named.loops);
    }
  }
}

}  // namespace
}  // namespace isotherm::fixed_loops_test
