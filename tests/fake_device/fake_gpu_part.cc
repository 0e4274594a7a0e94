// engine/gpu_part.h on fake devices, as a library that Python's extension loads in its tests: two
// GPUs of 256 MiB each, with small segments and parts, so that few keys meet growth and parts.
#include <array>
#include <memory>
#include <mutex>

#include "engine/device_part.h"
#include "fake_device/fake_device.h"

namespace isotherm {
namespace {

class FakeGpus {
 public:
  static constexpr int count = 2;

  // They outlive the tables, and complain at the end of the program.
  static FakeGpus& get() {
    static FakeGpus gpus;
    return gpus;
  }

  FakeDevice& device(int number) {
    if (number < 0 || number >= count) throw DeviceError("no usable GPU: invalid device ordinal");
    return *devices_[static_cast<size_t>(number)];
  }
  FakeStream* stream(const FakeDevice& device) const {
    return streams_[&device == devices_[0].get() ? 0 : 1];
  }

 private:
  FakeGpus() {
    constexpr uint64_t bytes = uint64_t{256} << 20;
    devices_[0] = std::make_unique<FakeDevice>(1, bytes);
    devices_[1] = std::make_unique<FakeDevice>(2, bytes, *devices_[0]);
    for (size_t i = 0; i < count; ++i) {
      devices_[i]->enter();
      streams_[i] = devices_[i]->create_stream();
    }
  }

  std::array<std::unique_ptr<FakeDevice>, count> devices_;
  std::array<FakeStream*, count> streams_{};
};

struct FakeGpu {
  using Device = FakeDevice;
  using Keep = FakeDevice::Keep;
  static constexpr uint64_t most_slab_bytes = 16 << 10;

  static int count() { return FakeGpus::count; }
  static FakeDevice& device(int number) { return FakeGpus::get().device(number); }
  static FakeStream* stream(FakeDevice& device, GpuStream number) {
    if (number <= 2) return FakeGpus::get().stream(device);
    return reinterpret_cast<FakeStream*>(number);
  }
  static GpuStream number_of(FakeStream* stream) { return reinterpret_cast<GpuStream>(stream); }
  static void* allocate(FakeDevice& device, uint64_t bytes, FakeStream* /*stream*/) {
    return device.allocate(bytes);
  }
  static void release(FakeDevice& device, void* at, uint64_t bytes, FakeStream* stream) {
    device.synchronize(stream);
    device.release(at, bytes);
  }
  static int gpu_of(const void* at) {
    for (int number = 0; number < count(); ++number) {
      if (device(number).owns(at)) return number;
    }
    return -1;
  }
  static void tune(FixedDeviceOptions& options) {
    options.line_bits = 4;
    options.max_part_rows = 512;
    options.express = ExpressOptions{2, 3, 20, 50};
  }
  static DeviceItemOptions item_options(const gpu::ItemTableOptions& options) {
    DeviceItemOptions items;
    items.part_rows = 256;
    items.slab_bytes = 16 << 10;
    items.key_room = items.value_room = items.reply_room = 64 << 10;
    items.evicts = options.evict;
    items.host_memory = options.pinned_item_memory;
    items.index.gpu_memory = options.gpu_memory;
    items.index.seed = 1;
    items.index.line_bits = 4;
    items.index.max_part_rows = items.part_rows;
    return items;
  }
};

}  // namespace
}  // namespace isotherm

extern "C" __attribute__((visibility("default"))) isotherm::GpuPart* isotherm_gpu_part_5() {
  static auto& part = *new isotherm::DevicePart<isotherm::FakeGpu>();
  return &part;
}
