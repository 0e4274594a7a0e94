#include "net/client_limits.h"

#include <gtest/gtest.h>

namespace isotherm::net::client_limits_test::client_limits_test {
namespace {

constexpr size_t free_bytes = 16 << 10;

TEST(OutputWatchTest, TheHardLimitHoldsAtOnce) {
  OutputWatch watch;
  const OutputLimit limit{1000, 0, 0};
  EXPECT_FALSE(watch.over(limit, free_bytes + 999, 1));
  EXPECT_TRUE(watch.over(limit, free_bytes + 1000, 1));
  const OutputLimit none{0, 0, 0};
  EXPECT_FALSE(watch.over(none, size_t{1} << 40, 1));
}

TEST(OutputWatchTest, TheSoftLimitHoldsWhenItWasPassedForLonger) {
  OutputWatch watch;
  const OutputLimit limit{0, 1000, 10};
  EXPECT_FALSE(watch.over(limit, free_bytes + 1000, 5'000));
  EXPECT_FALSE(watch.over(limit, free_bytes + 2000, 15'000));
  EXPECT_TRUE(watch.over(limit, free_bytes + 1000, 15'001));
  // Who has read meanwhile begins anew.
  EXPECT_FALSE(watch.over(limit, free_bytes + 999, 20'000));
  EXPECT_FALSE(watch.over(limit, free_bytes + 1000, 30'000));
  EXPECT_FALSE(watch.over(limit, free_bytes + 1000, 40'000));
  EXPECT_TRUE(watch.over(limit, free_bytes + 1000, 40'001));
}

TEST(ClientLimitsTest, AllClientsFollowTheCapUnlessTold) {
  constexpr uint64_t gib = 1 << 30;
  ClientLimits limits;
  EXPECT_EQ(limits.all_clients(0), 0u);
  EXPECT_EQ(limits.all_clients(gib), (128u << 20) + gib / 16);
  const ClientLimitOption* option = find_client_limit("MAXMEMORY-clients");
  ASSERT_NE(option, nullptr);
  EXPECT_EQ(option->set(limits, "10%", true), "");
  EXPECT_EQ(option->get(limits), "0");
  EXPECT_EQ(option->set(limits, "10%", false), "");
  EXPECT_EQ(option->get(limits), "10%");
  EXPECT_EQ(limits.all_clients(1000), 100u);
  EXPECT_EQ(option->set(limits, "5mb", false), "");
  EXPECT_EQ(limits.all_clients(gib), 5u << 20);
  EXPECT_NE(option->set(limits, "101%", false), "");
  EXPECT_NE(option->set(limits, "", false), "");
}

}  // namespace
}  // namespace isotherm::net::client_limits_test::client_limits_test
