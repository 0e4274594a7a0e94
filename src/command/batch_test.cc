#include "isotherm/batch.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace isotherm::batch_test {
namespace {

TEST(Batch, ColumnsHoldWhatWasAppended) {
  Batch batch;
  EXPECT_TRUE(batch.empty());
  EXPECT_EQ(batch.get("a", option::no_touch), 0u);
  batch.select(3);
  EXPECT_EQ(batch.put("b", "value", option::if_version, 500, 6, 70), 1u);
  EXPECT_EQ(batch.erase("c", option::if_version, 8), 2u);
  EXPECT_EQ(batch.add("d", -9), 3u);
  EXPECT_EQ(batch.append("e", "x"), 4u);
  EXPECT_EQ(batch.prepend("f", "y", option::if_present), 5u);
  EXPECT_EQ(batch.expire("g", 10, option::expire_if_any), 6u);
  EXPECT_EQ(batch.size(), 7u);
  const Batch::Columns& columns = batch.columns();
  const Op ops[] = {Op::get, Op::put, Op::erase, Op::add, Op::append, Op::prepend, Op::expire};
  for (Batch::Row row = 0; row < 7; ++row) {
    EXPECT_EQ(columns.op[row], ops[row]);
    EXPECT_EQ(columns.key[row], std::string(1, static_cast<char>('a' + row)));
    EXPECT_EQ(columns.database[row], row == 0 ? 0u : 3u);
    EXPECT_FALSE(batch.ready(row));
  }
  EXPECT_EQ(columns.value[1], "value");
  EXPECT_EQ(columns.expiry[1], 500);
  EXPECT_EQ(columns.flags[1], 6u);
  EXPECT_EQ(columns.number[1], 70);
  EXPECT_EQ(columns.number[2], 8);
  EXPECT_EQ(columns.number[3], -9);
  EXPECT_EQ(columns.value[5], "y");
  EXPECT_EQ(columns.options[5], option::if_present);
  EXPECT_EQ(columns.expiry[6], 10);
}

TEST(Batch, AppendsRowsOfOthersWithAllThatTheyAskFor) {
  Batch from;
  from.get_part("a", 30, -2);
  from.put("b", "value", option::if_version, 500, 6, 70);
  Batch batch;
  for (const Batch::Row row : {1, 0}) batch.append(from.columns(), row);
  const Batch::Columns& columns = batch.columns();
  EXPECT_EQ(columns.key[1], "a");
  EXPECT_EQ(columns.options[1], option::part);
  EXPECT_EQ(columns.number[1], 30);
  EXPECT_EQ(columns.expiry[1], -2);
  EXPECT_EQ(columns.value[0], "value");
  EXPECT_EQ(columns.options[0], option::if_version);
  EXPECT_EQ(columns.number[0], 70);
  EXPECT_EQ(columns.expiry[0], 500);
  EXPECT_EQ(columns.flags[0], 6u);
}

TEST(Batch, KnowsWhetherItWritesAndHasGroups) {
  Batch batch;
  batch.get("a");
  EXPECT_FALSE(batch.writes());
  EXPECT_FALSE(batch.has_groups());
  batch.expire("a", 1);
  EXPECT_TRUE(batch.writes());
  batch.view(0);
  EXPECT_FALSE(batch.has_groups());
  batch.group(1);
  EXPECT_TRUE(batch.has_groups());
  EXPECT_EQ(batch.groups().front().first, 1u);
  EXPECT_EQ(batch.groups().front().end, 2u);
  batch.clear();
  EXPECT_FALSE(batch.writes());
  EXPECT_FALSE(batch.has_groups());
  EXPECT_TRUE(batch.views().empty());
  batch.flush(0, 1);
  EXPECT_TRUE(batch.has_groups());
}

TEST(Batch, WhatIsDroppedWasNeverThere) {
  const auto nothing = [](Batch&, Batch::Row, void*) {};
  Batch batch;
  batch.get("a");
  batch.guard(nothing);
  batch.put("b", "1");
  batch.group(0);
  batch.get("c");
  batch.view(2);
  const Batch::Row first = batch.get("d");
  batch.guard(nothing);
  batch.put("e", "1");
  batch.group(first);
  batch.flush(0, 1);
  batch.get("f");
  batch.view(first);
  batch.drop(first);
  EXPECT_EQ(batch.size(), first);
  EXPECT_EQ(batch.guards().size(), 1u);
  ASSERT_EQ(batch.groups().size(), 1u);
  EXPECT_EQ(batch.groups().front().end, 2u);
  ASSERT_EQ(batch.views().size(), 1u);
  EXPECT_EQ(batch.views().front().end, first);
}

TEST(Batch, AGuardInNoGroupMakesOneOfTheWholeBatch) {
  const auto nothing = [](Batch&, Batch::Row, void*) {};
  Batch batch;
  batch.get("a");
  batch.guard(nothing);
  batch.put("b", "1");
  batch.group(0);
  batch.get("c");
  batch.close_groups();
  ASSERT_EQ(batch.groups().size(), 1u);
  EXPECT_EQ(batch.groups().front().end, 2u);
  batch.get("d");
  batch.guard(nothing);
  batch.get("e");
  batch.close_groups();
  ASSERT_EQ(batch.groups().size(), 1u);
  EXPECT_EQ(batch.groups().front().first, 0u);
  EXPECT_EQ(batch.groups().front().end, 5u);
}

TEST(Batch, AGroupTakesInThoseThatBeginWithinIt) {
  Batch batch;
  batch.put("before", "1");
  batch.group(0);
  batch.get("a");
  for (const char* const key : {"b", "c"}) {
    const Batch::Row first = batch.put(key, "1");
    batch.put("d", "1");
    batch.group(first);
  }
  batch.get("e");
  batch.group(1);
  batch.close_groups();
  ASSERT_EQ(batch.groups().size(), 2u);
  EXPECT_EQ(batch.groups()[0].end, 1u);
  EXPECT_EQ(batch.groups()[1].first, 1u);
  EXPECT_EQ(batch.groups()[1].end, 7u);
}

TEST(Batch, GrowsWithItsRowsInPlace) {
  Batch batch;
  std::vector<std::string> keys;
  for (int i = 0; i < 10'000; ++i) keys.push_back("key" + std::to_string(i));
  for (int round = 0; round < 3; ++round) {
    for (size_t i = 0; i < keys.size(); ++i) {
      batch.put(keys[i], keys[keys.size() - 1 - i], 0, static_cast<int64_t>(i),
                static_cast<uint32_t>(i));
    }
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      ASSERT_EQ(batch.columns().key[row], keys[row]);
      ASSERT_EQ(batch.columns().value[row], keys[keys.size() - 1 - row]);
      ASSERT_EQ(batch.columns().expiry[row], row);
      ASSERT_EQ(batch.reply(row).data, nullptr);
    }
    batch.clear();
    EXPECT_TRUE(batch.empty());
  }
}

TEST(Batch, RowsForWhichThereIsRoomDoNotMove) {
  Batch batch;
  batch.get("before");
  batch.reserve(1000);
  const std::string_view* const keys = batch.columns().key;
  for (int part = 0; part < 100; ++part) {
    EXPECT_EQ(batch.add_changes(10), 1u + 10u * static_cast<uint32_t>(part));
  }
  EXPECT_EQ(batch.columns().key, keys);
  EXPECT_EQ(keys[0], "before");
  EXPECT_THROW(batch.reserve(uint64_t{1} << 32), std::bad_alloc);
  EXPECT_EQ(batch.columns().key, keys);
  for (Batch::Row row = 1; row < batch.size(); ++row) batch.set_change(row, Op::erase, "k", {}, 0);
}

TEST(Batch, GetsOfManyKeysAreGetsOfEach) {
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i) texts.push_back("key" + std::to_string(i));
  const std::vector<std::string_view> keys(texts.begin(), texts.end());
  Batch batch;
  for (int round = 0; round < 2; ++round) {
    batch.select(3);
    EXPECT_EQ(batch.get("first"), 0u);
    batch.columns().reply[0].data = "old";
    EXPECT_EQ(batch.get_all(keys), 1u);
    EXPECT_EQ(batch.get_all({}), 1001u);
    ASSERT_EQ(batch.size(), 1001u);
    EXPECT_TRUE(batch.only_gets());
    for (Batch::Row row = 1; row < batch.size(); ++row) {
      ASSERT_EQ(batch.columns().key[row], keys[row - 1]);
      ASSERT_EQ(batch.columns().op[row], Op::get);
      ASSERT_EQ(batch.columns().options[row], 0u);
      ASSERT_EQ(batch.columns().database[row], 3u);
      ASSERT_FALSE(batch.ready(row));
      batch.columns().reply[row].status = Status::ok;
    }
    batch.clear();
  }
}

