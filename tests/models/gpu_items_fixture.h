// GpuItemsFixture: an engine whose items live on a fake GPU or two, and what makes its memory
// forget them.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "fake_device/fake_item_tier.h"
#include "tree/tree.h"

namespace isotherm {

class GpuItemsFixture : public ::testing::Test {
 protected:
  GpuItemsFixture() {
    options_.device = DeviceChoice::cuda;
    options_.gpu_items = 8 << 20;
    options_.maxmemory = 64 << 20;
  }
  void open_engine() {
    engine_.reset();
    engine_ = std::make_unique<Engine>(options_, clock_, fake_item_tier_maker(devices_));
  }
  // Memory forgets what it has; runs are on the device before.
  void forget(Worker& worker) {
    EXPECT_TRUE(engine_->tree()->flush());
    const auto bytes =
        static_cast<int64_t>(engine_->maxmemory() - 1 - engine_->stats().buffer_bytes);
    engine_->add_sink_bytes(bytes);
    for (int i = 0; i < 100 && engine_->stats().item_bytes != 0; ++i) worker.maintain();
    engine_->add_sink_bytes(-bytes);
  }

  // A thread that writes 1, 2, 3 to all keys, one number a batch; memory forgets them now and then.
  std::thread count_up(const std::vector<std::string>& names, int rounds,
                       std::atomic<int>& written) {
    return std::thread([this, &names, rounds, &written] {
      Worker worker(*engine_);
      for (int count = 1; count <= rounds; ++count) {
        const std::string text = std::to_string(count);
        Batch batch;
        for (const std::string& name : names) batch.put(name, text);
        worker.submit(batch);
        batch.clear();
        written = count;
        if (count % 8 == 0) forget(worker);
      }
    });
  }

  ManualClock clock_{1'700'000'000'000};
  FakeDevice device_{3, uint64_t{1} << 28};
  FakeDevice second_{4, uint64_t{1} << 28, device_};
  std::vector<FakeDevice*> devices_{&device_};
  Options options_;
  std::unique_ptr<Engine> engine_;
};

}  // namespace isotherm
