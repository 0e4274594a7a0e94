// Keys and values that are too long for a GPU, of a store whose items live there: they lie in host
// memory, an eighth of its cap.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "models/gpu_items_fixture.h"

namespace isotherm::gpu_items_long_test {
namespace {

class LongGpuItemsTest : public GpuItemsFixture {
 protected:
  LongGpuItemsTest() {
    options_.maxmemory = 128 << 20;
    options_.gpu_items = 32 << 20;
    options_.maxmemory_policy = EvictionPolicy::noeviction;
    open_engine();
  }
  ~LongGpuItemsTest() override { EXPECT_EQ(device_.take_errors(), std::vector<std::string>{}); }
  // Also on the device, or in the rest.
  Status put(const std::string& key, const std::string& value) {
    Status status;
    {
      Worker worker(*engine_);
      Batch batch;
      batch.put(key, value);
      worker.submit(batch);
      status = batch.reply(0).status;
    }
    EXPECT_TRUE(engine_->tree()->flush());
    return status;
  }
  std::string get(const std::string& key) {
    Worker worker(*engine_);
    Batch batch;
    batch.get(key);
    worker.submit(batch);
    return batch.reply(0).status == Status::ok ? std::string(batch.reply(0).value()) : "(none)";
  }
  void erase(const std::string& key) {
    Worker worker(*engine_);
    Batch batch;
    batch.erase(key);
    worker.submit(batch);
    EXPECT_EQ(batch.reply(0).status, Status::ok);
  }
};

// And all that is written behind it goes on.
TEST_F(LongGpuItemsTest, AValueThatHasNoPlaceIsRefusedAlone) {
  const std::string value(9 << 20, 'v');
  const std::string other(9 << 20, 'w');
  EXPECT_EQ(put("first", value), Status::ok);
  EXPECT_EQ(put("second", value), Status::out_of_memory);
  EXPECT_EQ(put("small", "value"), Status::ok);
  EXPECT_EQ(put("longest", std::string(8'000'000, 'v')), Status::ok);
  EXPECT_EQ(put("longer than the bound", std::string(17 << 20, 'v')), Status::out_of_memory);
  // The old one goes for it.
  EXPECT_EQ(put("first", other), Status::ok);
  EXPECT_TRUE(get("first") == other);
  EXPECT_EQ(get("second"), "(none)");
  EXPECT_EQ(get("small"), "value");
  erase("first");
  EXPECT_TRUE(engine_->tree()->flush());
  EXPECT_EQ(put("second", value), Status::ok);
  EXPECT_TRUE(get("second") == value);
}

// The key alone is more than the GPU takes.
TEST_F(LongGpuItemsTest, AShortValueOfALongKeyThatHasNoPlaceIsRefusedAlone) {
  const auto key = [](char letter) { return std::string(9 << 20, letter); };
  EXPECT_EQ(put(key('a'), "value"), Status::ok);
  EXPECT_EQ(put(key('b'), "value"), Status::out_of_memory);
  EXPECT_EQ(put("small", "value"), Status::ok);
  EXPECT_EQ(put(std::string(70'000, 'c'), "value"), Status::ok);
  EXPECT_EQ(put(key('a'), "other"), Status::ok);
  EXPECT_EQ(get(key('a')), "other");
  EXPECT_EQ(get(key('b')), "(none)");
  erase(key('a'));
  EXPECT_TRUE(engine_->tree()->flush());
  EXPECT_EQ(put(key('b'), "value"), Status::ok);
}

}  // namespace
}  // namespace isotherm::gpu_items_long_test
