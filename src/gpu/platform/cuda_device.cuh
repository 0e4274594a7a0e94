// CudaDevice: memory, streams, events and launches of one GPU.
//
// The few calls that tables on a device are written in, so that the fake device of the tests can
// stand in for them. Failed calls return null or false, and the driver's words are kept in
// error(). Kernels are functors over a Lane (base/lane_cuda.cuh).
//
// Several GPUs: a thread enters one before it allocates, creates or launches something there. A
// stream may wait for an event of another one.
//
// Threads. Any; the caller keeps the order of calls. Limits. Copies from and to host memory are
// asynchronous only where that memory is pinned.
#pragma once

#include <cooperative_groups.h>
#include <cuda.h>
#include <cuda_runtime.h>

#include <atomic>
#include <cstdint>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include "base/lane_cuda.cuh"
#include "base/memory_node.h"
#include "gpu/platform/steps.h"

namespace isotherm {

namespace cuda_device_internal {

template <class Kernel>
constexpr uint32_t shared_bytes() {
  if constexpr (requires { typename Kernel::Shared; }) {
    return sizeof(typename Kernel::Shared);
  } else {
    return 0;
  }
}

// Threads that a multiprocessor of the GPU that is compiled for has at most.
#if defined(__CUDA_ARCH__) && \
    (__CUDA_ARCH__ / 10 == 86 || __CUDA_ARCH__ / 10 == 89 || __CUDA_ARCH__ / 100 == 12)
inline constexpr uint32_t multiprocessor_threads = 1536;
#else
inline constexpr uint32_t multiprocessor_threads = 2048;
#endif

// How many blocks must fit on a multiprocessor, which bounds the registers; 1: no matter.
template <class Kernel>
constexpr uint32_t least_blocks() {
  if constexpr (requires { Kernel::blocks_per_multiprocessor; }) {
    constexpr uint32_t wanted = Kernel::blocks_per_multiprocessor;
    constexpr uint32_t room = multiprocessor_threads / threads_of<Kernel>();
    return wanted < room ? wanted : room;
  } else {
    return 1;
  }
}

// A kernel may be set up while the one before it in the stream still ends; it begins when all that
// one wrote is there.
template <class Kernel>
__global__ void __launch_bounds__(threads_of<Kernel>(), least_blocks<Kernel>())
    enter(Kernel kernel) {
#if defined(__CUDA_ARCH__)
  asm volatile("griddepcontrol.wait;" ::: "memory");
#endif
  kernel(LaneCuda{});
}

// Steps of one kernel (gpu/platform/steps.h), whose blocks meet before each but the first.
class FusedSteps {
 public:
  static constexpr bool reads_counts = true;

  __device__ void clear(void* at, uint64_t bytes) {
    meet();
    auto* words = static_cast<uint64_t*>(at);
    const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
    for (uint64_t i = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x; i < bytes / sizeof *words;
         i += stride) {
      words[i] = 0;
    }
  }
  template <class Kernel>
  __device__ void run(const Kernel& kernel) {
    meet();
    kernel(PartLaneCuda<threads_of<Kernel>()>{});
  }
  template <class Kernel>
  __device__ void run_large(const Kernel& kernel) {
    meet();
    kernel(LaneCuda{});
  }
  template <class Kernel>
  __device__ void run_once(const Kernel& kernel) {
    meet();
    if (blockIdx.x == 0 && threadIdx.x < threads_of<Kernel>()) {
      kernel(PartLaneCuda<threads_of<Kernel>()>{});
    }
  }
  // The same in all threads.
  __device__ bool any(const uint32_t* count) {
    meet();
    met_ = true;
    return LaneCuda::load(count) != 0;
  }

 private:
  __device__ void meet() {
    if (!met_) cooperative_groups::this_grid().sync();
    met_ = false;
  }

  bool met_ = true;  // nobody has done anything since
};

template <class Sequence>
__global__ void __launch_bounds__(fused_threads) enter_fused(Sequence sequence) {
  FusedSteps steps;
  sequence(steps);
}

// Where the piece of pinned memory around `at` begins, and its bytes; 0 where the driver cannot
// say.
inline std::pair<uint64_t, uint64_t> pinned_range(const void* at) {
  using Query = CUresult (*)(void*, CUpointer_attribute, CUdeviceptr);
  static const auto query = [] {
    void* entry = nullptr;
    cudaDriverEntryPointQueryResult found;
    constexpr unsigned version = 12000;
    const cudaError_t code = cudaGetDriverEntryPointByVersion("cuPointerGetAttribute", &entry,
                                                              version, cudaEnableDefault, &found);
    return code == cudaSuccess ? reinterpret_cast<Query>(entry) : nullptr;
  }();
  CUdeviceptr begin = 0;
  size_t size = 0;
  const auto address = reinterpret_cast<CUdeviceptr>(at);
  if (query == nullptr ||
      query(&begin, CU_POINTER_ATTRIBUTE_RANGE_START_ADDR, address) != CUDA_SUCCESS ||
      query(&size, CU_POINTER_ATTRIBUTE_RANGE_SIZE, address) != CUDA_SUCCESS) {
    return {0, 0};
  }
  return {begin, size};
}

// Calls open() for each pair of GPUs once in a process, until it says true.
template <class Open>
bool open_peer(int from, int to, Open&& open) {
  static std::mutex mutex;
  static std::set<std::pair<int, int>> opened;
  const std::lock_guard guard(mutex);
  if (opened.contains({from, to})) return true;
  if (!open()) return false;
  opened.insert({from, to});
  return true;
}

}  // namespace cuda_device_internal

// The calling thread has the same GPU at its end.
class KeepGpu {
 public:
  KeepGpu() { cudaGetDevice(&gpu_); }
  ~KeepGpu() { cudaSetDevice(gpu_); }
  KeepGpu(const KeepGpu&) = delete;
  KeepGpu& operator=(const KeepGpu&) = delete;

