// Of the clients that see a stale item exactly one is told to bring a new value, whatever else
// happens to the item meanwhile.
#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <string>
#include <thread>
#include <vector>

#include "base/wait_clock.h"
#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "items/meta_request.h"
#include "items/meta_state.h"

namespace isotherm::meta_commands_test {
namespace {

constexpr int rounds = 300;
constexpr int askers = 3;

// Runs one command on a key; what it found stands in `request`.
Status run(Worker& worker, std::string_view key, MetaRequest& request,
           std::string_view value = {}) {
  Batch batch;
  batch.meta(key, value, request);
  worker.submit(batch);
  const Status status = batch.reply(0).status;
  batch.clear();
  return status;
}

MetaRequest of(MetaRequest::Kind kind) {
  MetaRequest request;
  request.kind = kind;
  return request;
}

// What a get finds, as a plain one or by a command that could change the item.
struct Found {
  uint64_t state = 0;
  bool won = false;
};

Found ask(Worker& worker, std::string_view key, bool plain) {
  if (!plain) {
    MetaRequest get = of(MetaRequest::Kind::get);
    EXPECT_EQ(run(worker, key, get), Status::ok);
    return {get.state, get.won};
  }
  Batch batch;
  batch.get_with_state(key, 0);
  EXPECT_FALSE(batch.writes());
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::ok);
  EXPECT_EQ(batch.reply(0).value(), "value");
  const auto state = static_cast<uint64_t>(batch.reply(0).number);
  batch.clear();
  return {state & ~MetaState::won, (state & MetaState::won) != 0};
}

TEST(MetaCommands, OneOfManyThreadsWinsAStaleItem) {
  const ManualClock clock(1'700'000'000'000);
  const Options options;
  Engine engine(options, clock);
  std::barrier start(askers + 1);
  std::barrier end(askers + 1);
  std::atomic<int> wins{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < askers; ++i) {
    threads.emplace_back([&, i] {
      Worker worker(engine);
      for (int round = 0; round < rounds; ++round) {
        start.arrive_and_wait();
        for (int ask_number = 0; ask_number < 3; ++ask_number) {
          const Found found = ask(worker, "key", (round + ask_number) % 2 == 0);
          EXPECT_NE(found.state & MetaState::stale, 0u);
          wins += found.won;
          // What stores or marks the item anew must not forget who won.
          Batch batch;
          batch.expire("key", 4'000'000'000'000 + round * 100 + i * 10 + ask_number);
          batch.get("key");
          worker.submit(batch);
          batch.clear();
        }
        end.arrive_and_wait();
      }
    });
  }
  Worker worker(engine);
  for (int round = 0; round < rounds; ++round) {
    MetaRequest store = of(MetaRequest::Kind::store);
    MetaRequest mark = of(MetaRequest::Kind::mark_stale);
    EXPECT_EQ(run(worker, "key", store, "value"), Status::ok);
    EXPECT_EQ(run(worker, "key", mark), Status::ok);
    wins = 0;
    start.arrive_and_wait();
    end.arrive_and_wait();
    EXPECT_EQ(wins, 1) << "round " << round;
  }
  for (std::thread& thread : threads) thread.join();
}

TEST(MetaCommands, OneOfManyThreadsMakesTheItem) {
  const ManualClock clock(1'700'000'000'000);
  const Options options;
  Engine engine(options, clock);
  std::barrier start(askers);
  std::atomic<int> made{0};
  std::vector<std::thread> threads;
  for (int i = 0; i < askers; ++i) {
    threads.emplace_back([&] {
      Worker worker(engine);
      for (int round = 0; round < rounds; ++round) {
        start.arrive_and_wait();
        MetaRequest get = of(MetaRequest::Kind::get);
        get.vivifies = true;
        EXPECT_EQ(run(worker, std::to_string(round), get), Status::ok);
        EXPECT_EQ(get.won, get.created);
        made += get.created;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(made, rounds);
}

TEST(MetaCommands, OnlyAGetAndArithmeticMakeAnItem) {
  const ManualClock clock(1'700'000'000'000);
  const Options options;
  Engine engine(options, clock);
  Worker worker(engine);
  using enum MetaRequest::Kind;
  for (const MetaRequest::Kind kind : {look, erase, mark_stale}) {
    MetaRequest request = of(kind);
    request.vivifies = true;
    EXPECT_EQ(run(worker, "key", request), Status::not_found);
    EXPECT_FALSE(request.created);
  }
  for (const MetaRequest::Kind kind : {get, arithmetic}) {
    MetaRequest request = of(kind);
    request.vivifies = true;
    EXPECT_EQ(run(worker, kind == get ? "of a get" : "of arithmetic", request), Status::ok);
    EXPECT_TRUE(request.created);
  }
}

TEST(MetaCommands, AnAddedExpiryKeepsTheStateAndTheVersion) {
  const ManualClock clock(1'700'000'000'000);
  const Options options;
  Engine engine(options, clock);
  Worker worker(engine);
  MetaRequest store = of(MetaRequest::Kind::store);
  store.binary_key = true;
  run(worker, "key", store, "value");
  Batch batch;
  batch.get("key");
  batch.expire("key", 4'000'000'000'000);
  batch.get("key");
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).version, batch.reply(2).version);
  EXPECT_EQ(batch.reply(2).value(), "value");
  batch.clear();
  MetaRequest look = of(MetaRequest::Kind::look);
  EXPECT_EQ(run(worker, "key", look), Status::ok);
  EXPECT_NE(look.state & MetaState::binary_key, 0u);
  EXPECT_NE(look.state & MetaState::active, 0u);
}

TEST(MetaCommands, APlainGetShowsTheStateAsItWasFound) {
  const ManualClock clock(1'700'000'000'000);
  const Options options;
  Engine engine(options, clock);
  Worker worker(engine);
  MetaRequest store = of(MetaRequest::Kind::store);
  run(worker, "key", store, "value");
  EXPECT_EQ(ask(worker, "key", true).state & MetaState::fetched, 0u);
  EXPECT_NE(ask(worker, "key", true).state & MetaState::fetched, 0u);
  EXPECT_NE(ask(worker, "key", true).state & MetaState::active, 0u);
  MetaRequest mark = of(MetaRequest::Kind::mark_stale);
  run(worker, "key", mark);
  EXPECT_TRUE(ask(worker, "key", true).won);
  const Found second = ask(worker, "key", true);
  EXPECT_FALSE(second.won);
  EXPECT_NE(second.state & MetaState::token_sent, 0u);
  Batch batch;
  batch.put("plain", "value");
  worker.submit(batch);
  batch.clear();
  EXPECT_EQ(ask(worker, "plain", true).state, 0u);
}

// In a round of two each answers rows of both, and gets of one key could go to both.
TEST(MetaCommands, OneOfARoundOnADeviceWinsAStaleItem) {
  const ManualClock clock(1'700'000'000'000);
  FakeDevice device(7, uint64_t{1} << 28);
  Options options;
  options.rounds = {Scheduling::fixed_size, 1000, 1'000'000};
  ManualWaitClock round_clock;
  Engine engine(options, clock, fake_root_tiers_maker(device), &round_clock);
  Worker one(engine), other(engine);
  const auto leave_stale = [&](Worker& worker) {
    MetaRequest store = of(MetaRequest::Kind::store), mark = of(MetaRequest::Kind::mark_stale);
    Batch batch;
    batch.meta("key", "value", store);
    batch.meta("key", {}, mark);
    batch.group(0);
    worker.submit(batch);
    EXPECT_EQ(batch.reply(1).status, Status::ok);
    batch.clear();
  };
  leave_stale(one);
  leave_stale(other);
  const uint64_t before = engine.stats().rounds.rounds;
  const uint64_t waits = round_clock.waits();
  int wins[2] = {0, 0};
  std::thread leads([&] { wins[0] = ask(one, "key", true).won; });
  while (round_clock.waits() == waits) std::this_thread::yield();
  wins[1] = ask(other, "key", true).won;
  leads.join();
  EXPECT_EQ(engine.stats().rounds.rounds, before + 1);
  EXPECT_EQ(wins[0] + wins[1], 1);
}

}  // namespace
}  // namespace isotherm::meta_commands_test
