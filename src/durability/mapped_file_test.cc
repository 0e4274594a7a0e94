#include "durability/mapped_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <cstdint>
#include <filesystem>
#include <stdexcept>
#include <string>
#include <string_view>

namespace isotherm::mapped_file_test {
namespace {

using File = MappedFile<std::runtime_error>;

class MappedFileTest : public ::testing::Test {
 protected:
  ~MappedFileTest() override { std::filesystem::remove(path_); }
  // A megabyte that was reserved, with `text` in it.
  void reserve(std::string_view text, int64_t at) const {
    const int file = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
    ASSERT_GE(file, 0);
    EXPECT_EQ(::posix_fallocate(file, 0, bytes), 0);
    EXPECT_EQ(::pwrite(file, text.data(), text.size(), at), static_cast<ssize_t>(text.size()));
    // A file system that does not know says that all of it was written.
    knows_ = ::lseek(file, at + (int64_t{64} << 10), SEEK_DATA) < 0;
    ::close(file);
  }

  static constexpr int64_t bytes = 1 << 20;
  const std::string path_ = (std::filesystem::temp_directory_path() /
                             ("isotherm-mapped-file-" + std::to_string(::getpid())))
                                .string();
  mutable bool knows_ = false;
};

TEST_F(MappedFileTest, KnowsWhatIsReservedAlone) {
  reserve("first", 0);
  reserve("last", bytes / 2);
  const File file("a file", path_);
  EXPECT_EQ(file.text().size(), static_cast<uint64_t>(bytes));
  EXPECT_EQ(file.text().substr(bytes / 2, 4), "last");
  EXPECT_GE(file.written_bytes(), uint64_t{bytes / 2 + 4});
  if (!knows_) GTEST_SKIP() << "this file system does not know what was reserved alone";
  EXPECT_LT(file.written_bytes(), uint64_t{bytes / 2 + (64 << 10)});
}

TEST_F(MappedFileTest, OfAFileThatIsCutNoMoreWasWrittenThanIsLeft) {
  reserve("last", bytes / 2);
  File file("a file", path_);
  file.keep(16);
  EXPECT_EQ(file.written_bytes(), 16u);
}

}  // namespace
}  // namespace isotherm::mapped_file_test
