// The index of a store on a fake device (device/fake_device.h), for tests.
//
// Threads. The maker's tiers follow gpu/root_tier.h. Limits. The devices must outlive them.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "fake_device/fake_device.h"
#include "gpu/device_root_table.h"

namespace isotherm {

// Segments, parts and windows are small, so that growth and parts are met with few keys.
// `device_memory`: the cap of each device, 0: none.
inline RootTiersMaker fake_root_tiers_maker(std::vector<FakeDevice*> devices,
                                            uint64_t device_memory = 0) {
  return [devices, device_memory](uint64_t seed) {
    constexpr int line_bits = 4;
    constexpr uint32_t part_rows = 512;
    // Express kernels end soon, and mail begins anew.
    constexpr ExpressOptions express{2, 3, 20, 50};
    constexpr ValueLaneOptions lanes{.window_bytes = 16 << 10, .copies = 24};
    const FixedDeviceOptions options{device_memory, seed, line_bits, part_rows, express};
    std::vector<std::unique_ptr<RootTier>> tiers;
    for (FakeDevice* device : devices) {
      tiers.push_back(std::make_unique<DeviceRootTable<FakeDevice>>(*device, options, lanes));
    }
    return tiers;
  };
}
inline RootTiersMaker fake_root_tiers_maker(FakeDevice& device, uint64_t device_memory = 0) {
  return fake_root_tiers_maker(std::vector<FakeDevice*>{&device}, device_memory);
}

}  // namespace isotherm
