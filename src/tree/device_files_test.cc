#include "tree/device_files.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include "fake_device/fake_item_tier.h"
#include "items/poison.h"
#include "models/forwarding_item_tier.h"
#include "models/numbered_tree_key.h"
#include "tree/device_columns.h"
#include "tree/tree_record.h"

namespace isotherm::device_files_test {
namespace {

// Of the items on several devices some lie in host memory.
class DeviceFilesTest : public ::testing::TestWithParam<uint32_t> {
 protected:
  DeviceFilesTest() {
    for (uint32_t i = 0; i < GetParam(); ++i) {
      constexpr uint64_t memory = uint64_t{1} << 28;
      devices_.push_back(i == 0 ? std::make_unique<FakeDevice>(5, memory)
                                : std::make_unique<FakeDevice>(5 + i, memory, *devices_.front()));
    }
  }
  std::unique_ptr<ItemTier> make_tier(bool evicts) {
    std::vector<FakeDevice*> all;
    for (const auto& device : devices_) all.push_back(device.get());
    const uint64_t host_bytes = all.size() > 1 ? 8 << 20 : 0;
    return fake_item_tier_maker(all)({8 << 20, evicts, 1, host_bytes});
  }

  std::vector<std::unique_ptr<FakeDevice>> devices_;
};
INSTANTIATE_TEST_SUITE_P(Devices, DeviceFilesTest, ::testing::Values(1, 3));

// A run that is cut into pieces for several threads arrives whole.
TEST_P(DeviceFilesTest, ARunIsTakenInByThreads) {
  constexpr int keys = 200;
  DeviceFilesOptions options;
  options.rows_at_once = 16;
  options.now_ms = [] { return int64_t{1'700'000'000'000}; };
  DeviceFiles files(make_tier(false), std::move(options));
  std::vector<std::string> names(keys);
  std::vector<std::string> records(keys);
  std::vector<std::string_view> asked;
  const auto fill = [&](const std::string& text, int erases_each) {
    std::vector<TreeEntry> entries;
    asked.clear();
    for (int i = 0; i < keys; ++i) {
      TreeRecord::put_key(static_cast<uint32_t>(i % 2), "key" + std::to_string(i), names[i]);
      TreeRecord record;
      const std::string value = text + std::to_string(i);
      record.version = static_cast<uint64_t>(i) + 1;
      record.value = value;
      records[i].resize(i % erases_each == 0 ? 0 : record.bytes());
      if (!records[i].empty()) record.write(records[i].data());
      entries.push_back({names[i], records[i]});
      asked.push_back(names[i]);
    }
    EXPECT_EQ(files.ingest(entries, {}, 4), "");
    std::vector<TreeRead> reads(keys);
    files.read(asked, reads.data());
    for (int i = 0; i < keys; ++i) {
      ASSERT_EQ(reads[i].state == TreeRead::State::found, !records[i].empty()) << i;
      ASSERT_EQ(reads[i].value, records[i]) << i;
    }
  };
  fill("first", keys + 1);
  EXPECT_EQ(files.keys(), keys - 1u);
  fill("second", 3);
  EXPECT_EQ(files.keys(), static_cast<uint64_t>(keys - (keys + 2) / 3));
}

constexpr int64_t now = 1'700'000'000'000;

DeviceFilesOptions options_of(uint64_t most_kept) {
  DeviceFilesOptions options;
  options.most_kept = most_kept;
  options.now_ms = [] { return now; };
  return options;
}

// An ingest of one entry; an empty text erases.
void write(DeviceFiles& files, const std::string& key, const std::string& text,
           int64_t expiry = 0) {
  TreeRecord record;
  record.version = 1;
  record.expiry = expiry;
  record.value = text;
  std::string value(text.empty() ? 0 : record.bytes(), 0);
  if (!text.empty()) record.write(value.data());
  const TreeEntry entry{key, value};
  ASSERT_EQ(files.ingest({&entry, 1}, {}, 1), "");
}

std::string text_of(std::string_view record) {
  TreeRecord fields;
  EXPECT_TRUE(fields.read(record));
  return std::string(fields.value);
}

// Where the GPU's memory evicts, so does what host memory has for it: a run is taken in in any
// case.
TEST_P(DeviceFilesTest, WhatIsTooLongForTheDeviceIsEvictedToo) {
  DeviceFilesOptions options = options_of(0);
  options.evicts = true;
  options.most_rest = [] { return uint64_t{20} << 20; };
  DeviceFiles files(make_tier(true), std::move(options));
  const auto is_there = [&](const std::string& key) {
    TreeRead read;
    const std::string_view asked = key;
    files.read({&asked, 1}, &read);
    return read.state == TreeRead::State::found;
  };
  std::vector<std::string> keys(3);
  for (size_t i = 0; i < keys.size(); ++i) {
    TreeRecord::put_key(0, std::string(1, static_cast<char>('a' + i)), keys[i]);
    write(files, keys[i], "short");
    write(files, keys[i], std::string(9 << 20, 'v'));
    EXPECT_TRUE(is_there(keys[i]));
  }
  EXPECT_EQ(std::count_if(keys.begin(), keys.end(), is_there), 2);
  EXPECT_LE(files.memory(), uint64_t{20} << 20);
  const auto others = static_cast<int>(is_there(keys[1])) + static_cast<int>(is_there(keys[2]));
  write(files, keys[0], std::string(30 << 20, 'v'));
  EXPECT_FALSE(is_there(keys[0])) << "nor its value before";
  EXPECT_EQ(is_there(keys[1]) + is_there(keys[2]), others);
}

// Of any database, of the device and of host memory, by keys as they are and as they must be
// escaped, and not of what has expired.
TEST_P(DeviceFilesTest, KeysOfADatabaseAreCounted) {
  DeviceFiles files(make_tier(false), options_of(0));
  const std::string long_value(9 << 20, 'v');
  std::map<uint32_t, uint64_t> counts;
  const auto add = [&](uint32_t database, const std::string& key, bool is_long, int64_t expiry) {
    std::string tree_key;
    TreeRecord::put_key(database, key, tree_key);
    write(files, tree_key, is_long ? long_value : "short", expiry);
    if (expiry == 0 || expiry > now) ++counts[database];
  };
  const auto check = [&](const char* when) {
    for (const uint32_t database : {0, 1, 255, 256}) {
      EXPECT_EQ(files.count(database, now), counts[database]) << database << " " << when;
    }
  };
  check("at first");
  for (int i = 0; i < 20; ++i) add(0, "key" + std::to_string(i), false, i % 4 == 0 ? now - i : 0);
  add(0, "later", false, now + 1);
  check("in one database");
  for (const uint32_t database : {0, 1, 256}) {
    for (int i = 0; i < 6; ++i) add(database, "\xff" + std::to_string(i), false, 0);
    add(database, "long", true, 0);
    add(database, "long and expired", true, now);
    add(database, "", false, 0);
  }
  check("in several");
  std::string erased;
  TreeRecord::put_key(1, "long", erased);
  write(files, erased, "");
  --counts[1];
  check("without one");
  files.lose("told to");
  EXPECT_EQ(files.count(0, now), std::nullopt) << "host memory has some of them";
}

// A tier that calls a function behind each count and each step of a walk.
class CallingTier final : public ForwardingItemTier {
 public:
  using Behind = std::function<void(ItemTier& tier)>;
  CallingTier(std::unique_ptr<ItemTier> its, Behind& behind)
      : ForwardingItemTier(std::move(its)), behind_(behind) {}
  uint64_t count(std::string_view start, std::string_view but, int64_t now_ms) override {
    const uint64_t keys = ForwardingItemTier::count(start, but, now_ms);
    behind_(*this);
    return keys;
  }
  uint64_t walk(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to) override {
    const uint64_t next = ForwardingItemTier::walk(bound, wanted, to);
    behind_(*this);
    return next;
  }

