// EventLog: who listens hears each line once, also those from before.
#include "base/event_log.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace isotherm {
namespace {

TEST(EventLog, TheFirstListenerHearsWhatWasToldBefore) {
  EventLog log;
  for (size_t i = 0; i < EventLog::most_kept + 5; ++i) log.tell("early " + std::to_string(i));
  std::vector<std::string> heard;
  log.listen([&](const std::string& line) { heard.push_back(line); });
  ASSERT_EQ(heard.size(), EventLog::most_kept);
  EXPECT_EQ(heard.front(), "early 0");
  log.tell("later");
  EXPECT_EQ(heard.back(), "later");

  std::vector<std::string> second;
  log.listen([&](const std::string& line) { second.push_back(line); });
  log.tell("last");
  EXPECT_EQ(second, std::vector<std::string>{"last"});
  EXPECT_EQ(heard.size(), EventLog::most_kept + 1);
}

}  // namespace
}  // namespace isotherm
