#include "fake_device/fake_item_tier.h"

#include <memory>

#include "gpu/store/device_item_tier.h"

namespace isotherm {

ItemTierMaker fake_item_tier_maker(const std::vector<FakeDevice*>& devices) {
  return [devices](const ItemTierOptions& options) {
    DeviceItemOptions its;
    its.part_rows = 256;
    // The work space, which has room for a few of the longest values, comes on top.
    constexpr uint64_t workspace = 34 << 20;
    its.index = {options.bytes + workspace, options.seed, 6, its.part_rows};
    its.slab_bytes = 64 << 10;
    its.key_room = 16 << 10;
    its.value_room = 64 << 10;
    its.reply_room = 64 << 10;
    its.evicts = options.evicts;
    its.host_memory = options.host_bytes;
    return std::make_unique<DeviceItemTier<FakeDevice>>(devices, its);
  };
}
ItemTierMaker fake_item_tier_maker(FakeDevice& device) {
  return fake_item_tier_maker(std::vector<FakeDevice*>{&device});
}

}  // namespace isotherm
