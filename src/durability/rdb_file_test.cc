// RDB files (durability/rdb_file.h): what Redis writes is read, and nothing that is broken.
#include "durability/rdb_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <limits>
#include <string>
#include <tuple>
#include <vector>

#include "base/crc64.h"
#include "base/lzf.h"
#include "durability/snapshot_file.h"
#include "isotherm/batch.h"
#include "models/faulty_files.h"

namespace isotherm::rdb_file_test {
namespace {

using namespace std::string_literals;

// Database, key, value, expiry, flags, state.
using Row = std::tuple<uint32_t, std::string, std::string, int64_t, uint32_t, uint64_t>;

class RdbFileTest : public ::testing::Test {
 protected:
  RdbFileTest() {
    std::string path = std::filesystem::temp_directory_path() / "isotherm-rdb-XXXXXX";
    folder_ = ::mkdtemp(path.data());
  }
  ~RdbFileTest() override { std::filesystem::remove_all(folder_); }

  std::string path() const { return folder_ + "/dump.rdb"; }
  void write(const std::string& bytes) const {
    std::ofstream(path(), std::ios::binary | std::ios::trunc) << bytes;
  }
  // Behind the items that `body` has.
  static std::string end(std::string bytes) {
    bytes += static_cast<char>(rdb::eof);
    const uint64_t sum = crc64(bytes);
    rdb::put_little(sum, rdb::checksum_bytes, bytes);
    return bytes;
  }
  static std::string plain(const std::string& key, const std::string& value) {
    std::string text(1, '\0');
    rdb::put_plain(key, text);
    rdb::put_plain(value, text);
    return text;
  }
  std::vector<Row> rows() const {
    const RdbFile file(path());
    std::vector<Row> rows;
    for (uint32_t part = 0; part < file.parts(); ++part) {
      file.read(part, [&](const RdbItem& item) {
        rows.emplace_back(item.database, item.key, item.value, item.expiry, item.flags, item.state);
      });
    }
    EXPECT_EQ(rows.size(), file.items());
    return rows;
  }
  std::string problem() const {
    try {
      rows();
    } catch (const RdbError& error) {
      EXPECT_NE(std::string(error.what()).find(path()), std::string::npos) << error.what();
      return error.what();
    }
    return {};
  }
  void expect_problem(const std::string& bytes, const std::string& text) {
    write(bytes);
    EXPECT_NE(problem().find(text), std::string::npos) << problem();
  }

