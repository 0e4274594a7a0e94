#include "tree/device_files.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "fake_device/fake_item_tier.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

// A run that is cut into pieces for several threads arrives whole.
TEST(DeviceFiles, ARunIsTakenInByThreads) {
  constexpr int keys = 200;
  FakeDevice device(5, uint64_t{1} << 28);
  DeviceFilesOptions options;
  options.rows_at_once = 16;
  options.now_ms = [] { return int64_t{1'700'000'000'000}; };
  DeviceFiles files(fake_item_tier_maker(device)({8 << 20, false, 1}), std::move(options));
  std::vector<std::string> names(keys);
  std::vector<std::string> records(keys);
  std::vector<std::string_view> asked;
  const auto fill = [&](const std::string& text, int erases_each) {
    std::vector<TreeEntry> entries;
    asked.clear();
    for (int i = 0; i < keys; ++i) {
      TreeRecord::put_key(static_cast<uint32_t>(i % 2), "key" + std::to_string(i), names[i]);
      TreeRecord record;
      const std::string value = text + std::to_string(i);
      record.version = static_cast<uint64_t>(i) + 1;
      record.value = value;
      records[i].resize(i % erases_each == 0 ? 0 : record.bytes());
      if (!records[i].empty()) record.write(records[i].data());
      entries.push_back({names[i], records[i]});
      asked.push_back(names[i]);
    }
    EXPECT_EQ(files.ingest(entries, {}, 4), "");
    std::vector<TreeRead> reads(keys);
    files.read(asked, reads.data());
    for (int i = 0; i < keys; ++i) {
      ASSERT_EQ(reads[i].state == TreeRead::State::found, !records[i].empty()) << i;
      ASSERT_EQ(reads[i].value, records[i]) << i;
    }
  };
  fill("first", keys + 1);
  EXPECT_EQ(files.keys(), keys - 1u);
  fill("second", 3);
  EXPECT_EQ(files.keys(), static_cast<uint64_t>(keys - (keys + 2) / 3));
}

}  // namespace
}  // namespace isotherm
