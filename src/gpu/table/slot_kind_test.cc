// SlotKind on the host: the source that kernels run, by threads of the host, against a model.
#include "device_checks/slot_kind.h"

#include <gtest/gtest.h>

#include <atomic>
#include <map>
#include <random>
#include <thread>
#include <vector>

namespace isotherm::slot_kind_test {
namespace {

// A thread of the host as a lane.
struct HostLane {
  template <class T>
  static T load(const T* at) {
    return __atomic_load_n(at, __ATOMIC_ACQUIRE);
  }
  template <class T>
  static void store(T* at, T value) {
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
  }
  template <class T>
  static T atomic_add(T* at, T value) {
    return __atomic_fetch_add(at, value, __ATOMIC_ACQ_REL);
  }
  template <class T>
  static T compare_exchange(T* at, T expected, T desired) {
    std::atomic_ref(*at).compare_exchange_strong(expected, desired);
    return expected;
  }
};

class SlotKindTest : public ::testing::Test {
 protected:
  static constexpr uint64_t slots = 1 << 12;

  SlotView view() { return {entries_.data(), slots, 7, &counts_}; }

  // The state before; reply_retry without a slot.
  KeyState apply_to(uint64_t key, DeviceOp op, uint64_t value, uint64_t expected) {
    const SlotHome home = view().home(view().hash(key));
    for (;;) {
      const SlotPlace place = place_in_slots<HostLane>(home);
      const KeyState before{place.word, static_cast<uint8_t>(place.found)};
      const KeyState to = apply(op, value, expected, before);
      if (to.found != 0 && place.slot == nullptr) return {0, reply_retry};
      if (write_slot<HostLane>(place, home, to)) return before;
    }
  }

  std::vector<SlotEntry> entries_ = std::vector<SlotEntry>(slots + 1);
  SlotCounts counts_;
};

TEST_F(SlotKindTest, AnswersAsAMapDoes) {
  std::mt19937_64 random(1);
  std::vector<uint64_t> keys = {0, ~uint64_t{0}, unmix(0, 7), unmix(1, 7)};
  while (keys.size() < 2000) keys.push_back(random());
  std::map<uint64_t, uint64_t> model;
  for (int i = 0; i < 50'000; ++i) {
    const uint64_t key = keys[random() % keys.size()];
    const auto op = static_cast<DeviceOp>(random() % 6);
    const uint64_t value = random() % 4;
    const uint64_t expected = random() % 4;
    const auto at = model.find(key);
    KeyState state;
    if (at != model.end()) state = {at->second, 1};
    const KeyState before = apply_to(key, op, value, expected);
    ASSERT_EQ(before.found, state.found);
    ASSERT_EQ(before.found == 1 ? before.value : 0, state.value);
    state = apply(op, value, expected, state);
    if (state.found == 1) {
      model[key] = state.value;
    } else {
      model.erase(key);
    }
  }
  EXPECT_LE(counts_.claimed, keys.size());
}

// Each key has one writer; slots are everybody's.
TEST_F(SlotKindTest, WritersOfOtherKeysLoseNothing) {
  constexpr uint64_t threads = 4;
  constexpr uint64_t each = 900;
  std::vector<std::thread> writers;
  for (uint64_t t = 0; t < threads; ++t) {
    writers.emplace_back([&, t] {
      for (uint64_t i = 0; i < each; ++i) apply_to(i * threads + t, DeviceOp::put, i, 0);
      for (uint64_t i = 0; i < each; i += 2) apply_to(i * threads + t, DeviceOp::erase, 0, 0);
    });
  }
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(counts_.claimed, threads * each);
  for (uint64_t key = 0; key < threads * each; ++key) {
    const uint64_t i = key / threads;
    const SlotPlace place = place_in_slots<HostLane>(view().home(view().hash(key)));
    EXPECT_EQ(place.found, i % 2 != 0);
    EXPECT_EQ(place.word, place.found ? i : 0);
  }
}

TEST_F(SlotKindTest, RefusesKeysWhereNoSlotIsFree) {
  uint64_t refused = 0;
  for (uint64_t key = 0; key < slots + 100; ++key) {
    if (apply_to(key, DeviceOp::put, key, 0).found == reply_retry) ++refused;
  }
  EXPECT_GE(refused, 99u);  // one of them may be the head's
  EXPECT_LE(refused, 100u);
  EXPECT_EQ(apply_to(3, DeviceOp::get, 0, 0).value, 3u);
}

}  // namespace
}  // namespace isotherm::slot_kind_test
