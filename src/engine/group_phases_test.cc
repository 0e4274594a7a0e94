// Phases of groups: which rows share one, and that a store on a device, which runs groups so,
// answers as one on the host does.
#include "engine/group_phases.h"

#include <gtest/gtest.h>

#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "items/poison.h"

namespace isotherm::group_phases_test {
namespace {

using Row = Batch::Row;

bool found(const Batch& batch, Row row) {
  return batch.answered(row) && batch.reply(row).status == Status::ok;
}

// Stores what the get before it has found.
void fill_put(Batch& batch, Row row, void* /*context*/) {
  EXPECT_TRUE(batch.answered(row - 1));
  EXPECT_FALSE(batch.answered(row));
  if (!found(batch, row - 1)) return batch.cancel(row, row + 1);
  batch.columns().value[row] = batch.reply(row - 1).value();
}
void keep_unless_put(Batch& batch, Row row, void* /*context*/) {
  EXPECT_TRUE(batch.answered(row - 1));
  EXPECT_FALSE(batch.answered(row));
  if (!found(batch, row - 1)) batch.cancel(row, row + 1);
}

void copy(Batch& batch, std::string_view from, std::string_view to, bool erases) {
  const Row first = batch.get(from);
  batch.guard(fill_put, nullptr, first);
  batch.put(to, {}, option::if_absent);
  if (erases) {
    batch.guard(keep_unless_put, nullptr, first);
    batch.erase(from);
  }
  batch.group(first);
}

// Of all rows before it those that have found something, as a guard of all rows sees them.
void count_found(Batch& batch, Row row, void* context) {
  uint64_t& count = *static_cast<uint64_t*>(context);
  for (Row i = 0; i < batch.size(); ++i) {
    EXPECT_EQ(batch.answered(i), i < row) << i;
    count += i < row && found(batch, i) ? 1 : 0;
  }
}

class PhasesTest : public ::testing::Test {
 protected:
  // The phases of the rows, of which "a" to "z" are keys, as they run.
  std::string phases(const Batch::Guard* end = nullptr) {
    batch.close_groups();
    for (Row row = 0; row < batch.size(); ++row) {
      batch.columns().hash[row] = static_cast<uint64_t>(batch.columns().key[row][0]) << 32;
    }
    const auto guards = GroupPhases::together(batch, batch.guards());
    EXPECT_EQ(guards.data() + guards.size(), end != nullptr ? end : &*batch.guards().end());
    const Row last = guards.size() == batch.guards().size() ? batch.size() : end->row;
    std::string text(last, '-');
    GroupPhases phases;
    phases.plan(batch, 0, last, guards);
    for (char phase = '0'; !phases.done(); phases.next(), ++phase) {
      for (Row row = 0; row < last; ++row) {
        if (!phases.has(row)) continue;
        EXPECT_EQ(text[row], '-') << row;
        text[row] = phase;
      }
    }
    return text;
  }

  Batch batch;
};

TEST_F(PhasesTest, GroupsOnDifferentKeysShareThem) {
  copy(batch, "a", "b", true);
  copy(batch, "c", "d", false);
  batch.get("e");
  copy(batch, "f", "g", true);
  EXPECT_EQ(phases(),
            "012"
            "01"
            "0"
            "012");
}

TEST_F(PhasesTest, RowsOfAKeyOfAGroupBeginWhereItEnds) {
  batch.get("b");
  copy(batch, "a", "b", true);
  batch.get("a");
  batch.get("x");
  copy(batch, "b", "c", false);
  const Row view = batch.get("y");
  batch.get("c");
  batch.view(view);
  batch.get("y");
  EXPECT_EQ(phases(),
            "0"
            "012"
            "2"
            "0"
            "23"
            "33"
            "3");
}

TEST_F(PhasesTest, AGuardOfAllRowsEndsThem) {
  copy(batch, "a", "b", false);
  copy(batch, "c", "d", false);
  const Row first = batch.get("e");
  uint64_t count = 0;
  batch.guard(count_found, &count);
  batch.get("f");
  batch.group(first);
  copy(batch, "g", "h", false);
  batch.close_groups();
  EXPECT_EQ(phases(&batch.guards()[2]),
            "01"
            "01"
            "0");
}

// One that looks at rows before its group, or that stands before it, is one of all rows.
TEST_F(PhasesTest, WhatLooksOutOfItsGroupEndsThem) {
  batch.get("a");
  const Row first = batch.get("b");
  batch.guard(keep_unless_put, nullptr, 0);
  batch.put("c", "1");
  batch.group(first);
  copy(batch, "d", "e", false);
  batch.close_groups();
  EXPECT_EQ(phases(batch.guards().data()), "00");
  batch.clear();
  const Row next = batch.size();
  batch.guard(keep_unless_put, nullptr, next);
  copy(batch, "d", "e", false);
  batch.close_groups();
  EXPECT_TRUE(GroupPhases::together(batch, batch.guards()).empty());
}

TEST_F(PhasesTest, AGroupWithinAnotherIsAPartOfIt) {
  copy(batch, "a", "b", false);
  copy(batch, "c", "d", true);
  batch.group(0);
  copy(batch, "e", "f", false);
  EXPECT_EQ(phases(),
            "01"
            "123"
            "01");
}

// Two stores that are asked the same, one on a device.
class GroupsOnADeviceTest : public ::testing::Test {
 protected:
  static Options options() {
    Options options;
    options.databases = 2;
    return options;
  }
  std::string key() { return std::string(1, static_cast<char>('a' + draw(keys))); }
  uint32_t draw(uint32_t end) { return static_cast<uint32_t>(random() % end); }
  std::string_view keep(std::string text) {
    return *texts.emplace_back(std::make_unique<std::string>(std::move(text)));
  }

