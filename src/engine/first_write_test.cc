// The first write of a database makes its index, in the middle of a batch: the rows behind it see
// it, however far the executor looks ahead (executor/host/host_stages.h).
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/engine.h"

namespace isotherm::first_write_test {
namespace {

struct Kind {
  const char* name;
  IndexChoice index;
  RouterChoice router;
};

class FirstWriteTest : public ::testing::TestWithParam<Kind> {
 protected:
  FirstWriteTest() {
    options.index = GetParam().index;
    options.router.choice = GetParam().router;
    options.maxmemory = 64 << 20;
    options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  }

  ManualClock clock{1000};
  Options options;
};

INSTANTIATE_TEST_SUITE_P(Kinds, FirstWriteTest,
                         ::testing::Values(Kind{"line", IndexChoice::line, RouterChoice::off},
                                           Kind{"line_with_router", IndexChoice::line,
                                                RouterChoice::budget},
                                           Kind{"cuckoo", IndexChoice::cuckoo, RouterChoice::off},
                                           Kind{"set", IndexChoice::set, RouterChoice::off}),
                         [](const auto& its) { return std::string(its.param.name); });

TEST_P(FirstWriteTest, RowsBehindItSeeIt) {
  Engine engine(options, clock);
  Worker worker(engine);
  constexpr Batch::Row rows = 100;
  std::vector<std::string> others;
  for (Batch::Row row = 0; row < rows; ++row) others.push_back("other:" + std::to_string(row));
  // In each of the windows of eight rows, and behind it as far as windows are looked ahead.
  for (const Batch::Row put : {0U, 3U, 12U, 20U, 28U, 36U}) {
    for (Batch::Row get = put + 1; get <= put + 40; ++get) {
      Batch batch;
      for (Batch::Row row = 0; row < put; ++row) batch.get(others[row]);
      batch.put("key", "value");
      while (batch.size() < get) batch.get(others[batch.size()]);
      batch.get("key");
      worker.submit(batch);
      ASSERT_EQ(batch.reply(put).status, Status::ok);
      EXPECT_EQ(batch.reply(get).status, Status::ok) << "put " << put << ", got " << get;
      batch.clear();
      worker.flush_all();
      while (worker.maintain()) {
      }
    }
  }
}

}  // namespace
}  // namespace isotherm::first_write_test
