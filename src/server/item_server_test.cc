// A server whose items live on a GPU, with a journal: its commands, and its next start.
#include <gtest/gtest.h>

#include <memory>
#include <thread>

#include "fake_device/fake_item_tier.h"
#include "models/stored_server_fixture.h"

namespace isotherm::item_server_test {
namespace {

class ItemServerTest : public StoredServerFixture {
 protected:
  ItemServerTest() {
    options_.appendonly = true;
    options_.store.device = DeviceChoice::cuda;
    options_.store.gpu_items = 8 << 20;
    options_.store.maxmemory = 64 << 20;
    start();
  }
  ~ItemServerTest() override { stop(); }
  std::unique_ptr<Server> make() override {
    return std::make_unique<Server>(options_, clock_, fake_item_tier_maker(device_));
  }
  // Whether it worked.
  bool rewrite() {
    RewriteWish& wish = server_->state().journal->rewrite_wish();
    const uint64_t before = wish.rewrites();
    EXPECT_TRUE(wish.ask());
    while (wish.rewrites() == before && !wish.failed()) std::this_thread::yield();
    return !wish.failed();
  }

  FakeDevice device_{5, uint64_t{1} << 28};
};

// The GPU's memory is empty then, and the journal has all, also when it was written anew.
TEST_F(ItemServerTest, TheNextServerHasWhatTheJournalHas) {
  expect({"MSET", "kept", "1", "changed", "1", "erased", "1"}, "+OK\r\n");
  expect({"SET", "expires", "1", "PX", "5000"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"SET", "changed", "2"}, "+OK\r\n");
  expect({"DEL", "erased"}, ":1\r\n");
  for (const bool rewrites : {false, true}) {
    EXPECT_TRUE(!rewrites || rewrite());
    start();
    expect({"MGET", "kept", "changed", "erased"}, "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
    expect({"PTTL", "expires"}, ":5000\r\n");
    expect({"DBSIZE"}, ":3\r\n");
  }
}

TEST_F(ItemServerTest, ThereAreNoSnapshotsAndTheJournalOfALostGpuStaysAsItIs) {
  expect({"SAVE"}, "-ERR no snapshots of items that live on a GPU\r\n");
  expect({"BGSAVE"}, "-ERR no snapshots of items that live on a GPU\r\n");
  expect({"SET", "key", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  device_.lose();
  EXPECT_FALSE(rewrite());
  device_.take_errors();
}

}  // namespace
}  // namespace isotherm::item_server_test
