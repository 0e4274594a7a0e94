// Many ranges of a moment: what a call that fails leaves to the next one, and errors of files.
#include "tree/range_reader.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <string>
#include <vector>

#include "models/tree_files_in_memory.h"
#include "tree/tree.h"
#include "tree/tree_record.h"

namespace isotherm::range_reader_test {
namespace {

class RangeReaderTest : public ::testing::Test {
 protected:
  RangeReaderTest() : tree_(std::make_unique<TreeFilesInMemory>(disk_), TreeOptions()) {}
  void put(const std::string& key, const std::string& value) {
    std::string tree_key;
    TreeRecord::put_key(0, key, tree_key);
    TreeRecord record;
    record.value = value;
    std::string text(record.bytes(), '\0');
    record.write(text.data());
    const std::lock_guard guard(disk_.mutex);
    disk_.pairs[tree_key] = text;
  }
  // Of all keys, as "key=value key=value "; or the error.
  std::string all() {
    const auto moment = moments_.emplace_back(tree_.take_moment(0));
    const RangeAsked asked{{}, {}, 100};
    RangePairs found;
    const std::string problem = reader_.read(*moment, {&asked, 1}, {&found, 1});
    if (!problem.empty()) return problem;
    std::string text;
    for (const char* at = found.at; found.count-- != 0;) {
      PairHead head;
      std::memcpy(&head, at, sizeof head);
      text.append(at + sizeof head, head.key_bytes).append("=");
      text.append(at + sizeof head + head.key_bytes, head.value_bytes).append(" ");
      at += head.bytes();
    }
    return text;
  }

  TreeDisk disk_;
  Tree tree_;
  std::vector<std::shared_ptr<const TreeMoment>> moments_;  // so that they are not in one place
  RangeReader reader_{tree_.ranges()};
};

TEST_F(RangeReaderTest, ACallThatHasThrownLeavesNothingToTheNext) {
  put("a", "old");
  disk_.throws = true;
  EXPECT_THROW(all(), std::bad_alloc);
  disk_.throws = false;
  put("a", "new");
  put("b", "more");
  EXPECT_EQ(all(), "a=new b=more ");
  reader_.clear();
  EXPECT_EQ(all(), "a=new b=more ");
}

TEST_F(RangeReaderTest, ARecordThatIsNoneIsAnError) {
  put("a", "value");
  {
    const std::lock_guard guard(disk_.mutex);
    disk_.pairs.begin()->second = "?";
  }
  EXPECT_EQ(all(), "a record of the files cannot be understood");
  put("a", "value");
  EXPECT_EQ(all(), "a=value ");
}

}  // namespace
}  // namespace isotherm::range_reader_test
