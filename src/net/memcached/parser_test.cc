#include "net/memcached/parser.h"

#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "net/memcached_flush.h"

namespace isotherm::net::memcached_parser_test {
namespace {

constexpr int64_t now = 1'700'000'000'000;
constexpr Batch::Row many_rows = 1 << 20;
constexpr std::string_view bad_format = "CLIENT_ERROR bad command line format\r\n";

// The rows and answers of one connection, as text.
struct Trace {
  std::vector<std::string> rows;
  std::vector<std::string> answers;
  bool operator==(const Trace&) const = default;
};

std::string row_text(const Batch& batch, Batch::Row row) {
  static constexpr const char* names[] = {"get",    "put",     "erase", "add",
                                          "append", "prepend", "expire"};
  const auto& columns = batch.columns();
  const Op op = columns.op[row];
  if (op == Op::flush) return "flush " + std::to_string(columns.database[row]);
  std::string text = names[static_cast<size_t>(op)] + (" " + std::string(columns.key[row]));
  if (op == Op::put || op == Op::append || op == Op::prepend) {
    text += " '" + std::string(columns.value[row]) + "'";
  }
  if (op == Op::put) {
    text += " flags " + std::to_string(columns.flags[row]);
    text += " version " + std::to_string(columns.number[row]);
  }
  if (op == Op::put || op == Op::expire) text += " expiry " + std::to_string(columns.expiry[row]);
  if (op == Op::add) text += " " + std::to_string(static_cast<uint64_t>(columns.number[row]));
  if (columns.options[row] != 0) text += " options " + std::to_string(columns.options[row]);
  return text;
}

std::string answer_text(const MemcachedAnswer& answer) {
  if (answer.verb == MemcachedVerb::text) return std::string(answer.text);
  return std::to_string(static_cast<int>(answer.verb)) + (answer.silent ? " silent " : " ") +
         std::to_string(answer.row) + "+" + std::to_string(answer.count) + " " +
         std::string(answer.text) + std::to_string(answer.time_ms);
}

// A connection whose bytes arrive in pieces; each piece is a turn, but all rows stay in one batch.
class Connection {
 public:
  void feed(std::string_view piece) {
    pending_ += piece;
    // The copy is what a connection's buffer is: nothing may be read behind its end.
    const std::vector<char> input(pending_.begin(), pending_.end());
    Batch batch;
    std::vector<MemcachedAnswer> answers;
    size_t used = parser.parse({input.data(), input.size()}, {now, row_limit, batch, answers});
    const Batch::Row first = static_cast<Batch::Row>(trace.rows.size());
    for (Batch::Row row = 0; row < batch.size(); ++row) trace.rows.push_back(row_text(batch, row));
    for (MemcachedAnswer& answer : answers) {
      if (answer.count != 0)
        answer.row += first;
      else
        answer.row = 0;
      trace.answers.push_back(answer_text(answer));
    }
    pending_.erase(0, used);
  }
  void feed_all(std::string_view bytes) {
    size_t left = 0;
    feed(bytes);
    do {
      left = pending_.size();
      feed("");
    } while (pending_.size() != left);
  }
  size_t pending() const { return pending_.size(); }

  MemcachedParser parser;
  Trace trace;
  Batch::Row row_limit = many_rows;

