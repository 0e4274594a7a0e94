// The fake device around its kernels: streams, events, memory and failures on demand.
#include "fake_device/fake_device.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "base/macros.h"
#include "base/memory_node.h"
#include "fake_device/fake_device_fixture.h"

namespace isotherm::fake_device_test {
namespace {

using FakeDevices = FakeDeviceFixture;

// Appends a number to a list.
struct Append {
  uint32_t* list;  // its length first
  uint32_t number;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane&) const {
    list[1 + Lane::atomic_add(list, 1u)] = number;
  }
};

// Four streams of eight kernels each; what was appended in which order.
std::vector<uint32_t> order_of_streams(uint64_t seed) {
  constexpr uint32_t streams = 4, kernels = 8, length = 1 + streams * kernels;
  FakeDevice device(seed, 1 << 20);
  auto* list = static_cast<uint32_t*>(device.allocate(length * 4));
  const FakeDevice::Stream last = device.create_stream();
  EXPECT_TRUE(device.clear(last, list, 4));
  EXPECT_TRUE(device.synchronize(last));
  std::vector<FakeDevice::Stream> made;
  for (uint32_t stream = 0; stream < streams; ++stream) {
    made.push_back(device.create_stream());
    for (uint32_t i = 0; i < kernels; ++i) {
      EXPECT_TRUE(device.launch(made.back(), 1, 1, Append{list, stream * 100 + i}));
    }
  }
  for (const FakeDevice::Stream stream : made) EXPECT_TRUE(device.synchronize(stream));
  std::vector<uint32_t> got(length);
  EXPECT_TRUE(device.to_host(last, got.data(), list, length * 4));
  EXPECT_TRUE(device.synchronize(last));
  device.release(list, length * 4);
  return {got.begin() + 1, got.end()};
}

TEST(FakeStreams, KeepTheirOwnOrderAndMixByTheSeed) {
  std::set<std::vector<uint32_t>> orders;
  for (uint64_t seed = 0; seed < 4; ++seed) {
    const std::vector<uint32_t> order = order_of_streams(seed);
    EXPECT_EQ(order, order_of_streams(seed));
    uint32_t next[4] = {};
    for (const uint32_t number : order) EXPECT_EQ(number % 100, next[number / 100]++);
    orders.insert(order);
  }
  EXPECT_EQ(orders.size(), 4u);
}

TEST(FakeStreams, WaitForEventsAsTheyWereRecorded) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    FakeDevice device(seed, 1 << 20);
    auto* list = static_cast<uint32_t*>(device.allocate(64));
    const FakeDevice::Stream first = device.create_stream(), second = device.create_stream();
    const FakeDevice::Event event = device.create_event();
    EXPECT_TRUE(device.done(event));
    EXPECT_TRUE(device.wait(second, event));  // never recorded: nothing to wait for
    device.clear(first, list, 64);
    device.launch(first, 1, 1, Append{list, 1});
    EXPECT_TRUE(device.record(event, first));
    EXPECT_TRUE(device.wait(second, event));
    EXPECT_TRUE(device.record(event, second));  // what waits already is not concerned
    device.launch(second, 1, 1, Append{list, 2});
    EXPECT_TRUE(device.record(event, second));
    EXPECT_TRUE(device.wait(first, event));
    device.launch(first, 1, 1, Append{list, 3});
    EXPECT_TRUE(device.record(event, first));
    if (seed % 2 == 0) {
      EXPECT_TRUE(device.synchronize(event));
    } else {
      while (!device.done(event)) {
      }
    }
    uint32_t got[4] = {};
    device.to_host(first, got, list, sizeof got);
    EXPECT_TRUE(device.synchronize(first));
    EXPECT_EQ(std::vector<uint32_t>(got, got + 4), (std::vector<uint32_t>{3, 1, 2, 3}));
    device.destroy_event(event);
    device.destroy_stream(first);
    device.destroy_stream(second);
    device.release(list, 64);
  }
}

TEST_F(FakeDevices, NothingRunsBeforeSomebodyWaits) {
  std::vector<uint32_t> staging = {1, 2, 3};
  auto* at = array<uint32_t>(3);
  EXPECT_TRUE(device.to_device(stream, at, staging.data(), 12));
  staging = {7, 8, 9};  // too early: the copy has not run
  EXPECT_EQ(download(at, 3), (std::vector<uint32_t>{7, 8, 9}));
}

