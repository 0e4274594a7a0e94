// Which commands of a turn that took long are noted as slow (net/resp/slow_answers.h).
#include "net/resp/slow_answers.h"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <vector>

#include "net/protocol_fixture.h"
#include "net/resp/protocol.h"

namespace isotherm::net::slow_answers_test {
namespace {

class SlowAnswersTest : public ProtocolTest {
 protected:
  SlowAnswersTest() { protocol_ = make_resp_protocol(server_, client_); }

  // Answers all of it in one turn that takes 20 ms.
  void run_slowly(std::string_view bytes) {
    Turn turn{batch_, worker_, server_, *server_.loops[0], clock_, copies_};
    Output output;
    ASSERT_EQ(protocol_->parse(bytes, turn), bytes.size());
    turn.now_us();
    worker_.submit(batch_);
    clock_.advance(20);
    ASSERT_EQ(protocol_->reply(turn, output), 0u);
    batch_.clear();
    while (protocol_->waits_alone()) run_alone(turn, output);
  }

  // The noted commands, the newest first, their words joined.
  std::vector<std::string> noted() const {
    std::vector<std::string> all;
    for (const SlowCommand& slow : server_.slow_log.newest(1000)) {
      std::string& text = all.emplace_back();
      for (const std::string& word : slow.words) text += (text.empty() ? "" : " ") + word;
    }
    return all;
  }

  using Noted = std::vector<std::string>;
};

TEST_F(SlowAnswersTest, ACommandAloneHasTheTimeOfItsTurn) {
  run_slowly("GET a\r\n");
  const std::vector<SlowCommand> slow = server_.slow_log.newest(10);
  ASSERT_EQ(slow.size(), 1u);
  EXPECT_EQ(slow[0].words, (std::vector<std::string>{"GET", "a"}));
  EXPECT_EQ(slow[0].microseconds, 20'000);
  EXPECT_EQ(slow[0].began_seconds, 1'700'000'000);
}

TEST_F(SlowAnswersTest, TheCommandWithTheWorkIsFoundAmongOthers) {
  std::string keys;
  for (int i = 0; i < 1000; ++i) keys += " k" + std::to_string(i);
  run_slowly("GET a\r\nGET b\r\nMGET" + keys + "\r\n");
  ASSERT_EQ(noted().size(), 1u);
  EXPECT_TRUE(noted()[0].starts_with("MGET k0 k1 "));
}

TEST_F(SlowAnswersTest, LongValuesAreWork) {
  run("SETRANGE long 1000000 x\r\n");
  server_.slow_log.clear();
  run_slowly("GET a\r\nSET b 1\r\nAPPEND long y\r\nSTRLEN b\r\n");
  EXPECT_EQ(noted(), Noted{"APPEND long y"});
  run_slowly("GET a\r\nBITCOUNT long\r\nSET b 1\r\n");
  EXPECT_EQ(noted().front(), "BITCOUNT long");
  EXPECT_EQ(noted().size(), 2u);
}

TEST_F(SlowAnswersTest, CommandsThatShareTheTimeAreNotSlow) {
  std::string many;
  for (int i = 0; i < 10; ++i) many += "GET a\r\n";
  run_slowly(many);
  EXPECT_EQ(noted(), Noted{});
  server_.slow_log.slower_than_us = 1000;
  run_slowly(many);
  EXPECT_EQ(noted().size(), 10u);
}

TEST_F(SlowAnswersTest, NoneIsNotedWhereTheLogIsOff) {
  server_.slow_log.slower_than_us = -1;
  run_slowly("GET a\r\n");
  EXPECT_EQ(noted(), Noted{});
}

TEST_F(SlowAnswersTest, EachCommandOfATransactionStandsForItself) {
  server_.slow_log.slower_than_us = 1000;
  run("MULTI\r\nSET a 1\r\nCLIENT ID\r\nGET a\r\n");
  run_slowly("EXEC\r\n");
  EXPECT_EQ(noted(), (Noted{"GET a", "CLIENT ID", "SET a 1"}));
}

TEST_F(SlowAnswersTest, PasswordsAndWhatDidNotRunAreNotNoted) {
  server_.slow_log.slower_than_us = 0;
  run_slowly("AUTH secret\r\nHELLO 3 AUTH me secret\r\nNOSUCH\r\nGET\r\n");
  EXPECT_EQ(noted(), Noted{});
}

}  // namespace
}  // namespace isotherm::net::slow_answers_test