 private:
  int gpu_ = 0;
};

class CudaDevice {
 public:
  using Keep = KeepGpu;
  using Stream = cudaStream_t;
  using Event = cudaEvent_t;

  explicit CudaDevice(int ordinal) : ordinal_(ordinal) {
    int count = 0;
    usable_ = check(cudaSetDevice(ordinal)) &&
              check(cudaDeviceGetAttribute(&count, cudaDevAttrMultiProcessorCount, ordinal));
    multiprocessors_ = static_cast<uint32_t>(count);
    int major = 0;
    usable_ = usable_ &&
              check(cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, ordinal));
    if (usable_ && major < 9) {
      usable_ = false;
      error_ = "GPUs before sm_90 are not supported";
    }
    if (usable_ && !check(cudaDeviceGetAttribute(&memory_node_, cudaDevAttrHostNumaId, ordinal))) {
      memory_node_ = -1;
      error_ = "";
    }
  }

  bool usable() const { return usable_; }
  // Of the last call that failed.
  std::string error() const { return std::atomic_ref(error_).load(); }
  // Makes this the calling thread's GPU.
  bool enter() { return check(cudaSetDevice(ordinal_)); }
  // Lets kernels of this GPU reach the other's memory, and copies to it go straight; false where it
  // cannot, and copies go by the host.
  bool connect(const CudaDevice& other) {
    if (ordinal_ == other.ordinal_) return true;
    int reaches = 0;
    if (!enter() || !check(cudaDeviceCanAccessPeer(&reaches, ordinal_, other.ordinal_))) {
      return false;
    }
    return reaches != 0 && cuda_device_internal::open_peer(ordinal_, other.ordinal_, [&] {
             const cudaError_t code = cudaDeviceEnablePeerAccess(other.ordinal_, 0);
             if (code != cudaErrorPeerAccessAlreadyEnabled) return check(code);
             cudaGetLastError();
             return true;
           });
  }
  // Blocks of 256 threads that keep every multiprocessor full.
  uint32_t full_grid() const { return multiprocessors_ * 16; }
  uint32_t multiprocessors() const { return multiprocessors_; }

  // The last of a GPU's memory is left to others: a kernel is loaded when it is first launched,
  // which takes some, and where there is none the launch fails.
  void* allocate(uint64_t bytes) {
    if (available() < bytes) return nullptr;
    void* memory = nullptr;
    return check(cudaMalloc(&memory, bytes)) ? memory : nullptr;
  }
  void release(void* memory, uint64_t /*bytes*/) { check(cudaFree(memory)); }
  // Bytes that nobody has and that may be taken.
  uint64_t available() {
    constexpr size_t for_others = size_t{128} << 20;
    size_t free = 0;
    size_t all = 0;
    return check(cudaMemGetInfo(&free, &all)) && free > for_others ? free - for_others : 0;
  }
  // The memory node of the host that is nearest (base/memory_node.h).
  int memory_node() const { return memory_node_; }
  void* allocate_pinned(uint64_t bytes) {
    const MemoryNodeScope near(memory_node_);
    void* memory = nullptr;
    return check(cudaMallocHost(&memory, bytes)) ? memory : nullptr;
  }
  void release_pinned(void* memory, uint64_t /*bytes*/) { check(cudaFreeHost(memory)); }

  // Pins whole pages of the host's. False: it cannot, or kernels would see them elsewhere.
  bool pin(void* memory, uint64_t bytes) {
    if (!check(cudaHostRegister(memory, bytes, cudaHostRegisterMapped))) return false;
    void* seen = nullptr;
    if (check(cudaHostGetDevicePointer(&seen, memory, 0)) && seen == memory) return true;
    unpin(memory);
    return false;
  }
  void unpin(void* memory) { check(cudaHostUnregister(memory)); }

  // Whether the host memory from `at` on is pinned, in one piece, by whoever it was.
  bool is_pinned(const void* at, uint64_t bytes) {
    if (bytes == 0 || !is_pinned(at)) return false;
    const auto [begin, size] = cuda_device_internal::pinned_range(at);
    const auto first = reinterpret_cast<uint64_t>(at);
    return first >= begin && first - begin <= size && bytes <= size - (first - begin);
  }

