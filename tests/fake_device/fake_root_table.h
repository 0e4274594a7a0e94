// The index of a store on a fake device (fake_device/fake_device.h), for tests.
//
// The tables that it is made of are templates over their device, and are compiled here, once for
// all tests (fake_root_table.cc).
//
// Threads. The maker's tiers follow gpu/store/root_tier.h. Limits. The devices must outlive them.
#pragma once

#include <cstdint>
#include <vector>

#include "fake_device/fake_device.h"
#include "gpu/store/root_tier.h"

namespace isotherm {

// Segments, parts and windows are small, so that growth and parts are met with few keys.
// `device_memory`: the cap of each device, 0: none.
RootTiersMaker fake_root_tiers_maker(std::vector<FakeDevice*> devices, uint64_t device_memory = 0);
RootTiersMaker fake_root_tiers_maker(FakeDevice& device, uint64_t device_memory = 0);

}  // namespace isotherm
