// The files of a tree as RocksDB has them.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "models/failing_memory.h"
#include "tree/tree_files.h"
#include "tree/tree_record.h"

namespace isotherm::rocksdb_files_test {
namespace {

class RocksdbFilesTest : public ::testing::Test {
 protected:
  RocksdbFilesTest() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-files-XXXXXX";
    folder_ = ::mkdtemp(path.data());
  }
  ~RocksdbFilesTest() override { std::filesystem::remove_all(folder_); }

  // Null: the program was built without RocksDB.
  std::unique_ptr<TreeFiles> open(const std::string& more = {}) {
    try {
      return open_tree_files(folder_, "disable_auto_compactions=true" + more, 1 << 20,
                             [] { return 1; });
    } catch (const TreeError& error) {
      if (std::string_view(error.what()).find("without RocksDB") == std::string_view::npos) throw;
      return nullptr;
    }
  }
  // A file with one key.
  void add_file(TreeFiles& tree) {
    const std::string number = std::to_string(keys_.size());
    TreeRecord::put_key(0, "key" + number, keys_.emplace_back());
    const std::string text = "value" + number;
    const TreeRecord record{.version = keys_.size(), .value = text};
    std::string& value = values_.emplace_back();
    value.resize(record.bytes());
    record.write(value.data());
    const TreeEntry entry{keys_.back(), value};
    ASSERT_EQ(tree.ingest({&entry, 1}, {.last_version = keys_.size()}, 1), "");
  }
  void expect_all(TreeFiles& tree) {
    for (size_t i = 0; i < keys_.size(); ++i) {
      const std::string_view key = keys_[i];
      TreeRead read;
      tree.read({&key, 1}, &read);
      EXPECT_EQ(read.value, values_[i]);
    }
  }

  std::string folder_;
  std::vector<std::string> keys_;
  std::vector<std::string> values_;
};

// A limit on descriptors, so many above those that are open.
class FewDescriptors {
 public:
  explicit FewDescriptors(size_t more) {
    getrlimit(RLIMIT_NOFILE, &before_);
    rlimit few = before_;
    few.rlim_cur = more;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) {
      ++few.rlim_cur;
    }
    setrlimit(RLIMIT_NOFILE, &few);
  }
  ~FewDescriptors() { setrlimit(RLIMIT_NOFILE, &before_); }
  FewDescriptors(const FewDescriptors&) = delete;
  FewDescriptors& operator=(const FewDescriptors&) = delete;

 private:
  rlimit before_{};
};

// More than RocksDB keeps open.
TEST_F(RocksdbFilesTest, FilesThatAreNotOpenShowNoOtherKeysValue) {
  const std::unique_ptr<TreeFiles> tree = open(";max_open_files=20");
  if (tree == nullptr) GTEST_SKIP();
  for (int i = 0; i < 36; ++i) add_file(*tree);
  std::string value;
  for (size_t i = 0; i < keys_.size(); ++i) {
    const TreeFiles::Glance glance = tree->glance(keys_[i], value);
    ASSERT_NE(glance, TreeFiles::Glance::absent);
    if (glance == TreeFiles::Glance::found) {
      EXPECT_EQ(value, values_[i]);
    }
    value = values_[i];
  }
  expect_all(*tree);
}

TEST_F(RocksdbFilesTest, MoreFilesThanThereAreDescriptorsAreMadeAndOpenedAgain) {
  const FewDescriptors limit(44);
  {
    const std::unique_ptr<TreeFiles> tree = open();
    if (tree == nullptr) GTEST_SKIP();
    for (int i = 0; i < 48; ++i) add_file(*tree);
    expect_all(*tree);
  }
  expect_all(*open());
}

TEST_F(RocksdbFilesTest, WalksFromAKeyWhosePrefixNoneHas) {
  const std::unique_ptr<TreeFiles> tree = open(";prefix_extractor=capped:8");
  if (tree == nullptr) GTEST_SKIP();
  add_file(*tree);
  std::string from;
  TreeRecord::put_key(0, "joy", from);
  std::string end;
  TreeRecord::put_key(1, {}, end);
  int shown = 0;
  const auto show = [&](std::string_view /*key*/, std::string_view /*value*/) { return ++shown; };
  EXPECT_EQ(tree->walk(from, end, show), "");
  EXPECT_EQ(shown, 1);
}

TEST_F(RocksdbFilesTest, ACursorEndsAlsoWithoutMemoryToKeepItsIterator) {
  const std::unique_ptr<TreeFiles> tree = open();
  if (tree == nullptr) GTEST_SKIP();
  add_file(*tree);
  const std::unique_ptr<TreeView> view = tree->view();
  for (const bool fails : {true, false}) {
    std::unique_ptr<TreeCursor> cursor = view->cursor({}, "\xff", true);
    cursor->seek({});
    EXPECT_TRUE(cursor->valid());
    const FailingMemory failing(fails ? 0 : 1'000'000);
    cursor.reset();
    EXPECT_EQ(FailingMemory::failed(), fails);
  }
}

TEST_F(RocksdbFilesTest, IndexesThatNeedAPrefixOfEachKeyAreRefused) {
  if (open() == nullptr) GTEST_SKIP();
  EXPECT_THROW(open(";block_based_table_factory={index_type=kHashSearch}"), TreeError);
}

}  // namespace
}  // namespace isotherm::rocksdb_files_test
