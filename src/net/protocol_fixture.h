// ProtocolTest: a connection without a socket, on an engine of its own, whose turns a test runs by
// hand; for tests of what a protocol answers.
//
// Threads. One.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <string_view>

#include "engine/engine.h"
#include "net/client.h"
#include "net/protocol.h"
#include "net/server_state.h"

namespace isotherm::net {

class ProtocolTest : public testing::Test {
 protected:
  ProtocolTest() { server_.loops.push_back(std::make_unique<LoopCounters>()); }

  // Turns as a loop does until nothing more can be parsed; returns what was answered.
  std::string run(std::string_view bytes) {
    std::string answered;
    turns_ = 0;
    bool more = true;
    while (more) {
      Turn turn{batch_, worker_, server_, *server_.loops[0], clock_, copies_};
      Output output;
      const size_t parsed = protocol_->parse(bytes, turn);
      const uint64_t copied = worker_.copied_bytes();
      worker_.submit(batch_);
      copies_.learn(worker_.copied_bytes() - copied);
      bytes.remove_prefix(parsed - protocol_->reply(turn, output));
      more = protocol_->stopped_early();
      batch_.clear();
      while (protocol_->waits_alone()) run_alone(turn, output);
      answered += output.text();
      ++turns_;
    }
    EXPECT_TRUE(bytes.empty()) << bytes;
    return answered;
  }

  void run_alone(Turn& turn, Output& output) {
    protocol_->run_alone(turn, output);
    if (!batch_.walks()) return;
    worker_.submit(batch_);
    protocol_->end_step(turn, output);
    batch_.clear();
  }

  static ServerOptions small_options() {
    ServerOptions options;
    options.store.databases = 2;
    return options;
  }

  const ServerOptions options_ = small_options();
  ManualClock clock_{1'700'000'000'000};
  Engine engine_{options_.store, clock_};
  Worker worker_{engine_};
  Batch batch_;
  CopyRation copies_;
  ServerState server_{options_, clock_, engine_};
  Client client_;
  std::unique_ptr<Protocol> protocol_;  // made by the test
  int turns_ = 0;
};

}  // namespace isotherm::net
