#include "items/sampler.h"

#include <map>

#include "items/item_store_fixture.h"

namespace isotherm::sampler_test {
namespace {

struct SamplerTest : ItemStoreFixture {
  std::map<Location, int> draw(uint32_t count, bool with_expiry) {
    std::map<Location, int> drawn;
    const EpochGuard guard(epochs, *slot);
    const auto visit = [&](Location location) {
      ++drawn[location];
      return true;
    };
    with_expiry ? store->sample_volatile(count, visit) : store->sweep_random(count, visit);
    return drawn;
  }
};

TEST_F(SamplerTest, AnEmptyStoreHasNoSamples) { EXPECT_TRUE(draw(100, false).empty()); }

TEST_F(SamplerTest, EveryItemIsDrawnAboutEquallyOften) {
  constexpr uint32_t items = 2048;
  for (uint32_t i = 0; i < items; ++i) put("sixteen-byte-key", 32);
  const auto drawn = draw(items * 20, false);
  EXPECT_EQ(drawn.size(), items);
  for (const auto& [location, times] : drawn) EXPECT_LT(times, 60);
}

TEST_F(SamplerTest, LargeItemsAreDrawnByTheirBytes) {
  for (uint32_t i = 0; i < 1024; ++i) put("sixteen-byte-key", 32);
  const Location large = put("large", 600000);
  const auto drawn = draw(1000, false);
  ASSERT_TRUE(drawn.contains(large));
  EXPECT_GT(drawn.at(large), 700);
}

TEST_F(SamplerTest, WithExpiryMeansThat) {
  for (int i = 0; i < 500; ++i) put("persistent", 20);
  const Location small = put("volatile", 20, 1000);
  const Location large = put("large", 600000, 1000);
  put("large and persistent", 600000);
  for (const auto& [location, times] : draw(1000, true)) {
    EXPECT_TRUE(location == small || location == large);
  }
  EXPECT_TRUE(draw(1000, true).contains(small));
  EXPECT_TRUE(draw(1000, true).contains(large));
}

TEST_F(SamplerTest, StopsWhenTheCallerHasEnough) {
  for (int i = 0; i < 500; ++i) put("key", 20);
  const EpochGuard guard(epochs, *slot);
  EXPECT_EQ(store->sweep_random(100, [](Location) { return false; }), 1u);
}

}  // namespace
}  // namespace isotherm::sampler_test
