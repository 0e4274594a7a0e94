// Takes the place of the GPU's part of a program (gpu/store/cuda_root_table.h, cuda_item_tier.h,
// cuda_sorted_tier.h): each GPU is a fake device.
//
// ISOTHERM_LOSE_DEVICE_AFTER=N loses the first device when N operations have run on it.
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "fake_device/fake_item_tier.h"
#include "fake_device/fake_root_table.h"
#include "fake_device/fake_sorted_tier.h"
#include "gpu/store/cuda_item_tier.h"
#include "gpu/store/cuda_root_table.h"
#include "gpu/store/cuda_sorted_tier.h"

namespace isotherm {
namespace {

void lose_if_wanted(FakeDevice& device) {
  const char* const lose_after = std::getenv("ISOTHERM_LOSE_DEVICE_AFTER");
  if (lose_after != nullptr) device.lose_after(std::stoull(lose_after));
}

// They outlive the store, and complain at the end of the program.
std::vector<FakeDevice*> fake_gpus(const std::vector<uint32_t>& gpus) {
  constexpr uint64_t device_bytes = uint64_t{1} << 30;
  static std::vector<std::unique_ptr<FakeDevice>> devices;
  std::vector<FakeDevice*> chosen;
  for (const uint32_t gpu : gpus) {
    devices.push_back(devices.empty()
                          ? std::make_unique<FakeDevice>(gpu + 1, device_bytes)
                          : std::make_unique<FakeDevice>(gpu + 1, device_bytes, *devices.front()));
    chosen.push_back(devices.back().get());
  }
  lose_if_wanted(*chosen.front());
  return chosen;
}

}  // namespace

RootTiersMaker cuda_root_tiers_maker(const std::vector<uint32_t>& gpus, uint64_t gpu_memory) {
  return fake_root_tiers_maker(fake_gpus(gpus), gpu_memory);
}

ItemTierMaker cuda_item_tier_maker(const std::vector<uint32_t>& gpus) {
  return fake_item_tier_maker(fake_gpus(gpus));
}

SortedTierMaker cuda_sorted_tier_maker(uint32_t gpu) {
  return fake_sorted_tier_maker(*fake_gpus({gpu}).front());
}

}  // namespace isotherm
