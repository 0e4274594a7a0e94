// Tables of rows over some fake devices: the checks that GPUs run, and what happens when one fails.
#include "gpu/rows/split_row_store.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <new>
#include <string>
#include <tuple>
#include <vector>

#include "device_checks/device_row_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_gpus.h"
#include "isotherm/gpu/common.h"
#include "items/poison.h"

namespace isotherm::split_row_store_test {
namespace {

const uint64_t scale = test_size(128, 2048);

struct Gpus {
  uint32_t count;
  bool connected;  // they reach each other's memory
};
using Case = std::tuple<SplitRowCheck<FakeDevice>, Gpus>;

class SplitRowChecks : public ::testing::TestWithParam<Case> {};

TEST_P(SplitRowChecks, FindNoFault) {
  const auto& [check, its] = GetParam();
  FakeGpus gpus(its.count, 1, its.connected);
  EXPECT_EQ(check.run(gpus.pointers, scale), 0u);
  gpus.expect_clean();
}

std::string name_of(const ::testing::TestParamInfo<Case>& test) {
  const auto& [check, gpus] = test.param;
  std::string name = check.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name + '_' + std::to_string(gpus.count) + (gpus.connected ? "_connected" : "");
}

// Sanitizers take ten times as long, and three devices run all lines that two do.
std::vector<Gpus> all_gpus() {
  std::vector<Gpus> all{{2, false}, {3, true}};
  if (!poison::sanitized) all.push_back({2, true});
  return all;
}

INSTANTIATE_TEST_SUITE_P(All, SplitRowChecks,
                         ::testing::Combine(::testing::ValuesIn(split_row_checks<FakeDevice>),
                                            ::testing::ValuesIn(all_gpus())),
                         name_of);

TEST(SplitRowStore, IsLostWhenALaunchOfAnyDeviceFails) {
  DeviceRequestSource source(1);
  const std::vector<uint64_t> keys = source.keys(200);
  for (uint32_t failing = 0; failing < 2; ++failing) {
    for (uint64_t launches = 0; launches < 12; launches += 3) {
      FakeGpus gpus(2, 1);
      ModelledRows<FakeDevice> table(gpus.pointers, {64, 64 * 64, {0, 3, 4, 256}});
      table.put({keys.begin(), keys.begin() + 100}, true);
      gpus.devices[failing]->fail_launches_after(launches);
      EXPECT_THROW(table.put(keys, true), DeviceError) << launches;
      gpus.devices[failing]->fail_launches_after(FakeDevice::never);
      EXPECT_THROW(table.get(keys), DeviceError) << launches;
      EXPECT_THROW(table.stats(), DeviceError) << launches;
      for (const auto& device : gpus.devices) {
        EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      }
    }
  }
}

TEST(SplitRowStore, CallsOfTheHostThatFailLeaveNothingUnderWay) {
  FakeGpus gpus(2, 1);
  {
    SplitRowStore<FakeDevice> store(gpus.pointers, {64, 64 * 64, {0, 3, 4, 256}});
    DeviceRequestSource source(1);
    const std::vector<uint64_t> keys = source.keys(200);
    std::vector<char> rows(keys.size() * 64);
    gpus.devices[1]->fail_launches_after(0);
    for (const uint64_t count : {20, 50, 200}) {
      EXPECT_THROW(store.run_host({gpu::RowOp::put, count, keys.data(), rows.data(), nullptr}),
                   DeviceError);
    }
    gpus.devices[1]->fail_launches_after(FakeDevice::never);
  }
  gpus.expect_clean();
}

TEST(SplitRowStore, BuffersTakeAnEighthOfACap) {
  FakeGpus gpus(2, 1);
  constexpr uint64_t cap = 4 << 20;
  ModelledRows<FakeDevice> table(gpus.pointers, {512, 512 * 64, {cap, 3, 4, 1 << 14}});
  const gpu::TableStats stats = table.stats();
  EXPECT_LE(stats.bytes + stats.workspace, 2 * cap);
  for (const auto& device : gpus.devices) EXPECT_LE(device->allocated_bytes(), cap + (1 << 16));
}

// They hold 64 rows in any case.
TEST(SplitRowStore, ACapThatBuffersAloneWouldPassIsRefused) {
  FakeGpus gpus(2, 1);
  constexpr uint32_t row_bytes = 1 << 16;
  constexpr uint64_t slab = uint64_t{row_bytes} * 64;
  using Store = SplitRowStore<FakeDevice>;
  for (uint64_t cap = 1 << 20; cap < slab * 6; cap *= 2) {
    EXPECT_THROW(Store(gpus.pointers, {row_bytes, slab, {cap, 3, 4, 256}}), std::bad_alloc) << cap;
  }
  gpus.expect_clean();
}

TEST(SplitRowStore, IsLostWhenADeviceFailsWhileRowsGoToTheHost) {
  constexpr uint32_t part = 128;
  DeviceRequestSource source(1);
  std::vector<std::vector<uint64_t>> keys;
  for (int i = 0; i < 16; ++i) keys.push_back(source.keys(part));
  for (uint64_t launches = 0; launches < 100; launches += 9) {
    FakeGpus gpus(1, 1);
    ModelledRows<FakeDevice> table(
        gpus.pointers, rows_behind<FakeDevice>(gpus.pointers, 64, part, part, part * 8));
    for (int i = 0; i < 4; ++i) table.put(keys[static_cast<size_t>(i)], true);
    gpus.devices[0]->fail_launches_after(launches);
    EXPECT_THROW(
        {
          for (const auto& some : keys) table.put(some, true);
        },
        DeviceError)
        << launches;
    gpus.devices[0]->fail_launches_after(FakeDevice::never);
    EXPECT_THROW(table.get(keys[0]), DeviceError) << launches;
    EXPECT_EQ(gpus.devices[0]->take_errors(), std::vector<std::string>{});
  }
}

// A chunk goes by way of columns for 64 rows, however long these are, and of parts of any size.
TEST(SplitRowStore, ExportsLongRowsAndSmallParts) {
  struct Shape {
    uint32_t devices, row_bytes, part_rows;
  };
  constexpr uint32_t long_row = 5 << 16;
  for (const Shape& its : {Shape{1, 64, 2}, Shape{1, long_row, 64}, Shape{2, long_row, 64}}) {
    FakeGpus gpus(its.devices, 1);
    const uint64_t slab = uint64_t{its.row_bytes} * 64;
    SplitRowStore<FakeDevice> store(gpus.pointers, {its.row_bytes, slab, {0, 3, 4, its.part_rows}});
    DeviceRequestSource source(1);
    const std::vector<uint64_t> keys = source.keys(70);
    store.run_host({gpu::RowOp::get_or_insert, keys.size(), keys.data(), nullptr, nullptr});
    std::vector<uint64_t> exported, some(64);
    uint64_t cursor = 0;
    do {
      gpu::RowExport chunk;
      chunk.capacity = some.size();
      chunk.keys = some.data();
      cursor = store.export_rows_host(cursor, chunk);
      exported.insert(exported.end(), some.begin(),
                      some.begin() + static_cast<ptrdiff_t>(chunk.count));
    } while (cursor != 0);
    EXPECT_TRUE(std::is_permutation(exported.begin(), exported.end(), keys.begin(), keys.end()))
        << its.devices << ' ' << its.row_bytes;
    gpu::RowExport small;
    small.capacity = 63;
    small.keys = some.data();
    EXPECT_THROW(store.export_rows_host(0, small), std::invalid_argument);
  }
}

// And the table goes on with what it has.
TEST(SplitRowStore, HostMemoryThatTheSystemDoesNotGiveCountsAsFull) {
  constexpr uint32_t part = 256;
  FakeGpus gpus(1, 1);
  SplitRowStore<FakeDevice> store(gpus.pointers,
                                  rows_behind<FakeDevice>(gpus.pointers, 64, part, part, part * 8));
  DeviceRequestSource source(1);
  std::vector<uint64_t> stored;
  const auto put = [&] {
    const std::vector<uint64_t> keys = source.keys(part);
    std::vector<uint64_t> rows(part * 8);
    for (size_t i = 0; i < rows.size(); ++i) rows[i] = keys[i / 8] + i % 8;
    std::vector<uint8_t> found(part);
    store.run_host({gpu::RowOp::put, part, keys.data(), rows.data(), found.data()});
    for (size_t i = 0; i < part; ++i) {
      if (found[i] == 1) stored.push_back(keys[i]);
    }
    return std::count(found.begin(), found.end(), 1) == part;
  };
  while (store.stats().host_bytes == 0) ASSERT_TRUE(put());
  const uint64_t before = store.stats().host_bytes;
  gpus.devices[0]->fail_allocations_after(0);
  while (put()) {
  }
  gpus.devices[0]->fail_allocations_after(FakeDevice::never);
  EXPECT_FALSE(put());
  EXPECT_EQ(store.stats().host_bytes, before);
  EXPECT_EQ(store.stats().entries, stored.size());
  std::vector<uint64_t> rows(stored.size() * 8);
  std::vector<uint8_t> found(stored.size());
  store.run_host({gpu::RowOp::get, stored.size(), stored.data(), rows.data(), found.data()});
  for (size_t i = 0; i < rows.size(); ++i) ASSERT_EQ(rows[i], stored[i / 8] + i % 8) << i;
  EXPECT_EQ(gpus.devices[0]->take_errors(), std::vector<std::string>{});
}

// Whatever memory there is for the first rows: without any there are none that could go.
TEST(SplitRowStore, RowsThatWouldEvictOthersAreRefusedWhileThereIsNoMemory) {
  constexpr uint64_t count = 10;
  DeviceRowOptions options{16, 16 * 64, {0, 3, 4, 64}};
  options.scores = gpu::RowScores::given;
  options.evicts = true;
  DeviceRequestSource source(1);
  const std::vector<uint64_t> keys = source.keys(count);
  uint64_t refused = 0;
  for (uint64_t allocations = 0; allocations < 12; ++allocations) {
    FakeGpus gpus(1, 1);
    SplitRowStore<FakeDevice> store(gpus.pointers, options);
    std::vector<uint64_t> rows(count * 2);
    std::vector<uint8_t> found(count);
    const gpu::RowRequests puts{gpu::RowOp::put, count, keys.data(), rows.data(), found.data()};
    gpus.devices[0]->fail_allocations_after(allocations);
    try {
      store.run_host(puts);
      refused += found == std::vector<uint8_t>(count, reply_retry) ? 1 : 0;
    } catch (const std::bad_alloc&) {  // without what a call of the host works in
    }
    gpus.devices[0]->fail_allocations_after(FakeDevice::never);
    store.run_host(puts);
    EXPECT_EQ(found, std::vector<uint8_t>(count, 1)) << allocations;
    EXPECT_EQ(gpus.devices[0]->take_errors(), std::vector<std::string>{}) << allocations;
  }
  EXPECT_GT(refused, 0u);
}

TEST(SplitRowStore, RefusesAPlaceThatItHasNot) {
  FakeGpus gpus(2, 1);
  SplitRowStore<FakeDevice> store(gpus.pointers, {64, 64 * 64, {0, 3, 4, 256}});
  EXPECT_THROW(store.run({}, 2, nullptr), std::invalid_argument);
  EXPECT_THROW(store.scan(2, 10, [](uint64_t) {}), std::invalid_argument);
  EXPECT_THROW(SplitRowStore<FakeDevice>({}, {64, 64 * 64, {0, 3, 4, 256}}), std::invalid_argument);
}

TEST(SplitRowStore, RefusesColumnsThatKernelsCouldNotRead) {
  FakeGpus gpus(1, 1);
  SplitRowStore<FakeDevice> store(gpus.pointers, {64, 64 * 64, {0, 3, 4, 256}});
  FakeDevice& device = *gpus.devices[0];
  const FakeDevice::Keep keep;
  device.enter();
  const DeviceStream<FakeDevice> stream(device);
  DeviceMemory<FakeDevice> arrays(device, 0);
  const DeviceArray<FakeDevice, uint64_t> keys(arrays, 2), rows(arrays, 24);
  const DeviceArray<FakeDevice, uint8_t> found(arrays, 2);
  const auto refused = [&](const gpu::RowRequests& call) {
    EXPECT_THROW(store.run(call, stream.get()), std::invalid_argument);
  };
  refused({gpu::RowOp::put, 2, nullptr, rows.data(), nullptr});
  refused({gpu::RowOp::put, 2, keys.data(), nullptr, nullptr});
  refused({gpu::RowOp::put, 2, keys.data(), rows.data() + 1, nullptr});
  refused({gpu::RowOp::get, 2, keys.data(), rows.data(), nullptr});
  refused({gpu::RowOp::get_or_insert, 2, keys.data(), rows.data(), nullptr});
  refused({static_cast<gpu::RowOp>(77), 2, keys.data(), rows.data(), found.data()});
  EXPECT_THROW(store.run_host({static_cast<gpu::RowOp>(77)}), std::invalid_argument);
  store.run({gpu::RowOp::put, 0, nullptr, nullptr, nullptr}, stream.get());
  EXPECT_EQ(store.stats().entries, 0u);
}

TEST(SplitRowStore, OfTheHostOnlyAGetOrInsertMayLackRowsWhichAreZerosThen) {
  FakeGpus gpus(2, 1);
  SplitRowStore<FakeDevice> store(gpus.pointers, {64, 64 * 64, {0, 3, 4, 256}});
  const std::vector<uint64_t> keys{1, 2};
  for (const gpu::RowOp op : {gpu::RowOp::put, gpu::RowOp::accumulate}) {
    EXPECT_THROW(store.run_host({op, keys.size(), keys.data()}), std::invalid_argument);
  }
  EXPECT_EQ(store.stats().entries, 0u);
  store.run_host({gpu::RowOp::get_or_insert, keys.size(), keys.data()});
  std::vector<char> rows(keys.size() * 64, 'x');
  std::vector<uint8_t> found(keys.size());
  store.run_host({gpu::RowOp::get, keys.size(), keys.data(), rows.data(), found.data()});
  EXPECT_EQ(found, std::vector<uint8_t>({1, 1}));
  EXPECT_EQ(rows, std::vector<char>(rows.size()));
}

}  // namespace
}  // namespace isotherm::split_row_store_test
