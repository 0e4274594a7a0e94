// Ranges of a DbBatch, and many gets, with and without a sorted copy of the files on a device.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <deque>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "device_checks/test_size.h"
#include "fake_device/fake_device.h"
#include "fake_device/fake_sorted_tier.h"
#include "isotherm/db_batch.h"
#include "items/poison.h"
#include "models/db_fixture.h"
#include "models/sorted_tier_in_memory.h"

namespace isotherm::db_ranges_test {
namespace {

std::string text(const DbPairs& pairs) {
  std::string text;
  for (const auto& [key, value] : pairs) text.append(key).append("=").append(value).append(" ");
  return text;
}

using Model = std::map<std::string, std::string>;

std::string text(const Model& model, const std::string& first, const std::string& end,
                 uint32_t limit) {
  std::string text;
  for (auto at = model.lower_bound(first); at != model.end() && limit-- != 0; ++at) {
    if (!end.empty() && at->first >= end) break;
    text.append(at->first).append("=").append(at->second).append(" ");
  }
  return text;
}

enum class Copy { none, in_memory, on_device };

class DbRangesTest : public DbFixture, public ::testing::WithParamInterface<Copy> {
 protected:
  void SetUp() override {
    if (has_copy()) {
      options_.gpu_memory = 64 << 20;
      make_sorted_ = GetParam() == Copy::in_memory ? SortedTierInMemory::maker(sorted_)
                                                   : fake_sorted_tier_maker(device_);
    }
    DbFixture::SetUp();
  }
  // The fake device counts no ranges.
  void expect_use() const {
    EXPECT_EQ(sorted_.ranges != 0, GetParam() == Copy::in_memory);
    EXPECT_EQ(db_->statistics().gpu_problem, "");
  }
  static bool has_copy() { return GetParam() != Copy::none; }
  std::string range(const std::string& first, const std::string& end, uint32_t limit) {
    DbBatch batch(*db_);
    const auto row = batch.range(first, end, limit);
    const DbStatus status = batch.run();
    return status.ok() ? text(batch.pairs(row)) : status.text();
  }
  FakeDevice device_{7, uint64_t{1} << 28};
  SortedMemory sorted_;
};

TEST_P(DbRangesTest, ShowWhatIsInTheirBounds) {
  const std::string zero("a\0", 2);
  for (const std::string& key :
       {std::string(), std::string("a"), zero, std::string("ab"), std::string("b"),
        std::string("\xff"), std::string("\xff\xff z")}) {
    put(key, "v" + key);
  }
  for (const bool flushed : {false, true}) {
    if (flushed) {
      ASSERT_TRUE(db_->flush().ok());
    }
    EXPECT_EQ(range("", "", 100),
              "=v a=va " + zero + "=v" + zero + " ab=vab b=vb \xff=v\xff \xff\xff z=v\xff\xff z ");
    EXPECT_EQ(range("a", "b", 100), "a=va " + zero + "=v" + zero + " ab=vab ");
    EXPECT_EQ(range(zero, "b", 1), zero + "=v" + zero + " ");
    EXPECT_EQ(range("b", "", 2), "b=vb \xff=v\xff ");
    EXPECT_EQ(range("\xff", "", 2), "\xff=v\xff \xff\xff z=v\xff\xff z ");
    EXPECT_EQ(range("\xfe", "\xff\xff", 2), "\xff=v\xff ");
    EXPECT_EQ(range("b", "a", 100), "");
    EXPECT_EQ(range("c", "d", 100), "");
    EXPECT_EQ(range("a", "", 0), "");
  }
  expect_use();
}

TEST_P(DbRangesTest, ShowTheWritesOfTheirBatchBeforeThem) {
  put("a", "0");
  put("b", "0");
  ASSERT_TRUE(db_->flush().ok());
  DbBatch batch(*db_);
  for (int round = 0; round < 2; ++round) {
    const auto at_first = batch.range("", "", 10);
    const auto before = batch.get("a");
    batch.put("a", "1");
    const auto between = batch.range("", "", 10);
    const auto and_again = batch.range("a", "", 1);
    const auto read = batch.get("a");
    batch.erase("b");
    batch.put("c", "1");
    const auto at_last = batch.range("", "", 10);
    const auto last = batch.get("c");
    ASSERT_TRUE(batch.run().ok());
    EXPECT_EQ(text(batch.pairs(at_first)), "a=0 b=0 ");
    EXPECT_EQ(batch.value(before), "0");
    EXPECT_EQ(text(batch.pairs(between)), "a=1 b=0 ");
    EXPECT_EQ(text(batch.pairs(and_again)), "a=1 ");
    EXPECT_EQ(batch.value(read), "1");
    EXPECT_EQ(text(batch.pairs(at_last)), "a=1 c=1 ");
    EXPECT_EQ(batch.value(last), "1");
    batch.clear();
    EXPECT_EQ(batch.size(), 0u);
    put("a", "0");
    put("b", "0");
    ASSERT_TRUE(db_->erase("c").ok());
  }
}

// Values are so long that a device shows only a part of a range.
TEST_P(DbRangesTest, MayBeLongerThanADeviceShowsAtOnce) {
  Model model;
  for (int i = 0; i < 300; ++i) {
    model["key" + std::to_string(i)] = std::string(static_cast<size_t>(i % 7) * 3'000, 'v');
  }
  for (const auto& [key, value] : model) put(key, value);
  ASSERT_TRUE(db_->flush().ok());
  EXPECT_EQ(range("", "", ~0u), text(model, "", "", ~0u));
  put("key150+", "new");
  ASSERT_TRUE(db_->erase("key3").ok());
  model["key150+"] = "new";
  model.erase("key3");
  EXPECT_EQ(range("", "", ~0u), text(model, "", "", ~0u));
  EXPECT_EQ(range("key1", "key2", 200), text(model, "key1", "key2", 200));
}

// More ranges than there are columns for, while others are held.
TEST_P(DbRangesTest, OfABatchMayBeMoreThanThereAreColumnsFor) {
  options_.memory = 4 << 20;
  ASSERT_TRUE(open().ok());
  Model model;
  // As many bytes in fewer pairs, where each takes long.
  constexpr int last = poison::sanitized ? 1'500 : 3'000;
  constexpr size_t value_bytes = 200'000 / (last - 1'000);
  for (int i = 1'000; i < last; ++i) model[std::to_string(i)] = std::string(value_bytes, 'v');
  for (const auto& [key, value] : model) put(key, value);
  ASSERT_TRUE(db_->flush().ok());
  DbBatch held(*db_);
  held.range("", "", 10'000 / value_bytes);
  ASSERT_TRUE(held.run().ok());
  DbBatch batch(*db_);
  std::vector<std::string> firsts;
  for (int i = 1'000; i < last; ++i) firsts.push_back(std::to_string(i));
  std::vector<DbBatch::RangeRow> rows;
  for (const std::string& first : firsts) rows.push_back(batch.range(first, "", 20));
  ASSERT_TRUE(batch.run().ok());
  for (size_t i = 0; i < rows.size(); ++i) {
    ASSERT_EQ(text(batch.pairs(rows[i])), text(model, firsts[i], "", 20));
  }
  EXPECT_LT(db_->statistics().memory, 3 * options_.memory);
}

TEST_P(DbRangesTest, AreThoseOfAModelWhileRunsComeAndGo) {
  std::mt19937_64 random(7);
  const auto draw = [&](uint64_t below) { return random() % below; };
  const auto key = [&] {
    static const std::string starts[] = {"", "\xff", "prefix-", std::string("\0\0", 2)};
    return starts[draw(4)] + std::to_string(draw(60));
  };
  Model model;
  const auto one_step = [&](int step) {
    std::deque<std::string> texts;  // of the batch
    const auto keep = [&](std::string its) { return std::string_view(texts.emplace_back(its)); };
    DbBatch batch(*db_);
    std::vector<std::pair<DbBatch::RangeRow, std::string>> ranges;
    std::vector<std::pair<DbBatch::Row, std::string>> gets;
    for (uint64_t left = 1 + draw(40); left != 0; --left) {
      const std::string_view its = keep(key());
      switch (draw(step % 3 == 0 ? 6 : 3)) {
        case 0: {
          const std::string_view end = draw(3) == 0 ? std::string_view() : keep(key());
          const auto limit = static_cast<uint32_t>(draw(30));
          ranges.emplace_back(batch.range(its, end, limit),
                              text(model, std::string(its), std::string(end), limit));
          break;
        }
        case 1:
        case 2: {
          const auto found = model.find(std::string(its));
          gets.emplace_back(batch.get(its), found == model.end() ? "(none)" : found->second);
          break;
        }
        case 3:
          batch.erase(its);
          model.erase(std::string(its));
          break;
        default: {
          const std::string_view value = keep(std::string(draw(20), 'a' + draw(26)));
          batch.put(its, value);
          model[std::string(its)] = value;
        }
      }
    }
    ASSERT_TRUE(batch.run().ok());
    for (const auto& [row, expected] : ranges) ASSERT_EQ(text(batch.pairs(row)), expected) << step;
    for (const auto& [row, expected] : gets) {
      ASSERT_EQ(batch.status(row).ok() ? batch.value(row) : "(none)", expected) << step;
    }
  };
  const int steps = static_cast<int>(test_size(poison::sanitized ? 150 : 400, 4000));
  for (int step = 0; step < steps && !HasFatalFailure(); ++step) {
    one_step(step);
    if (draw(10) == 0) {
      ASSERT_TRUE(db_->flush().ok());
    }
    if (draw(100) == 0) {
      ASSERT_TRUE(open().ok());
    }
  }
  expect_use();
}

// What each shows is of one moment: keys that are written together have one value.
TEST_P(DbRangesTest, ShowOneMomentWhileOthersWrite) {
  constexpr int keys = 50;
  const auto write = [&](int value) {
    WriteGroup group;
    for (int i = 0; i < keys; ++i) group.put("k" + std::to_string(i), std::to_string(value));
    ASSERT_TRUE(db_->write(group).ok());
  };
  write(0);
  std::atomic<bool> stops{false};
  std::thread writer([&] {
    for (int value = 1; !stops; ++value) {
      write(value);
      if (value % 16 != 0) continue;
      ASSERT_TRUE(db_->flush().ok());
    }
  });
  const auto rounds = static_cast<int>(test_size(200, 3000));
  for (int round = 0; round < rounds; ++round) {
    DbBatch batch(*db_);
    const auto low = batch.range("", "k3", 100);
    const auto high = batch.range("k3", "", 100);
    ASSERT_TRUE(batch.run().ok());
    ASSERT_EQ(batch.pairs(low).size() + batch.pairs(high).size(), keys);
    const std::string value((*batch.pairs(low).begin()).value);
    for (const auto row : {low, high}) {
      for (const auto& pair : batch.pairs(row)) ASSERT_EQ(pair.value, value) << round;
    }
  }
  stops = true;
  writer.join();
}

std::string name_of(const ::testing::TestParamInfo<Copy>& its) {
  constexpr const char* names[] = {"of_files", "of_a_copy", "of_a_device"};
  return names[static_cast<int>(its.param)];
}
INSTANTIATE_TEST_SUITE_P(, DbRangesTest,
                         ::testing::Values(Copy::none, Copy::in_memory, Copy::on_device), name_of);

// ---- What becomes of the copy ----

class DbCopyTest : public DbFixture {
 protected:
  void SetUp() override {
    options_.gpu_memory = 64 << 20;
    options_.memory = 2 << 20;
    make_sorted_ = SortedTierInMemory::maker(sorted_);
    DbFixture::SetUp();
  }
  // More than memory holds, in files, and from then on asked of the device.
  void fill() {
    for (int i = 0; i < count; ++i) put(key(i), value(i));
    ASSERT_TRUE(db_->flush().ok());
  }
  static std::string key(int i) { return std::to_string(100'000 + i); }
  static std::string value(int i) {
    return std::string(value_bytes, static_cast<char>('a' + i % 26));
  }
  // Of all keys, and some ranges.
  void expect_all() {
    std::vector<std::string> keys;
    for (int i = 0; i < count; ++i) keys.push_back(key(i));
    DbBatch batch(*db_);
    for (int first = 0; first < count; first += at_once) {
      for (int i = first; i < first + at_once; ++i) batch.get(keys[static_cast<size_t>(i)]);
      const auto range = batch.range(keys[static_cast<size_t>(first)], {}, 100);
      ASSERT_TRUE(batch.run().ok());
      for (int i = 0; i < at_once; ++i) {
        ASSERT_EQ(batch.value(static_cast<uint32_t>(i)), value(first + i));
      }
      EXPECT_EQ(batch.pairs(range).size(), 100u);
      batch.clear();
    }
  }

  // As many bytes in fewer keys, where each takes long.
  static constexpr int count = poison::sanitized ? 1'400 : 10'000;
  static constexpr size_t value_bytes = poison::sanitized ? 1'000 : 200;
  static constexpr int at_once = count / 10;
  SortedMemory sorted_;
};

TEST_F(DbCopyTest, AnswersManyGetsAndRanges) {
  fill();
  expect_all();
  EXPECT_GT(sorted_.gets, 0u);
  EXPECT_EQ(sorted_.ranges, count / unsigned{at_once});
  EXPECT_EQ(db_->statistics().gpu_entries, static_cast<uint64_t>(count));
  EXPECT_EQ(db_->statistics().gpu_problem, "");
}

TEST_F(DbCopyTest, IsFilledAtTheStart) {
  fill();
  sorted_.ranges = 0;
  ASSERT_TRUE(open().ok());
  EXPECT_EQ(db_->statistics().gpu_entries, static_cast<uint64_t>(count));
  expect_all();
  EXPECT_EQ(sorted_.ranges, count / unsigned{at_once});
}

TEST_F(DbCopyTest, IsGivenUpWhereItsDeviceFailsOrIsFull) {
  for (const bool full : {false, true}) {
    sorted_.fails = sorted_.is_full = false;
    ASSERT_TRUE(open().ok());
    fill();
    (full ? sorted_.is_full : sorted_.fails) = true;
    put("more", "of it");
    ASSERT_TRUE(db_->flush().ok());
    sorted_.gets = sorted_.ranges = 0;
    expect_all();
    EXPECT_EQ(get("more"), "of it");
    EXPECT_EQ(sorted_.gets, 0u);
    EXPECT_EQ(sorted_.ranges, 0u);
    EXPECT_NE(db_->statistics().gpu_problem, "");
  }
}

TEST_F(DbCopyTest, FailsInTheMiddleOfReads) {
  fill();
  expect_all();
  sorted_.fails = true;
  expect_all();
  EXPECT_NE(db_->statistics().gpu_problem, "");
}

TEST_F(DbCopyTest, NeedsAGpu) {
  make_sorted_ = nullptr;
  const DbStatus status = open();
  if (status.ok()) GTEST_SKIP() << "there is a GPU";
  EXPECT_NE(status.text(), "");
}

}  // namespace
}  // namespace isotherm::db_ranges_test
