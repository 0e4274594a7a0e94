// FakeDevice: a GPU made of nothing, for tests: runs the kernels themselves, lane by lane.
//
// It offers what the CUDA device offers, so that code over a device is tested without one; and it
// is harsher than one:
//   - Its memory is its own (fake_device/fake_memory.h). The host that touches it is ended by a
//   fault.
//   - Operations are queued and run when somebody waits or asks, streams mixed by the seed
//     (fake_device/fake_streams.h). A copy reads the host's bytes when it runs, so a staging buffer
//     that is used again too early shows.
//   - The lanes of a kernel take turns by the seed, inside a kernel, too (fake_device/fake_grid.h),
//   and
//     meet under rules that are checked (fake_device/fake_warp.h, fake_device/fake_lane.h).
//   - Allocations and operations fail on demand, and the device can be lost.
// Equal seeds give equal runs, if one thread uses the device.
//
// Devices of one host (fake_device/fake_host.h) copy to each other and wait for each other's
// events; kernels touch the memory of devices that theirs is connected to; whose operation runs
// next is drawn, too. As with GPUs the calling thread enters a device before it allocates, creates
// or launches something there, which is checked where there are several.
//
// A function that returns false has failed and left nothing behind. After a mistake of the code
// under test (an error, as opposed to a failure on demand) the device is lost, as a GPU would be.
// A test looks at the errors with `take_errors`; errors that nobody took end the program with the
// device.
//
// Threads. All functions may be called from several threads; one of a host runs at a time, and
// operations run in the thread that waits.
// Limits. Operations never overlap in time, so a kernel that waits for the host takes steps: it is
// launched as a resident one, looks once, ends, and is run again when others had a turn, until its
// member ended(blocks) says that it has. A kernel that waits for another one waits for ever.
#pragma once

#include <concepts>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

#include "fake_device/fake_frames.h"
#include "fake_device/fake_grid.h"
#include "fake_device/fake_host.h"
#include "fake_device/fake_lane.h"
#include "fake_device/fake_memory.h"
#include "fake_device/fake_random.h"
#include "fake_device/fake_streams.h"

namespace isotherm {

class FakeDevice {
 public:
  using Lane = FakeLane;
  using Stream = FakeStream*;
  using Event = FakeEvent*;
  // The calling thread has the same device at its end.
  class Keep {
   public:
    Keep();
    ~Keep();
    Keep(const Keep&) = delete;
    Keep& operator=(const Keep&) = delete;

   private:
    const FakeDevice* const device_;
  };
  static constexpr uint64_t never = ~uint64_t{0};

  // Alone on its host.
  FakeDevice(uint64_t seed, uint64_t memory_bytes)
      : FakeDevice(seed, memory_bytes, std::make_shared<FakeHost>(seed)) {}
  // On the host of another.
  FakeDevice(uint64_t seed, uint64_t memory_bytes, const FakeDevice& beside)
      : FakeDevice(seed, memory_bytes, beside.host_) {}
  // Operations that still wait are forgotten; all streams and events end.
  ~FakeDevice();
  FakeDevice(const FakeDevice&) = delete;
  FakeDevice& operator=(const FakeDevice&) = delete;

  // Makes this the calling thread's device.
  bool enter();
  // Lets kernels touch the memory of another device of the host, which lives as long; false where
  // that was forbidden, and copies go all the same.
  bool connect(FakeDevice& other);
  void forbid_connections();

  // Aligned to 256 bytes and full of rubbish; null if there is no more, or by order.
  void* allocate(uint64_t bytes);
  // At once: operations that use it must have ended.
  void release(void* at, uint64_t bytes);
  uint64_t allocated_bytes() const;
  // Whether it lies in memory that was allocated here.
  bool owns(const void* at) const;
  // Bytes that nobody has.
  uint64_t available() const;

  // The memory node of the host that is nearest; -1, unknown, unless a test says otherwise.
  int memory_node() const { return memory_node_; }
  void set_memory_node(int node) { memory_node_ = node; }
  // Memory of the host that kernels may use, too; null by order, as above.
  void* allocate_pinned(uint64_t bytes);
  void release_pinned(void* at, uint64_t bytes);
  // Of memory of others.
  bool pin(void* at, uint64_t bytes);
  void unpin(void* at);
  // Whether all of it is such memory.
  bool is_pinned(const void* at, uint64_t bytes) const;
  // The blocks of a grid that is worth its launch.
  uint32_t full_grid() const { return 3; }

  Stream create_stream();
  Stream create_urgent_stream() { return create_stream(); }
  // Runs what is queued.
  void destroy_stream(Stream stream);
  Event create_event();
  void destroy_event(Event event);

  bool record(Event event, Stream stream);
  // The event may be another device's.
  bool wait(Stream stream, Event event);
  // Whether it has happened; of a lost device false. Lets some operations run, or none.
  bool done(Event event);
  bool synchronize(Event event);
  bool synchronize(Stream stream);

