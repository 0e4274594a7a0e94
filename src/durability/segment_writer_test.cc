#include "durability/segment_writer.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <string>

#include "models/journal_fixture.h"

namespace isotherm::segment_writer_test {
namespace {

using SegmentWriterTest = JournalFixture;

// On a nearly full disk a segment is small, and is mapped all the same.
TEST_F(SegmentWriterTest, MapsWhatWasNotMadeForOneLargeBlock) {
  constexpr uint64_t usual = 4 << 20;
  constexpr uint64_t room = 3 << 20;
  constexpr uint64_t large = 6 << 20;
  Manifest manifest{};
  manifest.first = 1;
  SegmentWriter segments(files, folder, "test", manifest, {}, usual);
  ASSERT_EQ(segments.begin(0, 0, 100), 0);
  EXPECT_EQ(files.wanted_map(), usual);
  ASSERT_EQ(segments.begin(100, 0, large), 0);
  EXPECT_EQ(files.wanted_map(), usual);
  EXPECT_TRUE(segments.has_room(100 + large));
  files.leave_room(room);
  ASSERT_EQ(segments.begin(100 + large, 0, 100), 0);
  EXPECT_EQ(files.wanted_map(), room / 2);
}

// The room for a large block is taken ahead: then it finds room on a disk that has become full.
TEST_F(SegmentWriterTest, WhatWasPreparedIsMadeLongerForALargeBlock) {
  constexpr uint64_t usual = 4 << 20;
  constexpr uint64_t large = 6 << 20;
  for (const bool has_one : {false, true}) {
    folder = new_folder();
    files.leave_room(64 << 20);
    Manifest manifest{};
    manifest.first = 1;
    SegmentWriter segments(files, folder, "test", manifest, {}, usual);
    ASSERT_EQ(segments.begin(0, 0, 100), 0);
    uint64_t lsn = 0;
    if (has_one) {
      lsn = usual;
      ASSERT_EQ(segments.begin(lsn, 0, 100), 0);
      segments.prepare();
    }
    segments.prepare(lsn, large);
    files.leave_room(1 << 10);
    ASSERT_EQ(segments.begin(lsn + 100, 0, large), 0) << has_one;
    EXPECT_TRUE(segments.has_room(lsn + 100 + large));
  }
}

// By what was stored into the one before; small segments show which are mapped.
TEST_F(SegmentWriterTest, MapsBehindShortRecordsAlone) {
  constexpr uint64_t usual = 4 << 20;
  constexpr uint64_t room = 3 << 20;
  const std::string record(64 << 10, 'r');
  Manifest manifest{};
  manifest.first = 1;
  SegmentWriter segments(files, folder, "test", manifest, {}, usual);
  ASSERT_EQ(segments.begin(0, 0, 100), 0);
  EXPECT_EQ(files.wanted_map(), usual);
  ASSERT_EQ(segments.write(0, record.data(), record.size()), 0);
  files.leave_room(room);
  uint64_t lsn = record.size();
  ASSERT_EQ(segments.begin(lsn, 0, 100), 0);
  EXPECT_EQ(files.wanted_map(), usual) << "it is written by calls";
  for (int i = 0; i < 10; ++i, lsn += 100) {
    ASSERT_EQ(segments.write(lsn, record.data(), 100), 0);
  }
  ASSERT_EQ(segments.begin(lsn, 0, 100), 0);
  EXPECT_EQ(files.wanted_map(), room / 2);
}

}  // namespace
}  // namespace isotherm::segment_writer_test
