// FakeGpus: some fake devices of one host, for tables that lie on several.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fake_device/fake_device.h"

namespace isotherm {

struct FakeGpus {
  static constexpr uint64_t memory = uint64_t{1} << 28;  // of each

  // `connected`: they reach each other's memory.
  FakeGpus(uint32_t count, uint64_t seed, bool connected = true) {
    for (uint32_t i = 0; i < count; ++i) {
      devices.push_back(i == 0 ? std::make_unique<FakeDevice>(seed, memory)
                               : std::make_unique<FakeDevice>(seed + i, memory, *devices[0]));
      pointers.push_back(devices[i].get());
      if (!connected) devices[i]->forbid_connections();
    }
  }
  void expect_clean() const {
    for (const auto& device : devices) {
      EXPECT_EQ(device->take_errors(), std::vector<std::string>{});
      EXPECT_EQ(device->allocated_bytes(), 0u);
    }
  }

  std::vector<std::unique_ptr<FakeDevice>> devices;
  std::vector<FakeDevice*> pointers;
};

}  // namespace isotherm
