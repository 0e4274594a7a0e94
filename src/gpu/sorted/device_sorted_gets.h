// DeviceSortedGets: DirectGets over a sorted store, on any device.
//
// Threads. One at a time. The store must outlive it. Errors. As gpu/store/sorted_tier.h.
#pragma once

#include <cstdint>

#include "gpu/items/direct_get_columns.h"
#include "gpu/sorted/sorted_get_kernel.h"
#include "gpu/sorted/sorted_store.h"

namespace isotherm {

template <class Device>
class DeviceSortedGets final : public DirectGetColumns<Device> {
 public:
  DeviceSortedGets(SortedStore<Device>& store, const DirectShape& shape)
      : DirectGetColumns<Device>(store.device(), shape), store_(store) {}
  ~DeviceSortedGets() override { this->settle(); }

  void start(uint32_t rows) override {
    store_.guard([&] {
      hold_ = store_.hold();
      this->send_keys(rows);
      SortedGetKernel kernel;
      kernel.runs = store_.view(*hold_);
      this->launch(kernel, rows);
    });
  }
  void wait() override {
    store_.guard([&] { this->await_replies(); });
    hold_.reset();
  }

 private:
  SortedStore<Device>& store_;
  typename SortedStore<Device>::Hold hold_;  // what the kernel reads
};

}  // namespace isotherm
