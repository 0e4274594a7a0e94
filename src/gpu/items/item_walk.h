// ItemWalk: walks over the items of a table for the host: whole lines of the index in order of
// hash (gpu/table/scan_kernel.h), then the items that these lead to.
//
// What is shown of an item goes into a slot of pinned memory: its sizes, expiry and flags, and its
// key where that is short. A longer one is copied by itself: by the device where it lies there, and
// by the host where its item lies in pinned memory. Items behind another in a chain, whose hashes
// agree in all bits, are shown by another launch; there are hardly any.
//
// Threads. One at a time, within a call of the table's (gpu/items/device_item_store.h).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "gpu/items/item_part.h"
#include "gpu/items/walked_item.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/table/table_scan.h"

namespace isotherm {

struct ItemSlot {
  static constexpr uint32_t key_words = 11;

  uint64_t next;  // item of its chain, or 0
  const char* key_at;
  int64_t expiry;
  uint32_t flags;
  uint32_t value_bytes;
  uint32_t key_bytes;
  bool on_host;
  uint64_t key[key_words];
};

// A lane an item.
struct ShowItemsKernel {
  static constexpr uint32_t threads = 128;

  const uint64_t* locations = nullptr;
  ItemSlot* slots = nullptr;
  uint32_t rows = 0;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    warp_rows(lane, rows, [&](uint32_t row, bool mine) {
      if (!mine) return;
      const ItemHead item = ItemHead::of(locations[row]);
      ItemSlot& slot = slots[row];
      slot.next = item.next();
      slot.key_at = reinterpret_cast<const char*>(item.key());
      slot.expiry = item.expiry();
      slot.flags = item.flags();
      slot.value_bytes = item.value_bytes;
      slot.key_bytes = item.key_bytes;
      slot.on_host = (item.head & item_head::host_bit) != 0;
      const uint64_t words = words_of(item.key_bytes);
      for (uint32_t i = 0; i < words && i < ItemSlot::key_words; ++i) slot.key[i] = item.key()[i];
    });
  }
};

template <class Device>
class ItemWalk {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  explicit ItemWalk(Device& device) : device_(device), scan_(device) {}

  // Adds the items of the lines from `bound` on to `to`, at least `wanted` of them or all, and
  // returns the bound to go on from; 0 at the end.
  template <class Table>
  uint64_t run(Table& index, uint64_t bound, uint64_t wanted, Stream stream,
               std::vector<WalkedItem>& to) {
    constexpr uint64_t lines_per_item = 16;
    constexpr uint64_t least_lines = 4096;
    std::vector<uint64_t> locations;
    const uint64_t next =
        scan_.run(index, 0, bound, wanted * lines_per_item + least_lines, wanted, stream,
                  [&](uint64_t /*key*/, uint64_t word) { locations.push_back(word); });
    while (!locations.empty()) locations = show(locations, stream, to);
    return next;
  }

 private:
  // The items behind those in their chains.
  std::vector<uint64_t> show(const std::vector<uint64_t>& locations, Stream stream,
                             std::vector<WalkedItem>& to) {
    const uint64_t rows = locations.size();
    const uint64_t bytes = rows * (sizeof(ItemSlot) + sizeof(uint64_t));
    if (!slots_ || slots_->bytes() < bytes) {
      slots_.reset();
      slots_ = std::make_unique<PinnedBlock<Device>>(device_, bytes);
    }
    auto* const slots = reinterpret_cast<ItemSlot*>(slots_->data());
    auto* const words = reinterpret_cast<uint64_t*>(slots + rows);
    std::memcpy(words, locations.data(), rows * sizeof(uint64_t));
    const ShowItemsKernel kernel{words, slots, static_cast<uint32_t>(rows)};
    require_device(device_.launch(stream, grid_for(device_, rows, ShowItemsKernel::threads),
                                  ShowItemsKernel::threads, kernel) &&
                       device_.synchronize(stream),
                   "show items");
    std::vector<uint64_t> behind;
    for (uint64_t i = 0; i < rows; ++i) {
      const ItemSlot& slot = slots[i];
      if (slot.next != 0) behind.push_back(slot.next);
      WalkedItem& item = to.emplace_back();
      item.value_bytes = slot.value_bytes;
      item.expiry = slot.expiry;
      item.flags = slot.flags;
      item.key.resize(slot.key_bytes);
      if (slot.key_bytes <= sizeof slot.key) {
        std::memcpy(item.key.data(), slot.key, slot.key_bytes);
      } else if (slot.on_host) {
        std::memcpy(item.key.data(), slot.key_at, slot.key_bytes);
      } else {
        require_device(device_.to_host(stream, item.key.data(), slot.key_at, slot.key_bytes) &&
                           device_.synchronize(stream),
                       "copy a long key");
      }
    }
    return behind;
  }

  Device& device_;
  TableScan<Device> scan_;
  std::unique_ptr<PinnedBlock<Device>> slots_;
};

}  // namespace isotherm
