// The files of a tree as RocksDB has them: how many of them are open.
#include <gtest/gtest.h>
#include <sys/resource.h>

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

size_t open_descriptors() {
  size_t count = 0;
  for ([[maybe_unused]] const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    ++count;
  }
  return count;
}

class RocksdbFilesTest : public ::testing::Test {
 protected:
  RocksdbFilesTest() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-files-XXXXXX";
    folder_ = ::mkdtemp(path.data());
    getrlimit(RLIMIT_NOFILE, &before_);
  }
  ~RocksdbFilesTest() override {
    setrlimit(RLIMIT_NOFILE, &before_);
    std::filesystem::remove_all(folder_);
  }
  std::unique_ptr<TreeFiles> open() {
    return open_tree_files(folder_, "disable_auto_compactions=true", 1 << 20, [] { return 1; });
  }

  std::string folder_;
  rlimit before_{};
};

TEST_F(RocksdbFilesTest, MoreFilesThanThereAreDescriptorsAreRead) {
  constexpr size_t files = 36;
  std::vector<std::string> keys(files), values(files);
  try {
    const std::unique_ptr<TreeFiles> tree = open();
    for (size_t i = 0; i < files; ++i) {
      TreeRecord::put_key(0, "key" + std::to_string(i), keys[i]);
      const std::string value = "value" + std::to_string(i);
      const TreeRecord record{.version = i + 1, .value = value};
      values[i].resize(record.bytes());
      record.write(values[i].data());
      const TreeEntry entry{keys[i], values[i]};
      ASSERT_EQ(tree->ingest({&entry, 1}, {.last_version = i + 1}, 1), "");
    }
  } catch (const TreeError& error) {
    GTEST_SKIP() << error.what();
  }
  rlimit few = before_;
  few.rlim_cur = open_descriptors() + 32;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  const std::unique_ptr<TreeFiles> tree = open();
  for (size_t i = 0; i < files; ++i) {
    const std::string_view key = keys[i];
    TreeRead read;
    tree->read({&key, 1}, &read);
    EXPECT_EQ(read.value, values[i]);
  }
}

}  // namespace
}  // namespace isotherm::rocksdb_files_test
