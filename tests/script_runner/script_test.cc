#include "script_runner/script.h"

#include <gtest/gtest.h>

namespace isotherm::scripts {
namespace {

using std::string_literals::operator""s;

TEST(Text, ExpandsVariablesAndRepeats) {
  EXPECT_EQ(expand("a${x*3}b${v}${v}", {{"v", "7"}}), "axxxb77");
  EXPECT_EQ(expand("${ab*2}${z*0}", {}), "abab");
  EXPECT_THROW(expand("${unknown}", {}), ScriptError);
  EXPECT_THROW(expand("${x*y}", {}), ScriptError);
  EXPECT_THROW(expand("${x*2", {}), ScriptError);
}

TEST(Text, Unescapes) {
  EXPECT_EQ(unescape(R"(a\r\n\t\\\"\x00\xfF)"), "a\r\n\t\\\"\0\xff"s);
  EXPECT_THROW(unescape(R"(\q)"), ScriptError);
  EXPECT_THROW(unescape(R"(\x1)"), ScriptError);
  EXPECT_THROW(unescape("\\"), ScriptError);
}

TEST(Text, SplitsWords) {
  EXPECT_EQ(split_words(R"(SET  k "a b" "")"), (std::vector<std::string>{"SET", "k", "a b", ""}));
  EXPECT_EQ(split_words(R"(a\x20b "\"")"), (std::vector<std::string>{"a b", "\""}));
  EXPECT_THROW(split_words("\"a"), ScriptError);
}

TEST(Text, EncodesRequests) {
  EXPECT_EQ(encode_request(Dialect::resp, "GET \"\""), "*2\r\n$3\r\nGET\r\n$0\r\n\r\n");
  EXPECT_EQ(encode_request(Dialect::memcached, "get a  b"), "get a  b\r\n");
}

TEST(Text, EncodesReplies) {
  EXPECT_EQ(encode_reply(Dialect::resp, "+OK"), "+OK\r\n");
  EXPECT_EQ(encode_reply(Dialect::resp, "(nil)"), "$-1\r\n");
  EXPECT_EQ(encode_reply(Dialect::resp, "(nil array)"), "*-1\r\n");
  EXPECT_EQ(encode_reply(Dialect::resp, R"("a\r\n")"), "$3\r\na\r\n\r\n");
  EXPECT_EQ(encode_reply(Dialect::memcached, "\"a\""), "\"a\"\r\n");
  EXPECT_THROW(encode_reply(Dialect::resp, R"("a" b)"), ScriptError);
}

TEST(Text, PrintsAnyByte) {
  EXPECT_EQ(printable("a\r\n\0\xff"s), R"(a\r\n\x00\xff)");
  EXPECT_EQ(printable(std::string(1000, 'x'), 10), "xxxxx … 990 bytes … xxxxx");
}

TEST(Script, ReadsSteps) {
  const Script script = parse_script("resp/x",
                                     "# comment\n"
                                     "peer no\n"
                                     "server --databases 2\n"
                                     "> GET k\n"
                                     "@2 < (nil)\n"
                                     "@m\n"
                                     "< (closed)\n"
                                     "  >\n");
  EXPECT_FALSE(script.peer);
  EXPECT_EQ(script.server_flags, (std::vector<std::string>{"--databases", "2"}));
  ASSERT_EQ(script.steps.size(), 4u);
  EXPECT_EQ(script.steps[0].action, Action::send);
  EXPECT_EQ(script.steps[0].text, "GET k");
  EXPECT_EQ(script.steps[0].line, 4);
  EXPECT_EQ(script.steps[1].connection, "2");
  EXPECT_EQ(script.steps[1].text, "(nil)");
  EXPECT_EQ(script.steps[2].action, Action::expect_closed);
  EXPECT_EQ(script.steps[2].connection, "m");
  EXPECT_EQ(script.steps[3].text, "");
}

TEST(Script, UnrollsRepeats) {
  const Script script = parse_script("resp/x", "repeat 3 {\n> GET k${i}\n< (nil)\n}\n> PING\n");
  ASSERT_EQ(script.steps.size(), 7u);
  EXPECT_EQ(script.steps[4].text, "GET k2");
  EXPECT_THROW(parse_script("resp/x", "repeat 3 {\n> PING\n"), ScriptError);
}

TEST(Script, RefusesUnknownLines) {
  EXPECT_THROW(parse_script("resp/x", "GET k\n"), ScriptError);
  EXPECT_THROW(parse_script("resp/x", ">GET k\n"), ScriptError);
}

TEST(Script, KnowsDialects) {
  const Script both = parse_script("both/x", "");
  EXPECT_EQ(both.dialect_of("1"), Dialect::resp);
  EXPECT_EQ(both.dialect_of("memcached2"), Dialect::memcached);
  EXPECT_EQ(parse_script("memcached/x", "").dialect_of("1"), Dialect::memcached);
}

}  // namespace
}  // namespace isotherm::scripts
