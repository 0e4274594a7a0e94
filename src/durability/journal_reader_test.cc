// Journals of several segments, made block by block, with so many bytes that threads share them.
#include "durability/journal_reader.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isotherm/batch.h"
#include "models/journal_fixture.h"

namespace isotherm::journal_reader_test {
namespace {

using Key = std::pair<uint32_t, std::string>;  // database, key

struct Record {
  RecordOp op;
  uint64_t version;
  std::string key;
  std::string value = {};
  uint32_t database = 0;
  int64_t expiry = no_expiry;
};

class JournalReaderTest : public JournalFixture {
 protected:
  static constexpr uint32_t threads[] = {0, 1, 2, 8};
  // Three segments of such a record are worth threads.
  const Record large_{RecordOp::put, 1, "large", std::string(1'500'000, 'l'), 7};

  JournalReaderTest() {
    manifest_.store = 42;
    manifest_.first = 1;
  }

  void begin_segment(uint64_t first_version = 0) {
    SegmentHeader header{};
    header.store = manifest_.store;
    header.number = manifest_.first + texts_.size();
    header.first_lsn = lsn_;
    header.first_version = first_version;
    texts_.emplace_back(sizeof header, '\0');
    headers_.push_back(header);
  }
  // Behind the last one.
  void add_block(const std::vector<Record>& records) {
    std::string body;
    for (const Record& record : records) {
      const size_t at = body.size();
      body.resize(at + record_bytes(record.key.size(), record.value.size()));
      RecordHeader header{};
      header.version = record.version;
      header.expiry = record.expiry;
      header.database = record.database;
      header.op = record.op;
      put_record(body.data() + at, header, record.key, record.value);
    }
    BlockHeader block{};
    block.magic = BlockHeader::right_magic;
    block.lsn = lsn_;
    block.bytes = body.size();
    block.synced = lsn_;
    block.body_crc = crc32c(0, body.data(), body.size());
    block.crc = block_crc(block, manifest_.store);
    texts_.back().append(reinterpret_cast<const char*>(&block), sizeof block).append(body);
    lsn_ = block.end_lsn();
  }
  // `manifest`: as another version of this program leaves it; empty: as this one.
  void write_files(const std::string& manifest = {}) {
    folder = new_folder();
    for (size_t i = 0; i < texts_.size(); ++i) {
      SegmentHeader header = headers_[i];
      header.bytes = texts_[i].size();
      seal_header(header);
      std::memcpy(texts_[i].data(), &header, sizeof header);
      write(path(std::to_string(header.number)), texts_[i]);
    }
    manifest_.last = manifest_.first + texts_.size() - 1;
    seal_header(manifest_);
    const std::string its(reinterpret_cast<const char*>(&manifest_), sizeof manifest_);
    write(path("manifest"), manifest.empty() ? its : manifest);
  }
  std::string refusal_by(uint32_t parts) const {
    try {
      const JournalReader reader(folder, "test", parts);
    } catch (const JournalError& error) {
      return error.what();
    }
    return {};
  }
  // All refuse the segment, for that reason.
  void expect_refused(uint64_t number, const std::string& reason) {
    write_files();
    const bool is_damage = reason.find("cannot be read") != std::string::npos;
    const std::string text =
        "journal: " + path(std::to_string(number)) + " " + reason +
        (is_damage ? "; isotherm-check --repair " + folder + "/test says what can be kept" : "");
    for (const uint32_t parts : threads) EXPECT_EQ(refusal_by(parts), text) << parts;
  }
  static std::map<Key, Record> content(const JournalReader& reader) {
    std::map<Key, Record> all;
    reader.read([&](const RecordHeader& put, int64_t expiry) {
      const Key key{put.database, std::string(put.key())};
      EXPECT_FALSE(all.contains(key)) << key.second;
      all[key] = {put.op, put.version, key.second, std::string(put.value()), put.database, expiry};
    });
    return all;
  }
  static constexpr size_t block_body = sizeof(SegmentHeader) + sizeof(BlockHeader);