TEST_F(FakeDevices, CopiesAndClears) {
  auto* from = upload(std::vector<uint32_t>{1, 2, 3, 4});
  auto* to = array<uint32_t>(4);
  const std::vector<uint32_t> rubbish = download(to, 4);
  EXPECT_EQ(rubbish, std::vector<uint32_t>(4, 0xA5A5A5A5));
  EXPECT_TRUE(device.copy(stream, to, from, 16));
  EXPECT_TRUE(device.clear(stream, to + 1, 8));
  EXPECT_EQ(download(to, 4), (std::vector<uint32_t>{1, 0, 0, 4}));
  EXPECT_TRUE(device.to_host(stream, nullptr, from, 0));
  EXPECT_TRUE(device.synchronize(stream));
}

TEST_F(FakeDevices, MemoryIsLimitedAlignedAndComesBack) {
  FakeDevice small(1, 10000);
  void* first = small.allocate(6001);
  EXPECT_EQ(reinterpret_cast<uintptr_t>(first) % 256, 0u);
  EXPECT_EQ(small.allocate(4000), nullptr);
  EXPECT_EQ(small.allocate(~uint64_t{0}), nullptr);
  EXPECT_EQ(small.allocated_bytes(), 6001u);
  EXPECT_EQ(small.available(), 3999u);
  // Longer than the arena lasts without reuse.
  for (uint32_t i = 0; i < 2000; ++i) {
    const uint64_t bytes = 1 + i * 37 % 3900;
    void* at = small.allocate(bytes);
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(reinterpret_cast<uintptr_t>(at) % 256, 0u);
    small.release(at, bytes);
  }
  small.release(first, 6001);
  EXPECT_EQ(small.allocated_bytes(), 0u);
  EXPECT_EQ(small.available(), 10000u);
}

using FakeDevicesDeathTest = FakeDeviceFixture;

TEST_F(FakeDevicesDeathTest, TheHostMayNotTouchDeviceMemory) {
  auto* at = upload(std::vector<uint32_t>{1, 2, 3});
  EXPECT_DEATH(*static_cast<volatile uint32_t*>(at) = 1, "");
  EXPECT_DEATH((void)*static_cast<volatile uint32_t*>(at + 1), "");
  EXPECT_EQ(download(at, 3), (std::vector<uint32_t>{1, 2, 3}));
}

TEST_F(FakeDevicesDeathTest, ErrorsThatNobodyTookEndTheProgram) {
  const auto forget = [] {
    FakeDevice careless(1, 1 << 20);
    void* at = careless.allocate(100);
    careless.release(at, 100);
    careless.release(at, 100);
  };
  EXPECT_DEATH(forget(), "release of memory that is not allocated");
}

// The error of a device that did something wrong, which is lost thereafter.
std::string only_error(FakeDevice& device) {
  EXPECT_TRUE(device.lost());
  const std::vector<std::string> errors = device.take_errors();
  device.recover();
  return errors.size() == 1 ? errors[0] : std::to_string(errors.size()) + " errors";
}

TEST_F(FakeDevices, WrongRangesAndReleasesAreReported) {
  char host[300] = {};
  void* at = device.allocate(200);
  device.to_device(stream, at, host, 201);
  EXPECT_FALSE(device.synchronize(stream));
  EXPECT_EQ(only_error(device), "to_device of 201 bytes of device memory that is not allocated");

  device.clear(stream, host, 1);
  EXPECT_FALSE(device.synchronize(stream));
  EXPECT_EQ(only_error(device), "clear of 1 bytes of device memory that is not allocated");

  device.to_host(stream, host, at, 200);
  device.release(at, 200);  // too early
  EXPECT_FALSE(device.synchronize(stream));
  EXPECT_EQ(only_error(device), "to_host of 200 bytes of device memory that is not allocated");

  at = device.allocate(200);
  device.release(at, 199);
  EXPECT_EQ(only_error(device), "release of another number of bytes than was allocated");

  EXPECT_FALSE(device.launch(stream, 1, 1025, Append{}));
  EXPECT_NE(only_error(device).find("Append with 1 blocks of 1025 threads"), std::string::npos);
}

// Writes past the end in a way that no check of an access sees.
struct WriteBehind {
  unsigned char* at;

  template <class Lane>
  __attribute__((no_sanitize("address"))) ISOTHERM_HOST_DEVICE void operator()(const Lane&) const {
    *at = 1;
  }
};

