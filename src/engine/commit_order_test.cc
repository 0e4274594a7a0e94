// When a change is told (executor/commit_sink.h): under the lock of the key's line, when nobody can
// see it yet, also of keys whose hashes agree. Where the rule "telling" (base/broken.h) is broken,
// this fails.
#include <gtest/gtest.h>

#include <string>

#include "base/tile.h"
#include "executor/upkeep/host_upkeep.h"
#include "fake_device/fake_root_table.h"
#include "items/poison.h"
#include "models/change_log.h"
#include "models/history.h"

namespace isotherm::commit_order_test {
namespace {

uint64_t one_hash(std::string_view, uint64_t) { return 0x1234'5678'9ABC'DEF0; }

// A host store with a log of its changes, and one worker of it.
class CommitOrderTest : public ::testing::TestWithParam<HostStore::Hash> {
 protected:
  CommitOrderTest() {
    store_.sink = &log_;
    log_.look = [this](const ItemChange& change) { look(change); };
  }
  ~CommitOrderTest() override { store_.epochs.release(slot_); }

  static Options options() {
    Options options;
    options.databases = 2;
    options.max_value_bytes = 50'000;
    return options;
  }

  // What everybody finds at this moment is what was there before.
  void look(const ItemChange& change) {
    const uint64_t hash = store_.hash(change.key, store_.seed);
    LineIndex& index = *store_.databases[change.database].index();
    const Pair entry = index.view().entry(hash);
    const auto* segment = reinterpret_cast<const Segment*>(entry.second);
    ASSERT_EQ(segment->lock[line_number(hash, segment->depth, segment_line_bits)], 1)
        << "the line is not locked";
    const Location root = index.find<TilePlain>(hash).word;
    ASSERT_EQ(resolve(store_.items, root, change.key).item, change.old_item) << change.key;
    if (change.old_item == nullptr || change.new_item != change.old_item) return;
    EXPECT_TRUE(change.old_item->has_expiry());
  }

  void run(Batch& batch) {
    const Batch one;  // the log asks whether rows of it were answered
    const CommitSink::Begun begun = log_.begins(one);
    executor_.set_token(begun.token);
    executor_.run(batch, clock_.now_ms(), true);
    log_.ends(begun.token);
  }
  void step(History& history) {
    const EpochGuard guard(store_.epochs, *slot_);
    history.step(clock_.now_ms(), [&](Batch& batch) { run(batch); });
  }

  HostStore store_{options(), 1, GetParam()};
  ManualClock clock_{1'000'000};
  EpochDomain::Slot* slot_ = store_.epochs.acquire();
  HostExecutor executor_{store_};
  HostUpkeep upkeep_{executor_, *slot_};
  ChangeLog log_;
};

TEST_P(CommitOrderTest, ChangesAreToldBeforeAnybodyCanSeeThem) {
  History history({.keys = 30, .databases = 2, .max_value_bytes = 50'000});
  const int steps = poison::sanitized ? 30 : 150;
  for (int i = 0; i < steps && !HasFailure(); ++i) {
    step(history);
    upkeep_.step(200, clock_.now_ms());
    if (i % 3 == 0) clock_.advance(20);
  }
  EXPECT_EQ(log_.errors(), std::vector<std::string>{});
  EXPECT_GT(log_.count(ItemChange::Reason::expired), 0u);
  // It has what the model has, and what has expired and was not asked for since.
  size_t live = 0;
  for (const auto& [key, entry] : log_.entries()) {
    if (entry.expiry != no_expiry && entry.expiry <= clock_.now_ms()) continue;
    ++live;
    const StoreModel::Entry* expected = history.model().find(key, clock_.now_ms());
    ASSERT_NE(expected, nullptr) << key.second;
    EXPECT_EQ(*entry.value, expected->value);
    EXPECT_EQ(entry.expiry, expected->expiry);
    EXPECT_EQ(entry.flags, expected->flags);
  }
  size_t expected = 0;
  for (const auto& [key, entry] : history.model().entries()) {
    expected += entry.expiry == no_expiry || entry.expiry > clock_.now_ms();
  }
  EXPECT_EQ(live, expected);
}

INSTANTIATE_TEST_SUITE_P(Hash, CommitOrderTest,
                         ::testing::Values(static_cast<HostStore::Hash>(hash_bytes), one_hash));

}  // namespace
}  // namespace isotherm::commit_order_test
