// DevicePart: engine/gpu_part.h for the devices of some traits (engine/device_calls.h).
//
// Threads. Any.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
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
    for (const int gpu : options.devices) devices_.push_back(&Gpu::device(gpu));
    store_.emplace(devices_, Gpu::item_options(options));
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
  void run(const gpu::ItemRequests& requests, std::optional<GpuMask> mask, uint32_t place,
           GpuStream number) override {
    const Keep keep;
    typename Gpu::Device& device = *devices_.at(place);
    require_device(device.enter(), "choose the GPU");
    const auto stream = Gpu::stream(device, number);
    store_->run(requests, place, stream);
    if (!mask || requests.replies.found == nullptr) return;
    require_device(device.enter(), "choose the GPU");
    launch_for_each(device, stream, requests.rows,
                    MaskKernel{requests.replies.found, requests.rows, *mask, nullptr, nullptr});
  }
  uint64_t scan(uint64_t cursor, uint64_t count, std::vector<std::string>& keys) override {
    std::vector<WalkedItem> items;
    const uint64_t next = store_->walk(cursor, count, items);
    for (WalkedItem& item : items) keys.push_back(std::move(item.key));
    return next;
  }

 private:
  std::vector<typename Gpu::Device*> devices_;
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
    if (options.row_bytes <= sizeof(uint64_t) && options.evict_by == RowScores::none) {
      return std::make_unique<DeviceWords<Gpu>>(options);
    }
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
  void* make_event(int gpu, GpuStream stream) override {
    const Keep keep;
    Device& device = entered(gpu);
    auto event = std::make_unique<Event>(device.create_event());
    require_device(device.record(*event, Gpu::stream(device, stream)), "record an event");
    return event.release();
  }
  void drop_event(int gpu, void* event) override {
    const Keep keep;
    Device& device = Gpu::device(gpu);
    device.enter();
    const std::unique_ptr<Event> its(static_cast<Event*>(event));
    device.destroy_event(*its);
  }
  void wait_for(int gpu, GpuStream stream, void* event) override {
    const Keep keep;
    Device& device = entered(gpu);
    require_device(device.wait(Gpu::stream(device, stream), *static_cast<Event*>(event)),
                   "wait for an event");
  }
  void copy(int gpu, void* to, const void* from, uint64_t bytes, GpuStream stream) override {
    const Keep keep;
    Device& device = entered(gpu);
    require_device(device.copy(Gpu::stream(device, stream), to, from, bytes), "copy strings");
  }
  void make_offsets(int gpu, const StringOffsetsKernel& kernel, GpuStream stream) override {
    launch(gpu, stream, kernel.rows + 1, kernel);
  }
  void make_rows(int gpu, const StringRowsKernel& kernel, GpuStream stream) override {
    launch(gpu, stream, kernel.rows * kernel.row_bytes, kernel);
  }
  void make_bits(int gpu, const StringBitsKernel& kernel, GpuStream stream) override {
    launch(gpu, stream, (kernel.rows + 7) / 8, kernel);
  }
  int gpu_of(const void* at) override { return Gpu::gpu_of(at); }
  GpuStream make_stream(int gpu) override {
    const Keep keep;
    return Gpu::number_of(entered(gpu).create_stream());
  }

 private:
  using Event = typename Device::Event;

  template <class Kernel>
  static void launch(int gpu, GpuStream stream, uint64_t items, const Kernel& kernel) {
    const Keep keep;
    Device& device = entered(gpu);
    launch_for_each(device, Gpu::stream(device, stream), items, kernel);
  }
  static Device& entered(int gpu) {
    Device& device = Gpu::device(gpu);
    require_device(device.enter(), "choose the GPU");
    return device;
  }
};

}  // namespace isotherm