TEST_F(FakeDevices, WritesBehindAllocationsAreReported) {
  auto* at = static_cast<unsigned char*>(device.allocate(250));
  device.launch(stream, 1, 1, WriteBehind{at + 250});
  EXPECT_TRUE(device.synchronize(stream) || device.lost());
  EXPECT_NE(only_error(device).find("written where none is allocated"), std::string::npos);
  device.release(at, 250);
  device.launch(stream, 1, 1, WriteBehind{at + 100});
  EXPECT_TRUE(device.synchronize(stream));
  EXPECT_NE(device.take_errors().at(0).find("written where none is allocated"), std::string::npos);
  device.recover();
}

// The pages of so much memory are filled in another way.
TEST_F(FakeDevices, LargeMemoryIsFilledAsSmallIs) {
  constexpr uint64_t count = (uint64_t{5} << 18) + 3;
  for (int round = 0; round < 2; ++round) {
    auto* at = static_cast<uint32_t*>(device.allocate(count * sizeof(uint32_t)));
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(download(at, count), std::vector<uint32_t>(count, 0xA5A5A5A5)) << round;
    auto* bytes = reinterpret_cast<unsigned char*>(at);
    for (const uint64_t offset : {uint64_t{5}, uint64_t{3} << 20}) {
      device.launch(stream, 1, 1, WriteBehind{bytes + offset});
      EXPECT_TRUE(device.synchronize(stream));
    }
    device.release(at, count * sizeof *at);
    for (const uint64_t offset : {uint64_t{5}, uint64_t{3} << 20, count * sizeof *at - 1}) {
      device.launch(stream, 1, 1, WriteBehind{bytes + offset});
      EXPECT_TRUE(device.synchronize(stream));
      const std::vector<std::string> errors = device.take_errors();
      ASSERT_FALSE(errors.empty()) << offset;
      EXPECT_NE(errors[0].find("written where none is allocated"), std::string::npos);
      device.recover();
    }
  }
}

TEST_F(FakeDevices, PinnedMemoryLeavesThePolicyOfTheThread) {
  const auto before = memory_policy();
  device.set_memory_node(0);
  void* at = device.allocate_pinned(1 << 20);
  EXPECT_EQ(memory_policy(), before);
  EXPECT_NE(at, nullptr);
  device.release_pinned(at, 1 << 20);
}

TEST_F(FakeDevices, FailOnDemand) {
  auto* list = zeros<uint32_t>(8);
  device.fail_allocations_after(1);
  void* at = device.allocate(100);
  EXPECT_NE(at, nullptr);
  EXPECT_EQ(device.allocate(100), nullptr);
  device.release(at, 100);
  device.fail_launches_after(2);
  EXPECT_TRUE(device.launch(stream, 1, 1, Append{list, 1}));
  EXPECT_TRUE(device.launch(stream, 1, 1, Append{list, 2}));
  EXPECT_FALSE(device.launch(stream, 1, 1, Append{list, 3}));
  EXPECT_TRUE(device.synchronize(stream));
  EXPECT_FALSE(device.lost());
  device.recover();
  EXPECT_TRUE(device.launch(stream, 1, 1, Append{list, 4}));
  EXPECT_EQ(download(list, 4), (std::vector<uint32_t>{3, 1, 2, 4}));
}

TEST_F(FakeDevices, ALostDeviceFailsEverywhere) {
  auto* list = zeros<uint32_t>(8);
  const FakeDevice::Event event = device.create_event();
  EXPECT_TRUE(device.record(event, stream));
  device.lose();
  uint32_t host = 0;
  EXPECT_TRUE(device.lost());
  EXPECT_EQ(device.allocate(1), nullptr);
  EXPECT_FALSE(device.done(event));
  EXPECT_FALSE(device.record(event, stream));
  EXPECT_FALSE(device.wait(stream, event));
  EXPECT_FALSE(device.synchronize(event));
  EXPECT_FALSE(device.synchronize(stream));
  EXPECT_FALSE(device.clear(stream, list, 4));
  EXPECT_FALSE(device.to_device(stream, list, &host, 4));
  EXPECT_FALSE(device.to_host(stream, &host, list, 4));
  EXPECT_FALSE(device.copy(stream, list, list + 1, 4));
  EXPECT_FALSE(device.launch(stream, 1, 1, Append{list, 1}));
  device.recover();
  EXPECT_EQ(download(list, 1)[0], 0xA5A5A5A5);
  EXPECT_FALSE(device.synchronize(event));  // what it stood for was forgotten
  device.destroy_event(event);
}