  Manifest manifest_{};
  std::vector<SegmentHeader> headers_;
  std::vector<std::string> texts_;
  uint64_t lsn_ = 0;
};

// What a journal is said to have, by the versions of its records alone.
std::map<Key, Record> newest_of(const std::vector<Record>& records, uint64_t base_version) {
  std::map<uint32_t, uint64_t> flushed;
  std::map<Key, Record> values, expiries;
  for (const Record& record : records) {
    if (record.version <= base_version) continue;
    if (record.op == RecordOp::flush) {
      flushed[record.database] = std::max(flushed[record.database], record.version);
      continue;
    }
    auto& all = record.op == RecordOp::expiry ? expiries : values;
    Record& its = all.try_emplace({record.database, record.key}, record).first->second;
    if (its.version < record.version) its = record;
  }
  std::erase_if(values, [&](const auto& its) {
    const Record& record = its.second;
    return record.op == RecordOp::erase || record.version <= flushed[record.database];
  });
  for (auto& [key, value] : values) {
    const auto expiry = expiries.find(key);
    if (expiry != expiries.end() && expiry->second.version > value.version) {
      value.expiry = expiry->second.expiry;
    }
  }
  return values;
}

TEST_F(JournalReaderTest, AnyNumberOfThreadsFindsTheNewestRecordsOfAllSegments) {
  constexpr size_t segments = 9;
  constexpr size_t records_of_each = 400;
  constexpr uint64_t base_version = 300;
  manifest_.base = {0, base_version, 1, 0};
  std::mt19937_64 random(11);
  std::vector<uint64_t> versions;
  for (uint64_t i = 1; i <= segments * records_of_each; ++i) versions.push_back(i);
  std::shuffle(versions.begin(), versions.end(), random);
  std::vector<Record> all;
  for (size_t segment = 0; segment < segments; ++segment) {
    begin_segment();
    add_block({large_});
    for (size_t left = records_of_each; left != 0;) {
      std::vector<Record> block;
      for (size_t i = std::min<size_t>(left, 1 + random() % 5); i != 0; --i, --left) {
        const auto dice = random() % 1000;
        const RecordOp op = dice < 600   ? RecordOp::put
                            : dice < 799 ? RecordOp::erase
                            : dice < 998 ? RecordOp::expiry
                                         : RecordOp::flush;
        const uint64_t version = versions[all.size()];
        all.push_back({op, version, "key" + std::to_string(random() % 700),
                       op == RecordOp::put ? std::to_string(version) : std::string(),
                       static_cast<uint32_t>(random() % 3), static_cast<int64_t>(random() % 99)});
        block.push_back(all.back());
      }
      add_block(block);
    }
  }
  write_files();
  const auto expected = newest_of(all, base_version);
  ASSERT_GT(expected.size(), 100u);
  for (const uint32_t parts : threads) {
    const JournalReader reader(folder, "test", parts);
    EXPECT_EQ(reader.records(), all.size() + segments);
    EXPECT_EQ(reader.last_version(), all.size());
    EXPECT_EQ(reader.end_lsn(), lsn_);
    EXPECT_EQ(reader.torn_bytes(), 0u);
    const auto found = content(reader);
    EXPECT_EQ(found.size(), expected.size()) << parts;
    for (const auto& [key, record] : expected) {
      const auto its = found.find(key);
      ASSERT_NE(its, found.end()) << key.second;
      EXPECT_EQ(its->second.version, record.version) << key.second;
      EXPECT_EQ(its->second.value, record.value) << key.second;
      EXPECT_EQ(its->second.expiry, record.expiry) << key.second;
    }
  }
}

TEST_F(JournalReaderTest, AFlushCountsForSegmentsBeforeAndBehindIt) {
  begin_segment();
  add_block({large_, {RecordOp::put, 9, "new before", "1"}, {RecordOp::put, 3, "old before", "1"}});
  begin_segment();
  add_block({large_, {RecordOp::flush, 5, ""}});
  begin_segment();
  add_block({large_, {RecordOp::put, 4, "old behind", "1"}, {RecordOp::put, 8, "new behind", "1"}});
  begin_segment();
  add_block({{RecordOp::flush, 2, ""}, {RecordOp::put, 1, "other database", "1", 1}});
  write_files();
  for (const uint32_t parts : threads) {
    std::string keys;
    const JournalReader reader(folder, "test", parts);
    for (const auto& [key, record] : content(reader)) keys += key.second + ", ";
    EXPECT_EQ(keys, "new before, new behind, other database, large, ");
    EXPECT_EQ(reader.flushed(), std::vector<uint32_t>{0});
  }
}

// The value, the parts that were written over it and what erased it lie in segments of any order.
TEST_F(JournalReaderTest, PartsOfAValueAreFoundInAllSegments) {
  const auto part = [](uint64_t at, std::string_view bytes) {
    const RecordPart its{2, at, 6};
    return std::string(reinterpret_cast<const char*>(&its), sizeof its).append(bytes);
  };
  begin_segment();
  add_block({large_, {RecordOp::part, 5, "key", part(4, "E")}});
  begin_segment();
  add_block({large_, {RecordOp::put, 2, "key", "abcdef"}, {RecordOp::erase, 1, "key"}});
  begin_segment();
  add_block({large_, {RecordOp::part, 3, "key", part(0, "AX")}});
  begin_segment();
  add_block({{RecordOp::part, 4, "key", part(1, "B")}, {RecordOp::put, 1, "key", "old"}});
  write_files();
  for (const uint32_t parts : threads) {
    const auto found = content(JournalReader(folder, "test", parts));
    ASSERT_EQ(found.size(), 2u);
    EXPECT_EQ(found.at({0, "key"}).value, "ABcdEf") << parts;
  }
}

TEST_F(JournalReaderTest, TheFirstOfSeveralDamagedSegmentsIsNamed) {
  for (uint64_t i = 1; i <= 6; ++i) {
    begin_segment();
    add_block({large_});
    add_block({{RecordOp::put, 1 + i, "key", "value"}});
  }
  const size_t second = texts_[0].size() - sizeof(BlockHeader) - record_bytes(3, 5);
  const auto damaged_at = [](size_t byte) {
    return "is damaged at byte " + std::to_string(byte) +
           ": a record that was on disk cannot be read";
  };
  texts_[4][block_body] ^= 1;
  expect_refused(5, damaged_at(sizeof(SegmentHeader)));
  texts_[2].back() = 1;
  expect_refused(3, damaged_at(second));
  texts_[0][block_body + large_.value.size()] ^= 1;
  expect_refused(1, damaged_at(sizeof(SegmentHeader)));
}

TEST_F(JournalReaderTest, ARecordOfAnotherVersionOfTheProgramIsNamedBehindDamageAlone) {
  constexpr auto later_op = static_cast<RecordOp>(99);
  for (uint64_t i = 1; i <= 5; ++i) {
    begin_segment();
    add_block({large_});
    if (i == 3) add_block({{RecordOp::put, 8, "key", "value"}, {later_op, 9, "key"}});
    add_block({{RecordOp::put, 1 + i, "key", "value"}});
  }
  const std::string unknown =
      "has a record that this version cannot read, in the block at byte " +
      std::to_string(block_body + record_bytes(large_.key.size(), large_.value.size()));
  expect_refused(3, unknown);
  texts_[3][block_body] ^= 1;
  expect_refused(3, unknown);
  texts_[1][block_body] ^= 1;
  const std::string at_byte = std::to_string(sizeof(SegmentHeader));
  expect_refused(2, "is damaged at byte " + at_byte + ": a record that was on disk cannot be read");
}

TEST_F(JournalReaderTest, SegmentsMayBeEmpty) {
  begin_segment(3);
  begin_segment(50);
  add_block({large_});
  begin_segment(100);
  begin_segment(90);
  add_block({large_, {RecordOp::put, 60, "key", "value"}});
  begin_segment(70);
  add_block({large_});
  begin_segment(80);
  write_files();
  for (const uint32_t parts : threads) {
    const JournalReader reader(folder, "test", parts);
    EXPECT_EQ(reader.records(), 4u);
    EXPECT_EQ(reader.last_version(), 100u);
    EXPECT_EQ(reader.end_lsn(), lsn_);
    EXPECT_EQ(reader.used_bytes(), sizeof(SegmentHeader));
    EXPECT_EQ(content(reader).size(), 2u);
    EXPECT_EQ(reader.segment_lsns().size(), 6u);
  }
}

// Blocks have their places by their numbers, and so have segments.
TEST_F(JournalReaderTest, SegmentsThatOverlapOrLeaveAGapAreRefused) {
  for (uint64_t i = 1; i <= 4; ++i) {
    begin_segment();
    add_block({large_});
    add_block({{RecordOp::put, 1 + i, "key", "value"}});
  }
  const auto expect_damaged = [&](uint64_t number, size_t byte) {
    expect_refused(number, "is damaged at byte " + std::to_string(byte) +
                               ": a record that was on disk cannot be read");
  };
  const uint64_t right = headers_[2].first_lsn;
  headers_[2].first_lsn = right - 8;
  expect_damaged(2, texts_[1].size());
  headers_[2].first_lsn = right + 8;
  expect_damaged(2, texts_[1].size());
  headers_[2].first_lsn = 0;
  expect_damaged(2, sizeof(SegmentHeader));
  headers_[2].first_lsn = right;
  headers_[0].first_lsn = 8;
  expect_refused(1, "does not begin where the journal does");
}

// The first segments may be gone; a manifest without a base is shorter.
TEST_F(JournalReaderTest, AJournalMayBeginAnywhereAlsoWithAnOldManifest) {
  lsn_ = 1 << 20;
  manifest_.first = 7;
  for (uint64_t i = 1; i <= 4; ++i) {
    begin_segment();
    add_block({large_, {RecordOp::put, 1 + i, "key", std::to_string(i)}});
  }
  write_files();
  ManifestOfSegments old = manifest_;
  seal_header(old);
  write_files({reinterpret_cast<const char*>(&old), sizeof old});
  for (const uint32_t parts : threads) {
    const JournalReader reader(folder, "test", parts);
    EXPECT_EQ(reader.first_lsn(), uint64_t{1} << 20);
    EXPECT_EQ(reader.end_lsn(), lsn_);
    EXPECT_EQ(content(reader).at({0, "key"}).value, "4");
  }
}

// Each start that writes leaves a segment; a machine may have many cores.
TEST_F(JournalReaderTest, SmallSegmentsTakeNoMemoryForEachPart) {
  constexpr uint64_t segments = 500;
  constexpr size_t most_of_each = 1000;
  for (uint64_t i = 1; i <= segments; ++i) {
    begin_segment();
    add_block({{RecordOp::put, i, "key" + std::to_string(i), "value"}});
  }
  write_files();
  const size_t before = ::mallinfo2().uordblks;
  const JournalReader reader(folder, "test", 64);
  EXPECT_LT(::mallinfo2().uordblks, before + segments * most_of_each);
  EXPECT_EQ(content(reader).size(), segments);
}

}  // namespace
}  // namespace isotherm::journal_reader_test
