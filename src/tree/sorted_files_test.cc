#include "tree/sorted_files.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "items/poison.h"
#include "models/sorted_tier_in_memory.h"
#include "models/tree_files_in_memory.h"
#include "tree/tree_record.h"

namespace isotherm::sorted_files_test {
namespace {

// A run of numbered keys of two databases, of which every third is erased.
struct Written {
  Written(size_t keys, const std::string& text) : names(keys), records(keys) {
    for (size_t i = 0; i < keys; ++i) {
      TreeRecord::put_key(static_cast<uint32_t>(i % 2), "key" + std::to_string(i), names[i]);
      const std::string value = text + std::to_string(i);
      TreeRecord record;
      record.version = i + 1;
      record.value = value;
      if (i % 3 != 0) {
        records[i].resize(record.bytes());
        record.write(records[i].data());
      }
      entries.push_back({names[i], records[i]});
    }
  }
  // What the copy shows of all keys.
  void expect_in(SortedFiles& files) const {
    const std::vector<std::string_view> asked(names.begin(), names.end());
    std::vector<TreeRead> reads(asked.size());
    files.read(asked, reads.data());
    for (size_t i = 0; i < reads.size(); ++i) {
      ASSERT_EQ(reads[i].state == TreeRead::State::found, !records[i].empty()) << i;
      ASSERT_EQ(reads[i].value, records[i]) << i;
    }
  }

  std::vector<std::string> names;
  std::vector<std::string> records;
  std::vector<TreeEntry> entries;
};

struct SortedFilesTest : ::testing::Test {
  uint64_t entries() { return files.sorted_copy().stats.entries; }

  TreeDisk disk;
  SortedMemory memory;
  SortedFiles files{std::make_unique<TreeFilesInMemory>(disk), SortedTierInMemory::maker(memory),
                    1 << 20, [] { return int64_t{1'700'000'000'000}; }};
};

// More entries than one thread makes pairs of.
TEST_F(SortedFilesTest, ARunIsTakenInByThreads) {
  constexpr size_t keys = poison::sanitized ? 20'000 : 50'000;
  for (const char* text : {"first", "second"}) {
    const Written run(keys, text);
    EXPECT_EQ(files.ingest(run.entries, {}, 3), "");
    run.expect_in(files);
    EXPECT_EQ(entries(), keys - (keys + 2) / 3);
    EXPECT_EQ(disk.pairs.size(), entries());
  }
  EXPECT_GT(memory.gets, 0u);
}

TEST_F(SortedFilesTest, ARunThatTheFilesCouldNotTakeIsTakenWithTheNextTry) {
  const Written before(300, "before");
  const Written run(300, "behind");
  ASSERT_EQ(files.ingest(before.entries, {}, 2), "");
  disk.fails_to_write = true;
  for (int i = 0; i < 3; ++i) EXPECT_EQ(files.ingest(run.entries, {}, 2), "no room");
  disk.fails_to_write = false;
  EXPECT_EQ(files.ingest(run.entries, {}, 2), "");
  run.expect_in(files);
  EXPECT_EQ(entries(), 200u);
  EXPECT_EQ(files.sorted_copy().problem, "");
}

TEST_F(SortedFilesTest, FilesGoOnWhereTheCopyIsGivenUpInTheMiddleOfARun) {
  const Written run(300, "run");
  memory.is_full = true;
  EXPECT_EQ(files.ingest(run.entries, {}, 2), "");
  EXPECT_NE(files.sorted_copy().problem, "");
  run.expect_in(files);
  EXPECT_EQ(disk.pairs.size(), 200u);
}

}  // namespace
}  // namespace isotherm::sorted_files_test
