#include "server/redis_files.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <string>
#include <string_view>

namespace isotherm::redis_files_test {
namespace {

namespace fs = std::filesystem;

class RedisFilesTest : public ::testing::Test {
 protected:
  RedisFilesTest() {
    std::string path = fs::temp_directory_path() / "isotherm-redis-files-XXXXXX";
    options_.dir = ::mkdtemp(path.data());
  }
  ~RedisFilesTest() override { fs::remove_all(options_.dir); }

  void put(const std::string& name, std::string_view text) {
    const fs::path path = fs::path(options_.dir) / name;
    fs::create_directories(path.parent_path());
    std::ofstream(path) << text;
  }
  // What is said, behind a word that says whether the start is refused.
  std::string said(bool appendonly) {
    options_.appendonly = appendonly;
    try {
      return "goes on: " + look_for_redis_files(options_);
    } catch (const std::runtime_error& error) {
      return std::string("refused: ") + error.what();
    }
  }
  void expect(bool appendonly, const std::string& begin, const std::string& part) {
    const std::string text = said(appendonly);
    EXPECT_TRUE(text.starts_with(begin)) << text;
    EXPECT_NE(text.find(part), std::string::npos) << text;
  }

  net::ServerOptions options_;
};

TEST_F(RedisFilesTest, NothingIsSaidOfAnEmptyFolder) {
  EXPECT_EQ(said(true), "goes on: ");
  EXPECT_EQ(said(false), "goes on: ");
  options_.dir += "/nosuch";
  EXPECT_EQ(said(true), "goes on: ");
}

TEST_F(RedisFilesTest, AnAppendOnlyFolderIsRefusedWhereAJournalWouldBegin) {
  put("appendonlydir/appendonly.aof.1.incr.aof", "*1\r\n");
  put("appendonlydir/appendonly.aof.manifest", "file appendonly.aof.1.incr.aof seq 1 type i\n");
  expect(true,
         "refused: ", "appendonlydir/appendonly.aof.manifest is an append-only file of Redis");
  expect(false,
         "goes on: ", "appendonlydir/appendonly.aof.manifest is an append-only file of Redis");
  // There is a journal: the file was left behind long ago.
  put("appendonly.aof.manifest", "");
  EXPECT_EQ(said(true), "goes on: ");
}

TEST_F(RedisFilesTest, SoIsAnAppendOnlyFileOfBeforeRedis7) {
  for (const std::string_view text : {"*2\r\n$6\r\nSELECT\r\n", "REDIS0009"}) {
    put("appendonly.aof", text);
    expect(true, "refused: ", "/appendonly.aof is an append-only file of Redis");
    expect(false, "goes on: ", "/appendonly.aof is an append-only file of Redis");
  }
  put("appendonly.aof", "something else");
  EXPECT_EQ(said(true), "goes on: ");
}

TEST_F(RedisFilesTest, AJournalIsToldOfWhereItIsNotRead) {
  EXPECT_EQ(look_for_unread_journal(options_), "");
  put("appendonly.aof.manifest", "");
  const std::string text = look_for_unread_journal(options_);
  EXPECT_NE(text.find("/appendonly.aof.manifest, which is not read"), std::string::npos) << text;
  options_.store.tree = options_.dir + "/tree";
  EXPECT_EQ(look_for_unread_journal(options_), "");
  options_.store.tree.clear();
  options_.appendonly = true;
  EXPECT_EQ(look_for_unread_journal(options_), "");
}

}  // namespace
}  // namespace isotherm::redis_files_test
