// grid_for: how many blocks a kernel is launched with, for all kernels that go over their items.
#pragma once

#include <algorithm>
#include <cstdint>

namespace isotherm {

// Enough for `items` at `per_block` each, and no more than fill the device: kernels go on in
// rounds.
template <class Device>
uint32_t grid_for(const Device& device, uint64_t items, uint32_t per_block) {
  const uint64_t blocks = (items + per_block - 1) / per_block;
  return static_cast<uint32_t>(std::min<uint64_t>(blocks, device.full_grid()));
}

}  // namespace isotherm
