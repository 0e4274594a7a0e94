// DeviceSortedTier: a SortedTier (gpu/store/sorted_tier.h) over a sorted store, on any device.
//
// Threads. As gpu/store/sorted_tier.h; the device is entered by every call, since callers' threads
// differ. Must not outlive its device.
#pragma once

#include <memory>
#include <span>

#include "gpu/items/direct_get_columns.h"
#include "gpu/sorted/device_direct_ranges.h"
#include "gpu/sorted/sorted_launches.h"
#include "gpu/sorted/sorted_store.h"
#include "gpu/store/sorted_tier.h"

namespace isotherm {

template <class Device>
class DeviceSortedTier : public SortedTier {
 public:
  // As SortedStore.
  DeviceSortedTier(Device& device, const SortedTierOptions& options,
                   uint64_t piece_bytes = SortedStore<Device>::usual_piece)
      : device_(device), store_(device, options, piece_bytes), launches_(store_) {}
  ~DeviceSortedTier() override { device_.enter(); }

  bool put(std::span<const SortedPair> pairs) override { return store_.put(pairs); }
  void clear() override { store_.clear(); }
  std::shared_ptr<const SortedView> view() override {
    return std::make_shared<DeviceSortedView<Device>>(store_.hold());
  }
  std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) override {
    return make<DirectGetColumns<Device>>(launches_, shape);
  }
  std::unique_ptr<DirectRanges> make_ranges(const RangeShape& shape) override {
    return make<DeviceDirectRanges<Device>>(store_, shape);
  }
  SortedStats stats() override { return store_.stats(); }

 private:
  template <class Reader, class Source, class Shape>
  std::unique_ptr<Reader> make(Source& source, const Shape& shape) {
    std::unique_ptr<Reader> reader;
    store_.guard([&] { reader = std::make_unique<Reader>(source, shape); });
    return reader;
  }

  Device& device_;
  SortedStore<Device> store_;
  SortedLaunches<Device> launches_;
};

}  // namespace isotherm