 private:
  std::string pending_;
};

Trace run(std::string_view bytes) {
  Connection connection;
  connection.feed_all(bytes);
  return connection.trace;
}

std::vector<std::string> rows(std::string_view bytes) { return run(bytes).rows; }

std::vector<std::string> answers(std::string_view bytes) { return run(bytes).answers; }

using Texts = std::vector<std::string>;

std::string long_key() { return std::string(251, 'k'); }

TEST(MemcachedParser, StorageCommandsBecomeRows) {
  EXPECT_EQ(rows("set a 5 0 2\r\nxy\r\n"), Texts{"put a 'xy' flags 5 version 0 expiry 0"});
  EXPECT_EQ(rows("add a 0 10 1\r\nx\r\n"),
            Texts{"put a 'x' flags 0 version 0 expiry 1700000010000 options 1"});
  EXPECT_EQ(rows("replace a 0 -1 1\r\nx\r\n"),
            Texts{"put a 'x' flags 0 version 0 expiry 1 options 2"});
  EXPECT_EQ(rows("cas a 0 0 1 77\r\nx\r\n"),
            Texts{"put a 'x' flags 0 version 77 expiry 0 options 4"});
  EXPECT_EQ(rows("append a 9 9 1\r\nx\r\n"), Texts{"append a 'x' options 2"});
  EXPECT_EQ(rows("prepend a 9 9 1\r\nx\r\n"), Texts{"prepend a 'x' options 2"});
}

TEST(MemcachedParser, OtherCommandsBecomeRows) {
  const auto counter = option::if_present | option::saturating;
  EXPECT_EQ(rows("incr a 18446744073709551615\r\n"),
            Texts{"add a 18446744073709551615 options " + std::to_string(counter)});
  EXPECT_EQ(rows("decr a 1\r\n"),
            Texts{"add a 1 options " + std::to_string(counter | option::decrement)});
  EXPECT_EQ(rows("delete a\r\ndelete a 0\r\n"), (Texts{"erase a", "erase a"}));
  const auto touched = option::any_type | option::no_value | option::over_cap;
  EXPECT_EQ(rows("touch a 0\r\n"), Texts{"expire a expiry 0 options " + std::to_string(touched)});
  const std::string got = " expiry 1700000010000 options " + std::to_string(option::over_cap);
  EXPECT_EQ(rows("gat 10 a b\r\n"), (Texts{"expire a" + got, "expire b" + got}));
}

TEST(MemcachedParser, AGetOfManyKeysIsOneRunOfRows) {
  std::string line = "get";
  for (int i = 0; i < 100; ++i) line += " key" + std::to_string(i);
  Batch batch;
  batch.get("before");
  std::vector<MemcachedAnswer> found;
  MemcachedParser parser;
  line += "\r\n";
  EXPECT_EQ(parser.parse(line, {now, many_rows, batch, found}), line.size());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].row, 1u);
  EXPECT_EQ(found[0].count, 100u);
  EXPECT_EQ(batch.columns().key[100], "key99");
}

TEST(MemcachedParser, ATurnTakesNoMoreRowsThanAllowed) {
  Connection connection;
  connection.row_limit = 2;
  const std::string_view bytes = "get a b c d e \r\nget f\r\nget g\r\nversion\r\n";
  connection.feed(bytes);
  EXPECT_TRUE(connection.parser.stopped_early());
  EXPECT_EQ(connection.trace.rows, (Texts{"get a", "get b"}));
  connection.feed_all("");
  EXPECT_EQ(connection.pending(), 0u);
  EXPECT_FALSE(connection.parser.stopped_early());
  EXPECT_EQ(connection.trace.rows, rows(bytes));
  EXPECT_EQ(connection.trace.answers.size(), 6u);
}

TEST(MemcachedParser, OnlyTheLastPartOfAGetIsFinished) {
  const std::string_view bytes = "gat 0 a b c d e\r\n";
  MemcachedParser parser;
  std::vector<MemcachedAnswer> found;
  size_t used = 0;
  for (const bool unfinished : {true, true, false}) {
    Batch batch;
    used += parser.parse(bytes.substr(used), {now, 2, batch, found});
    EXPECT_EQ(found.back().unfinished, unfinished);
    EXPECT_EQ(parser.stopped_early(), unfinished);
  }
  EXPECT_EQ(used, bytes.size());
  EXPECT_EQ(found.size(), 3u);
}

