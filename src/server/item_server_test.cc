// A server whose items live on a GPU, with a journal: its commands, and its next start.
#include <gtest/gtest.h>

#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

#include "durability/rdb_file.h"
#include "fake_device/fake_item_tier.h"
#include "fake_device/gated_root_table.h"
#include "models/forwarding_item_tier.h"
#include "models/stored_server_fixture.h"

namespace isotherm::item_server_test {
namespace {

// Stands still before what is written while the gate is closed.
class GatedItems final : public ForwardingItemTier {
 public:
  GatedItems(std::unique_ptr<ItemTier> its, Gate& gate)
      : ForwardingItemTier(std::move(its)), gate_(gate) {}
  uint64_t run(const gpu::ItemRequests& requests) override {
    gate_.pass();
    return ForwardingItemTier::run(requests);
  }

 private:
  Gate& gate_;
};

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
    return std::make_unique<Server>(options_, clock_, [this](const ItemTierOptions& options) {
      return std::make_unique<GatedItems>(fake_item_tier_maker(device_)(options), gate_);
    });
  }
  // Whether it worked.
  bool rewrite() {
    BackgroundJob& job = server_->state().journal->rewrite_job();
    const uint64_t before = job.times();
    EXPECT_TRUE(job.ask());
    while (job.times() == before && !job.failed()) std::this_thread::yield();
    return !job.failed();
  }