  std::string folder_;
};

TEST_F(RdbFileTest, AllThatMayStandAroundStringsIsRead) {
  std::string text = "REDIS0010";
  rdb::put_aux("redis-ver", "7.0.15", text);
  text += "\xFA\x0A"s + "redis-bits" + "\xC0\x40";  // an integer
  rdb::put_aux(rdb::version_field, "77", text);
  text += "\xF5"s + "\x03" + "lua";  // a function
  text += "\xF7\x81"s + "\0\0\0\0\0\0\0\x05"s + "\x02\x01\x01\x05\x05\x02xy\x03"s + "abcd" +
          "\x04" + "abcdefgh" + "\0"s;  // a module's
  text += "\xFE\0\xFB\x03\x01"s;        // SELECTDB 0, RESIZEDB
  text += "\xF4\x7F\xFF\x03\x01"s;      // SLOT_INFO: 16383, 3 keys, 1 of them expires
  text += plain("plain", "value");
  text += "\0\x02"s + "i8" + "\xC0\xFB";
  text += "\0\x03"s + "i16" + "\xC1\x39\x30";
  text += "\0\x03"s + "i32" + "\xC2\x15\xCD\x5B\x07";
  text += "\xFE\x02"s;
  const std::string repeated(5000, 'r');
  const std::string packed = lzf_pack(repeated, repeated.size());
  text += "\xF8\x0A\xFC"s;  // idle
  rdb::put_little(1'700'000'000'123, 8, text);
  text += "\0\x06"s + "packed";
  rdb::put_packed_head(packed.size(), repeated.size(), text);
  text += packed;
  text += "\xF9\x05\xFD"s;  // frequency
  rdb::put_little(1'700'000'000, 4, text);
  text += plain("seconds", std::string(100, 's'));
  rdb::put_item_head({"flags", no_expiry, 7, 0x1'0000'0003, 2}, text);
  text += "ok" + plain("", "");
  write(end(text));
  const std::vector<Row> expected{{0, "plain", "value", 0, 0, 0},
                                  {0, "i8", "-5", 0, 0, 0},
                                  {0, "i16", "12345", 0, 0, 0},
                                  {0, "i32", "123456789", 0, 0, 0},
                                  {2, "packed", repeated, 1'700'000'000'123, 0, 0},
                                  {2, "seconds", std::string(100, 's'), 1'700'000'000'000, 0, 0},
                                  {2, "flags", "ok", 0, 7, 0x1'0000'0003},
                                  {2, "", "", 0, 0, 0}};
  EXPECT_EQ(rows(), expected);
  const RdbFile file(path());
  EXPECT_EQ(file.last_version(), 77u);
  EXPECT_EQ(file.databases(), 3u);
  EXPECT_EQ(file.expires(), 2u);
}

// Of the highest number nobody could say how many databases are needed.
TEST_F(RdbFileTest, TheNumberOfADatabaseHasABound) {
  const auto in_database = [](uint8_t last) {
    return end("REDIS0010\xFE\x80\xFF\xFF\xFF"s + static_cast<char>(last) + plain("key", "value"));
  };
  expect_problem(in_database(0xFF), "is damaged at byte 9");
  write(in_database(0xFE));
  EXPECT_EQ(RdbFile(path()).databases(), 0xFFFF'FFFFu);
}

TEST_F(RdbFileTest, EveryCutAndEveryFlippedBitIsNoticed) {
  std::string text = "REDIS0010";
  rdb::put_aux("a", "7", text);
  for (int i = 0; i < 2; ++i) text += plain("key" + std::to_string(i), "value");
  const std::string whole = end(text);
  for (size_t bytes = 0; bytes < whole.size(); ++bytes) {
    write(whole.substr(0, bytes));
    EXPECT_NE(problem(), "") << bytes;
  }
  for (size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string flipped = whole;
    flipped[bit / 8] = static_cast<char>(flipped[bit / 8] ^ (1 << (bit % 8)));
    write(flipped);
    // Where the format's version is lower, there are no sums.
    EXPECT_NE(problem(), "") << bit;
  }
  expect_problem(whole + "x", "1 bytes behind its end");
}

TEST_F(RdbFileTest, WhatCannotBeTakenIsNamed) {
  expect_problem("ISOMANI1 and more", "is not an RDB file");
  expect_problem(end("REDIS0099"), "version 99");
  expect_problem(end("REDIS0010\x01\x04list\x01\x01x"), "has a list, which this store");
  expect_problem(end("REDIS0010\x01\x04list\x01\x01x"), "under the key 'list', at byte 9");
  expect_problem(end("REDIS0010\x12\x01l"), "has a list");
  expect_problem(end("REDIS0010\x63\x01l"), "has a type 99");
  expect_problem(end("REDIS0010\xF3\x01l"), "has a type 243");
  expect_problem(end("REDIS0010\xF6\x01l"), "opcode that is not known");
  // A value that is not what it is packed from, in a file without a sum.
  std::string text = "REDIS0010\0\x01k"s;
  rdb::put_packed_head(2, 600, text);
  text += "ab\xFF"s + std::string(8, '\0');
  expect_problem(text, "damaged value under the key 'k'");
  // Versions for which items have no room.
  text = "REDIS0010";
  rdb::put_aux(rdb::version_field, "36028797018963969", text);
  expect_problem(end(text), "version that is none");
  // Lengths that no file can have take no memory.
  text = "REDIS0010\0\x81"s + std::string(8, '\xFF');
  expect_problem(end(text), "cut or damaged");
}

TEST_F(RdbFileTest, ZerosBehindACutAreNoItems) {
  const std::string cut = "REDIS0009" + plain("key", "value");
  expect_problem(cut + std::string(3'000, '\0'),
                 "the empty key twice, as zeros would be, at byte 23");
  const std::string other = "\xFE\x01"s;  // SELECTDB 1
  write(end(cut + plain("", "its value") + other + plain("", "") + plain("key", "")));
  EXPECT_EQ(problem(), "");
}

TEST_F(RdbFileTest, WhatIsNoFileIsNamedAndNotWaitedFor) {
  std::filesystem::create_directory(path());
  EXPECT_NE(problem().find("is a folder or a device, no file"), std::string::npos);
  std::filesystem::remove(path());
  ASSERT_EQ(::mkfifo(path().c_str(), 0600), 0);
  EXPECT_NE(problem().find("is a folder or a device, no file"), std::string::npos);
}

TEST_F(RdbFileTest, AFileWithoutSumsIsRead) {
  const std::string text = plain("k", "v");
  write("REDIS0004" + text + "\xFF");
  EXPECT_EQ(rows().size(), 1u);
  write("REDIS0010" + text + "\xFF" + std::string(8, '\0'));
  EXPECT_EQ(rows().size(), 1u);
}

TEST_F(RdbFileTest, PartsHoldAllItems) {
  std::string text = "REDIS0010";
  const uint64_t count = RdbFile::items_per_part + 10;
  for (uint64_t i = 0; i < count; ++i) {
    if (i == RdbFile::items_per_part) text += "\xFE\x05"s;
    text += plain(std::to_string(i), "v");
  }
  write(end(text));
  const RdbFile file(path());
  ASSERT_EQ(file.parts(), 2u);
  std::vector<Row> last;
  file.read(1, [&](const RdbItem& item) {
    last.emplace_back(item.database, item.key, item.value, 0, 0, 0);
  });
  ASSERT_EQ(last.size(), 10u);
  EXPECT_EQ(last.front(), (Row{5, std::to_string(RdbFile::items_per_part), "v", 0, 0, 0}));
}

// Whatever call fails, and when the power goes, there is the old file or the new one.
TEST_F(RdbFileTest, AFileThatIsWrittenTakesThePlaceOfTheOldOneWholeOrNotAtAll) {
  for (int call = 0; call < 12; ++call) {
    FaultyFiles files(static_cast<uint64_t>(call) + 1);
    const auto save = [&](const std::string& key) {
      SnapshotFile file(files, folder_, "dump.rdb");
      file.write("REDIS0010");
      file.write(plain(key, std::string(100, 'x')));
      file.write("\xFF");
      return file.finish() >= 0;
    };
    ASSERT_TRUE(save("old"));
    files.fail_after(call, 1, call % 2 == 0 ? EIO : ENOSPC);
    const bool saved = save("new");
    const bool met = files.faults_met() != 0;
    files.heal();
    EXPECT_TRUE(saved || met);
    const std::string key = std::get<1>(rows().at(0));
    EXPECT_TRUE(key == "new" || (key == "old" && !saved));
    EXPECT_FALSE(std::filesystem::exists(path() + ".new"));
    const std::string left = folder_ + "/left" + std::to_string(call);
    std::filesystem::create_directory(left);
    files.lose_power(folder_, left);
    const RdbFile file(left + "/dump.rdb");
    EXPECT_EQ(file.items(), 1u) << call;
  }
}

}  // namespace
}  // namespace isotherm::rdb_file_test
