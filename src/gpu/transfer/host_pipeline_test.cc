// Requests in host memory on the fake device: what is refused. What they do is checked with the
// table (gpu/table/fixed_device_table_test.cc).
#include "gpu/transfer/host_pipeline.h"

#include <gtest/gtest.h>

#include <cstdint>
#include <stdexcept>

#include "fake_device/fake_device.h"

namespace isotherm::host_pipeline_test {
namespace {

TEST(HostPipeline, MissingColumnsAreRefused) {
  FakeDevice device(1, uint64_t{1} << 28);
  FixedDeviceTable<FakeDevice> table(device, {0, 1, 4, 256});
  HostPipeline pipeline(device, table);
  const uint64_t key = 7;
  uint8_t found = 0;
  TableRequests call;
  pipeline.run(call);
  call.rows = 1;
  call.op = TableOp::put;
  EXPECT_THROW(pipeline.run(call), std::invalid_argument);
  call.keys = &key;
  call.found = &found;
  EXPECT_THROW(pipeline.run(call), std::invalid_argument);
  EXPECT_EQ(table.stats().entries, 0u);
  call.found = nullptr;
  pipeline.run(call);
  EXPECT_EQ(table.stats().entries, 1u);
}

}  // namespace
}  // namespace isotherm::host_pipeline_test
