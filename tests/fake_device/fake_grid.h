// FakeGrid: runs the lanes of one launch, each on a fiber of its own, in an order drawn by the
// seed.
//
// Some blocks are resident at a time, as on a GPU, and come in random order; each has shared memory
// of its own. A lane has a fiber from its first turn on, and gives it on when it returns. Lanes
// that can run are in one list, and the next is drawn from it
//   - whenever a lane waits, at a collective or at sync_block, and whenever a collective completes
//   - with a probability drawn for the launch, before each access and fence of FakeLane
//   - when a lane returns
// By a second draw for the launch either all lanes get on at the same pace, or those that ran last
// go on and others starve for a while: some mistakes show in one, some in the other.
//
// What must not happen (fake_device/fake_warp.h; lanes that wait at sync_block for ever; an access
// to device memory that is not allocated) is the launch's error. It ends the launch: every lane
// leaves its kernel by an exception at its next call of FakeLane.
//
// Threads. A grid runs on the thread that calls `run`, one launch at a time.
// Limits. Lanes switch only inside FakeLane, and memory is sequentially consistent: a fence that is
// missing does not show. A lane that waits in a loop for another must do so through FakeLane.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "fake_device/fake_fiber.h"
#include "fake_device/fake_memory.h"
#include "fake_device/fake_random.h"
#include "fake_device/fake_warp.h"

namespace isotherm {

class FakeGrid;
class FakeLane;

// A kernel with its parameters, and how many lanes run it.
struct FakeLaunch {
  uint32_t blocks = 0;
  uint32_t threads = 0;  // a block
  size_t shared_bytes = 0;
  std::string name;
  std::shared_ptr<const void> kernel;
  void (*body)(const void* kernel, const FakeLane& lane) = nullptr;
  // Of a kernel that takes steps; null: it ends by itself.
  bool (*ended)(const void* kernel, uint32_t blocks) = nullptr;
};

struct FakeBlock;

struct FakeLaneState {
  FakeGrid* grid = nullptr;
  FakeBlock* block = nullptr;
  FakeWarp* warp = nullptr;
  FakeFiber* fiber = nullptr;  // null: it has not begun
  uint32_t thread = 0;
  bool waits = false;
};

// A resident block.
struct FakeBlock {
  uint32_t number = 0;
  uint32_t threads = 0;
  uint32_t blocks = 0;
  uint32_t live = 0;      // lanes that have not returned; 0: the place is free
  uint32_t at_block = 0;  // lanes at sync_block
  std::vector<FakeLaneState> lanes;
  std::vector<FakeWarp> warps;
  std::vector<char> memory;
  char* shared = nullptr;
  size_t shared_bytes = 0;
};

class FakeGrid {
 public:
  static constexpr uint32_t max_threads = 1024;
  static constexpr size_t max_shared_bytes = 48 * 1024;

  FakeGrid(const FakeMemory& memory, FakeRandom& random) : memory_(memory), random_(random) {}

  // What went wrong, or empty.
  std::string run(const FakeLaunch& launch);

  // Calls of lanes.
  uint64_t meet(FakeLaneState& lane, const FakeArrival& arrival);
  void sync_block(FakeLaneState& lane);
  void* shared(FakeLaneState& lane, size_t bytes);
  // Before an access by the lane that runs on this thread.
  static void access(const void* at, size_t bytes);
  // Where another lane may get its turn.
  static void breathe();

 private:
  struct End {};  // thrown through the kernel

  void prepare(const FakeLaunch& launch);
  void admit();
  void admit(FakeBlock& block, uint32_t number);
  static FakeFiber& run_lanes(void* first);
  void run_lane(FakeLaneState& lane);
  void end(FakeLaneState& lane);

  FakeLaneState* next_lane();
  FakeFiber& fiber_of(FakeLaneState& lane);
  uint32_t draw();
  FakeLaneState* take(uint32_t at);
  void go_to(FakeLaneState& lane);
  void go_on_from(FakeLaneState& lane);
  void pause();
  void wake(FakeLaneState& lane);
  void open_block(FakeBlock& block);

  void fail(const FakeLaneState& lane, const std::string& what);
  void fail_stuck();
  void leave_if_failed() const {
    if (failed_) throw End{};
  }

  const FakeMemory& memory_;
  FakeRandom& random_;
  const FakeLaunch* launch_ = nullptr;
  std::vector<uint32_t> order_;  // of blocks, the next at the end
  std::vector<FakeBlock> resident_;
  std::vector<FakeFiber::Lent> fibers_;
  std::vector<FakeFiber*> idle_;  // no lane has them
  std::vector<FakeLaneState*> ready_;
  FakeLaneState* running_ = nullptr;
  FakeFiber* home_ = nullptr;  // the thread's own stack
  uint32_t live_ = 0;          // resident blocks
  uint32_t pause_ = 1;         // one access in so many lets another lane run
  uint32_t window_ = 0;        // lanes at the end of `ready_` to draw from, mostly
  bool failed_ = false;
  std::string error_;
};

}  // namespace isotherm
