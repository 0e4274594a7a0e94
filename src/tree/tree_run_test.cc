#include "tree/tree_run.h"

#include <gtest/gtest.h>

#include <map>
#include <random>
#include <string>

namespace isotherm {
namespace {

class TreeRunTest : public ::testing::TestWithParam<bool> {};

INSTANTIATE_TEST_SUITE_P(Order, TreeRunTest, ::testing::Bool(),
                         [](const auto& test) { return test.param ? "Ordered" : "Unordered"; });

std::string tree_key(int number) {
  std::string key;
  TreeRecord::put_key(static_cast<uint32_t>(number % 3), "key" + std::to_string(number), key);
  return key;
}

// Of each key the newest is found and shown once; erased ones are known to be.
TEST_P(TreeRunTest, HasTheNewestOfEachKey) {
  TreeRun run(GetParam());
  std::map<std::string, std::string> model;
  std::mt19937 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const std::string key = tree_key(static_cast<int>(random() % 3000));
    const std::string value(random() % 40, static_cast<char>('a' + i % 26));
    const bool erases = random() % 5 == 0;
    TreeRecord record;
    record.version = static_cast<uint64_t>(i) + 1;
    record.value = value;
    run.put(TreeRun::hash_of(key), key, erases ? nullptr : &record);
    std::string& text = model[key];
    text.resize(erases ? 0 : record.bytes());
    if (!erases) record.write(text.data());
  }
  for (int i = 0; i < 3100; ++i) {
    const std::string key = tree_key(i);
    const TreeRun::Found found = run.find(TreeRun::hash_of(key), key);
    const auto expected = model.find(key);
    ASSERT_EQ(found.known, expected != model.end()) << i;
    if (!found.known) continue;
    ASSERT_EQ(found.erased, expected->second.empty()) << i;
    ASSERT_EQ(found.value, expected->second) << i;
  }
  std::map<std::string, std::string> shown;
  const std::vector<TreeEntry> all = run.all(GetParam());
  for (const TreeEntry& entry : all) shown.emplace(entry.key, entry.value);
  EXPECT_EQ(all.size(), model.size());
  EXPECT_TRUE(shown == model);
  EXPECT_GT(run.bytes(), model.size() * 40);
  EXPECT_LT(run.bytes(), model.size() * 400);
}

}  // namespace
}  // namespace isotherm
