// Values that are lost with their device while requests wait for them: gets are looked up again on
// the host, and answer what is there then.
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>

#include "engine/engine.h"
#include "fake_device/gated_root_table.h"

namespace isotherm::lost_value_test {
namespace {

constexpr uint64_t device_bytes = uint64_t{1} << 28;

class LostValueTest : public ::testing::Test {
 protected:
  // Two values lie on the device.
  void SetUp() override {
    Options options;
    options.gpu_values = 1 << 20;
    options.gpu_values_from = 100;
    engine = std::make_unique<Engine>(options, clock, gated_root_tiers_maker(device, gates));
    Worker worker(*engine);
    put(worker, "cold", std::string(500, 'v'));
    put(worker, "colder", std::string(500, 'w'));
    for (int i = 0; i < 50; ++i) worker.maintain();
    ASSERT_EQ(engine->stats().values.values, 2u);
    gates.values.close();
  }
  static void put(Worker& worker, std::string_view key, std::string_view value) {
    Batch batch;
    batch.put(key, value);
    worker.submit(batch);
    ASSERT_EQ(batch.reply(0).status, Status::ok);
  }
  static std::string text(const Batch& batch, Batch::Row row) {
    const Reply& reply = batch.reply(row);
    return reply.status == Status::ok ? std::string(reply.value()) : "(none)";
  }
  void lose() {
    device.lose();
    gates.values.open();
  }
  // While the batch waits for a value another is stored, and the device is lost.
  void run_and_lose(Worker& worker, Batch& batch) {
    ASSERT_EQ(worker.start(batch), Worker::Started::under_way);
    gates.values.wait_for(1);
    Worker other(*engine);
    put(other, "cold", "new");
    lose();
    worker.wait_for(batch);
  }

  ManualClock clock{1'700'000'000'000};
  DeviceGates gates;
  FakeDevice device{7, device_bytes};
  std::unique_ptr<Engine> engine;
};

TEST_F(LostValueTest, AGetAnswersWhatIsThereInstead) {
  Worker worker(*engine, false);
  Batch batch;
  batch.get("cold");
  batch.get("colder");
  run_and_lose(worker, batch);
  EXPECT_EQ(text(batch, 0), "new");
  EXPECT_EQ(text(batch, 1), "(none)");
  EXPECT_FALSE(engine->stats().on_device);
  batch.clear();
  batch.get("cold");
  worker.submit(batch);
  EXPECT_EQ(text(batch, 0), "new");
}

TEST_F(LostValueTest, SoDoesOneWhoseThreadWaits) {
  Batch batch;
  batch.get("cold");
  batch.get("colder");
  std::thread waits([&] {
    Worker worker(*engine);
    worker.submit(batch);
    EXPECT_EQ(text(batch, 0), "new");
    EXPECT_EQ(text(batch, 1), "(none)");
    batch.clear();
  });
  gates.values.wait_for(1);
  Worker other(*engine);
  put(other, "cold", "new");
  lose();
  waits.join();
}

// What the batch itself has written since is none of its business.
TEST_F(LostValueTest, AGetDoesNotSeeWhatItsBatchWritesLater) {
  Worker worker(*engine, false);
  Batch batch;
  batch.get("cold");
  batch.put("cold", "later");
  batch.get("cold");
  batch.get("colder");
  ASSERT_EQ(worker.start(batch), Worker::Started::under_way);
  gates.values.wait_for(1);
  lose();
  worker.wait_for(batch);
  EXPECT_EQ(text(batch, 0), "(none)");
  EXPECT_EQ(text(batch, 2), "later");
  EXPECT_EQ(text(batch, 3), "(none)");
}

// Rows that waited for the value before, and then run again.
TEST_F(LostValueTest, RowsBehindOneThatBuildsOnTheValueRunOnTheHost) {
  Worker worker(*engine, false);
  Batch batch;
  batch.append("cold", "1");
  batch.get("cold");
  run_and_lose(worker, batch);
  EXPECT_EQ(text(batch, 1), "new1");
}

}  // namespace
}  // namespace isotherm::lost_value_test
