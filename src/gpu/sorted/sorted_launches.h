// SortedLaunches: direct gets of a sorted store, on any device.
//
// Threads. As gpu/items/direct_launches.h. The store must outlive it.
#pragma once

#include <memory>

#include "gpu/items/direct_launches.h"
#include "gpu/sorted/sorted_get_kernel.h"
#include "gpu/sorted/sorted_store.h"

namespace isotherm {

template <class Device>
class SortedLaunches final : public DirectLaunches<Device> {
 public:
  explicit SortedLaunches(SortedStore<Device>& store)
      : DirectLaunches<Device>(store.device()), store_(store) {}

 private:
  std::shared_ptr<const void> answer(typename Device::Stream stream,
                                     const DirectAsked& asked) override {
    typename SortedStore<Device>::Hold runs;
    store_.guard([&] {
      runs = store_.hold();
      SortedGetKernel kernel;
      kernel.runs = store_.view(*runs);
      this->launch(stream, kernel, asked);
    });
    return runs;
  }
  void lose() override { store_.lose(); }

  SortedStore<Device>& store_;
};

}  // namespace isotherm
