// DevicePart: engine/gpu_part.h for the devices of some traits (engine/device_calls.h).
//
// Threads. Any.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <vector>

#include "engine/device_padded_rows.h"
#include "engine/device_words.h"
#include "gpu/items/split_item_store.h"
#include "gpu/platform/device_event.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

template <class Gpu>
class DeviceItems final : public GpuItems {
 public:
  using Keep = typename Gpu::Keep;

  explicit DeviceItems(const gpu::ItemTableOptions& options) {
    const Keep keep;
    std::vector<typename Gpu::Device*> devices;
    for (const int gpu : options.devices) devices.push_back(&Gpu::device(gpu));
    store_.emplace(devices, Gpu::item_options(options));
    if (options.expected_entries != 0) store_->reserve(options.expected_entries);
  }
  ~DeviceItems() override {
    const Keep keep;
    store_.reset();
  }

  gpu::ItemStats stats() override { return store_->stats(); }
  uint64_t run_host(const gpu::ItemRequests& requests) override {
    return store_->run_host(requests);
  }

 private:
  std::optional<SplitItemStore<typename Gpu::Device>> store_;
};

template <class Gpu>
class DevicePart final : public GpuPart {
 public:
  using Device = typename Gpu::Device;
  using Keep = typename Gpu::Keep;

  int count() override { return Gpu::count(); }
  std::unique_ptr<GpuTable> make_table(const GpuTableOptions& options) override {
    if (options.gpus.empty()) throw std::invalid_argument("a table lies on one GPU or more");
    if (options.row_bytes <= sizeof(uint64_t)) return std::make_unique<DeviceWords<Gpu>>(options);
    return std::make_unique<DevicePaddedRows<Gpu>>(options);
  }
  std::unique_ptr<GpuItems> make_items(const gpu::ItemTableOptions& options) override {
    return std::make_unique<DeviceItems<Gpu>>(options);
  }

  void* allocate(int gpu, uint64_t bytes, GpuStream stream) override {
    const Keep keep;
    Device& device = entered(gpu);
    void* const at = Gpu::allocate(device, bytes, Gpu::stream(device, stream));
    if (at == nullptr) throw std::bad_alloc();
    return at;
  }
  void release(int gpu, void* at, uint64_t bytes, GpuStream stream) override {
    const Keep keep;
    Device& device = Gpu::device(gpu);
    device.enter();
    Gpu::release(device, at, bytes, Gpu::stream(device, stream));
  }
  void clear(int gpu, void* at, uint64_t bytes, GpuStream stream) override {
    const Keep keep;
    Device& device = entered(gpu);
    require_device(device.clear(Gpu::stream(device, stream), at, bytes), "clear memory");
  }
  void to_gpu(int gpu, void* to, const void* from, uint64_t bytes, GpuStream stream) override {
    const Keep keep;
    Device& device = entered(gpu);
    const auto its = Gpu::stream(device, stream);
    require_device(device.to_device(its, to, from, bytes) && device.synchronize(its),
                   "copy to the device");
  }
  void to_host(int gpu, void* to, const void* from, uint64_t bytes, GpuStream stream) override {
    const Keep keep;
    Device& device = entered(gpu);
    const auto its = Gpu::stream(device, stream);
    require_device(device.to_host(its, to, from, bytes) && device.synchronize(its),
                   "copy to the host");
  }
  void wait(int gpu, GpuStream stream, GpuStream behind) override {
    const Keep keep;
    Device& device = entered(gpu);
    const DeviceEvent<Device> event(device);
    require_device(device.record(event.get(), Gpu::stream(device, behind)) &&
                       device.wait(Gpu::stream(device, stream), event.get()),
                   "wait for a stream");
  }
  void finish(int gpu, GpuStream stream) override {
    const Keep keep;
    Device& device = entered(gpu);
    require_device(device.synchronize(Gpu::stream(device, stream)), "wait for a stream");
  }
  int gpu_of(const void* at) override { return Gpu::gpu_of(at); }
  GpuStream make_stream(int gpu) override {
    const Keep keep;
    return Gpu::number_of(entered(gpu).create_stream());
  }

 private:
  static Device& entered(int gpu) {
    Device& device = Gpu::device(gpu);
    require_device(device.enter(), "choose the GPU");
    return device;
  }
};

}  // namespace isotherm