 private:
  Behind& behind_;
};

TEST_P(DeviceFilesTest, WhatOtherDatabasesGetWhileKeysAreCountedDoesNotCount) {
  CallingTier::Behind behind = [](ItemTier&) {};
  DeviceFiles files(std::make_unique<CallingTier>(make_tier(false), behind), options_of(0));
  const auto add = [&](uint32_t database, uint32_t number) {
    std::string key;
    TreeRecord::put_key(database, std::to_string(number), key);
    write(files, key, "text");
  };
  for (uint32_t i = 0; i < 5; ++i) add(0, i);
  uint32_t others = 0;
  behind = [&](ItemTier&) { add(1, ++others); };
  for (int i = 0; i < 3; ++i) EXPECT_EQ(files.count(0, now), 5);
  const uint32_t before = others;
  EXPECT_EQ(files.count(1, now), before);
}

TEST_P(DeviceFilesTest, WhatADeviceSaysWhileAnotherIsLostDoesNotCount) {
  CallingTier::Behind behind = [](ItemTier&) {};
  DeviceFiles files(std::make_unique<CallingTier>(make_tier(false), behind), options_of(0));
  write(files, numbered_tree_key(0), "text");
  EXPECT_EQ(files.count(0, now), 1u);
  behind = [&](ItemTier&) { files.lose("told to"); };
  EXPECT_EQ(files.count(0, now), std::nullopt);
}

// Values grow too long for the device, and others become short enough, while a walk is under way.
TEST_P(DeviceFilesTest, AWalkShowsOnceWhatGoesFromTheDeviceToTheHostOrBack) {
  DeviceFiles files(make_tier(false), options_of(0));
  const std::string long_value(9 << 20, 'v');
  constexpr int keys = 60;
  constexpr int that_move = 4;
  const auto write_all_that_move = [&](int long_ones) {
    for (int i = 0; i < that_move; ++i) {
      write(files, numbered_tree_key(i), i % 2 == long_ones ? long_value : "short");
    }
  };
  write_all_that_move(0);
  for (int i = that_move; i < keys; ++i) write(files, numbered_tree_key(i), "short");
  std::map<std::string, int> shown;
  const auto show = [&](std::string_view key, uint64_t, int64_t) { ++shown[std::string(key)]; };
  uint64_t cursor = 0;
  bool moved = false;
  do {
    ASSERT_EQ(files.walk_by_hash(cursor, 8, show), "");
    if (!moved && shown.size() > keys / 2) {
      write_all_that_move(1);
      moved = true;
    }
  } while (cursor != 0);
  EXPECT_TRUE(moved);
  EXPECT_EQ(shown.size(), size_t{keys});
  for (const auto& [key, times] : shown) EXPECT_EQ(times, 1) << key;
}

TEST_P(DeviceFilesTest, AWalkShowsEachKeyWhereItsPlaceIs) {
  DeviceFiles files(make_tier(false), options_of(1 << 20));
  constexpr int keys = 500;
  for (int i = 0; i < keys; ++i) write(files, numbered_tree_key(i), "text");
  std::vector<WalkedItem> some;
  size_t shown = 0;
  uint64_t bound = 0;
  do {
    uint64_t next = 0;
    some.clear();
    ASSERT_TRUE(files.walk_items(bound, 8, some, next));
    for (const WalkedItem& item : some) {
      EXPECT_GE(files.place_of(item.key), bound);
      EXPECT_TRUE(next == 0 || files.place_of(item.key) < next);
    }
    shown += some.size();
    bound = next;
  } while (bound != 0);
  EXPECT_EQ(shown, static_cast<size_t>(keys));
}

// The walk shows each key once, as it was, though little may be kept and all is written over.
TEST_P(DeviceFilesTest, AMomentIsShownWhileAThreadWrites) {
  DeviceFiles files(make_tier(false), options_of(4 << 10));
  std::map<std::string, std::string> before;
  constexpr int keys = poison::sanitized ? 200 : 400;
  for (int i = 0; i < keys; ++i) {
    if (i % 4 == 0) continue;
    before[numbered_tree_key(i)] = std::string(100, static_cast<char>('a' + i % 26));
    write(files, numbered_tree_key(i), before[numbered_tree_key(i)]);
  }
  // Too long for the device.
  std::string long_key;
  TreeRecord::put_key(1, std::string(65'535, 'k'), long_key);
  write(files, long_key, before[long_key] = "long");
  std::unique_ptr<MomentWalk> walk = files.walk_moment();
  std::thread writer([&] {
    write(files, long_key, "later");
    for (int i = keys - 1; i >= 0; --i)
      write(files, numbered_tree_key(i), i % 3 == 0 ? "" : "later");
  });
  std::map<std::string, std::string> shown;
  while (!walk->ended()) {
    ASSERT_EQ(walk->step([&](std::string_view key, std::string_view record) {
      EXPECT_TRUE(shown.emplace(key, text_of(record)).second) << "twice";
    }),
              "");
    EXPECT_LE(files.memory(), (64u << 10) + 2 * 65'535);
  }
  EXPECT_EQ(shown, before);
  walk.reset();
  writer.join();
  EXPECT_LE(files.memory(), 2 * 65'535u);
  std::vector<TreeRead> reads(2);
  const std::string keys_read[] = {numbered_tree_key(1), long_key};
  const std::string_view asked[] = {keys_read[0], keys_read[1]};
  files.read(asked, reads.data());
  EXPECT_EQ(text_of(reads[0].value), "later");
  EXPECT_EQ(text_of(reads[1].value), "later");
}

// What has expired goes when others are written, at any time: here between the look at the index
// and the read of the records.
TEST_P(DeviceFilesTest, AMomentLeavesOutWhatExpiresWhileItIsShown) {
  CallingTier::Behind behind = [](ItemTier&) {};
  DeviceFiles files(std::make_unique<CallingTier>(make_tier(false), behind), options_of(1 << 20));
  constexpr int keys = 100;
  for (int i = 0; i < keys; ++i) {
    write(files, numbered_tree_key(i), "text", i % 2 == 0 ? 0 : now + 1);
  }
  std::unique_ptr<MomentWalk> walk = files.walk_moment();
  uint64_t expired = 0;
  behind = [&](ItemTier& tier) {
    for (int tries = 0; tries < 1000 && tier.stats().expired == 0; ++tries) {
      DeviceColumns columns;
      columns.add("another", {});
      tier.run(columns.requests(now + 1));
    }
    expired = tier.stats().expired;
  };
  std::map<std::string, std::string> shown;
  while (!walk->ended()) {
    ASSERT_EQ(walk->step([&](std::string_view key, std::string_view record) {
      shown.emplace(key, text_of(record));
    }),
              "");
  }
  EXPECT_GT(expired, 0u);
  EXPECT_EQ(shown.size(), keys - expired);
}

// Reads whose values are short and long, of keys that are there, that are not, and that are too
// long for the device; in columns that have room for some of them, or for none.
TEST_P(DeviceFilesTest, ValuesOfAllLengthsAreRead) {
  for (const uint64_t columns : {0, 40'000, 4 << 20}) {
    DeviceFilesOptions options = options_of(0);
    options.read_columns = columns;
    DeviceFiles files(make_tier(false), std::move(options));
    std::map<std::string, std::string> texts;
    for (int i = 0; i < 40; ++i) {
      const size_t bytes = i % 10 == 9 ? 5'000 : static_cast<size_t>(i) * 30 + 1;
      texts[numbered_tree_key(i)] = std::string(bytes, static_cast<char>('a' + i % 26));
    }
    std::string long_key;
    TreeRecord::put_key(1, std::string(65'535, 'k'), long_key);
    texts[long_key] = "of a long key";
    for (const auto& [key, text] : texts) write(files, key, text);
    for (int i = 40; i < 50; ++i) texts[numbered_tree_key(i)] = "";
    std::vector<std::string_view> asked;
    for (const auto& [key, text] : texts) asked.push_back(key);
    for (int round = 0; round < 5; ++round) {
      std::vector<TreeRead> reads(asked.size());
      files.read(asked, reads.data());
      for (size_t i = 0; i < asked.size(); ++i) {
        const std::string& text = texts[std::string(asked[i])];
        const bool found = reads[i].state == TreeRead::State::found;
        ASSERT_EQ(found, !text.empty()) << i;
        ASSERT_EQ(found ? text_of(reads[i].value) : "", text) << i;
      }
    }
    EXPECT_LE(files.memory(), columns + 2 * 65'536u);
  }
}

// Who writes does not wait for a walk that nobody goes on with.
TEST_P(DeviceFilesTest, AMomentThatIsLeftHoldsNobodyBack) {
  DeviceFiles files(make_tier(false), options_of(0));
  for (int i = 0; i < 20; ++i) write(files, numbered_tree_key(i), "before");
  std::unique_ptr<MomentWalk> walk = files.walk_moment();
  std::thread writer([&] {
    for (int i = 0; i < 20; ++i) write(files, numbered_tree_key(i), "after");
  });
  while (files.memory() == 0) std::this_thread::yield();
  walk.reset();
  writer.join();
  EXPECT_EQ(files.memory(), 0u);
}

TEST_P(DeviceFilesTest, AMomentOfADeviceThatFailsEndsWithAnError) {
  DeviceFiles files(make_tier(false), options_of(1 << 20));
  write(files, numbered_tree_key(1), "text");
  const std::unique_ptr<MomentWalk> walk = files.walk_moment();
  devices_.back()->lose();
  std::string why;
  for (int steps = 0; why.empty() && steps < 10; ++steps) {
    why = walk->step([](std::string_view, std::string_view) {});
  }
  EXPECT_NE(why, "");
  EXPECT_TRUE(files.is_lost());
  devices_.back()->take_errors();
}

}  // namespace
}  // namespace isotherm::device_files_test
