// The state at the end of an item: where it lies, what copies keep of it, and that others have
// none.
#include "items/meta_state.h"

#include <gtest/gtest.h>

#include <cstring>
#include <memory>
#include <string>

#include "items/item.h"

namespace isotherm::meta_state_test {
namespace {

constexpr int64_t now_ms = 1'700'000'000'000;

std::unique_ptr<std::max_align_t[]> memory_for(uint64_t bytes) {
  return std::make_unique<std::max_align_t[]>(bytes / sizeof(std::max_align_t) + 1);
}

TEST(MetaState, ItemsWithoutOneTakeNoMoreMemory) {
  Item::Parts parts;
  parts.key = "0123456789abcdef";
  parts.value_bytes = 32;
  EXPECT_EQ(parts.bytes(), 64u);
  parts.state = MetaState::fresh(now_ms);
  EXPECT_EQ(parts.bytes(), 72u);
  parts.value_bytes = 33;
  EXPECT_EQ(parts.bytes(), 80u) << "it is aligned";
}

TEST(MetaState, StandsBehindTheValueAndIsCopied) {
  for (const uint64_t value_bytes : {0, 1, 7, 8, 9, 1000}) {
    for (const int64_t expiry : {no_expiry, now_ms}) {
      for (const uint32_t flags : {0u, 5u}) {
        Item::Parts parts;
        parts.key = "key";
        parts.value_bytes = value_bytes;
        parts.expiry = expiry;
        parts.flags = flags;
        parts.state = MetaState::fresh(now_ms) | MetaState::stale;
        const auto memory = memory_for(parts.bytes()), copy = memory_for(parts.bytes());
        Item* item = Item::create(memory.get(), parts);
        std::memset(item->value_data(), 'v', value_bytes);
        ASSERT_EQ(item->bytes(), parts.bytes());
        EXPECT_EQ(item->state(), parts.state) << "the value does not touch it";
        item->set_state(parts.state | MetaState::fetched);
        EXPECT_EQ(item->value(), std::string(value_bytes, 'v'));
        const Item* copied = item->copy_to(copy.get());
        EXPECT_EQ(copied->state(), parts.state | MetaState::fetched);
        EXPECT_EQ(copied->value(), item->value());
        EXPECT_EQ(copied->expiry(), expiry);
        EXPECT_EQ(copied->flags(), flags);
        EXPECT_EQ(item->parts(true).state, item->state());
      }
    }
  }
}

TEST(MetaState, ALateSecondUseIsTheTimeThatCounts) {
  const uint64_t stored = MetaState::fresh(now_ms);
  const uint64_t once = MetaState::used(stored, now_ms + 5000);
  EXPECT_EQ(once & MetaState::fetched, MetaState::fetched);
  EXPECT_EQ(MetaState::seconds(once), uint64_t{now_ms / 1000});
  const uint64_t soon = MetaState::used(once, now_ms + 60'000);
  EXPECT_EQ(MetaState::seconds(soon), uint64_t{now_ms / 1000});
  EXPECT_EQ(MetaState::used(soon, now_ms + 99'000), soon);
  const uint64_t late = MetaState::used(once, now_ms + 61'000);
  EXPECT_EQ(MetaState::seconds(late), uint64_t{now_ms / 1000 + 61});
  EXPECT_EQ(MetaState::used(late, now_ms + 199'000), late);
}

}  // namespace
}  // namespace isotherm::meta_state_test
