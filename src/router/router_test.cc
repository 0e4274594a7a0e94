// Router: models, the sample, the flow of bins, and when a choice is put into effect.
#include "router/router.h"

#include <gtest/gtest.h>

#include <random>
#include <thread>

#include "base/hash.h"
#include "index/line_index_fixture.h"

namespace isotherm::router_test {
namespace {

std::vector<bool> chosen_by(Model& model, const std::vector<uint32_t>& requests, uint64_t keys) {
  uint64_t all = 0;
  for (const uint32_t count : requests) all += count;
  std::vector<bool> hot(requests.size());
  model.choose({requests, all, keys}, hot);
  return hot;
}

TEST(ModelTest, HistogramTakesBinsAboveItsShare) {
  std::vector<uint32_t> requests(10'000, 100);  // a million
  requests[17] = 101;
  requests[9999] = 5000;
  requests[3] = 0;
  HistogramModel model(1.01e-4);
  const std::vector<bool> hot = chosen_by(model, requests, 0);
  for (size_t bin = 0; bin < hot.size(); ++bin) {
    ASSERT_EQ(hot[bin], bin == 9999) << bin;  // 101.5 of 1,004,801 are the least
  }
  HistogramModel usual;
  EXPECT_EQ(chosen_by(usual, requests, 0), [&] {
    std::vector<bool> all(requests.size(), true);
    all[3] = false;
    return all;
  }());
}

TEST(ModelTest, BudgetTakesTheHottestBinsThatFit) {
  const std::vector<uint32_t> requests = {10, 500, 0, 40, 300, 0, 100, 50};
  BudgetModel by_keys({.keys = 35});
  // 80 keys in 8 bins: three bins fit.
  EXPECT_EQ(chosen_by(by_keys, requests, 80),
            (std::vector<bool>{false, true, false, false, true, false, true, false}));
  BudgetModel by_time({.requests_share = 0.5});
  EXPECT_EQ(chosen_by(by_time, requests, 80),
            (std::vector<bool>{false, true, false, false, false, false, false, false}));
  BudgetModel none({});
  EXPECT_EQ(chosen_by(none, requests, 80),
            (std::vector<bool>{true, true, false, true, true, false, true, true}));
}

TEST(ModelTest, BudgetOfTimeKeepsBothSidesBusy) {
  // 16 threads that need 50 ns a hot request and 25 to hand on a cold one; 400 M/s of these.
  const double share = BudgetModel::share_for(16, 50, 25, 400e6);
  const double hot_rate = 400e6 * share / (1 - share);
  EXPECT_NEAR(hot_rate * 50 + 400e6 * 25, 16e9, 1);
  EXPECT_EQ(BudgetModel::share_for(1, 50, 25, 400e6), 0);
  EXPECT_EQ(BudgetModel::share_for(1, 20, 25, 400e6), 1);
}

constexpr uint32_t bins = 100;

// Keeps nothing, but sees that it is asked at the right time.
class WatchfulKeeper : public BinKeeper {
 public:
  explicit WatchfulKeeper(const BinStates& states) : states_(states) {}
  bool warm(uint32_t bin) override { return note(bin, BinState::warming); }
  bool cool(uint32_t bin) override { return note(bin, BinState::cooling); }

  std::vector<uint32_t> calls;
  int steps_a_bin = 1;

 private:
  bool note(uint32_t bin, BinState wanted) {
    EXPECT_EQ(states_.state(bin), wanted);
    calls.push_back(bin);
    return static_cast<int>(calls.size()) % steps_a_bin == 0;
  }
  const BinStates& states_;
};

// A third model, for tests: the bins that it was told.
class ToldModel : public Model {
 public:
  explicit ToldModel(std::vector<bool>& told) : told_(told) {}
  std::string_view name() const override { return "told"; }
  void choose(const BinSample&, std::vector<bool>& hot) override { hot = told_; }

 private:
  std::vector<bool>& told_;
};

class RouterTest : public ::testing::Test {
 protected:
  void make(std::unique_ptr<Model> model, Router::Options options = {}) {
    router = std::make_unique<Router>(states, epochs, keeper, std::move(model), options);
  }
  void make_told(Router::Options options = {}) { make(std::make_unique<ToldModel>(told), options); }
  void ask(uint32_t bin, uint32_t times) {
    for (uint32_t i = 0; i < times; ++i) router->counts().note(states.first_hash(bin) + 1);
  }
  void tell(std::initializer_list<uint32_t> hot) {
    told.assign(bins, false);
    for (const uint32_t bin : hot) told[bin] = true;
  }
  void move_all() {
    while (router->step()) {
    }
  }

  BinStates states{bins};
  EpochDomain epochs;
  WatchfulKeeper keeper{states};
  std::vector<bool> told = std::vector<bool>(bins);
  std::unique_ptr<Router> router;
};

TEST_F(RouterTest, HotBinsFollowTheLoad) {
  make(std::make_unique<HistogramModel>(0.1));
  ask(3, 4000);
  ask(4, 4000);
  for (uint32_t bin = 0; bin < bins; ++bin) ask(bin, 10);
  EXPECT_TRUE(router->train(0));
  move_all();
  EXPECT_EQ(states.state(3), BinState::hot);
  EXPECT_EQ(states.state(4), BinState::hot);
  EXPECT_EQ(states.in_state(BinState::cold), bins - 2);
  EXPECT_NEAR(router->share_hot(), 8020 / 9000.0, 1e-9);
  // What was asked for before fades.
  int trainings = 0;
  while (states.state(3) == BinState::hot) {
    ASSERT_LT(++trainings, 10);
    ask(50, 4000);
    router->train(0);
    move_all();
  }
  EXPECT_EQ(states.state(50), BinState::hot);
  EXPECT_EQ(router->flow().warmed(), 3u);
  EXPECT_GE(router->flow().cooled(), 1u);
}

TEST_F(RouterTest, ChanceMovesBinsOfWhichNobodyAsks) {
  make(std::make_unique<ChanceModel>(), {.most_refusals = 1, .least_sample = 0});
  EXPECT_TRUE(router->train(0));
  move_all();
  EXPECT_GT(states.in_state(BinState::hot), bins / 4);
  EXPECT_GT(states.in_state(BinState::cold), bins / 4);
  EXPECT_TRUE(router->train(0));
  move_all();
  EXPECT_GT(router->flow().cooled(), 0u);
  EXPECT_EQ(router->share_hot(), 0.0);
}

TEST_F(RouterTest, NothingIsLearnedFromFewRequests) {
  make_told();
  tell({1});
  ask(1, 999);
  EXPECT_FALSE(router->train(0));
  ask(1, 1);
  EXPECT_TRUE(router->train(0));
}

TEST_F(RouterTest, ASmallGainMovesNothingUntilItWasRefusedOften) {
  Router::Options options;
  options.most_refusals = 5;
  make_told(options);
  tell({1});
  ask(1, 10'000);
  EXPECT_TRUE(router->train(0));
  tell({1, 2});
  for (int i = 1; i < 5; ++i) {
    ask(1, 10'000);
    ask(2, 100);
    EXPECT_FALSE(router->train(0));
  }
  EXPECT_EQ(router->changes(), 1u);
  ask(1, 10'000);
  EXPECT_TRUE(router->train(0));
  EXPECT_EQ(router->changes(), 2u);
  // A gain that pays is taken at once.
  tell({3});
  ask(3, 30'000);
  EXPECT_TRUE(router->train(0));
}

TEST_F(RouterTest, NoBinMovesBeforeEarlierRequestsHaveEnded) {
  make_told();
  EpochDomain::Slot* slot = epochs.acquire();
  epochs.enter(*slot);
  tell({7});
  ask(7, 2000);
  ASSERT_TRUE(router->train(0));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(router->step());
  EXPECT_EQ(states.state(7), BinState::warming);
  EXPECT_TRUE(keeper.calls.empty());
  EpochDomain::leave(*slot);
  epochs.enter(*slot);  // a later request holds nothing up
  move_all();
  EXPECT_EQ(states.state(7), BinState::hot);
  tell({});
  ask(8, 2000);
  ASSERT_TRUE(router->train(0));
  for (int i = 0; i < 10; ++i) ASSERT_TRUE(router->step());
  EXPECT_EQ(states.state(7), BinState::cooling);
  EXPECT_EQ(keeper.calls.size(), 1u);
  EpochDomain::leave(*slot);
  move_all();
  EXPECT_EQ(states.state(7), BinState::cold);
  epochs.release(slot);
}

TEST_F(RouterTest, ABinThatIsWantedColdWhileItWarmsBecomesHotFirst) {
  Router::Options options;
  options.group = 2;
  make_told(options);
  keeper.steps_a_bin = 3;
  tell({1, 2, 3, 4});
  for (uint32_t bin = 1; bin <= 4; ++bin) ask(bin, 1000 * bin);
  ASSERT_TRUE(router->train(0));
  while (keeper.calls.empty()) router->step();
  EXPECT_EQ(states.in_state(BinState::warming), 2u);  // the group
  EXPECT_EQ(states.state(4), BinState::warming);      // the hottest
  tell({});
  ask(9, 20'000);
  ASSERT_TRUE(router->train(0));
  move_all();
  EXPECT_EQ(states.in_state(BinState::cold), bins);
  EXPECT_EQ(router->flow().warmed(), 2u);  // the others were not begun
  EXPECT_EQ(router->flow().cooled(), 2u);
}

TEST_F(RouterTest, BinsThatCoolMakeRoomFirst) {
  make_told();
  tell({1});
  ask(1, 2000);
  ASSERT_TRUE(router->train(0));
  move_all();
  tell({2});
  ask(2, 9000);
  ASSERT_TRUE(router->train(0));
  move_all();
  EXPECT_EQ(keeper.calls, (std::vector<uint32_t>{1, 1, 2}));
}

TEST(RequestSampleTest, TakesOneOfSomeWhateverTheBatches) {
  const BinStates states(1);
  BinCounts counts(states);
  RequestSample sample;
  std::mt19937_64 random(1);
  std::vector<uint64_t> hashes(1000, 5);
  uint64_t rows = 0;
  for (int batch = 0; batch < 1000; ++batch) {
    const size_t size = random() % hashes.size();
    sample.take({hashes.data(), size}, counts);
    rows += size;
  }
  std::vector<uint32_t> read;
  EXPECT_EQ(counts.read(read), (rows + RequestSample::one_of - 1) / RequestSample::one_of);
  const uint32_t before = read[0];
  counts.age();
  EXPECT_EQ(counts.read(read), before / 2);
}

// The whole: threads write and read, and what they write is never lost while a model that knows
// nothing moves bins back and forth.
class RouterFlapTest : public LineIndexFixture {};

TEST_F(RouterFlapTest, WritesAreSeenWhileAModelOfChanceMovesBins) {
  EpochDomain::leave(*slot);
  BinStates states(bins);
  constexpr uint64_t key_count = 300;
  const auto hash_of = [](uint64_t key) { return mix(key, 99) | 1; };
  HotTable::Options part;
  part.least_bytes = 64 << 10;
  part.largest = HugeBlock::Pages::transparent;
  part.seed = 0x5851f42d4c957f2d;
  HotTable table(
      1, [this](uint32_t) { return index.get(); }, states, epochs, budget, part);
  std::vector<bool> told(bins);
  Router router(states, epochs, table, std::make_unique<ToldModel>(told),
                {.least_gain = -1, .least_sample = 1});
  std::atomic<uint64_t> written[key_count] = {};
  std::atomic<bool> stop{false};
  std::atomic<bool> fast{false};  // served somebody
  std::vector<std::thread> threads;
  for (int thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      TakenSlot taken(epochs);
      FastUse use;
      for (uint64_t round = 1; !stop.load(); ++round) {
        const EpochGuard guard(epochs, *taken.slot);
        // Own keys are written and read back at once, those of others are read.
        const uint64_t own = (round * 3 + static_cast<uint64_t>(thread)) % key_count;
        table.update<TilePlain>(*index, hash_of(own), [&](bool, uint64_t, Segment&) {
          return Decision{round % 7 == 0 ? Action::erase : Action::store, round};
        });
        written[own].store(round);
        const Found mine = table.find<TilePlain>(*index, hash_of(own), use);
        ASSERT_EQ(mine.word, round % 7 == 0 ? 0 : round);
        const uint64_t key = round * 31 % key_count;
        const uint64_t before = written[key].load();
        const Found found = table.find<TilePlain>(*index, hash_of(key), use);
        ASSERT_TRUE(!found.found || found.word >= before);
        router.counts().note(hash_of(key));
        if (use.all_hits() != 0) fast.store(true);
      }
    });
  }
  std::mt19937_64 random(3);
  while ((router.flow().warmed() < 200 || !fast.load()) && !HasFailure()) {
    for (uint32_t bin = 0; bin < bins; ++bin) told[bin] = random() % 2 == 0;
    router.train(0);
    for (int i = 0; i < 300; ++i) router.step();
  }
  stop.store(true);
  for (std::thread& thread : threads) thread.join();
  EXPECT_GT(router.flow().cooled(), 0u);
}

}  // namespace
}  // namespace isotherm::router_test
