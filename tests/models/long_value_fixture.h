// LongValueFixture: an engine with a worker whose requests are about one long value, `key`.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <string>
#include <string_view>

#include "base/clock.h"
#include "engine/engine.h"

namespace isotherm {

class LongValueFixture : public ::testing::Test {
 protected:
  // What a client has that never takes its reply: the bytes, as they are and as they were.
  struct Kept {
    std::string_view shown;
    std::string before;
    uint64_t number;  // for Engine::let_go
  };

  LongValueFixture() : engine(Options{}, clock), worker(engine) {}

  // The reply of its last row.
  Reply& submit(Batch& batch) {
    worker.submit(batch);
    return batch.columns().reply[batch.size() - 1];
  }
  std::string value(const char* key = "key") {
    Batch batch;
    batch.get(key);
    const Reply& reply = submit(batch);
    EXPECT_EQ(reply.status, Status::ok);
    return std::string(reply.value());
  }
  Kept keep() {
    Batch batch;
    batch.get("key");
    const Reply& reply = submit(batch);
    EXPECT_EQ(reply.status, Status::ok);
    return {reply.value(), std::string(reply.value()), engine.keep(reply)};
  }

  const ManualClock clock{1000};
  Engine engine;
  Worker worker;
  uint64_t copied = 0;  // bytes, by what was changed last
};

}  // namespace isotherm