TEST_F(FakeDevices, IsLostInTheMiddle) {
  auto* list = zeros<uint32_t>(32);
  EXPECT_TRUE(device.synchronize(stream));
  for (uint32_t i = 0; i < 20; ++i) EXPECT_TRUE(device.launch(stream, 1, 1, Append{list, i}));
  device.lose_after(7);
  EXPECT_FALSE(device.synchronize(stream));
  EXPECT_TRUE(device.lost());
  EXPECT_TRUE(device.take_errors().empty());
  device.recover();
}

// Fibers go on on whichever thread runs the device.
// Two devices of one host, each with a stream and an array of a number.
struct FakePair {
  explicit FakePair(uint64_t seed) : first(seed, 1 << 20), second(seed + 1, 1 << 20, first) {
    for (FakeDevice* device : {&first, &second}) {
      device->enter();
      streams.push_back(device->create_stream());
      events.push_back(device->create_event());
      numbers.push_back(static_cast<uint32_t*>(device->allocate(64)));
    }
  }
  uint32_t number(uint32_t of) {
    FakeDevice& device = of == 0 ? first : second;
    uint32_t number = 0;
    EXPECT_TRUE(device.to_host(streams[of], &number, numbers[of], sizeof number));
    EXPECT_TRUE(device.synchronize(streams[of]));
    return number;
  }

  FakeDevice first, second;
  std::vector<FakeDevice::Stream> streams;
  std::vector<FakeDevice::Event> events;
  std::vector<uint32_t*> numbers;
};

TEST(FakeDevicesOfAHost, CopyToEachOtherAndWaitForEachOther) {
  for (uint64_t seed = 0; seed < 30; ++seed) {
    FakePair pair(seed);
    const uint32_t sent = 42;
    uint32_t old = 7;
    EXPECT_TRUE(pair.second.to_device(pair.streams[1], pair.numbers[1], &old, sizeof old));
    EXPECT_TRUE(pair.second.synchronize(pair.streams[1]));
    EXPECT_TRUE(pair.first.to_device(pair.streams[0], pair.numbers[0], &sent, sizeof sent));
    EXPECT_TRUE(pair.first.copy_to(pair.second, pair.streams[0], pair.numbers[1], pair.numbers[0],
                                   sizeof sent));
    EXPECT_TRUE(pair.first.record(pair.events[0], pair.streams[0]));
    EXPECT_TRUE(pair.second.wait(pair.streams[1], pair.events[0]));
    EXPECT_EQ(pair.number(1), sent);
  }
}

TEST(FakeDevicesOfAHost, TheOrderOfTheirOperationsIsDrawn) {
  std::set<uint32_t> seen;
  for (uint64_t seed = 0; seed < 30; ++seed) {
    FakePair pair(seed);
    const uint32_t sent = 42, own = 7;
    EXPECT_TRUE(pair.first.to_device(pair.streams[0], pair.numbers[0], &sent, sizeof sent));
    EXPECT_TRUE(pair.first.copy_to(pair.second, pair.streams[0], pair.numbers[1], pair.numbers[0],
                                   sizeof sent));
    EXPECT_TRUE(pair.second.to_device(pair.streams[1], pair.numbers[1], &own, sizeof own));
    EXPECT_TRUE(pair.first.synchronize(pair.streams[0]));
    seen.insert(pair.number(1));
  }
  EXPECT_EQ(seen, (std::set<uint32_t>{7, 42}));
}

TEST(FakeDevicesOfAHost, WaitInVainForOneThatIsLost) {
  FakePair pair(1);
  EXPECT_TRUE(pair.first.record(pair.events[0], pair.streams[0]));
  EXPECT_TRUE(pair.second.wait(pair.streams[1], pair.events[0]));
  pair.first.lose();
  EXPECT_FALSE(pair.second.synchronize(pair.streams[1]));
  EXPECT_FALSE(pair.second.lost());
  EXPECT_FALSE(
      pair.second.copy_to(pair.first, pair.streams[1], pair.numbers[0], pair.numbers[1], 4));
}

