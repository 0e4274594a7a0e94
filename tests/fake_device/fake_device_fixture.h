// FakeDeviceFixture: a fake device with a stream, and short ways to fill, run and read; for tests.
//
// Memory of the fixture's arrays goes back when the test ends.
// Threads. One.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "fake_device/fake_device.h"

namespace isotherm {

class FakeDeviceFixture : public ::testing::Test {
 protected:
  explicit FakeDeviceFixture(uint64_t seed = 1) : device(seed, uint64_t{1} << 26) {
    stream = device.create_stream();
  }
  ~FakeDeviceFixture() override {
    device.destroy_stream(stream);
    for (const auto& [at, bytes] : arrays_) device.release(at, bytes);
    EXPECT_EQ(device.allocated_bytes(), 0u);
  }

  template <class T>
  T* array(uint64_t count) {
    void* at = device.allocate(count * sizeof(T));
    EXPECT_NE(at, nullptr);
    arrays_.emplace_back(at, count * sizeof(T));
    return static_cast<T*>(at);
  }
  template <class T>
  T* zeros(uint64_t count) {
    T* at = array<T>(count);
    EXPECT_TRUE(device.clear(stream, at, count * sizeof(T)));
    return at;
  }
  template <class T>
  T* upload(const std::vector<T>& from) {
    T* at = array<T>(from.size());
    EXPECT_TRUE(device.to_device(stream, at, from.data(), from.size() * sizeof(T)));
    EXPECT_TRUE(device.synchronize(stream));
    return at;
  }
  template <class T>
  std::vector<T> download(const T* from, uint64_t count) {
    std::vector<T> to(count);
    EXPECT_TRUE(device.to_host(stream, to.data(), from, count * sizeof(T)));
    EXPECT_TRUE(device.synchronize(stream));
    return to;
  }
  template <class Kernel>
  void run(uint32_t blocks, uint32_t threads, const Kernel& kernel) {
    EXPECT_TRUE(device.launch(stream, blocks, threads, kernel));
    EXPECT_TRUE(device.synchronize(stream));
  }

  FakeDevice device;
  FakeDevice::Stream stream;

 private:
  std::vector<std::pair<void*, uint64_t>> arrays_;
};

}  // namespace isotherm
