#include "net/slow_log.h"

#include <gtest/gtest.h>

#include <limits>
#include <new>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "models/failing_memory.h"

namespace isotherm::net::slow_log_test {
namespace {

SlowCommand of(std::string word) {
  SlowCommand command;
  command.words = {std::move(word)};
  return command;
}

TEST(SlowLog, TheOldestGo) {
  SlowLog log(0, 2);
  for (const char* word : {"a", "b", "c"}) log.add(of(word));
  const std::vector<SlowCommand> newest = log.newest(10);
  ASSERT_EQ(newest.size(), 2u);
  EXPECT_EQ(newest[0].words[0], "c");
  EXPECT_EQ(newest[0].id, 2u);
  EXPECT_EQ(newest[1].words[0], "b");
  log.set_most(1);
  EXPECT_EQ(log.size(), 1u);
  log.clear();
  log.add(of("d"));
  EXPECT_EQ(log.newest(1)[0].id, 3u);
}

TEST(SlowLog, BytesAreBoundedWhateverTheLengthIs) {
  SlowLog log(0, std::numeric_limits<int64_t>::max());
  constexpr size_t large = 1 << 20;
  for (size_t i = 0; i < 2 * SlowLog::most_bytes / large; ++i) log.add(of(std::string(large, 'x')));
  EXPECT_GE(log.size(), SlowLog::most_bytes / large - 1);
  EXPECT_LT(log.size(), SlowLog::most_bytes / large);
}

TEST(SlowLog, ACommandThatThereIsNoMemoryForTakesNone) {
  SlowLog log(0, std::numeric_limits<int64_t>::max());
  for (size_t failed = 0; failed < 4;) {
    SlowCommand command = of(std::string(SlowLog::most_bytes / 3, 'x'));
    try {
      const FailingMemory failing(0);
      log.add(std::move(command));
    } catch (const std::bad_alloc&) {
      ++failed;
    }
  }
  log.add(of("a"));
  log.add(of("b"));
  ASSERT_GE(log.size(), 2u);
  EXPECT_EQ(log.newest(1)[0].words[0], "b");
}

TEST(SlowLog, WhatIsSlow) {
  SlowLog log(100, 1);
  EXPECT_FALSE(log.is_slow(99));
  EXPECT_TRUE(log.is_slow(100));
  log.slower_than_us = -1;
  EXPECT_FALSE(log.is_slow(1'000'000));
  EXPECT_FALSE(log.is_on());
}

TEST(SlowLog, WordsAreCutAndCounted) {
  const std::string exact(128, 'x');
  const std::string longer(129, 'x');
  std::vector<std::string_view> words{exact, longer};
  EXPECT_EQ(SlowLog::shorten(words),
            (std::vector<std::string>{exact, exact + "... (1 more bytes)"}));
  words.assign(32, "w");
  EXPECT_EQ(SlowLog::shorten(words), std::vector<std::string>(32, "w"));
  words.assign(33, "w");
  std::vector<std::string> cut(31, "w");
  cut.emplace_back("... (2 more arguments)");
  EXPECT_EQ(SlowLog::shorten(words), cut);
}

}  // namespace
}  // namespace isotherm::net::slow_log_test
