// Statistics of a server (net/server_state.h) while others start them anew.
#include "net/server_state.h"

#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <string>
#include <thread>

#include "engine/engine.h"

namespace isotherm::net::server_state_test {
namespace {

class ServerStateTest : public testing::Test {
 protected:
  ServerStateTest() { state_.loops.push_back(std::make_unique<LoopCounters>()); }

  const ServerOptions options_;
  ManualClock clock_{1'700'000'000'000};
  Engine engine_{options_.store, clock_};
  ServerState state_{options_, clock_, engine_};
};

TEST_F(ServerStateTest, NothingIsBelowWhatItWasStartedWith) {
  std::atomic<bool> stops{false};
  std::thread resetting([&] {
    LoopCounters& counters = *state_.loops[0];
    for (int i = 0; i < 300; ++i) {
      counters.by_command.note_error(1, "CODE" + std::to_string(i), false);
      counters[LoopCount::commands].add(1);
      state_.reset_statistics();
    }
    stops = true;
  });
  bool right = true;
  while (!stops) {
    const Statistics now = state_.statistics();
    right &= now[LoopCount::commands] <= 1 && now.errors.size() <= 1;
  }
  resetting.join();
  EXPECT_TRUE(right);
  EXPECT_TRUE(state_.statistics().errors.empty());
}

// As those of WATCH are.
TEST_F(ServerStateTest, ReadsThatAreTakenBackLaterAreNone) {
  Worker worker(engine_);
  Batch batch;
  batch.put("key", "value");
  batch.get("key");
  batch.get("none");
  worker.submit(batch);
  state_.reset_statistics();
  worker.uncount_reads(batch, 1, 3);
  EXPECT_EQ(state_.statistics().engine.hits, 0u);
  EXPECT_EQ(state_.statistics().engine.misses, 0u);
}

}  // namespace
}  // namespace isotherm::net::server_state_test
