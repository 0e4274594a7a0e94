// Sorted tiers on a fake device (fake_device/fake_device.h), for tests.
//
// Threads. As gpu/store/sorted_tier.h. Limits. The device must outlive them.
#pragma once

#include "fake_device/fake_device.h"
#include "gpu/store/sorted_tier.h"

namespace isotherm {

// Runs are copied in small pieces.
SortedTierMaker fake_sorted_tier_maker(FakeDevice& device);

}  // namespace isotherm