TEST(FakeDevicesOfAHost, MistakesAreReported) {
  const auto errors_of = [](auto&& mistake) {
    FakePair pair(1);
    mistake(pair);
    pair.first.synchronize(pair.streams[0]);
    return pair.first.take_errors().size() + pair.second.take_errors().size();
  };
  EXPECT_EQ(errors_of([](FakePair&) {}), 0u);
  EXPECT_EQ(errors_of([](FakePair& pair) { pair.first.allocate(64); }), 1u);
  EXPECT_EQ(errors_of([](FakePair& pair) { pair.first.create_event(); }), 1u);
  EXPECT_EQ(errors_of([](FakePair& pair) {
              pair.first.launch(pair.streams[0], 1, 1, Append{pair.numbers[0], 1});
            }),
            1u);
  EXPECT_EQ(errors_of([](FakePair& pair) { pair.first.record(pair.events[0], pair.streams[1]); }),
            1u);
  EXPECT_EQ(
      errors_of([](FakePair& pair) { pair.first.clear(pair.streams[1], pair.numbers[0], 4); }), 1u);
  EXPECT_EQ(errors_of([](FakePair& pair) {
              pair.first.copy_to(pair.second, pair.streams[0], pair.numbers[0], pair.numbers[0], 4);
            }),
            1u);
}

TEST_F(FakeDevicesDeathTest, KernelsMayNotTouchAnotherDevice) {
  EXPECT_DEATH(
      {
        FakePair pair(1);
        pair.first.enter();
        pair.first.launch(pair.streams[0], 1, 1, Append{pair.numbers[1], 1});
        pair.first.synchronize(pair.streams[0]);
      },
      "");
}

TEST(FakeDevicesOfAHost, KernelsReachConnectedDevices) {
  FakePair pair(1);
  EXPECT_TRUE(pair.first.connect(pair.second));
  pair.second.forbid_connections();
  EXPECT_FALSE(pair.second.connect(pair.first));
  EXPECT_TRUE(pair.second.clear(pair.streams[1], pair.numbers[1], 64));
  EXPECT_TRUE(pair.second.synchronize(pair.streams[1]));
  pair.first.enter();
  EXPECT_TRUE(pair.first.launch(pair.streams[0], 1, 1, Append{pair.numbers[1], 1}));
  EXPECT_TRUE(pair.first.synchronize(pair.streams[0]));
  EXPECT_EQ(pair.number(1), 1u);
}

TEST_F(FakeDevices, ServesSeveralThreads) {
  constexpr uint32_t threads = 3, rounds = 20, lanes = 64;
  auto* list = zeros<uint32_t>(1 + threads * rounds * lanes);
  EXPECT_TRUE(device.synchronize(stream));
  std::vector<std::thread> made;
  for (uint32_t thread = 0; thread < threads; ++thread) {
    made.emplace_back([&, thread] {
      const FakeDevice::Stream own = device.create_stream();
      for (uint32_t round = 0; round < rounds; ++round) {
        EXPECT_TRUE(device.launch(own, 2, lanes / 2, Append{list, thread}));
        EXPECT_TRUE(device.synchronize(own));
      }
      device.destroy_stream(own);
    });
  }
  for (std::thread& thread : made) thread.join();
  EXPECT_EQ(download(list, 1)[0], threads * rounds * lanes);
}

// Notes whether the sanitizer looks for uses of variables of functions that have returned.
template <int>
struct NoteLook {
  uint32_t* at;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane&) const {
    *at = FakeFrames::looks() ? 1 : 2;
  }
};

TEST_F(FakeDevices, FirstLaunchesOfEachKernelAreLookedAtAndSomeThatFollow) {
  constexpr uint32_t launches = 3 * FakeFrames::one_in;
  auto* notes = zeros<uint32_t>(2 * launches);
  for (uint32_t i = 0; i < launches; ++i) {
    EXPECT_TRUE(device.launch(stream, 1, 1, NoteLook<0>{notes + 2 * i}));
    EXPECT_TRUE(device.launch(stream, 1, 1, NoteLook<1>{notes + 2 * i + 1}));
  }
  const std::vector<uint32_t> noted = download(notes, 2 * launches);
  for (uint32_t i = 0; i < 2 * launches; ++i) {
    const uint32_t launch = i / 2;
    const bool wanted = launch < FakeFrames::first_launches || launch % FakeFrames::one_in == 0;
    EXPECT_EQ(noted[i], wanted && FakeFrames::looks() ? 1u : 2u) << launch;
  }
}

}  // namespace
}  // namespace isotherm::fake_device_test