TEST(Batch, KeepsItsMemoryUntilItShrinks) {
  Batch batch;
  EXPECT_EQ(batch.memory(), 0u);
  for (int i = 0; i < 100'000; ++i) batch.get("key");
  const size_t large = batch.memory();
  EXPECT_GT(large, 100'000u * 100);
  batch.clear();
  EXPECT_EQ(batch.memory(), large);
  batch.shrink(1000);
  EXPECT_LT(batch.memory(), large / 50);
  batch.get("key");
  EXPECT_EQ(batch.size(), 1u);
}

TEST(Batch, AFreshReplyIsEmptyAlsoAfterReuse) {
  Batch batch;
  batch.get("key");
  batch.columns().reply[0].data = "old";
  batch.columns().reply[0].size = 3;
  batch.columns().reply[0].status = Status::ok;
  batch.clear();
  batch.get("key");
  EXPECT_FALSE(batch.ready(0));
  EXPECT_EQ(batch.reply(0).value(), "");
  EXPECT_EQ(batch.reply(0).data, nullptr);
}

struct CountingHold final : Batch::Hold {
  void release(Batch&) override { ++released; }
  int released = 0;
};

TEST(Batch, LetsGoOfItsHoldOnce) {
  CountingHold hold;
  {
    Batch batch;
    batch.hold(&hold);
    batch.clear();
    EXPECT_EQ(hold.released, 1);
    batch.clear();
    EXPECT_EQ(hold.released, 1);
    batch.hold(&hold);
  }
  EXPECT_EQ(hold.released, 2);
}

}  // namespace
}  // namespace isotherm::batch_test