TEST(MemcachedParser, AKeyThatIsTooLongFailsAGetBeforeItIsDivided) {
  MemcachedParser parser;
  Batch batch;
  std::vector<MemcachedAnswer> found;
  const std::string line = "get a b c " + long_key() + "\r\n";
  EXPECT_EQ(parser.parse(line, {now, 2, batch, found}), line.size());
  ASSERT_EQ(found.size(), 1u);
  EXPECT_EQ(found[0].text, bad_format);
}

TEST(MemcachedParser, NoreplyIsSilentAndErrorsToo) {
  Batch batch;
  std::vector<MemcachedAnswer> found;
  MemcachedParser parser;
  parser.parse("set a 0 0 1 noreply\r\nx\r\n", {now, many_rows, batch, found});
  ASSERT_EQ(found.size(), 1u);
  EXPECT_TRUE(found[0].silent);
  for (const char* line :
       {"set a x 0 1 noreply\r\n", "set a 0 0 noreply\r\n", "incr a noreply\r\n",
        "touch a x noreply\r\n", "delete a 5 noreply\r\n", "flush_all x noreply\r\n"}) {
    EXPECT_EQ(answers(line), Texts{}) << line;
  }
}

TEST(MemcachedParser, MalformedLines) {
  const std::pair<std::string, std::string_view> cases[] = {
      {"\r\n", "ERROR\r\n"},
      {"a\r\n", "ERROR\r\n"},
      {"GET a\r\n", "ERROR\r\n"},
      {"get\r\n", "ERROR\r\n"},
      {"get " + long_key() + "\r\n", bad_format},
      {"get a " + long_key() + " b\r\n", bad_format},
      {"set a 0 0\r\n", "ERROR\r\n"},
      {"set a 0 0 1 noreply x\r\n", "ERROR\r\n"},
      {"set " + long_key() + " 0 0 1\r\n", bad_format},
      {"set a -1 0 1\r\n", bad_format},
      {"set a 0 x 1\r\n", bad_format},
      {"set a 0 0 -1\r\n", bad_format},
      {"set a 0 0 2147483646\r\n", bad_format},
      {"set a 0 0 4294967297\r\n", bad_format},
      {"set a 0 0 99999999999999999999\r\n", bad_format},
      {"cas a 0 0 1\r\n", "ERROR\r\n"},
      {"cas a 0 0 1 x\r\n", bad_format},
      {"incr a\r\n", "ERROR\r\n"},
      {"incr a -1\r\n", "CLIENT_ERROR invalid numeric delta argument\r\n"},
      {"incr " + long_key() + " x\r\n", bad_format},
      {"delete a 5\r\n",
       "CLIENT_ERROR bad command line format.  Usage: delete <key> [noreply]\r\n"},
      {"delete a 0 0 0\r\n", "ERROR\r\n"},
      {"touch a x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"},
      {"gat x a\r\n", "CLIENT_ERROR invalid exptime argument\r\n"},
      {"flush_all x\r\n", "CLIENT_ERROR invalid exptime argument\r\n"},
      {"verbosity\r\n", "ERROR\r\n"},
      {"mg\r\n", "ERROR\r\n"},
      {"mg a x\r\n", "CLIENT_ERROR invalid flag\r\n"},
      {"ms a x\r\n", bad_format},
      {"ms a 1 x\r\nv\r\n", "CLIENT_ERROR invalid flag\r\n"},
      {"md a x\r\n", "CLIENT_ERROR invalid or duplicate flag\r\n"},
      {"me\r\n", bad_format},
      {"set HTTP/1.0\r\n", "ERROR\r\n"},
      {"set a 0 0 1\r\nxyz", "CLIENT_ERROR bad data chunk\r\n"},
  };
  for (const auto& [line, answer] : cases) {
    EXPECT_EQ(answers(line), Texts{std::string(answer)}) << line;
    EXPECT_EQ(rows(line).size(), line.starts_with("get a ") ? 1u : 0u) << line;
  }
}

TEST(MemcachedParser, ANulEndsTheLineEarly) {
  EXPECT_EQ(rows(std::string_view("get a\0b c\r\nget d\r\n", 18)), (Texts{"get a", "get d"}));
}