  // Sets bytes to zero.
  bool clear(Stream stream, void* at, uint64_t bytes);
  bool to_device(Stream stream, void* device, const void* host, uint64_t bytes);
  bool to_host(Stream stream, void* host, const void* device, uint64_t bytes);
  bool copy(Stream stream, void* to, const void* from, uint64_t bytes);
  // From here to memory of another device of the host.
  bool copy_to(FakeDevice& other, Stream stream, void* to, const void* from, uint64_t bytes);
  // The kernel is copied. At most 1024 threads a block.
  template <class Kernel>
  bool launch(Stream stream, uint32_t blocks, uint32_t threads, const Kernel& kernel);

  template <class Kernel>
  bool launch_resident(Stream stream, uint32_t blocks, uint32_t threads, const Kernel& kernel);
  // Time passes while the host waits for a resident kernel; false when the device is lost.
  bool pause();
  bool healthy(Stream /*stream*/) const { return healthy(); }
  bool healthy() const { return !lost(); }
  // Whether a test says that the stream is being captured.
  bool captures(Stream stream) const { return captured_ == stream; }
  void capture(std::optional<Stream> stream) { captured_ = stream; }

  // Failures on demand: the next `n` succeed, those after them fail; `never` is back to normal.
  void fail_allocations_after(uint64_t n);
  void fail_launches_after(uint64_t n);
  // Loses the device when `n` more operations have run.
  void lose_after(uint64_t n);
  // What calls have cost: kernels that were launched, and waits of the host for a stream or event.
  uint64_t launches() const;
  uint64_t waits() const;

  // Everything fails from now on; queues are forgotten, memory is rubbish.
  void lose();
  bool lost() const;
  // Back to normal, allocations as they were.
  void recover();

  // What the code under test did wrong since the last call.
  std::vector<std::string> take_errors();

 private:
  using Lock = std::lock_guard<std::mutex>;

  FakeDevice(uint64_t seed, uint64_t memory_bytes, std::shared_ptr<FakeHost> host);

  bool enqueue(Stream stream, std::function<void()> run);
  template <class Kernel>
  FakeLaunch launch_of(uint32_t blocks, uint32_t threads, const Kernel& kernel);
  bool enqueue_launch(Stream stream, FakeLaunch launch);
  void run_launch(Stream stream, const FakeLaunch& launch);
  FakeOperation operation(std::function<void()> run);
  bool step();
  bool step_own();
  void let_time_pass();
  template <class Reached>
  bool run_until(Reached reached);
  bool check_range(const char* what, const void* at, uint64_t bytes);
  void check_entered(const char* what);
  void report(std::string error);
  void lose_now();

  const std::shared_ptr<FakeHost> host_;
  FakeRandom random_;
  FakeMemory memory_;
  std::vector<FakeMemory*> open_to_kernels_ = {&memory_};
  bool may_connect_ = true;
  int memory_node_ = -1;
  FakeStreams streams_;
  FakeGrid grid_;
  FakeFrames frames_;
  std::vector<std::string> errors_;
  uint64_t allocations_left_ = never;
  uint64_t launches_left_ = never;
  uint64_t operations_left_ = never;
  std::map<const char*, uint64_t> pinned_;  // address → bytes
  std::optional<Stream> captured_;
  uint64_t launches_ = 0;
  uint64_t waits_ = 0;
  bool lost_ = false;
};

template <class Kernel>
FakeLaunch FakeDevice::launch_of(uint32_t blocks, uint32_t threads, const Kernel& kernel) {
  // What a GPU takes as parameters.
  static_assert(std::is_trivially_copyable_v<Kernel> && sizeof(Kernel) <= 4096);
  FakeLaunch launch;
  launch.blocks = blocks;
  launch.threads = threads;
  launch.name = typeid(Kernel).name();
  if constexpr (requires { typename Kernel::Shared; }) {
    using Shared = typename Kernel::Shared;
    static_assert(std::is_trivially_copyable_v<Shared> && std::is_trivially_destructible_v<Shared>);
    static_assert(sizeof(Shared) <= FakeGrid::max_shared_bytes);
    launch.shared_bytes = sizeof(Shared);
  }
  launch.kernel = std::make_shared<const Kernel>(kernel);
  launch.body = [](const void* body, const FakeLane& lane) {
    (*static_cast<const Kernel*>(body))(lane);
  };
  return launch;
}

template <class Kernel>
bool FakeDevice::launch(Stream stream, uint32_t blocks, uint32_t threads, const Kernel& kernel) {
  return enqueue_launch(stream, launch_of(blocks, threads, kernel));
}

template <class Kernel>
bool FakeDevice::launch_resident(Stream stream, uint32_t blocks, uint32_t threads,
                                 const Kernel& kernel) {
  FakeLaunch launch = launch_of(blocks, threads, kernel);
  launch.ended = [](const void* body, uint32_t of_blocks) {
    return static_cast<const Kernel*>(body)->ended(of_blocks);
  };
  return enqueue_launch(stream, std::move(launch));
}

}  // namespace isotherm
