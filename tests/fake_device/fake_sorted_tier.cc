#include "fake_device/fake_sorted_tier.h"

#include <memory>

#include "gpu/store/device_sorted_tier.h"

namespace isotherm {

SortedTierMaker fake_sorted_tier_maker(FakeDevice& device) {
  return [&device](const SortedTierOptions& options) {
    constexpr uint64_t piece_bytes = 4 << 10;
    device.enter();
    return std::make_unique<DeviceSortedTier<FakeDevice>>(device, options, piece_bytes);
  };
}

}  // namespace isotherm
