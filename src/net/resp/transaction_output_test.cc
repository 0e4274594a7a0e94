// What EXEC answers beside the limit on unsent replies.
#include <gtest/gtest.h>

#include <string>

#include "net/client_limits.h"
#include "net/output.h"
#include "net/protocol_fixture.h"
#include "net/resp/protocol.h"

namespace isotherm::net::transaction_output_test {
namespace {

class TransactionOutputTest : public ProtocolTest {
 protected:
  TransactionOutputTest() { protocol_ = make_resp_protocol(server_, client_); }

  // The bytes of all answers to gets of a long value in a transaction.
  size_t answered() {
    constexpr int gets = 200;
    std::string transaction = "MULTI\r\n";
    for (int i = 0; i < gets; ++i) transaction += "GET key\r\n";
    return run(transaction + "SET done 1\r\nEXEC\r\n").size();
  }
};

// Its client is disconnected then, so what is beyond it is not held; all commands are run.
TEST_F(TransactionOutputTest, AnswersEndWhereTheClientIsDisconnected) {
  constexpr size_t value_bytes = 10'000;
  constexpr size_t limit = 100'000;
  run("SET key " + std::string(value_bytes, 'v') + "\r\n");
  EXPECT_GT(answered(), 200 * value_bytes);
  run("DEL done\r\n");
  server_.limits.output[ClientLimits::normal].hard = limit;
  const size_t bytes = answered();
  EXPECT_TRUE(OutputWatch().over(server_.limits.output[ClientLimits::normal], bytes, 0));
  EXPECT_LT(bytes, 2 * limit);
  EXPECT_EQ(run("EXISTS done\r\n"), ":1\r\n");
}

}  // namespace
}  // namespace isotherm::net::transaction_output_test
