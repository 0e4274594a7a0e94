#include "server/rewrite_walk.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "engine/engine.h"

namespace isotherm::rewrite_walk_test {
namespace {

class RewriteWalkTest : public ::testing::Test {
 protected:
  void put(const std::string& key, const std::string& value) {
    Batch batch;
    batch.put(key, value);
    worker_.submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
  }
  // How many calls met so many keys, each once, and the most bytes of keys that one has shown.
  uint64_t walk(uint64_t room, size_t keys) {
    RewriteWalk walk(worker_, 0);
    std::set<std::string> met;
    uint64_t calls = 0;
    for (; !walk.at_end(); ++calls) {
      uint64_t bytes = 0;
      for (const RewriteWalk::Found& one : walk.next(room)) {
        EXPECT_GT(one.record_bytes, one.key.size());
        EXPECT_TRUE(met.insert(one.key).second);
        bytes += one.key.size();
      }
      most_ = std::max(most_, bytes);
    }
    EXPECT_EQ(met.size(), keys);
    return calls;
  }

  ManualClock clock_{1'700'000'000'000};
  Engine engine_{Options(), clock_};
  Worker worker_{engine_};
  uint64_t most_ = 0;
};

TEST_F(RewriteWalkTest, LongKeysAreShownFewAtATime) {
  constexpr size_t keys = 300;
  constexpr uint64_t key_bytes = 100'000;
  constexpr uint64_t keys_of_a_line = 16;
  constexpr uint64_t room = 1 << 20;
  for (size_t i = 0; i < keys; ++i) {
    std::string key = std::to_string(i);
    key.resize(key_bytes, '.');
    put(key, "value");
  }
  walk(room, keys);
  EXPECT_LE(most_, 2 * room + keys_of_a_line * key_bytes);
}

TEST_F(RewriteWalkTest, ShortKeysAreShownManyAtATime) {
  constexpr size_t keys = 20'000;
  for (size_t i = 0; i < keys; ++i) put(std::to_string(i), "value");
  EXPECT_LE(walk(1 << 20, keys), keys / RewriteWalk::most_keys + 1);
  // Records that are long are no reason for short steps.
  for (size_t i = 0; i < keys; ++i) put(std::to_string(i), std::string(1000, 'v'));
  EXPECT_LE(walk(1 << 20, keys), keys / RewriteWalk::most_keys + 1);
}

// As of a cap of a few bytes.
TEST_F(RewriteWalkTest, WithoutRoomItGoesOnAllTheSame) {
  for (size_t i = 0; i < 100; ++i) put(std::to_string(i), "value");
  walk(0, 100);
}

}  // namespace
}  // namespace isotherm::rewrite_walk_test
