// The files of a tree as RocksDB has them.
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

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

  std::string folder_;
};

// More than RocksDB keeps open.
TEST_F(RocksdbFilesTest, FilesThatAreNotOpenShowNoOtherKeysValue) {
  constexpr size_t files = 36;
  std::unique_ptr<TreeFiles> tree;
  try {
    tree = open_tree_files(folder_, "disable_auto_compactions=true;max_open_files=20", 1 << 20,
                           [] { return 1; });
  } catch (const TreeError& error) {
    GTEST_SKIP() << error.what();
  }
  std::vector<std::string> keys(files), values(files);
  for (size_t i = 0; i < files; ++i) {
    TreeRecord::put_key(0, "key" + std::to_string(i), keys[i]);
    const std::string value = "value" + std::to_string(i);
    const TreeRecord record{.version = i + 1, .value = value};
    values[i].resize(record.bytes());
    record.write(values[i].data());
    const TreeEntry entry{keys[i], values[i]};
    ASSERT_EQ(tree->ingest({&entry, 1}, {.last_version = i + 1}, 1), "");
  }
  std::string value;
  for (size_t i = 0; i < files; ++i) {
    const TreeFiles::Glance glance = tree->glance(keys[i], value);
    ASSERT_NE(glance, TreeFiles::Glance::absent);
    if (glance == TreeFiles::Glance::found) {
      EXPECT_EQ(value, values[i]);
    }
    const std::string_view key = keys[i];
    TreeRead read;
    tree->read({&key, 1}, &read);
    EXPECT_EQ(read.value, values[i]);
    value = read.value;
  }
}

}  // namespace
}  // namespace isotherm::rocksdb_files_test