TEST(MemcachedParser, ABadChunkTakesWhatTheLengthAnnounced) {
  // "abcde" is the block and its end; "fg" is the next line.
  EXPECT_EQ(answers("set a 0 0 3\r\nabcdefg\r\nversion\r\n"),
            (Texts{"CLIENT_ERROR bad data chunk\r\n", "ERROR\r\n", "VERSION 1.6.18\r\n"}));
}

TEST(MemcachedParser, TooLargeItemsAreSwallowedAndASetDropsTheOldItem) {
  constexpr size_t longest = 1048516;  // with a key of one byte, measured with memcached 1.6.18
  const std::string value(longest + 1, 'v');
  const auto block = [&](const char* verb, size_t bytes, const char* flags) {
    return std::string(verb) + " a " + flags + " 0 " + std::to_string(bytes) + "\r\n" +
           value.substr(0, bytes) + "\r\nget b\r\n";
  };
  EXPECT_EQ(rows(block("set", longest, "0")).size(), 2u);
  EXPECT_EQ(rows(block("set", longest - 4, "1")).size(), 2u);
  EXPECT_EQ(rows(block("set", longest + 1, "0")), (Texts{"erase a", "get b"}));
  EXPECT_EQ(rows(block("set", longest - 3, "1")), (Texts{"erase a", "get b"}));
  EXPECT_EQ(rows(block("append", longest + 1, "0")), Texts{"get b"});
  EXPECT_EQ(answers(block("add", longest + 1, "0"))[0],
            "SERVER_ERROR object too large for cache\r\n");
}