  Stream create_stream() {
    Stream stream = nullptr;
    check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
    return stream;
  }
  // Of what must not wait behind others' kernels, nor they behind it.
  Stream create_urgent_stream() {
    int least = 0;
    int greatest = 0;
    Stream stream = nullptr;
    check(cudaDeviceGetStreamPriorityRange(&least, &greatest));
    check(cudaStreamCreateWithPriority(&stream, cudaStreamNonBlocking, greatest));
    return stream;
  }
  void destroy_stream(Stream stream) { check(cudaStreamDestroy(stream)); }
  Event create_event() {
    Event event = nullptr;
    check(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    return event;
  }
  void destroy_event(Event event) { check(cudaEventDestroy(event)); }

  bool record(Event event, Stream stream) { return check(cudaEventRecord(event, stream)); }
  bool wait(Stream stream, Event event) { return check(cudaStreamWaitEvent(stream, event, 0)); }
  bool done(Event event) {
    const cudaError_t state = cudaEventQuery(event);
    return state != cudaErrorNotReady && check(state);
  }
  bool synchronize(Event event) { return check(cudaEventSynchronize(event)); }
  bool synchronize(Stream stream) { return check(cudaStreamSynchronize(stream)); }

  bool clear(Stream stream, void* at, uint64_t bytes) {
    return check(cudaMemsetAsync(at, 0, bytes, stream));
  }
  bool to_device(Stream stream, void* device, const void* host, uint64_t bytes) {
    return check(cudaMemcpyAsync(device, host, bytes, cudaMemcpyHostToDevice, stream));
  }
  bool to_host(Stream stream, void* host, const void* device, uint64_t bytes) {
    return check(cudaMemcpyAsync(host, device, bytes, cudaMemcpyDeviceToHost, stream));
  }
  bool copy(Stream stream, void* to, const void* from, uint64_t bytes) {
    return check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream));
  }
  // From here to memory of another GPU.
  bool copy_to(const CudaDevice& other, Stream stream, void* to, const void* from, uint64_t bytes) {
    return check(cudaMemcpyPeerAsync(to, other.ordinal_, from, ordinal_, bytes, stream));
  }

  template <class Kernel>
  bool launch(Stream stream, uint32_t blocks, uint32_t threads, const Kernel& kernel) {
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks);
    config.blockDim = dim3(threads);
    config.dynamicSmemBytes = cuda_device_internal::shared_bytes<Kernel>();
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return check(cudaLaunchKernelEx(&config, cuda_device_internal::enter<Kernel>, kernel));
  }

  // A sequence of steps in one kernel, in `blocks` blocks of fused_threads or as many as run at
  // once.
  template <class Sequence>
  bool launch_fused(Stream stream, uint32_t blocks, const Sequence& sequence) {
    SharedBytesOfSteps shared;
    sequence(shared);
    cudaLaunchAttribute attribute{};
    attribute.id = cudaLaunchAttributeCooperative;
    attribute.val.cooperative = 1;
    cudaLaunchConfig_t config{};
    config.gridDim = dim3(blocks < multiprocessors_ ? blocks : multiprocessors_);
    config.blockDim = dim3(fused_threads);
    config.dynamicSmemBytes = shared.bytes();
    config.stream = stream;
    config.attrs = &attribute;
    config.numAttrs = 1;
    return check(
        cudaLaunchKernelEx(&config, cuda_device_internal::enter_fused<Sequence>, sequence));
  }

  // A kernel that waits for the host, which says when it ends.
  template <class Kernel>
  bool launch_resident(Stream stream, uint32_t blocks, uint32_t threads, const Kernel& kernel) {
    return launch(stream, blocks, threads, kernel);
  }
  // While the host waits for such a kernel; false when the device is lost.
  bool pause() {
    __builtin_ia32_pause();
    return true;
  }
  bool healthy(Stream stream) {
    const cudaError_t state = cudaStreamQuery(stream);
    return state == cudaErrorNotReady || check(state);
  }
  // The same of no stream.
  bool healthy() {
    size_t free = 0;
    size_t all = 0;
    return check(cudaMemGetInfo(&free, &all));
  }
  // Whether what is queued there is recorded for a graph instead.
  bool captures(Stream stream) {
    cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
    const cudaError_t code = cudaStreamIsCapturing(stream, &status);
    if (code != cudaSuccess) cudaGetLastError();
    return code == cudaErrorStreamCaptureImplicit ||
           (code == cudaSuccess && status != cudaStreamCaptureStatusNone);
  }

 private:
  bool is_pinned(const void* at) {
    cudaPointerAttributes attributes{};
    return check(cudaPointerGetAttributes(&attributes, at)) &&
           attributes.type == cudaMemoryTypeHost;
  }
  bool check(cudaError_t code) {
    if (code == cudaSuccess) return true;
    std::atomic_ref(error_).store(cudaGetErrorString(code));
    cudaGetLastError();
    return false;
  }

  int ordinal_;
  bool usable_ = false;
  uint32_t multiprocessors_ = 0;
  int memory_node_ = -1;
  mutable const char* error_ = "";  // of all threads
};

}  // namespace isotherm
