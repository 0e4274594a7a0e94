#include "db/key_rows.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>
#include <vector>

namespace isotherm::key_rows_test {
namespace {

TEST(KeyRows, AreThoseOfAMapWhateverIsTakenBack) {
  std::mt19937 random(1);
  WriteGroup group;
  KeyRows rows(group, 1);
  std::map<std::string, std::vector<uint32_t>> right;
  const auto a_key = [&] { return "key" + std::to_string(random() % 300); };
  for (int step = 0; step < 20'000; ++step) {
    if (random() % 300 == 0) {
      const size_t size = random() % (group.size() + 1);
      rows.shorten(size);
      group.shorten(size);
      for (auto& [key, its] : right) {
        while (!its.empty() && its.back() >= size) its.pop_back();
      }
    } else if (random() % 2000 == 0) {
      rows.shorten(0);
      group.clear();
      right.clear();
    } else {
      const std::string key = a_key();
      right[key].push_back(static_cast<uint32_t>(group.size()));
      rows.make_room();
      group.erase(key);
      rows.add();
    }
    const std::string key = a_key();
    uint32_t row = rows.newest(key);
    const std::vector<uint32_t>& its = right[key];
    for (auto expected = its.rbegin(); expected != its.rend(); ++expected) {
      ASSERT_EQ(row, *expected) << step;
      row = rows.older(row);
    }
    ASSERT_EQ(row, KeyRows::none) << step;
  }
}

}  // namespace
}  // namespace isotherm::key_rows_test
