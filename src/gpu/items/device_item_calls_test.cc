// Calls of tables of items on the fake device: those that are wrong, whole or in some rows, and the
// order in which calls take effect.
#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include "device_checks/device_item_checks.h"
#include "fake_device/fake_device.h"

namespace isotherm::device_item_calls_test {
namespace {

constexpr uint64_t memory = uint64_t{1} << 29;

using Store = DeviceItemStore<FakeDevice>;

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
  void expect_refused(const gpu::ItemRequests& call) {
    EXPECT_THROW(store.run_host(call), std::invalid_argument);
  }

  FakeDevice device;
  Store store;
  std::vector<int64_t> key_offsets = {0, 2, 4, 6};
  std::vector<int64_t> value_offsets = {0, 2, 4, 6};
  std::vector<uint8_t> found = std::vector<uint8_t>(3);
  std::vector<int64_t> offsets = std::vector<int64_t>(4);
  std::string bytes = std::string(100, '#');
  gpu::ItemRequests requests;
};

TEST_F(WrongItemCalls, MissingColumns) {
  gpu::ItemRequests call = requests;
  call.keys = {};
  expect_refused(call);
  call = requests;
  call.keys.bytes = nullptr;
  expect_refused(call);
  call = requests;
  call.op = TableOp::put;
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
  call = requests;
  for (const TableOp op : {TableOp::put_if_version, TableOp::erase_if_version}) {
    call.op = op;
    expect_refused(call);
  }
}

TEST_F(WrongItemCalls, OtherOperations) {
  gpu::ItemRequests call = requests;
  for (const TableOp op : {TableOp::compare_and_swap, TableOp::add}) {
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
  for (const TableOp op : {TableOp::get, TableOp::put, TableOp::erase}) {
    for (const std::vector<int64_t>& offsets_of : wrong) {
      gpu::ItemRequests call = requests;
      call.op = op;
      call.keys.offsets = offsets_of.data();
      if (offsets_of[0] > 6) call.keys.bytes = nullptr;
      expect_refused(call);
    }
  }
  gpu::ItemRequests call = requests;
  call.op = TableOp::put;
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
  gpu::ItemRequests call = requests;
  call.rows = rows;
  call.op = TableOp::put;
  call.keys = call.values = {many.data(), all.data()};
  call.replies = {};
  expect_refused(call);
  std::vector<uint8_t> answers(rows);
  call.op = TableOp::get;
  call.replies.found = answers.data();
  expect_refused(call);
}

TEST_F(WrongItemCalls, NoRowsAreNoFault) {
  gpu::ItemRequests call = requests;
  call.rows = 0;
  offsets[0] = 7;
  EXPECT_EQ(store.run_host(call), 0u);
  EXPECT_EQ(offsets[0], 0);
  for (const TableOp op : {TableOp::get, TableOp::put, TableOp::erase}) {
    call = {};
    call.op = op;
    EXPECT_EQ(store.run_host(call), 0u);
  }
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
  using enum TableOp;
  const auto ops = upload<TableOp>({put, put, put, put, put, add, put, put});
  const auto found = upload(std::vector<uint8_t>(8, 9));
  const auto offsets = upload(std::vector<int64_t>(9, -1));
  gpu::ItemRequests call;
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
  using enum TableOp;
  // Wrong are an offset that falls and an operation.
  const std::vector<int64_t> key_offsets = {0, 2, 1, 4, 6};
  const std::vector<int64_t> value_offsets = {0, 1, 2, 3, 4};
  const std::vector<TableOp> ops = {put, put, put, add};
  std::vector<uint8_t> found(4, 9);
  gpu::ItemRequests call;
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
  gpu::ItemRequests call;
  call.rows = rows;
  call.keys = {long_ones.data(), keys.data()};
  call.values = {one_each.data(), keys.data()};
  call.replies.found = found.data();
  for (const TableOp op : {TableOp::put, TableOp::get}) {
    call.op = op;
    store.run_host(call);
    for (uint64_t i = 0; i < rows; ++i) {
      const int present = op == TableOp::get ? 1 : 0;
      EXPECT_EQ(found[i], i == 250 ? gpu::reply_refused : present) << "row " << i;
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
    gpu::ItemRequests call;
    call.rows = 1;
    call.op = put ? TableOp::put : TableOp::get;
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
}  // namespace isotherm::device_item_calls_test