  FakeDevice device_{5, uint64_t{1} << 28};
  Gate gate_;
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

// Host memory evicts whatever the policy of the GPU is.
TEST_F(ItemServerTest, ThePolicyIsTheOneOfTheStart) {
  for (const auto& [policy, name, other] :
       {std::tuple{EvictionPolicy::noeviction, "noeviction", "allkeys-lru"},
        std::tuple{EvictionPolicy::allkeys_random, "allkeys-random", "noeviction"}}) {
    options_.store.maxmemory_policy = policy;
    start();
    const std::string bytes = std::to_string(std::string_view(name).size());
    expect({"CONFIG", "GET", "maxmemory-policy"},
           "*2\r\n$16\r\nmaxmemory-policy\r\n$" + bytes + "\r\n" + name + "\r\n");
    expect({"CONFIG", "SET", "maxmemory-policy", name}, "+OK\r\n");
    expect(
        {"CONFIG", "SET", "maxmemory-policy", other},
        "-ERR CONFIG SET failed (possibly related to argument 'maxmemory-policy') - with items on "
        "a GPU the policy is chosen at start\r\n");
  }
}

// Some of it lies on the GPU, some in a run, and some was too long for the GPU.
TEST_F(ItemServerTest, TheNextServerHasWhatASnapshotHas) {
  options_.appendonly = false;
  start();
  const std::string long_key(65'535, 'k');
  TestClient client(server_->resp_port());
  EXPECT_EQ(client.ask(resp({"SELECT", "3"}) + resp({"SET", long_key, "1"}), "+OK\r\n+OK\r\n"),
            "+OK\r\n+OK\r\n");
  expect({"MSET", "kept", "1", "changed", "1", "erased", "1"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  expect({"SET", "expires", "1", "PX", "5000"}, "+OK\r\n");
  expect({"SET", "changed", "2"}, "+OK\r\n");
  expect({"DEL", "erased"}, ":1\r\n");
  expect({"SAVE"}, "+OK\r\n");
  EXPECT_EQ(info("rdb_changes_since_last_save"), "0");
  expect({"SET", "kept", "lost by a crash"}, "+OK\r\n");
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 4u);
  for (int i = 0; i < 2; ++i) {
    start();
    EXPECT_EQ(info("rdb_last_load_keys_loaded"), "4");
    expect({"MGET", "kept", "changed", "erased"}, "*3\r\n$1\r\n1\r\n$1\r\n2\r\n$-1\r\n");
    expect({"PTTL", "expires"}, ":5000\r\n");
    expect({"DBSIZE"}, ":3\r\n");
    TestClient other(server_->resp_port());
    EXPECT_EQ(other.ask(resp({"SELECT", "3"}) + resp({"GET", long_key}), "+OK\r\n$1\r\n1\r\n"),
              "+OK\r\n$1\r\n1\r\n");
  }
}

TEST_F(ItemServerTest, AJournalIsCutBehindASnapshot) {
  for (int i = 0; i < 100; ++i) expect({"SET", "key", std::to_string(i)}, "+OK\r\n");
  expect({"SET", "gone", "1"}, "+OK\r\n");
  const uint64_t before = server_->state().journal->live_bytes();
  expect({"SAVE"}, "+OK\r\n");
  EXPECT_LT(server_->state().journal->live_bytes(), before);
  expect({"SET", "later", "1"}, "+OK\r\n");
  expect({"DEL", "gone"}, ":1\r\n");
  std::filesystem::remove(snapshot_path());
  start();
  expect({"MGET", "key", "later", "gone"}, "*3\r\n$2\r\n99\r\n$1\r\n1\r\n$-1\r\n");
}

TEST_F(ItemServerTest, AJournalThatBeginsHasTheSnapshot) {
  expect({"MSET", "a", "1", "b", "2"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  options_.appendfilename = "another";
  start();
  expect({"SET", "a", "3"}, "+OK\r\n");
  std::filesystem::remove(snapshot_path());
  start();
  expect({"MGET", "a", "b"}, "*2\r\n$1\r\n3\r\n$1\r\n2\r\n");
}

// They show what the GPU has when all was written there, and nobody else waits for that.
TEST_F(ItemServerTest, WhoAsksForAllKeysKeepsNobodyElseWaiting) {
  options_.threads = 1;
  start();
  expect({"SET", "key", "1"}, "+OK\r\n");
  const std::pair<std::string, std::string> asked[] = {
      {resp({"SCAN", "0"}), "*2\r\n$1\r\n0\r\n*1\r\n$3\r\nkey\r\n"},
      {resp({"KEYS", "*"}), "*1\r\n$3\r\nkey\r\n"},
      {resp({"DBSIZE"}), ":1\r\n"}};
  for (const auto& [request, answer] : asked) {
    gate_.close();
    expect({"SET", "key", "1"}, "+OK\r\n");
    TestClient waiting(server_->resp_port());
    waiting.send(request);
    gate_.wait_for(1);
    for (int i = 0; i < 3; ++i) expect({"GET", "key"}, "$1\r\n1\r\n");
    gate_.open();
    EXPECT_EQ(waiting.receive(answer.size()), answer);
  }
}

TEST_F(ItemServerTest, SavePointsSaveByThemselves) { save_by_a_point(); }

// What was on the GPU alone is in these files.
TEST_F(ItemServerTest, TheJournalAndTheSnapshotOfALostGpuStayAsTheyAre) {
  expect({"SET", "key", "1"}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  ASSERT_TRUE(server_->engine().tree()->flush());
  device_.lose();
  EXPECT_FALSE(rewrite());
  constexpr const char* refused =
      "-ERR no snapshots since the GPU has failed: what it alone had would be missing\r\n";
  while (!server_->engine().tree()->is_lost()) expect({"DBSIZE"}, ":1\r\n");
  expect({"SAVE"}, refused);
  expect({"BGSAVE"}, refused);
  EXPECT_EQ(RdbFile(snapshot_path()).items(), 1u);
  device_.take_errors();
}

TEST_F(ItemServerTest, ASnapshotThatTheGpuHasNoRoomForIsToldOf) {
  options_.appendonly = false;
  start();
  const std::string value(100'000, 'v');
  for (int i = 0; i < 60; ++i) expect({"SET", "key" + std::to_string(i), value}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  options_.store.gpu_items = 1 << 20;
  try {
    start();
    FAIL() << "it started";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("gpu-items"), std::string::npos) << error.what();
  }
}

// A cap that was raised counts for a start, too.
TEST_F(ItemServerTest, ASnapshotThatNeedsALargerCapSaysSo) {
  options_.appendonly = false;
  options_.store.maxmemory = 16 << 20;
  start();
  expect({"CONFIG", "SET", "maxmemory", "100mb"}, "+OK\r\n");
  expect({"SET", "long", std::string(9 << 20, 'v')}, "+OK\r\n");
  expect({"SAVE"}, "+OK\r\n");
  try {
    start();
    FAIL() << "it started";
  } catch (const std::exception& error) {
    EXPECT_NE(std::string(error.what()).find("maxmemory, an eighth, is 2mb"), std::string::npos)
        << error.what();
  }
  options_.store.maxmemory = 100 << 20;
  start();
  expect({"STRLEN", "long"}, ":9437184\r\n");
}

// As its clients are told, and not that a journal failed: there may be none.
TEST_F(ItemServerTest, AFullGpuIsNamed) {
  options_.appendonly = false;
  options_.store.gpu_items = 1 << 20;
  start();
  const std::string value(100'000, 'v');
  std::string answer;
  for (int i = 0; i < 2000 && answer != "-MISCONF"; ++i) {
    client_->send(resp({"SET", "key" + std::to_string(i % 200), value}));
    answer = line(*client_).substr(0, 8);
  }
  EXPECT_EQ(answer, "-MISCONF");
  client_->send(resp({"SET", "key", "1"}));
  EXPECT_EQ(line(*client_).substr(0, 44), "-MISCONF gpu-items: the memory of the GPU is");
  TestClient memcached(server_->memcached_port());
  const std::string full = "SERVER_ERROR there is no room for more items (gpu-items)\r\n";
  for (const char* request : {"set key 0 0 1\r\nx\r\n", "incr number 1\r\n", "touch key 0\r\n",
                              "ms key 1\r\nx\r\n", "ma number N0\r\n", "mg key N0\r\n"}) {
    EXPECT_EQ(memcached.ask(request, full), full) << request;
  }
}

}  // namespace
}  // namespace isotherm::item_server_test
