#include "net/resident_memory.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>

// Of jemalloc, where the program has it.
extern "C" int mallctl(const char* name, void* old_value, size_t* old_bytes, void* new_value,
                       size_t new_bytes) __attribute__((weak));

namespace isotherm::net {

ResidentMemory::ResidentMemory() : statm_(::open("/proc/self/statm", O_RDONLY | O_CLOEXEC)) {}

ResidentMemory::~ResidentMemory() {
  if (statm_ >= 0) ::close(statm_);
}

// The file has pages: all of the process, and behind a space those that are resident.
uint64_t ResidentMemory::bytes() const {
  char text[128];
  const ssize_t length = statm_ >= 0 ? ::pread(statm_, text, sizeof text - 1, 0) : 0;
  if (length <= 0) return 0;
  text[length] = 0;
  char* behind = text;
  std::strtoull(text, &behind, 10);
  return std::strtoull(behind, nullptr, 10) * static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
}

uint64_t ResidentMemory::beside(uint64_t used) const {
  const uint64_t resident = bytes();
  return resident - std::min(resident, used);
}

void ResidentMemory::bound(uint64_t used, uint64_t cap) {
  constexpr uint64_t least_allowance = 4 << 20;
  if (cap == 0) return;
  const uint64_t before = beside(used);
  const uint64_t least = std::min(before, least_beside_.load(std::memory_order_relaxed));
  least_beside_.store(least, std::memory_order_relaxed);
  const uint64_t below_cap = cap - std::min(cap, used);
  if (before - least <= std::max(below_cap + cap / 32, least_allowance)) return;
  give_back_free();
  least_beside_.store(beside(used), std::memory_order_relaxed);
}

void ResidentMemory::give_back_free() {
  constexpr const char* of_all_arenas = "arena.4096.purge";
  if (mallctl != nullptr) mallctl(of_all_arenas, nullptr, nullptr, nullptr, 0);
}

}  // namespace isotherm::net
