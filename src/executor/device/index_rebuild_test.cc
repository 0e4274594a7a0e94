// An index that is made anew from the live items has all of them, and nothing else.
#include "executor/device/index_rebuild.h"

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "executor/host/host_executor.h"
#include "items/poison.h"

namespace isotherm::index_rebuild_test {
namespace {

// Enough pages that several threads share them.
constexpr uint64_t keys = poison::sanitized ? 6'000 : 40'000;
constexpr uint64_t value_bytes = poison::sanitized ? 4'000 : 1'000;

uint64_t usual_hash(std::string_view key, uint64_t seed) { return hash_bytes(key, seed); }
// Some ten keys agree on all 64 bits.
uint64_t coarse_hash(std::string_view key, uint64_t seed) {
  return (hash_bytes(key, seed) % (keys / 10) + 1) * 0x9E3779B97F4A7C15;
}

class IndexRebuildTest : public ::testing::TestWithParam<HostStore::Hash> {
 protected:
  IndexRebuildTest()
      : store_(options(), 1, GetParam()),
        slot_(store_.epochs.acquire()),
        executor_(std::make_unique<HostExecutor>(store_)) {}
  ~IndexRebuildTest() override {
    executor_.reset();
    store_.epochs.release(slot_);
  }

  static Options options() {
    Options options;
    options.databases = 3;
    return options;
  }
  static std::string key(uint64_t i) { return "key " + std::to_string(i); }
  static std::string value(uint64_t i) {
    const uint64_t bytes = i % 5000 == 0 ? 3 << 20 : value_bytes;
    return std::string(bytes, static_cast<char>('a' + i % 26)) + std::to_string(i);
  }
  static uint32_t database(uint64_t i) { return i % 7 == 0 ? 2 : 0; }

  template <class Add, class Look>
  void run(Add&& add, Look&& look) {
    constexpr uint64_t at_a_time = 500;
    for (uint64_t first = 0; first < keys; first += at_a_time) {
      std::vector<std::string> texts;
      texts.reserve(2 * at_a_time);
      for (uint64_t i = first; i < first + at_a_time; ++i) {
        batch_.select(database(i));
        add(texts, i);
      }
      const EpochGuard guard(store_.epochs, *slot_);
      executor_->run(batch_, 0, true);
      for (uint64_t i = first; i < first + at_a_time; ++i) {
        look(batch_.reply(static_cast<Batch::Row>(i - first)), i);
      }
      batch_.clear();
    }
  }

  HostStore store_;
  EpochDomain::Slot* slot_;
  std::unique_ptr<HostExecutor> executor_;
  Batch batch_;
};

TEST_P(IndexRebuildTest, FindsEveryLiveItem) {
  run(
      [&](auto& texts, uint64_t i) {
        const std::string& name = texts.emplace_back(key(i));
        batch_.put(name, texts.emplace_back(value(i)));
      },
      [](const Reply& reply, uint64_t) { ASSERT_EQ(reply.status, Status::ok); });
  const auto erased = [](uint64_t i) { return i % 3 == 0; };
  run(
      [&](auto& texts, uint64_t i) {
        const std::string& name = texts.emplace_back(key(i));
        erased(i) ? batch_.erase(name) : batch_.get(name);
      },
      [](const Reply& reply, uint64_t) { ASSERT_EQ(reply.status, Status::ok); });
  ASSERT_GT(store_.items.page_limit(), 8u);

  const uint64_t before = store_.databases[0].count() + store_.databases[2].count();
  for (Database& one : store_.databases) one.detach();
  {
    const EpochGuard guard(store_.epochs, *slot_);
    rebuild_index(store_, 1);
  }
  EXPECT_EQ(store_.databases[0].count() + store_.databases[2].count(), before);
  EXPECT_EQ(store_.databases[1].count(), 0u);
  run([&](auto& texts, uint64_t i) { batch_.get(texts.emplace_back(key(i))); },
      [&](const Reply& reply, uint64_t i) {
        ASSERT_EQ(reply.status, erased(i) ? Status::not_found : Status::ok) << i;
        if (!erased(i)) {
          ASSERT_EQ(reply.value(), value(i));
        }
      });
}

INSTANTIATE_TEST_SUITE_P(Hash, IndexRebuildTest, ::testing::Values(usual_hash, coarse_hash));

}  // namespace
}  // namespace isotherm::index_rebuild_test
