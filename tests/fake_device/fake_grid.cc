#include "fake_device/fake_grid.h"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <utility>

#include "fake_device/fake_lane.h"
#include "items/poison.h"

namespace isotherm {
namespace {

// Of all resident blocks together, unless one has more.
constexpr uint32_t resident_lanes = poison::sanitized ? 256 : 2048;
constexpr uint32_t resident_blocks = 16;
constexpr size_t shared_alignment = 256;

// The grid that runs on this thread.
thread_local FakeGrid* current = nullptr;

}  // namespace

std::string FakeGrid::run(const FakeLaunch& launch) {
  FakeFiber home;
  home_ = &home;
  FakeGrid* const outer = std::exchange(current, this);
  prepare(launch);
  while (FakeLaneState* next = next_lane()) {
    running_ = next;
    FakeFiber::switch_to(home, fiber_of(*next));
  }
  current = outer;
  return std::exchange(error_, {});
}

void FakeGrid::prepare(const FakeLaunch& launch) {
  launch_ = &launch;
  failed_ = false;
  order_.resize(launch.blocks);
  std::iota(order_.begin(), order_.end(), 0u);
  for (uint32_t i = launch.blocks; i > 1; --i) std::swap(order_[i - 1], order_[random_.below(i)]);

  const uint32_t room = std::clamp(resident_lanes / launch.threads, 1u, resident_blocks);
  const uint32_t most = std::min(room, launch.blocks);
  // Mostly many.
  resident_.resize(random_.one_in(4) ? 1 + random_.below(most) : most);
  pause_ = 4u << (2 * random_.below(3));
  constexpr uint32_t windows[] = {~0u, ~0u, 64, 2};
  window_ = windows[random_.below(4)];
}

// Null at the end of the launch.
FakeLaneState* FakeGrid::next_lane() {
  admit();
  if (live_ == 0) return nullptr;
  if (ready_.empty()) fail_stuck();
  return take(draw());
}

// The lane's, from its first turn to its end.
FakeFiber& FakeGrid::fiber_of(FakeLaneState& lane) {
  if (lane.fiber != nullptr) return *lane.fiber;
  if (idle_.empty()) {
    fibers_.push_back(FakeFiber::take());
    idle_.push_back(fibers_.back().get());
  }
  lane.fiber = idle_.back();
  idle_.pop_back();
  lane.fiber->start(&FakeGrid::run_lanes, &lane);
  return *lane.fiber;
}

// Fills free places with blocks.
void FakeGrid::admit() {
  for (FakeBlock& block : resident_) {
    if (order_.empty() || live_ == resident_.size()) return;
    if (block.live != 0) continue;
    admit(block, order_.back());
    order_.pop_back();
  }
}

void FakeGrid::admit(FakeBlock& block, uint32_t number) {
  const uint32_t threads = launch_->threads;
  ++live_;
  block.number = number;
  block.blocks = launch_->blocks;
  block.threads = block.live = threads;
  block.at_block = 0;
  block.shared_bytes = launch_->shared_bytes;
  block.memory.assign(launch_->shared_bytes + shared_alignment,
                      static_cast<char>(FakeMemory::fresh));
  const auto start = reinterpret_cast<uintptr_t>(block.memory.data());
  block.shared = block.memory.data() + (~start + 1) % shared_alignment;
  block.warps.resize((threads + FakeWarp::lanes - 1) / FakeWarp::lanes);
  block.lanes.resize(threads);
  for (uint32_t thread = 0; thread < threads; ++thread) {
    FakeWarp& warp = block.warps[thread / FakeWarp::lanes];
    if (thread % FakeWarp::lanes == 0) {
      const uint32_t lanes = std::min(threads - thread, FakeWarp::lanes);
      warp.reset(~0u >> (FakeWarp::lanes - lanes));
    }
    FakeLaneState& lane = block.lanes[thread];
    lane = {this, &block, &warp, nullptr, thread, false};
    ready_.push_back(&lane);
  }
}

// Where the lane that is next has not begun, it goes on on the same fiber: many lanes have nothing
// to do, and a switch takes longer than that.
FakeFiber& FakeGrid::run_lanes(void* argument) {
  auto* lane = static_cast<FakeLaneState*>(argument);
  FakeGrid& grid = *lane->grid;
  FakeFiber& fiber = *lane->fiber;
  for (;;) {
    grid.run_lane(*lane);
    FakeLaneState* const next = grid.next_lane();
    if (next == nullptr || next->fiber != nullptr) {
      grid.idle_.push_back(&fiber);
      if (next == nullptr) return *grid.home_;
      grid.running_ = next;
      return *next->fiber;
    }
    next->fiber = &fiber;
    grid.running_ = lane = next;
  }
}

void FakeGrid::run_lane(FakeLaneState& lane) {
  try {
    leave_if_failed();
    launch_->body(launch_->kernel.get(), FakeLane(lane));
  } catch (const End&) {
  }
  end(lane);
}

void FakeGrid::end(FakeLaneState& lane) {
  FakeBlock& block = *lane.block;
  --block.live;
  if (!failed_) {
    lane.warp->end(lane.thread % FakeWarp::lanes);
    if (!lane.warp->error().empty()) fail(lane, lane.warp->error());
  }
  if (block.live == 0) {
    --live_;
  } else if (!failed_ && block.at_block == block.live) {
    open_block(block);
  }
}

// The place in `ready_` of the lane that runs next.
uint32_t FakeGrid::draw() {
  const auto count = static_cast<uint32_t>(ready_.size());
  // Now and then any lane, so that none starves for ever.
  if (count <= window_ || random_.one_in(16)) return random_.below(count);
  return count - 1 - random_.below(window_);
}

FakeLaneState* FakeGrid::take(uint32_t at) {
  std::swap(ready_[at], ready_.back());
  FakeLaneState* lane = ready_.back();
  ready_.pop_back();
  return lane;
}

// From the lane that runs; returns when it is its turn again.
void FakeGrid::go_to(FakeLaneState& lane) {
  FakeFiber& from = *running_->fiber;
  running_ = &lane;
  FakeFiber::switch_to(from, fiber_of(lane));
}

// Lets a lane run that is ready; `lane` waits or is ready itself.
void FakeGrid::go_on_from(FakeLaneState& lane) {
  if (ready_.empty()) {
    FakeFiber::switch_to(*lane.fiber, *home_);
  } else if (FakeLaneState* next = take(draw()); next != &lane) {
    go_to(*next);
  }
  leave_if_failed();
}

void FakeGrid::pause() {
  if (ready_.empty()) return;
  go_to(*std::exchange(ready_[draw()], running_));
}

void FakeGrid::wake(FakeLaneState& lane) {
  lane.waits = false;
  ready_.push_back(&lane);
}

uint64_t FakeGrid::meet(FakeLaneState& lane, const FakeArrival& arrival) {
  leave_if_failed();
  const uint32_t number = lane.thread % FakeWarp::lanes;
  FakeWarp& warp = *lane.warp;
  uint32_t done = warp.arrive(number, arrival);
  if (!warp.error().empty()) fail(lane, warp.error());
  leave_if_failed();
  lane.waits = true;
  const uint32_t first = lane.thread - number;
  for (; done != 0; done &= done - 1) {
    wake(lane.block->lanes[first + static_cast<uint32_t>(__builtin_ctz(done))]);
  }
  go_on_from(lane);
  return warp.result(number);
}

void FakeGrid::sync_block(FakeLaneState& lane) {
  leave_if_failed();
  FakeBlock& block = *lane.block;
  lane.warp->arrive_at_block(lane.thread % FakeWarp::lanes);
  if (!lane.warp->error().empty()) fail(lane, lane.warp->error());
  leave_if_failed();
  lane.waits = true;
  ++block.at_block;
  if (block.at_block == block.live) open_block(block);
  go_on_from(lane);
}

// All lanes of the block are at sync_block.
void FakeGrid::open_block(FakeBlock& block) {
  block.at_block = 0;
  for (FakeWarp& warp : block.warps) warp.leave_block();
  for (FakeLaneState& lane : block.lanes) {
    if (lane.waits) wake(lane);
  }
}

void* FakeGrid::shared(FakeLaneState& lane, size_t bytes) {
  leave_if_failed();
  if (bytes > lane.block->shared_bytes) {
    fail(lane, "asks for more shared memory than its kernel declares as Shared");
    leave_if_failed();
  }
  return lane.block->shared;
}

void FakeGrid::breathe() {
  FakeGrid& grid = *current;
  if (grid.random_.one_in(grid.pause_)) grid.pause();
  grid.leave_if_failed();
}

void FakeGrid::access(const void* at, size_t bytes) {
  breathe();
  FakeGrid& grid = *current;
  const bool aligned = reinterpret_cast<uintptr_t>(at) % bytes == 0;
  if (aligned && grid.memory_.may_touch(at, bytes)) return;
  grid.fail(*grid.running_, aligned ? "touches device memory that is not allocated"
                                    : "touches memory at an address that is not aligned");
  grid.leave_if_failed();
}

// The first error is the launch's; all lanes are sent home.
void FakeGrid::fail(const FakeLaneState& lane, const std::string& what) {
  if (failed_) return;
  failed_ = true;
  error_ = "block " + std::to_string(lane.block->number) + ", thread " +
           std::to_string(lane.thread) + ": " + what;
  order_.clear();
  for (FakeBlock& block : resident_) {
    if (block.live == 0) continue;
    for (FakeLaneState& other : block.lanes) {
      if (other.waits) wake(other);
    }
  }
}

// Nobody can run, though lanes are left: names the places where lanes of one block wait.
void FakeGrid::fail_stuck() {
  const auto block = std::find_if(resident_.begin(), resident_.end(),
                                  [](const FakeBlock& other) { return other.live != 0; });
  const FakeLaneState* first = nullptr;
  std::vector<std::string> places;
  for (const FakeLaneState& lane : block->lanes) {
    if (!lane.waits) continue;
    if (first == nullptr) first = &lane;
    std::string place = lane.warp->where(lane.thread % FakeWarp::lanes);
    if (std::find(places.begin(), places.end(), place) == places.end()) {
      places.push_back(std::move(place));
    }
  }
  std::string text = "waits for ever at " + places[0];
  for (size_t i = 1; i < places.size(); ++i) text += ", others at " + places[i];
  fail(*first, text);
}

}  // namespace isotherm
