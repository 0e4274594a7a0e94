// Tables over some fake devices and the host: the checks that GPUs run, and what happens when one
// fails.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "device_checks/split_table_checks.h"
#include "device_checks/test_size.h"
#include "fake_device/fake_gpus.h"
#include "isotherm/gpu/common.h"
#include "items/poison.h"

namespace isotherm::split_table_test {
namespace {

const uint64_t scale = test_size(256, 2048);

// A check, on so many devices, which reach each other's memory or not, with host memory or without.
struct SplitCase {
  SplitTableCheck<FakeDevice> check;
  uint32_t devices;
  bool connected;
  bool with_host;

  friend std::ostream& operator<<(std::ostream& out, const SplitCase& its) {
    return out << its.check.name << ' ' << its.devices << (its.connected ? " connected" : "")
               << (its.with_host ? " with host" : "");
  }
};

// Sanitizers take ten times as long, so they watch fewer, which run the same lines.
bool is_watched(bool every_way, uint32_t devices, bool connected, bool with_host) {
  if (devices == 2) return with_host || (every_way && connected);
  return every_way && (devices == 1 || (!connected && !with_host));
}

std::vector<SplitCase> all_cases() {
  std::vector<SplitCase> cases;
  for (const auto& check : split_table_checks<FakeDevice>) {
    const bool every_way = check.name == std::string("every way");
    for (const uint32_t devices : {1u, 2u, 3u}) {
      for (const bool connected : {true, false}) {
        for (const bool with_host : {false, true}) {
          if (devices == 1 && !connected) continue;
          if (poison::sanitized && !is_watched(every_way, devices, connected, with_host)) continue;
          cases.push_back({check, devices, connected, with_host});
        }
      }
    }
  }
  return cases;
}

class SplitTableChecks : public ::testing::TestWithParam<SplitCase> {};

TEST_P(SplitTableChecks, FindNoFault) {
  const SplitCase& its = GetParam();
  FakeGpus gpus(its.devices, 1, its.connected);
  EXPECT_EQ(its.check.run({gpus.pointers, its.with_host}, scale), 0u);
  gpus.expect_clean();
}

INSTANTIATE_TEST_SUITE_P(All, SplitTableChecks, ::testing::ValuesIn(all_cases()),
                         [](const auto& test) {
                           std::ostringstream name;
                           name << test.param;
                           std::string text = name.str();
                           std::replace(text.begin(), text.end(), ' ', '_');
                           return text;
                         });

std::vector<DeviceBatch> some_puts(uint64_t count, uint32_t devices) {
  DeviceRequestSource source(1);
  std::vector<DeviceBatch> slices;
  for (uint32_t i = 0; i < devices; ++i) {
    slices.push_back(source.uniform_op(TableOp::put, source.keys(count)));
  }
  return slices;
}

SplitOptions small() { return SplitSetup<FakeDevice>{}.small_parts(1, 4, 512); }

TEST(SplitTable, IsLostWhenALaunchOfAnyDeviceFails) {
  for (uint32_t failing = 0; failing < 2; ++failing) {
    for (uint64_t launches = 0; launches < 12; launches += 3) {
      FakeGpus gpus(2, 1);
      ModelledSplitTable<FakeDevice> table(gpus.pointers, small());
      table.run_uniform(TableOp::put, some_puts(100, 2), true);
      gpus.devices[failing]->fail_launches_after(launches);
      EXPECT_THROW(table.run_uniform(TableOp::put, some_puts(100, 2), false), DeviceError);
      gpus.devices[failing]->fail_launches_after(FakeDevice::never);
      EXPECT_THROW(table.run_uniform(TableOp::get, some_puts(100, 2), true), DeviceError);
      EXPECT_THROW(table.run_host(some_puts(100, 1)[0]), DeviceError);
      EXPECT_THROW(table.table().stats(), DeviceError);
      for (const auto& device : gpus.devices) {
        EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      }
    }
  }
}

TEST(SplitTable, SaysWhenADeviceIsLost) {
  for (uint32_t failing = 0; failing < 2; ++failing) {
    for (const uint64_t operations : {0, 1, 5, 20, 100}) {
      FakeGpus gpus(2, 1);
      ModelledSplitTable<FakeDevice> table(gpus.pointers, small());
      gpus.devices[failing]->lose_after(operations);
      EXPECT_THROW(
          {
            for (int i = 0; i < 20; ++i) {
              table.run_uniform(TableOp::put, some_puts(100, 2), true);
              table.run_host(some_puts(200, 1)[0]);
            }
          },
          DeviceError);
      EXPECT_THROW(table.table().stats(), DeviceError);
      for (const auto& device : gpus.devices) {
        EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      }
    }
  }
}

TEST(SplitTable, ThrowsWithoutMemoryForTheEmptyTable) {
  for (uint32_t short_of = 0; short_of < 2; ++short_of) {
    for (const uint64_t allocations : {0, 4, 7, 10, 15}) {
      FakeGpus gpus(2, 1);
      gpus.devices[short_of]->fail_allocations_after(allocations);
      EXPECT_THROW(SplitTable<FakeDevice>(gpus.pointers, small()), std::bad_alloc);
      gpus.expect_clean();
    }
  }
}

TEST(SplitTable, TakesSmallerPartsWhereMemoryIsCapped) {
  FakeGpus gpus(2, 1);
  SplitOptions options = SplitSetup<FakeDevice>{}.small_parts(1, 4, 1 << 18);
  {
    SplitTable<FakeDevice> large(gpus.pointers, options);
    const gpu::TableStats stats = large.stats();
    EXPECT_GT(stats.workspace, uint64_t{24} << 20);
    EXPECT_EQ(stats.bytes + stats.workspace,
              gpus.devices[0]->allocated_bytes() + gpus.devices[1]->allocated_bytes());
  }
  options.table.gpu_memory = 24 << 20;
  ModelledSplitTable<FakeDevice> table(gpus.pointers, options);
  EXPECT_LE(table.table().stats().workspace, options.table.gpu_memory * 2 / 7);
  table.run_uniform(TableOp::put, some_puts(1000, 2), true);
  table.check_all();
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
}

TEST(SplitTable, WrongCallsAreRefused) {
  FakeGpus gpus(2, 1);
  using Table = SplitTable<FakeDevice>;
  EXPECT_THROW(Table({}, small()), std::invalid_argument);
  const std::vector<FakeDevice*> too_many(33, gpus.pointers[0]);
  EXPECT_THROW(Table(too_many, small()), std::invalid_argument);
  Table table(gpus.pointers, small());
  const std::vector<TableRequests> one(1), two(2);
  const std::vector<FakeDevice::Stream> streams(2);
  EXPECT_THROW(table.run(one, streams), std::invalid_argument);
  EXPECT_THROW(table.run(two, {streams.data(), 1}), std::invalid_argument);
  table.run(two, streams);
  std::vector<TableRequests> keyless(2);
  keyless[1].rows = 1;
  EXPECT_THROW(table.run(keyless, streams), std::invalid_argument);
  EXPECT_THROW(table.run_host(keyless[1]), std::invalid_argument);
  EXPECT_THROW(table.get_pinned(keyless[1]), std::invalid_argument);
  EXPECT_EQ(table.stats().entries, 0u);
}

// What a call reads is there when its streams have come to it, and its replies when they have come
// past it.
TEST(SplitTable, KeepsItsPlaceInTheCallersStreams) {
  for (uint64_t seed = 1; seed <= 8; ++seed) {
    FakeGpus gpus(2, seed);
    SplitTable<FakeDevice> table(gpus.pointers, small());
    constexpr uint64_t rows = 100;
    FakeDevice& device = *gpus.devices[1];
    ASSERT_TRUE(device.enter());
    DeviceMemory<FakeDevice> arrays(device, 0);
    DeviceArray<FakeDevice, uint64_t> keys(arrays, rows), values(arrays, rows);
    DeviceArray<FakeDevice, uint8_t> found(arrays, rows);
    const DeviceStream<FakeDevice> stream(device);
    std::vector<TableRequests> slices(2);
    slices[1] = {rows, nullptr, TableOp::put, keys.data(), keys.data(), nullptr, nullptr, nullptr};
    const std::vector<FakeDevice::Stream> streams = {nullptr, stream.get()};
    const auto one_by_one = [](uint64_t first) {
      std::vector<uint64_t> numbers(rows);
      for (uint64_t i = 0; i < rows; ++i) numbers[i] = first + i;
      return numbers;
    };
    const std::vector<uint64_t> wanted = one_by_one(1000), others = one_by_one(5000);
    std::vector<uint64_t> got(rows);
    ASSERT_TRUE(device.clear(stream.get(), keys.data(), keys.bytes()));
    ASSERT_TRUE(device.synchronize(stream.get()));
    ASSERT_TRUE(device.to_device(stream.get(), keys.data(), wanted.data(), keys.bytes()));
    table.run(slices, streams);
    // The keys are the caller's again as soon as the stream has come past.
    ASSERT_TRUE(device.to_device(stream.get(), keys.data(), others.data(), keys.bytes()));
    ASSERT_TRUE(device.to_device(stream.get(), keys.data(), wanted.data(), keys.bytes()));
    slices[1].op = TableOp::get;
    slices[1].values_out = values.data();
    slices[1].found = found.data();
    table.run(slices, streams);
    ASSERT_TRUE(device.to_host(stream.get(), got.data(), values.data(), values.bytes()));
    ASSERT_TRUE(device.synchronize(stream.get()));
    EXPECT_EQ(got, wanted);
    EXPECT_EQ(table.stats().entries, rows);
  }
}

// A GPU that does not take its few requests by express, since a key comes twice, answers them by
// launched kernels while others take theirs; where it is the first that is asked, all go another
// way.
TEST(SplitTable, AFewRequestsGoByExpressWhereTheyCan) {
  FakeGpus gpus(2, 1);
  const SplitOptions options = small();
  ModelledSplitTable<FakeDevice> table(gpus.pointers, options);
  std::vector<uint64_t> keys[2];
  for (uint64_t key = 1; keys[0].size() < 4 || keys[1].size() < 4; ++key) {
    keys[table.shard(key)].push_back(key);
  }
  const auto puts = [](const std::vector<uint64_t>& of) {
    DeviceBatch batch;
    for (const uint64_t key : of) batch.push_back({TableOp::put, key, batch.size() + 7, 0});
    return batch;
  };
  EXPECT_TRUE(table.run_express(puts({keys[0][0], keys[1][0], keys[0][1], keys[1][1]}), false));
  EXPECT_TRUE(table.run_express(puts({keys[1][2], keys[0][0], keys[1][2], keys[1][0]}), false));
  EXPECT_FALSE(table.run_express(puts({keys[0][3], keys[1][3], keys[0][3]}), true));
  table.check_all();
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
  EXPECT_EQ(table.table().stats().entries, 5u);
}

// Gets of slice 1 are split while puts of slice 0, which come before them, still wait for their
// answers; those move bins to the host, and then the gets are split again.
TEST(SplitTable, PartsThatWereSplitBeforeBinsMovedAreSplitAgain) {
  FakeGpus gpus(2, 1);
  const SplitOptions options = SplitSetup<FakeDevice>{gpus.pointers, true}.small_parts(1, 4, scale);
  SplitTable<FakeDevice> table(gpus.pointers, options);
  DeviceRequestSource source(1);
  std::vector<uint64_t> known = source.keys(scale);
  HostRequests puts(source.uniform_op(TableOp::put, known));
  table.run_host(puts.call());
  uint64_t missed = 0;
  for (int round = 0; round < 40 && table.stats().bins_to_host < 4; ++round) {
    const std::vector<uint64_t> fresh = source.keys(scale / 4);
    const bool entered[] = {gpus.devices[0]->enter(), gpus.devices[1]->enter()};
    ASSERT_TRUE(entered[0] && entered[1]);
    DeviceMemory<FakeDevice> first(*gpus.devices[0], 0), second(*gpus.devices[1], 0);
    const DeviceStream<FakeDevice> second_stream(*gpus.devices[1]);
    ASSERT_TRUE(gpus.devices[0]->enter());
    const DeviceStream<FakeDevice> first_stream(*gpus.devices[0]);
    UploadedRequests<FakeDevice> of_puts(first, first_stream.get(), fresh.size());
    of_puts.upload(source.uniform_op(TableOp::put, fresh));
    ASSERT_TRUE(gpus.devices[1]->enter());
    UploadedRequests<FakeDevice> of_gets(second, second_stream.get(), known.size());
    of_gets.upload(source.uniform_op(TableOp::get, known));
    const std::vector<TableRequests> slices = {of_puts.uniform_call(TableOp::put, false),
                                               of_gets.uniform_call(TableOp::get, true)};
    table.run(slices, std::vector<FakeDevice::Stream>{first_stream.get(), second_stream.get()});
    of_gets.download();
    for (const uint8_t found : of_gets.host_found) missed += found == 1 ? 0 : 1;
    known.insert(known.end(), fresh.begin(), fresh.end());
  }
  EXPECT_EQ(missed, 0u);
  EXPECT_GT(table.stats().host_entries, 0u);
}

// What calls cost. A part more than these launches or waits would be paid by every call.
struct Cost {
  uint64_t launches = 0;
  uint64_t waits = 0;
};

template <class Work>
Cost cost_of(const FakeGpus& gpus, Work&& work) {
  Cost cost;
  for (const auto& device : gpus.devices) {
    cost.launches -= device->launches();
    cost.waits -= device->waits();
  }
  work();
  for (const auto& device : gpus.devices) {
    cost.launches += device->launches();
    cost.waits += device->waits();
  }
  return cost;
}

constexpr uint64_t few_rows = 200;

// Calls of each kind by slices that are as long, of a table that has all keys.
Cost cost_of_slices(const FakeGpus& gpus, const SplitOptions& options, TableOp op) {
  SplitTable<FakeDevice> table(gpus.pointers, options);
  DeviceRequestSource source(1);
  const DeviceBatch batch = source.uniform_op(op, source.keys(few_rows));
  HostRequests puts(batch);
  std::fill(puts.ops.begin(), puts.ops.end(), TableOp::put);
  table.run_host(puts.call());
  struct Slice {
    Slice(FakeDevice& device, const DeviceBatch& rows)
        : entered(device.enter()),
          memory(device, 0),
          stream(device),
          columns(memory, stream.get(), rows.size()) {
      columns.upload(rows);
    }
    bool entered;
    DeviceMemory<FakeDevice> memory;
    DeviceStream<FakeDevice> stream;
    UploadedRequests<FakeDevice> columns;
  };
  std::deque<Slice> slices;
  std::vector<TableRequests> calls;
  std::vector<FakeDevice::Stream> streams;
  for (FakeDevice* device : gpus.pointers) {
    const Slice& slice = slices.emplace_back(*device, batch);
    calls.push_back(slice.columns.uniform_call(op, op == TableOp::get));
    streams.push_back(slice.stream.get());
  }
  table.stats();
  return cost_of(gpus, [&] { table.run(calls, streams); });
}

TEST(SplitTableCost, OneDeviceAnswersGetsByOneLaunchWithoutWaiting) {
  const FakeGpus gpus(1, 1);
  const Cost cost =
      cost_of_slices(gpus, SplitSetup<FakeDevice>{}.small_parts(1, 4, 512), TableOp::get);
  EXPECT_EQ(cost.launches, 1u);
  EXPECT_EQ(cost.waits, 0u);
}

TEST(SplitTableCost, HostMemoryThatIsNotUsedCostsGetsNothing) {
  const FakeGpus gpus(1, 1);
  SplitOptions options = SplitSetup<FakeDevice>{}.small_parts(1, 4, 512);
  options.host_memory = 1 << 20;
  const Cost cost = cost_of_slices(gpus, options, TableOp::get);
  EXPECT_EQ(cost.launches, 1u);
  EXPECT_EQ(cost.waits, 0u);
}

// A part: count, begin, split, a lookup on each device, replies to their rows; one wait for counts.
TEST(SplitTableCost, PartsOfSeveralDevicesWaitOnce) {
  for (const uint32_t devices : {2u, 3u}) {
    const FakeGpus gpus(devices, 1);
    for (const bool with_host : {false, true}) {
      SplitOptions options = SplitSetup<FakeDevice>{}.small_parts(1, 4, 2048);
      if (with_host) options.host_memory = 1 << 20;
      const Cost cost = cost_of_slices(gpus, options, TableOp::get);
      EXPECT_EQ(cost.launches, devices * (4 + devices));
      EXPECT_EQ(cost.waits, devices);
    }
  }
}

}  // namespace
}  // namespace isotherm::split_table_test
