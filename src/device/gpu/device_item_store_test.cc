// Tables of items on the fake device: the checks that the GPU runs, and what happens when the
// device fails or a call is wrong.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "base/pair.h"
#include "device/fake_device.h"
#include "device/gpu/device_item_host_checks.h"
#include "items/poison.h"

namespace isotherm {
namespace {

constexpr uint64_t memory = uint64_t{1} << 29;
constexpr uint64_t scale = poison::sanitized ? 512 : 1024;
// Where only threads are watched, and these checks have one, but for the columns of host arrays.
#if defined(ISOTHERM_TSAN)
constexpr bool watches_threads = true;
#else
constexpr bool watches_threads = false;
#endif

// Those that do on two memories what others do on one.
bool is_slow(const std::string& check) {
  return check == "evicting histories on both" || check == "changing sizes on both";
}

class DeviceItemChecks : public ::testing::TestWithParam<DeviceItemCheck<FakeDevice>> {};

TEST_P(DeviceItemChecks, FindNoFault) {
  if (watches_threads && GetParam().name != std::string("many parts")) {
    GTEST_SKIP() << "one thread, and slow here";
  }
  if (poison::sanitized && is_slow(GetParam().name)) GTEST_SKIP() << "slow here";
  for (uint64_t seed = 1; seed <= (poison::sanitized ? 1 : 2); ++seed) {
    FakeDevice device(seed, memory);
    EXPECT_EQ(GetParam().run(device, scale), 0u) << "seed " << seed;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }
}

std::string test_name(const ::testing::TestParamInfo<DeviceItemCheck<FakeDevice>>& test) {
  std::string name = test.param.name;
  std::replace(name.begin(), name.end(), ' ', '_');
  return name;
}

INSTANTIATE_TEST_SUITE_P(Items, DeviceItemChecks,
                         ::testing::ValuesIn(device_item_checks<FakeDevice>), test_name);

INSTANTIATE_TEST_SUITE_P(ItemsOnHost, DeviceItemChecks,
                         ::testing::ValuesIn(device_item_host_checks<FakeDevice>), test_name);

using Store = DeviceItemStore<FakeDevice>;
using Modelled = ModelledItems<FakeDevice>;

ItemBatch some_puts(uint64_t count) {
  ItemSource source(1, 40, 100);
  return source.uniform_op(DeviceOp::put, source.keys(count));
}

// With items on the host as well where calls come from there.
DeviceItemOptions failing_items(bool host) {
  DeviceItemOptions options = small_items(1, 64);
  if (host) {
    options.host_memory = 1 << 20;
    options.host_items_from = item_classes::bytes_of(6);
  }
  return options;
}

TEST(DeviceItemStore, ThrowsWithoutMemoryForTheEmptyTable) {
  bool made = false;
  for (uint64_t allocations = 0; !made; ++allocations) {
    FakeDevice device(1, memory);
    device.fail_allocations_after(allocations);
    try {
      const Store store(device, small_items(1, 64));
      made = true;
      EXPECT_GT(allocations, 20u);
    } catch (const std::bad_alloc&) {
    }
    device.fail_allocations_after(FakeDevice::never);
    EXPECT_EQ(device.allocated_bytes(), 0u) << allocations;
  }
}

TEST(DeviceItemStore, IsLostWhenALaunchFails) {
  for (const bool host : {false, true}) {
    bool failed = true;
    for (uint64_t launches = 0; failed; launches += poison::sanitized ? 29 : 3) {
      FakeDevice device(1, memory);
      Modelled table(device, failing_items(host));
      table.run_from(host, some_puts(100));
      device.fail_launches_after(launches);
      failed = false;
      try {
        table.run_from(host, some_puts(100));
      } catch (const DeviceError&) {
        failed = true;
      }
      device.fail_launches_after(FakeDevice::never);
      if (failed) {
        EXPECT_THROW(table.run_from(host, some_puts(1)), DeviceError);
        EXPECT_THROW(table.stats(), DeviceError);
      }
      EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    }
  }
}

TEST(DeviceItemStore, SaysWhenTheDeviceIsLost) {
  for (const bool host : {false, true}) {
    for (const uint64_t operations : {0, 1, 5, 20, 100, 150}) {
      FakeDevice device(1, memory);
      Modelled table(device, failing_items(host));
      device.lose_after(operations);
      EXPECT_THROW(
          {
            for (int i = 0; i < 20; ++i) table.run_from(host, some_puts(100));
          },
          DeviceError);
      EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
    }
  }
}

TEST(DeviceItemStore, WithoutMemoryPutsAreRefusedAndLaterOnesAreNot) {
  FakeDevice device(1, memory);
  ItemSource source(3, 40, 100);
  Modelled table(device, small_items(1, 64));
  const std::vector<std::string> keys = source.keys(200);
  table.run_host(source.uniform_op(DeviceOp::put, {keys.begin(), keys.begin() + 20}));
  EXPECT_EQ(table.refused(), 0u);
  device.fail_allocations_after(0);
  for (int i = 0; i < 5; ++i) table.run_host(source.mixed(keys, 300, 0.8));
  EXPECT_GT(table.refused(), 0u);
  device.fail_allocations_after(FakeDevice::never);
  const uint64_t refused = table.refused();
  for (int i = 0; i < 5; ++i) table.run_host(source.mixed(keys, 300, 0.8));
  EXPECT_EQ(table.refused(), refused);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

// Host memory that cannot be had is full: at whatever allocation it ends, nothing goes wrong, and
// when there is some again nothing is refused.
TEST(DeviceItemStore, WithoutHostMemoryPutsAreRefusedAndLaterOnesAreNot) {
  uint64_t refused_at = 0;
  for (uint64_t allocations = 0; allocations < 8; ++allocations) {
    FakeDevice device(1, memory);
    ItemSource source(3, 40, 1000);
    DeviceItemOptions options = small_items(1, 256);
    options.host_items_from = allocations % 2 == 0 ? 1 : 0;
    options = capped_items(device, options, 100'000, 8 << 20);
    Modelled table(device, options);
    const std::vector<std::string> keys = source.keys(1000);
    const auto put_some = [&](int64_t first) {
      const std::vector<std::string> some(keys.begin() + first, keys.begin() + first + 500);
      table.run_host(source.uniform_op(DeviceOp::put, some));
    };
    put_some(0);
    EXPECT_GT(table.stats().host_items, 0u);
    EXPECT_EQ(table.refused(), 0u);
    device.fail_allocations_after(allocations);
    put_some(500);
    refused_at += table.refused() != 0;
    device.fail_allocations_after(FakeDevice::never);
    const uint64_t refused = table.refused();
    put_some(250);
    put_some(500);
    EXPECT_EQ(table.refused(), refused) << allocations;
    table.check_all();
    EXPECT_EQ(table.wrong(), 0u) << allocations;
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
  EXPECT_GT(refused_at, 3u);
}

TEST(DeviceItemStore, WithoutACapTheDeviceEndsWhereItsMemoryDoes) {
  DeviceItemOptions options = small_items(1, 256);
  FakeDevice large(1, memory);
  const uint64_t bytes = capped_items(large, options, 600'000, 1).index.gpu_memory;
  FakeDevice device(1, bytes);
  options.host_memory = 2 << 20;
  ItemSource source(3, 40, 1000);
  Modelled table(device, options);
  // The device has no room for arrays of calls.
  const ItemBatch puts = source.uniform_op(DeviceOp::put, source.keys(3000));
  table.run_host(puts);
  table.run_host(of_keys(DeviceOp::get, puts));
  const DeviceItemStats stats = table.stats();
  EXPECT_GT(stats.host_items, 0u);
  EXPECT_LT(stats.host_items, stats.entries);
  EXPECT_EQ(table.wrong() + table.refused(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

// Keys by their hashes, of which the uppermost 16 bits count: `few` have 512 hashes in all, `many`
// others, of which the later ones are shared by two keys each.
struct SharedHashes {
  static constexpr uint64_t mask = uint64_t{0xffff} << 48;

  SharedHashes(uint64_t seed, uint64_t alone, uint64_t keys) {
    std::map<uint64_t, std::vector<std::string>> by_hash;
    for (uint64_t i = 0; few.size() < keys || many.size() < keys; ++i) {
      std::string key = std::to_string(i + 1'000'000'000);
      const ByteRange all{key.data(), key.data() + key.size()};
      const uint64_t hash = ItemHash{seed, mask}(key.data(), key.size(), all) >> 48;
      if (hash < 512) {
        if (few.size() < keys) few.push_back(key);
        continue;
      }
      std::vector<std::string>& same = by_hash[hash];
      same.push_back(key);
      if (many.size() < alone && same.size() == 1) many.push_back(key);
      if (many.size() >= alone && many.size() < keys && same.size() == 9) {
        many.insert(many.end(), same.begin() + 7, same.end());
      }
    }
  }
  std::vector<std::string> few;
  std::vector<std::string> many;
};

ItemBatch batch(DeviceOp op, const std::vector<std::string>& keys) {
  ItemBatch requests;
  for (const std::string& key : keys) requests.push_back({op, key, "value", 0});
  return requests;
}

// Leaves blocks for all keys, an index of few entries, and no memory.
void fill_blocks_alone(FakeDevice& device, Modelled& table, const SharedHashes& shared) {
  table.run_host(batch(DeviceOp::put, shared.few));
  table.run_host(batch(DeviceOp::erase, shared.few));
  device.fail_allocations_after(0);
}

TEST(DeviceItemStore, ItemsGiveWayWhereTheIndexIsFull) {
  if (poison::sanitized) GTEST_SKIP() << "too slow here: it takes many rows";
  constexpr uint64_t keys = 17000;
  const SharedHashes shared(1, keys, keys);
  FakeDevice device(1, memory);
  DeviceItemOptions options = small_items(1, 1024);
  options.index.line_bits = 2;
  options.hash_mask = SharedHashes::mask;
  options.evicts = true;
  Modelled table(device, options);
  fill_blocks_alone(device, table, shared);
  uint64_t refused = 0;  // before the last rows
  for (uint64_t first = 0; first < keys; first += 1000) {
    refused = table.refused();
    table.run_host(
        batch(DeviceOp::put, {shared.many.begin() + static_cast<int64_t>(first),
                              shared.many.begin() + static_cast<int64_t>(first) + 1000}));
  }
  EXPECT_GT(refused, 0u);
  EXPECT_LT(table.refused() - refused, 600u);  // half, more or less
  EXPECT_GT(table.stats().evicted, 1000u);
  device.fail_allocations_after(FakeDevice::never);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

TEST(DeviceItemStore, KeysOfOneHashAreRefusedTogetherWhereTheIndexIsFull) {
  if (poison::sanitized) GTEST_SKIP() << "too slow here: it takes many rows";
  constexpr uint64_t alone = 7000;
  constexpr uint64_t keys = 17000;
  const SharedHashes shared(1, alone, keys);
  FakeDevice device(1, memory);
  DeviceItemOptions options = small_items(1, 1024);
  options.index.line_bits = 2;
  options.hash_mask = SharedHashes::mask;
  Modelled table(device, options);
  fill_blocks_alone(device, table, shared);
  table.run_host(batch(DeviceOp::put, {shared.many.begin(), shared.many.begin() + alone}));
  EXPECT_EQ(table.refused(), 0u);
  table.run_host(batch(DeviceOp::put, {shared.many.begin() + alone, shared.many.end()}));
  EXPECT_GT(table.refused(), 0u);
  device.fail_allocations_after(FakeDevice::never);
  table.check_all();
  // What was refused is free again: all find room now.
  const uint64_t refused = table.refused();
  table.run_host(batch(DeviceOp::put, shared.many));
  EXPECT_EQ(table.refused(), refused);
  table.check_all();
  EXPECT_EQ(table.wrong(), 0u);
  EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
}

// Calls that must throw std::invalid_argument and leave the table as it was.
class WrongItemCalls : public ::testing::Test {
 protected:
  WrongItemCalls() : device(1, memory), store(device, small_items(1, 64)) {
    requests.rows = 3;
    requests.keys = {key_offsets.data(), "abcdef"};
    requests.values = {value_offsets.data(), "uvwxyz"};
    requests.replies = {found.data(), offsets.data(), bytes.data(), bytes.size()};
  }
  ~WrongItemCalls() override {
    EXPECT_EQ(store.stats().entries, 0u);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
  void expect_refused(const DeviceItemRequests& call) {
    EXPECT_THROW(store.run_host(call), std::invalid_argument);
  }

  FakeDevice device;
  Store store;
  std::vector<int64_t> key_offsets = {0, 2, 4, 6};
  std::vector<int64_t> value_offsets = {0, 2, 4, 6};
  std::vector<uint8_t> found = std::vector<uint8_t>(3);
  std::vector<int64_t> offsets = std::vector<int64_t>(4);
  std::string bytes = std::string(100, '#');
  DeviceItemRequests requests;
};

TEST_F(WrongItemCalls, MissingColumns) {
  DeviceItemRequests call = requests;
  call.keys = {};
  expect_refused(call);
  call = requests;
  call.keys.bytes = nullptr;
  expect_refused(call);
  call = requests;
  call.op = DeviceOp::put;
  call.values = {};
  expect_refused(call);
  call.values = requests.values;
  call.values.bytes = nullptr;
  expect_refused(call);
  call = requests;
  call.replies = {};
  expect_refused(call);
  call.replies.found = found.data();
  call.replies.capacity = 10;
  expect_refused(call);
  call.replies.offsets = offsets.data();
  expect_refused(call);
}

TEST_F(WrongItemCalls, OtherOperations) {
  DeviceItemRequests call = requests;
  for (const DeviceOp op : {DeviceOp::put_if_absent, DeviceOp::compare_and_swap, DeviceOp::add}) {
    call.op = op;
    expect_refused(call);
  }
}

TEST_F(WrongItemCalls, OffsetsThatDoNotTellWhatToCopy) {
  const std::vector<std::vector<int64_t>> wrong = {
      {-1, 2, 4, 6},
      {5, 2, 4, 3},
      {0, 2, 4, int64_t{1} << 40},
      {std::numeric_limits<int64_t>::max() - 1, 2, 4, std::numeric_limits<int64_t>::max()},
      {std::numeric_limits<int64_t>::min(), 2, 4, std::numeric_limits<int64_t>::max()}};
  for (const DeviceOp op : {DeviceOp::get, DeviceOp::put, DeviceOp::erase}) {
    for (const std::vector<int64_t>& offsets_of : wrong) {
      DeviceItemRequests call = requests;
      call.op = op;
      call.keys.offsets = offsets_of.data();
      if (offsets_of[0] > 6) call.keys.bytes = nullptr;
      expect_refused(call);
    }
  }
  DeviceItemRequests call = requests;
  call.op = DeviceOp::put;
  for (const std::vector<int64_t>& offsets_of : wrong) {
    call.values.offsets = offsets_of.data();
    if (offsets_of[0] > 6) call.values.bytes = nullptr;
    expect_refused(call);
  }
}

TEST_F(WrongItemCalls, AFaultInTheLastPartIsFoundBeforeTheFirstIsPut) {
  constexpr uint64_t rows = 5000;
  std::vector<int64_t> many(rows + 1);
  for (uint64_t i = 0; i <= rows; ++i) many[i] = static_cast<int64_t>(i);
  many[rows] = 0;
  const std::string all(rows, 'k');
  DeviceItemRequests call = requests;
  call.rows = rows;
  call.op = DeviceOp::put;
  call.keys = call.values = {many.data(), all.data()};
  call.replies = {};
  expect_refused(call);
  std::vector<uint8_t> answers(rows);
  call.op = DeviceOp::get;
  call.replies.found = answers.data();
  expect_refused(call);
}

TEST_F(WrongItemCalls, NoRowsAreNoFault) {
  DeviceItemRequests call = requests;
  call.rows = 0;
  offsets[0] = 7;
  EXPECT_EQ(store.run_host(call), 0u);
  EXPECT_EQ(offsets[0], 0);
}

class DeviceItemCalls : public ::testing::Test {
 protected:
  DeviceItemCalls() : device(3, memory), stream(device.create_stream()), arrays(device, 0) {}
  ~DeviceItemCalls() override {
    device.destroy_stream(stream);
    EXPECT_EQ(device.take_errors(), std::vector<std::string>{});
  }
  template <class T>
  DeviceArray<FakeDevice, T> upload(const std::vector<T>& from) {
    DeviceArray<FakeDevice, T> to(arrays, from.size());
    EXPECT_TRUE(device.to_device(stream, to.data(), from.data(), to.bytes()));
    EXPECT_TRUE(device.synchronize(stream));
    return to;
  }
  template <class T>
  std::vector<T> download(const DeviceArray<FakeDevice, T>& from) {
    std::vector<T> to(from.size());
    EXPECT_TRUE(device.to_host(stream, to.data(), from.data(), from.bytes()));
    EXPECT_TRUE(device.synchronize(stream));
    return to;
  }
  DeviceArray<FakeDevice, char> text(const std::string& from) {
    return upload(std::vector<char>(from.begin(), from.end()));
  }

  FakeDevice device;
  FakeDevice::Stream stream;
  DeviceMemory<FakeDevice> arrays;
};

TEST_F(DeviceItemCalls, RowsThatCannotBeTakenAreRefusedAndTheOthersAreNot) {
  Store store(device, small_items(1, 4));
  // Parts of 4 rows; wrong are an offset that falls, one behind the end, an operation, and a key
  // and a value that are too long.
  const std::string bytes(100'000, 'b');
  const auto keys = text(bytes);
  const auto values = text(bytes);
  const auto key_offsets = upload<int64_t>({2, 4, 3, 7, 90'000, 9, 12, 70'000, 80'000});
  const auto value_offsets = upload<int64_t>({0, 1, 2, 3, 4, 5, 6, 7, 8});
  using enum DeviceOp;
  const auto ops = upload<DeviceOp>({put, put, put, put, put, add, put, put});
  const auto found = upload(std::vector<uint8_t>(8, 9));
  const auto offsets = upload(std::vector<int64_t>(9, -1));
  DeviceItemRequests call;
  call.rows = 8;
  call.ops = ops.data();
  call.keys = {key_offsets.data(), keys.data()};
  call.values = {value_offsets.data(), values.data()};
  call.replies = {found.data(), offsets.data(), nullptr, 0};
  store.run(call, stream);
  EXPECT_EQ(download(found), (std::vector<uint8_t>{0, 254, 0, 254, 254, 254, 254, 0}));
  EXPECT_EQ(download(offsets), std::vector<int64_t>(9, 0));
  EXPECT_EQ(store.stats().entries, 3u);
  // Without values no put is taken.
  call.values = {};
  store.run(call, stream);
  EXPECT_EQ(download(found), std::vector<uint8_t>(8, 254));
  EXPECT_EQ(store.stats().entries, 3u);
}

TEST_F(DeviceItemCalls, RowsOfHostArraysAreRefusedOneByOneToo) {
  Store store(device, small_items(1, 64));
  using enum DeviceOp;
  // Wrong are an offset that falls and an operation.
  const std::vector<int64_t> key_offsets = {0, 2, 1, 4, 6};
  const std::vector<int64_t> value_offsets = {0, 1, 2, 3, 4};
  const std::vector<DeviceOp> ops = {put, put, put, add};
  std::vector<uint8_t> found(4, 9);
  DeviceItemRequests call;
  call.rows = 4;
  call.ops = ops.data();
  call.keys = {key_offsets.data(), "abcdef"};
  call.values = {value_offsets.data(), "wxyz"};
  call.replies.found = found.data();
  store.run_host(call);
  EXPECT_EQ(found, (std::vector<uint8_t>{0, 254, 0, 254}));
  EXPECT_EQ(store.stats().entries, 2u);
  // Who asks for no answers is told by an exception, when the others have taken effect.
  call.op = erase;
  call.ops = nullptr;
  call.replies.found = nullptr;
  EXPECT_THROW(store.run_host(call), std::invalid_argument);
  EXPECT_EQ(store.stats().entries, 0u);
  // Without values no put is taken.
  call.ops = ops.data();
  call.values = {};
  call.replies.found = found.data();
  store.run_host(call);
  EXPECT_EQ(found, std::vector<uint8_t>(4, 254));
  EXPECT_EQ(store.stats().entries, 0u);
}

TEST_F(DeviceItemCalls, AWrongRowOfAnyPartIsRefusedAlone) {
  DeviceItemOptions options = small_items(1, 64);
  options.key_room = 1 << 18;
  Store store(device, options);
  constexpr uint64_t rows = 300;  // several parts
  std::vector<int64_t> one_each(rows + 1), long_ones(rows + 1);
  for (uint64_t i = 0; i <= rows; ++i) {
    one_each[i] = static_cast<int64_t>(i * 2);
    long_ones[i] = one_each[i] + (i > 250 ? 65'536 : 0);
  }
  std::string keys(rows * 2 + 65'536, 'k');
  for (uint64_t i = 0; i <= rows; ++i) {
    const auto number = static_cast<uint16_t>(i);
    std::memcpy(keys.data() + long_ones[i], &number, i < rows ? sizeof number : 0);
  }
  std::vector<uint8_t> found(rows, 9);
  DeviceItemRequests call;
  call.rows = rows;
  call.keys = {long_ones.data(), keys.data()};
  call.values = {one_each.data(), keys.data()};
  call.replies.found = found.data();
  for (const DeviceOp op : {DeviceOp::put, DeviceOp::get}) {
    call.op = op;
    store.run_host(call);
    for (uint64_t i = 0; i < rows; ++i) {
      const int present = op == DeviceOp::get ? 1 : 0;
      EXPECT_EQ(found[i], i == 250 ? reply_refused : present) << "row " << i;
    }
  }
  EXPECT_EQ(store.stats().entries, rows - 1);
}

TEST_F(DeviceItemCalls, TakeEffectInTheirOrderOnAnyStream) {
  Store store(device, small_items(1, 64));
  FakeDevice::Stream streams[] = {device.create_stream(), device.create_stream(),
                                  device.create_stream()};
  constexpr int calls = 12;
  const auto keys = text("key");
  const auto key_offsets = upload<int64_t>({0, 3});
  const auto values = text("abcdefghijkl");
  const auto found = upload(std::vector<uint8_t>(calls, 9));
  const auto offsets = upload(std::vector<int64_t>(calls * 2, -1));
  const auto bytes = text(std::string(calls, '#'));
  std::vector<DeviceArray<FakeDevice, int64_t>> value_offsets;
  for (int i = 0; i < calls; ++i) {
    const bool put = i % 3 == 0;
    value_offsets.push_back(upload<int64_t>({i, i + 1}));
    DeviceItemRequests call;
    call.rows = 1;
    call.op = put ? DeviceOp::put : DeviceOp::get;
    call.keys = {key_offsets.data(), keys.data()};
    call.values = {value_offsets.back().data(), values.data()};
    call.replies = {found.data() + i, offsets.data() + i * 2, bytes.data() + i, 1};
    store.run(call, streams[i * 5 % 3]);
  }
  EXPECT_EQ(store.stats().entries, 1u);
  const std::vector<char> seen = download(bytes);
  EXPECT_EQ(std::string(seen.begin(), seen.end()), "#aa#dd#gg#jj");
  const std::vector<uint8_t> present = download(found);
  EXPECT_EQ(present, (std::vector<uint8_t>{0, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1}));
  for (const auto used : streams) device.destroy_stream(used);
}

}  // namespace
}  // namespace isotherm