TEST(MemcachedParser, ASwallowedBlockIsNotBuffered) {
  Connection connection;
  connection.feed("set a 0 0 2147483645\r\n");
  EXPECT_EQ(connection.trace.answers, Texts{"SERVER_ERROR object too large for cache\r\n"});
  for (int i = 0; i < 100; ++i) {
    connection.feed(std::string(10'000, 'x'));
    EXPECT_EQ(connection.pending(), 0u);
  }
}

TEST(MemcachedParser, WantedTellsTheSizeOfABlock) {
  Connection connection;
  connection.feed("set a 0 0 100000\r\nxxx");
  EXPECT_EQ(connection.parser.wanted(), 18u + 100'000u + 2u);
  connection.feed(std::string(99'997, 'x') + "\r\n");
  EXPECT_EQ(connection.parser.wanted(), 0u);
  EXPECT_EQ(connection.pending(), 0u);
  EXPECT_EQ(connection.trace.rows.size(), 1u);
}

TEST(MemcachedParser, OnlyAGetMayBeLong) {
  const auto closes = [](const std::string& bytes) {
    Connection connection;
    connection.feed(bytes);
    return connection.parser.closing();
  };
  EXPECT_FALSE(closes(std::string(2048, 'x')));
  EXPECT_TRUE(closes(std::string(2049, 'x')));
  EXPECT_FALSE(closes("get " + std::string(2048, 'x')));
  EXPECT_FALSE(closes(std::string(100, ' ') + "gets " + std::string(2048, 'x')));
  EXPECT_TRUE(closes(std::string(101, ' ') + "gets " + std::string(2048, 'x')));
  EXPECT_TRUE(closes("gat 0 " + std::string(2048, 'x')));
  EXPECT_FALSE(closes("get " + std::string(MemcachedParser::long_line_bytes - 4, 'x')));
  EXPECT_TRUE(closes("get " + std::string(MemcachedParser::long_line_bytes - 3, 'x')));
}

TEST(MemcachedParser, WhatClosesTheConnection) {
  for (const char* line : {"quit\r\n", "quit x\r\n", "GET / HTTP/1.1\r\n", "HTTP/1.0\r\n"}) {
    Connection connection;
    connection.feed(std::string(line) + "get a\r\n");
    EXPECT_TRUE(connection.parser.closing()) << line;
    EXPECT_EQ(connection.trace, Trace{}) << line;
  }
  Connection connection;
  connection.feed("\x80" + std::string(22, 'x'));
  EXPECT_FALSE(connection.parser.closing());
  connection.feed("y");
  EXPECT_TRUE(connection.parser.closing());
  EXPECT_EQ(connection.trace.answers.size(), 1u);
}

TEST(MemcachedParser, TheBinaryProtocolIsKnownAtTheBeginningOnly) {
  Connection connection;
  connection.feed("version\r\n\x80\r\n");
  EXPECT_FALSE(connection.parser.closing());
}

TEST(MemcachedParser, WhatRunsAloneEndsTheTurn) {
  const std::string_view bytes = "get a\r\nflush_all 9\r\nget b\r\nflush_all\r\nstats\r\nget c\r\n";
  MemcachedParser parser;
  Batch batch;
  std::vector<MemcachedAnswer> found;
  size_t used = parser.parse(bytes, {now, many_rows, batch, found});
  EXPECT_EQ(used, 20u);
  EXPECT_TRUE(found.back().runs_alone());
  EXPECT_EQ(parser.parse(bytes.substr(used), {now, many_rows, batch, found}), 0u);
  found.clear();
  used += parser.parse(bytes.substr(used), {now, many_rows, batch, found});
  EXPECT_EQ(bytes.substr(used), "get c\r\n");
}

TEST(MemcachedParser, WhenAFlushIsDue) {
  const auto due = [](const std::string& line) {
    MemcachedParser parser;
    Batch batch;
    std::vector<MemcachedAnswer> found;
    parser.parse(line + "\r\n", {now, many_rows, batch, found});
    return found.at(0).time_ms;
  };
  EXPECT_EQ(due("flush_all"), FlushTime::at_once);
  EXPECT_EQ(due("flush_all noreply"), FlushTime::at_once);
  EXPECT_EQ(due("flush_all 0"), FlushTime::at_once);
  EXPECT_EQ(due("flush_all -1"), FlushTime::at_once);
  EXPECT_EQ(due("flush_all 2 noreply"), now + 2'000);
  EXPECT_EQ(due("flush_all 1700000009"), now + 9'000);
  EXPECT_EQ(due("flush_all 2592001"), FlushTime::never);
}

TEST(MemcachedParser, EverySplitOfAPipelineGivesTheSame) {
  const std::string pipeline =
      "set a 1 0 5\r\nx\r\ny\r\r\nget a b\r\nset b 0 0 2 noreply\r\nzz\r\nset c 0 0 1\r\ntoo "
      "long\r\n"
      "incr n 5\ngat 10 a  b\r\ndelete a noreply\r\nfoo\r\nset d 0 0 1048577\r\n" +
      std::string(1048579, 'd') +
      "touch a 1\r\nflush_all\r\ngets a\r\n\r\nstats items\r\nversion\r\n";
  const Trace whole = run(pipeline);
  ASSERT_EQ(whole.answers.size(), 16u);
  const size_t block = pipeline.find("1048577") + 9;
  for (size_t split = 0; split <= pipeline.size(); ++split) {
    // Inside the swallowed block one position is as good as another.
    if (split > block + 3 && split + 60 < pipeline.size() && split < block + 1048576) {
      split = block + 1048576;
    }
    Connection connection;
    connection.feed_all(std::string_view(pipeline).substr(0, split));
    connection.feed_all(std::string_view(pipeline).substr(split));
    ASSERT_EQ(connection.trace, whole) << "split at " << split;
  }
}

TEST(MemcachedParser, ByteByByte) {
  const std::string pipeline =
      "set a 1 0 3\r\nx\r\n\r\nget a b\r\nset b 0 0 1\r\nzz\r\nversion\r\n";
  Connection connection;
  for (const char byte : pipeline) connection.feed({&byte, 1});
  EXPECT_EQ(connection.trace, run(pipeline));
}

}  // namespace
}  // namespace isotherm::net::memcached_parser_test
