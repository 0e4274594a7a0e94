// DiskReserve: there when the disk has room, gone when a tree needs its room.
#include "tree/disk_reserve.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "models/faulty_files.h"

namespace isotherm {
namespace {

TEST(DiskReserve, GoesWhereItsRoomIsNeededAndComesBackWithHalfOfWhatIsLeft) {
  std::string folder = std::filesystem::temp_directory_path() / "isotherm-reserve-XXXXXX";
  ASSERT_NE(::mkdtemp(folder.data()), nullptr);
  const std::string path = folder + "/RESERVE";
  FaultyFiles files(1);
  files.leave_room(100 << 20);
  const auto open_tree = [&](int64_t left_by_tree) {
    DiskReserve reserve(files, folder);
    const bool kept = std::filesystem::exists(path);
    files.leave_room(left_by_tree);
    reserve.take();
    return kept;
  };
  EXPECT_FALSE(open_tree(100 << 20));
  EXPECT_EQ(std::filesystem::file_size(path), DiskReserve::most_bytes);
  EXPECT_TRUE(open_tree(100'000));
  EXPECT_EQ(std::filesystem::file_size(path), DiskReserve::most_bytes);
  EXPECT_FALSE(open_tree(3 << 20)) << "the disk is full";
  EXPECT_EQ(std::filesystem::file_size(path), 3u << 19);
  EXPECT_FALSE(open_tree(0));
  EXPECT_FALSE(std::filesystem::exists(path));
  std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace isotherm
