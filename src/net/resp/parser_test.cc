#include "net/resp/parser.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

namespace isotherm::net::resp_parser_test {
namespace {

using Requests = std::vector<std::vector<std::string>>;

struct Parsed {
  Requests requests;
  std::string error;
  bool operator==(const Parsed&) const = default;
};

// Feeds `pieces` one by one, the way a connection does: what is not consumed stays in front, in a
// new place each time.
Parsed parse(const std::vector<std::string>& pieces, uint64_t max_bulk = 512 << 20) {
  RespParser parser(max_bulk);
  Parsed parsed;
  std::string buffer;
  for (const std::string& piece : pieces) {
    buffer = std::string(buffer + piece);
    while (true) {
      const auto outcome = parser.next(buffer);
      if (outcome == RespParser::Outcome::incomplete) break;
      if (outcome == RespParser::Outcome::error) {
        parsed.error = parser.error();
        return parsed;
      }
      const auto words = parser.arguments();
      parsed.requests.emplace_back(words.begin(), words.end());
      buffer = buffer.substr(parser.consumed());
      parser.release();
    }
  }
  return parsed;
}

Parsed parse(const std::string& input) { return parse(std::vector<std::string>{input}); }

std::string error_of(const std::string& input) {
  const Parsed parsed = parse(input);
  EXPECT_TRUE(parsed.requests.empty());
  return parsed.error;
}

const std::string pipeline = std::string(
    "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$5\r\nv\r\n\0v\r\n"
    "ping 'a b' \"\\x00\\n\"\r\n"
    "\r\n"
    "*0\r\n"
    "*-1\r\n"
    "*2\r\n$4\r\nECHO\r\n$0\r\n\r\n"
    "quit\n",
    88);

TEST(RespParserTest, ReadsAPipeline) {
  const Parsed parsed = parse(pipeline);
  EXPECT_EQ(parsed.error, "");
  const Requests expected = {{"SET", "k", std::string("v\r\n\0v", 5)},
                             {"ping", "a b", std::string("\0\n", 2)},
                             {},
                             {},
                             {},
                             {"ECHO", ""},
                             {"quit"}};
  EXPECT_EQ(parsed.requests, expected);
}

TEST(RespParserTest, EverySplitGivesTheSame) {
  const Parsed whole = parse(pipeline);
  for (size_t i = 0; i <= pipeline.size(); ++i) {
    for (size_t j = i; j <= pipeline.size(); ++j) {
      EXPECT_EQ(parse({pipeline.substr(0, i), pipeline.substr(i, j - i), pipeline.substr(j)}),
                whole)
          << i << ' ' << j;
    }
  }
}

TEST(RespParserTest, ByteByByteGivesTheSame) {
  std::vector<std::string> bytes;
  for (const char c : pipeline) bytes.emplace_back(1, c);
  EXPECT_EQ(parse(bytes), parse(pipeline));
}

TEST(RespParserTest, ErrorsDoNotDependOnTheSplit) {
  for (const char* text :
       {"*x\r\n", "*1\r\nx\r\n", "*1\r\n$x\r\n", "*2\r\n$1\r\na\r\n$-3\r\n", "get \"a\r\n"}) {
    const std::string input = text;
    const Parsed whole = parse(input);
    EXPECT_NE(whole.error, "");
    for (size_t i = 0; i <= input.size(); ++i) {
      EXPECT_EQ(parse({input.substr(0, i), input.substr(i)}), whole) << text << i;
    }
  }
}

// Lengths of one or two digits are read by a way of their own, as long as all is there at once.
TEST(RespParserTest, LengthsOfAnyBytesAreReadAlikeInOnePieceAndInMany) {
  for (int first = 0; first < 256; ++first) {
    for (const char second : {'0', '1', '9', '/', ':', '\r', '\n', '\0'}) {
      std::string input = "*2\r\n$" + std::string{static_cast<char>(first), second} + "\r\n";
      input += std::string(100, 'x') + "\r\n$1\r\nk\r\n";
      EXPECT_EQ(parse(input), parse({input.substr(0, 1), input.substr(1)})) << first << second;
    }
  }
}

TEST(RespParserTest, ReadsWordsOfEveryLength) {
  for (size_t bytes = 0; bytes <= 120; ++bytes) {
    const std::string word(bytes, 'w');
    const std::string text = "$" + std::to_string(bytes) + "\r\n" + word + "\r\n";
    std::string input = "*" + std::to_string(bytes + 1) + "\r\n";
    for (size_t i = 0; i <= bytes; ++i) input += text;
    EXPECT_EQ(parse(input).requests, Requests{std::vector<std::string>(bytes + 1, word)}) << bytes;
  }
}

// Heads and lengths that repeat are compared as they are written.
TEST(RespParserTest, RequestsThatBeginAlikeAreReadAsAnyOthers) {
  uint32_t state = 1;
  const auto random = [&](uint32_t below) {
    state = state * 1'664'525u + 1'013'904'223u;
    return (state >> 16) % below;
  };
  const std::vector<std::string> names = {
      "GET", "get", "GETEX", "MGET", "A", "", std::string(40, 'N')};
  const std::vector<size_t> lengths = {0, 1, 9, 10, 16, 99, 100, 1000};
  for (int round = 0; round < 200; ++round) {
    std::string input;
    Requests expected;
    for (int i = 0; i < 6; ++i) {
      std::vector<std::string> words = {names[random(i < 3 ? 2 : 7)]};
      const size_t length = lengths[random(8)];
      const uint32_t more = random(4);
      for (uint32_t word = 0; word < more; ++word) {
        words.emplace_back(random(4) != 0 ? length : lengths[random(8)],
                           static_cast<char>('a' + i));
      }
      input += "*" + std::to_string(words.size()) + "\r\n";
      for (const std::string& word : words) {
        input += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
      }
      expected.push_back(std::move(words));
      if (random(8) != 0) continue;
      input += random(2) != 0 ? "PING\r\n" : "*0\r\n";
      expected.push_back(input.ends_with("PING\r\n") ? std::vector<std::string>{"PING"}
                                                     : std::vector<std::string>{});
    }
    EXPECT_EQ(parse(input).requests, expected) << input;
    const size_t at = random(static_cast<uint32_t>(input.size()));
    EXPECT_EQ(parse({input.substr(0, at), input.substr(at)}).requests, expected) << input << at;
  }
}

// What repeats is compared as it was written, up to where the input ends: two pieces give what one
// byte at a time does, which is parsed the careful way.
TEST(RespParserTest, EveryCutOfRequestsThatRepeatGivesTheSame) {
  const auto request = [](const std::vector<std::string>& words) {
    std::string text = "*" + std::to_string(words.size()) + "\r\n";
    for (const std::string& word : words) {
      text += "$" + std::to_string(word.size()) + "\r\n" + word + "\r\n";
    }
    return text;
  };
  const std::string key = "key:000000000016";
  std::string mixed;
  for (int i = 0; i < 3; ++i) mixed += request({"GET", key});
  mixed += request({"GET", "k"}) + request({"GET", ""}) + request({"GET", key}) + "get " + key;
  mixed += "\r\n" + request({"GET", key});
  for (int i = 0; i < 2; ++i) mixed += request({"SET", key, std::string(32, 'v')});
  mixed += request({"SET", key, ""}) + request({"SET", key, std::string(32, '\r')});
  for (int i = 0; i < 3; ++i) mixed += request({"MGET", key, key, "x", "yy", key, key, key});
  // Ends of lines and words of which the second byte is any, a count below 0, and an error.
  mixed += "*2\r\n$3\r\nGET\r\n$16\r." + key + "..*-1\r\n" + request({"GET", key});
  mixed += request({"GET", key}) + "*2\r\n$3\r\nGET\r\n!16\r\n";
  std::vector<std::string> bytes;
  for (const char c : mixed) bytes.emplace_back(1, c);
  const Parsed careful = parse(bytes);
  EXPECT_EQ(careful.error, "Protocol error: expected '$', got '!'");
  EXPECT_EQ(careful.requests.size(), 19u);
  EXPECT_EQ(parse(mixed), careful);
  for (size_t i = 0; i <= mixed.size(); ++i) {
    EXPECT_EQ(parse({mixed.substr(0, i), mixed.substr(i)}), careful) << i;
  }
}

// It is told only where the first word is that of the request before.
TEST(RespParserTest, SaysWhichRequestsRepeatACommand) {
  RespParser parser(512 << 20);
  const auto repeats = [&](const std::string& input) {
    EXPECT_EQ(parser.next(input), RespParser::Outcome::request) << input;
    return parser.repeats();
  };
  EXPECT_FALSE(repeats("*2\r\n$3\r\nGET\r\n$1\r\na\r\n"));
  EXPECT_TRUE(repeats("*2\r\n$3\r\nGET\r\n$2\r\nbb\r\n"));
  EXPECT_FALSE(repeats("*3\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\na\r\n"));
  EXPECT_FALSE(repeats("*2\r\n$3\r\nGET\r\n$1\r\na\r\n"));
  EXPECT_FALSE(repeats("GET a\r\n"));
  EXPECT_FALSE(repeats("*2\r\n$3\r\nGET\r\n$1\r\na\r\n"));
  // A request that is not all there is no request before.
  EXPECT_EQ(parser.next("*2\r\n$3\r\nDEL\r\n$1\r\n"), RespParser::Outcome::incomplete);
  EXPECT_FALSE(repeats("*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
  EXPECT_FALSE(repeats("*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
  EXPECT_TRUE(repeats("*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
  EXPECT_EQ(parser.next("*2\r\n$3\r\nDEL\r\n$1\r\n"), RespParser::Outcome::incomplete);
  parser.restart();
  EXPECT_FALSE(repeats("*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"));
  // A name that is longer than a new limit is refused though it was taken before.
  parser.limit(2, false);
  EXPECT_EQ(parser.next("*2\r\n$3\r\nDEL\r\n$1\r\na\r\n"), RespParser::Outcome::error);
}

TEST(RespParserTest, RequestsBeforeThePasswordAreShort) {
  const auto outcome = [](bool before_password, std::string_view input) {
    RespParser parser(1 << 20);
    parser.limit(1 << 20, before_password);
    return parser.next(input);
  };
  std::string words = "*11\r\n";
  for (int i = 0; i < 11; ++i) words += "$1\r\na\r\n";
  const std::string most(RespParser::most_bulk_bytes_before, 'a');
  const auto named = [](std::string_view name) {
    return "*1\r\n$" + std::to_string(name.size()) + "\r\n" + std::string(name) + "\r\n";
  };
  EXPECT_EQ(outcome(true, words), RespParser::Outcome::error);
  EXPECT_EQ(outcome(false, words), RespParser::Outcome::request);
  EXPECT_EQ(outcome(true, named(most)), RespParser::Outcome::request);
  EXPECT_EQ(outcome(true, named(most + "a")), RespParser::Outcome::error);
  EXPECT_EQ(outcome(false, named(most + "a")), RespParser::Outcome::request);
}

TEST(RespParserTest, NamesWhatIsWrong) {
  EXPECT_EQ(error_of("*abc\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*01\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*2147483648\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*99999999999999999999\r\n"), "Protocol error: invalid multibulk length");
  EXPECT_EQ(error_of("*1\r\n:1\r\n"), "Protocol error: expected '$', got ':'");
  EXPECT_EQ(error_of("*1\r\n$-1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$ 1\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$536870913\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("*1\r\n$9223372036854775808\r\n"), "Protocol error: invalid bulk length");
  EXPECT_EQ(error_of("get 'a\r\n"), "Protocol error: unbalanced quotes in request");
  EXPECT_EQ(error_of("get \"a\"b\r\n"), "Protocol error: unbalanced quotes in request");
}

TEST(RespParserTest, BoundsLinesWithoutEnd) {
  const std::string long_line(RespParser::max_line_bytes, '1');
  EXPECT_EQ(error_of(long_line), "");
  EXPECT_EQ(error_of(long_line + "1"), "Protocol error: too big inline request");
  EXPECT_EQ(error_of("*" + long_line), "Protocol error: too big mbulk count string");
  EXPECT_EQ(error_of("*1\r\n$" + long_line), "Protocol error: too big bulk count string");
  EXPECT_EQ(parse(long_line + "1\r\n").requests.size(), 1u);
}

TEST(RespParserTest, AHugeCountCostsNothing) {
  RespParser parser(512 << 20);
  EXPECT_EQ(parser.next("*2147483647\r\n$1\r\na\r\n"), RespParser::Outcome::incomplete);
}

// The bytes of a large word come by another way; the request may be parsed more than once.
TEST(RespParserTest, AWordMayComeByAnotherWay) {
  RespParser parser(1 << 20);
  const std::string head = "*4\r\n$3\r\nSET\r\n$1\r\nk\r\n$100000\r\n";
  const std::string tail = "\r\n$2\r\nNX\r\n";
  ASSERT_EQ(parser.next(head + "abc"), RespParser::Outcome::incomplete);
  const RespParser::Partial partial = parser.partial();
  EXPECT_EQ(partial.index, 2u);
  EXPECT_EQ(partial.begin, head.size());
  EXPECT_EQ(partial.bytes, 100'000u);
  EXPECT_EQ(parser.word(head, 1), "k");
  const std::string word(100'000, 'w');
  parser.divert(word);
  EXPECT_EQ(parser.next(head), RespParser::Outcome::incomplete);
  EXPECT_LT(parser.wanted(), head.size() + 100);
  EXPECT_EQ(parser.partial().bytes, 0u);
  EXPECT_EQ(parser.next(head + "\r\n$2\r"), RespParser::Outcome::incomplete);
  const std::string whole = head + tail + "PING\r\n";
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(parser.next(whole), RespParser::Outcome::request);
    EXPECT_EQ(parser.consumed(), head.size() + tail.size());
    ASSERT_EQ(parser.arguments().size(), 4u);
    EXPECT_EQ(parser.arguments()[2].data(), word.data());
    EXPECT_EQ(parser.arguments()[3], "NX");
  }
  parser.forget_diverted();
  ASSERT_EQ(parser.next("*1\r\n$4\r\nPING\r\n"), RespParser::Outcome::request);
  EXPECT_EQ(parser.arguments()[0], "PING");
}

TEST(RespParserTest, SaysHowManyBytesAreWanted) {
  RespParser parser(512 << 20);
  const std::string head = "*2\r\n$3\r\nGET\r\n$1000000\r\n";
  EXPECT_EQ(parser.next(head.substr(0, head.size() - 1)), RespParser::Outcome::incomplete);
  EXPECT_EQ(parser.wanted(), 0u);
  EXPECT_EQ(parser.next(head), RespParser::Outcome::incomplete);
  EXPECT_EQ(parser.wanted(), head.size() + 1'000'002);
}

TEST(RespParserTest, KeepsInlineWordsUntilTheyAreReleased) {
  RespParser parser(512 << 20);
  ASSERT_EQ(parser.next("set \"a\" b\r\n"), RespParser::Outcome::request);
  const std::vector<std::string_view> first(parser.arguments().begin(), parser.arguments().end());
  for (int i = 0; i < 100; ++i) ASSERT_EQ(parser.next("get c\r\n"), RespParser::Outcome::request);
  EXPECT_EQ(first, (std::vector<std::string_view>{"set", "a", "b"}));
}

}  // namespace
}  // namespace isotherm::net::resp_parser_test
