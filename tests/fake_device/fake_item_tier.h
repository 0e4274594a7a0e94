// Whole items of a store on fake devices (fake_device/fake_device.h), for tests.
//
// Threads. As gpu/store/item_tier.h. Limits. The devices must outlive them.
#pragma once

#include <vector>

#include "fake_device/fake_device.h"
#include "gpu/store/item_tier.h"

namespace isotherm {

// Parts, slabs and rooms are small, so that growth and parts are met with few keys. The bytes that
// are asked for are for items and their index.
ItemTierMaker fake_item_tier_maker(const std::vector<FakeDevice*>& devices);
ItemTierMaker fake_item_tier_maker(FakeDevice& device);

}  // namespace isotherm
