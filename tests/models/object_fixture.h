// ObjectTest: what tests of objects have in common: a store with piles (models/pile.h), on the
// host, with the index on a fake device, or on one that is lost on the way.
//
// Threads. One.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "fake_device/fake_root_table.h"
#include "items/poison.h"
#include "models/pile.h"

namespace isotherm {

// `lost`: the device fails after some calls, and the host takes over.
enum class ObjectsOn : uint8_t { host, device, lost };

class ObjectTest : public ::testing::TestWithParam<ObjectsOn> {
 protected:
  ~ObjectTest() override {
    worker.reset();
    engine.reset();
    EXPECT_EQ(Pile::there_are(), 0) << "all are freed with the store";
  }

  void start(Options options = {}) {
    options.databases = 2;
    worker.reset();
    engine.reset();
    if (GetParam() == ObjectsOn::host) {
      engine = std::make_unique<Engine>(options, clock);
    } else {
      engine = std::make_unique<Engine>(options, clock, fake_root_tiers_maker(device));
    }
    worker = std::make_unique<Worker>(*engine);
  }
  // From now on, where the case has it.
  void lose(uint64_t calls) {
    if (GetParam() == ObjectsOn::lost) device.lose_after(calls);
  }
  static int rounds(int usual) {
    return usual / (GetParam() == ObjectsOn::host ? 1 : 8) / (poison::sanitized ? 4 : 1);
  }

  struct Answer {
    Status status;
    ValueType type;
    int64_t number;
    uint64_t version;
    uint64_t location;
  };
  // Of the last row.
  template <class Fill>
  Answer ask(Fill&& fill) {
    Batch batch;
    fill(batch);
    worker->submit(batch);
    const Reply& reply = batch.reply(batch.size() - 1);
    return {reply.status, reply.type, reply.number, reply.version, reply.location};
  }
  Answer look(std::string_view key) {
    return ask([&](Batch& batch) { batch.get(key, option::any_type | option::no_touch); });
  }
  Answer call(std::string_view key, const ObjectFunction& function,
              std::vector<std::string_view> parts = {}, void* context = nullptr) {
    return ask([&](Batch& batch) { batch.call(key, function, parts, context); });
  }
  Status put(std::string_view key, std::string_view value, int64_t expiry = no_expiry) {
    return ask([&](Batch& batch) { batch.put(key, value, 0, expiry); }).status;
  }
  std::string text(std::string_view key) {
    std::string text;
    const Answer answer = call(key, pile::text, {}, &text);
    return answer.status == Status::ok ? text : std::string(to_string(answer.status));
  }
  void maintain(int steps = 50) {
    for (int i = 0; i < steps; ++i) worker->maintain();
  }
  // Until all that is retired is free.
  uint64_t piles_left() {
    for (int i = 0; i < 1000 && engine->stats().retired_bytes != 0; ++i) worker->maintain();
    return static_cast<uint64_t>(Pile::there_are());
  }

  ManualClock clock{1'700'000'000'000};
  FakeDevice device{7, uint64_t{1} << 28};
  std::unique_ptr<Engine> engine;
  std::unique_ptr<Worker> worker;
};

inline auto where_objects_are() {
  return ::testing::Values(ObjectsOn::host, ObjectsOn::device, ObjectsOn::lost);
}

inline std::string name_of_where(const ::testing::TestParamInfo<ObjectsOn>& where) {
  constexpr const char* names[] = {"host", "device", "lost"};
  return names[static_cast<int>(where.param)];
}

}  // namespace isotherm