  // One request, in both batches.
  template <class Add>
  void add(const Add& add) {
    for (Batch& batch : batches) add(batch);
  }
  void add_one() {
    const std::string_view one = keep(key());
    const std::string_view other = keep(key());
    const std::string_view third = keep(key());
    const std::string_view value = keep("value " + std::to_string(random() % 1000));
    switch (draw(12)) {
      case 0:
        return add([&](Batch& batch) { batch.get(one); });
      case 1:
        return add([&](Batch& batch) { batch.put(one, value); });
      case 2:
        return add([&](Batch& batch) { batch.append(one, value.substr(0, 7)); });
      case 3:
        return add([&](Batch& batch) { batch.erase(one); });
      case 4:
        return add([&](Batch& batch) {
          const Row first = batch.get(one);
          batch.get(other);
          batch.view(first);
        });
      case 5:  // as EXEC has it
        return add([&](Batch& batch) {
          const Row first = batch.get(third);
          batch.guard(keep_unless_put, nullptr, first);
          copy(batch, one, other, true);
          batch.get(other);
          batch.group(first);
        });
      case 6:
        return add([&](Batch& batch) {
          const Row first = batch.get(one);
          batch.unless_absent(first);
          batch.put(one, value);
          batch.put(other, value);
          batch.group(first);
        });
      case 7:
        if (draw(8) == 0) return add([](Batch& batch) { batch.flush(0, 1); });
        [[fallthrough]];
      case 8:
        if (draw(4) == 0) {
          counts.emplace_back(std::make_unique<std::pair<uint64_t, uint64_t>>());
          auto& [its, others] = *counts.back();
          uint64_t* const at[] = {&its, &others};
          for (size_t i = 0; i < 2; ++i) {
            const Row first = batches[i].get(one);
            batches[i].guard(count_found, at[i]);
            batches[i].put(other, value);
            batches[i].group(first);
          }
          return;
        }
        [[fallthrough]];
      default:
        return add([&, erases = draw(2) == 0](Batch& batch) { copy(batch, one, other, erases); });
    }
  }
  void compare() {
    ASSERT_EQ(batches[0].size(), batches[1].size());
    for (Row row = 0; row < batches[0].size(); ++row) {
      const Reply& one = batches[0].reply(row);
      const Reply& other = batches[1].reply(row);
      ASSERT_EQ(one.status.load(), other.status.load()) << row;
      ASSERT_EQ(one.value(), other.value()) << row;
      ASSERT_EQ(one.number, other.number) << row;
    }
    for (const auto& count : counts) ASSERT_EQ(count->first, count->second);
    add([](Batch& batch) { batch.clear(); });
    counts.clear();
    texts.clear();
  }

  const ManualClock clock{1000};
  FakeDevice device{7, uint64_t{1} << 28};
  Engine on_host{options(), clock};
  Engine on_device{options(), clock, fake_root_tiers_maker(device)};
  Worker workers[2]{Worker(on_host), Worker(on_device)};
  Batch batches[2];
  uint32_t keys = 1;
  std::mt19937_64 random{1};
  std::vector<std::unique_ptr<std::string>> texts;
  std::vector<std::unique_ptr<std::pair<uint64_t, uint64_t>>> counts;
};

TEST_F(GroupsOnADeviceTest, AreAnsweredAsOnTheHost) {
  for (int i = 0; i < (poison::sanitized ? 100 : 400) && !HasFatalFailure(); ++i) {
    keys = 2 + draw(24);
    const uint32_t requests = 1 + draw(30);
    for (uint32_t request = 0; request < requests; ++request) add_one();
    for (size_t side = 0; side < 2; ++side) workers[side].submit(batches[side]);
    compare();
  }
}

TEST_F(GroupsOnADeviceTest, OnDifferentKeysShareRounds) {
  Batch& batch = batches[1];
  Worker& worker = workers[1];
  const auto name = [&](const char* kind, int i) { return keep(kind + std::to_string(i)); };
  for (int i = 0; i < 100; ++i) batch.put(name("from:", i), "value");
  worker.submit(batch);
  batch.clear();
  for (int i = 0; i < 100; ++i) copy(batch, name("from:", i), name("to:", i), true);
  const uint64_t before = on_device.stats().rounds.rounds;
  worker.submit(batch);
  EXPECT_LE(on_device.stats().rounds.rounds - before, 3);
  for (Row row = 0; row < batch.size(); ++row) EXPECT_TRUE(found(batch, row)) << row;
}

}  // namespace
}  // namespace isotherm::group_phases_test
