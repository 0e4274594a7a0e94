// ResidentMemory: what the process has in memory, and what is done where that is far above what the
// store counts.
//
// The allocator keeps what was freed for a second, since most is soon asked for again. Where values
// become smaller at full speed it is not: the store takes pages for the small ones while the memory
// of the large ones still waits, and both together are up to twice the cap; the same goes for
// buffers of clients that are disconnected, and for values of megabytes that are replaced below a
// small cap. Where the process would have more than the cap and a 32nd, or 4 MiB, `bound` has the
// allocator give back all that is free. What it leaves beside what is counted is the process
// itself, connections, or somebody else's: only what comes on top of that is looked at from then
// on.
//
// Threads. Any; a look is made by one of them.
// Limits. Memory goes back by request with jemalloc alone.
#pragma once

#include <atomic>
#include <cstdint>

namespace isotherm::net {

class ResidentMemory {
 public:
  ResidentMemory();
  ~ResidentMemory();
  ResidentMemory(const ResidentMemory&) = delete;
  ResidentMemory& operator=(const ResidentMemory&) = delete;

  // Bytes; 0 where the system does not say.
  uint64_t bytes() const;
  // Whether it is time for `bound`; asked very often, and true for one thread.
  bool is_due(int64_t now_ms) {
    constexpr int64_t between_looks_ms = 2;
    int64_t due = next_look_ms_.load(std::memory_order_relaxed);
    return now_ms >= due && next_look_ms_.compare_exchange_strong(due, now_ms + between_looks_ms);
  }
  // `used`: bytes that the store and buffers of clients count; `cap`: what the store may count, or
  // else these buffers (0: any number).
  void bound(uint64_t used, uint64_t cap);

  // What the allocator keeps goes back to the system.
  static void give_back_free();

 private:
  uint64_t beside(uint64_t used) const;

  int statm_;
  std::atomic<int64_t> next_look_ms_{0};
  std::atomic<uint64_t> least_beside_{~uint64_t{0}};
};

}  // namespace isotherm::net
