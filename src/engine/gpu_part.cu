#include <map>
#include <memory>
#include <mutex>

#include "engine/device_part.h"
#include "engine/gpu_part.h"
#include "engine/gpu_table_state.cuh"
#include "gpu/items/item_options.h"
#include "isotherm/gpu/common.h"

namespace isotherm {
namespace {

// Traits of NVIDIA's GPUs for engine/device_calls.h. Memory of calls comes from a pool of their
// own, which keeps some while no call runs.
struct CudaGpu {
  using Device = CudaDevice;
  using Keep = KeepGpu;
  static constexpr uint64_t most_slab_bytes = uint64_t{64} << 20;
  static constexpr uint64_t kept_bytes = uint64_t{256} << 20;

  struct Place {
    explicit Place(int number) : device(usable_device(number)) {
      cudaMemPoolProps properties{};
      properties.allocType = cudaMemAllocationTypePinned;
      properties.location.type = cudaMemLocationTypeDevice;
      properties.location.id = number;
      uint64_t kept = kept_bytes;
      if (cudaMemPoolCreate(&pool, &properties) != cudaSuccess ||
          cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &kept) != cudaSuccess) {
        cudaGetLastError();
        throw DeviceError("the GPU has no pools of memory");
      }
    }
    CudaDevice device;
    cudaMemPool_t pool = nullptr;
  };

  // They last as long as the program: tables may.
  static Place& place(int number) {
    static std::mutex mutex;
    static auto& places = *new std::map<int, std::unique_ptr<Place>>();
    const std::lock_guard guard(mutex);
    std::unique_ptr<Place>& its = places[number];
    if (its == nullptr) {
      const KeepGpu keep;
      its = std::make_unique<Place>(number);
    }
    return *its;
  }

  static int count() { return gpu::count(); }
  static CudaDevice& device(int number) { return place(number).device; }
  static cudaStream_t stream(CudaDevice& /*device*/, GpuStream number) {
    return reinterpret_cast<cudaStream_t>(number);
  }
  static GpuStream number_of(cudaStream_t stream) { return reinterpret_cast<GpuStream>(stream); }
  // The thread has entered the device.
  static void* allocate(CudaDevice& /*device*/, uint64_t bytes, cudaStream_t stream) {
    int number = 0;
    void* at = nullptr;
    if (cudaGetDevice(&number) == cudaSuccess &&
        cudaMallocFromPoolAsync(&at, bytes, place(number).pool, stream) == cudaSuccess) {
      return at;
    }
    cudaGetLastError();
    return nullptr;
  }
  static void release(CudaDevice& /*device*/, void* at, uint64_t /*bytes*/, cudaStream_t stream) {
    if (cudaFreeAsync(at, stream) != cudaSuccess) cudaGetLastError();
  }
  static int gpu_of(const void* at) {
    cudaPointerAttributes attributes{};
    if (cudaPointerGetAttributes(&attributes, at) != cudaSuccess) {
      cudaGetLastError();
      return -1;
    }
    const bool on_gpu =
        attributes.type == cudaMemoryTypeDevice || attributes.type == cudaMemoryTypeManaged;
    return on_gpu ? attributes.device : -1;
  }
  static void tune(FixedDeviceOptions& /*options*/) {}
  static DeviceItemOptions item_options(const gpu::ItemTableOptions& options) {
    return device_item_options(options);
  }
};

}  // namespace

GpuPart& cuda_gpu_part() {
  static auto& part = *new DevicePart<CudaGpu>();
  return part;
}

}  // namespace isotherm
