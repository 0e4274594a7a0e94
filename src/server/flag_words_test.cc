// Which words of a command line are values (server/flag_words.h).
#include "server/flag_words.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "server/flags.h"

namespace isotherm::flag_words_test {
namespace {

// What is said of `words`; empty: they are right.
std::string parse(std::vector<const char*> words, net::ServerOptions& options) {
  words.insert(words.begin(), "isotherm-server");
  testing::internal::CaptureStderr();
  const auto status = parse_flags(static_cast<int>(words.size()), words.data(), options);
  const std::string said = testing::internal::GetCapturedStderr();
  EXPECT_EQ(status.has_value(), !said.empty());
  return said;
}

std::string lacks(const std::string& flag) {
  return "isotherm-server: " + flag + ": a value is missing\nRun with --help for the flags.\n";
}

TEST(FlagWordsTest, AFlagIsNotTheValueOfAnother) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--unixsocket", "--memcached-disable-flush-all"}, options),
            lacks("--unixsocket"));
  EXPECT_EQ(parse({"--appendonly", "--maxmemory", "100mb"}, options), lacks("--appendonly"));
  EXPECT_EQ(parse({"--unixsocket", "--port=7"}, options), lacks("--unixsocket"));
  EXPECT_EQ(parse({"--port", "7", "--save"}, options), lacks("--save"));
}

TEST(FlagWordsTest, OtherWordsAreValuesWhateverTheyBeginWith) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--unixsocket", "--a-path", "--slowlog-log-slower-than", "-1",
                   "--memcached-unixsocket", "port"},
                  options),
            "");
  EXPECT_EQ(options.unixsocket, "--a-path");
  EXPECT_EQ(options.slowlog_log_slower_than, -1);
  EXPECT_EQ(options.memcached_unixsocket, "port");
}

TEST(FlagWordsTest, AnEmptyValueBehindAnEqualsSignIsOne) {
  net::ServerOptions options;
  EXPECT_EQ(parse({"--save=900 1", "--save=", "--timeout=5", "--unixsocket", "/path",
                   "--unixsocket=", "--memcached-disable-flush-all"},
                  options),
            "");
  EXPECT_TRUE(options.save.empty());
  EXPECT_EQ(options.timeout, 5u);
  EXPECT_EQ(options.unixsocket, "");
  EXPECT_FALSE(options.memcached_flush);
  EXPECT_EQ(parse({"--save=900 1", "--save=", "--save=5 6"}, options), "");
  EXPECT_EQ(to_string(options.save), "5 6");
}

}  // namespace
}  // namespace isotherm::flag_words_test
