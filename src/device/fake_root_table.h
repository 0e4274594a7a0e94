// The index of a store on a fake device (device/fake_device.h), for tests.
//
// Threads. The maker's table follows device/root_table.h. Limits. `device` must outlive the table.
#pragma once

#include <cstdint>
#include <memory>

#include "device/fake_device.h"
#include "device/gpu/device_root_table.h"

namespace isotherm {

// Segments and parts are small, so that growth and parts are met with few keys. `device_memory`:
// the cap, 0: none.
inline RootTableMaker fake_root_table_maker(FakeDevice& device, uint64_t device_memory = 0) {
  return [&device, device_memory](uint64_t seed) -> std::unique_ptr<RootTable> {
    constexpr int line_bits = 4;
    constexpr uint32_t part_rows = 512;
    // Express kernels end soon, and mail begins anew.
    constexpr ExpressOptions express{2, 3, 20, 50};
    const FixedDeviceOptions options{device_memory, seed, line_bits, part_rows, express};
    return std::make_unique<DeviceRootTable<FakeDevice>>(device, options);
  };
}

}  // namespace isotherm
