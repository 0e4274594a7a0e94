#include "items/reservation.h"

#include <sys/mman.h>

#include <algorithm>
#include <new>

namespace isotherm {
namespace {

// Opened at a time, so that growing costs few system calls.
constexpr uint64_t commit_step = 64 << 20;

constexpr uint64_t round_up(uint64_t bytes, uint64_t step) {
  return (bytes + step - 1) / step * step;
}

char* reserve_aligned(uint64_t bytes) {
  const uint64_t asked = bytes + Reservation::alignment;
  void* got = mmap(nullptr, asked, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) return nullptr;
  const auto start = reinterpret_cast<uintptr_t>(got);
  const uintptr_t aligned = round_up(start, Reservation::alignment);
  if (aligned != start) munmap(got, aligned - start);
  const uint64_t tail = start + asked - (aligned + bytes);
  if (tail != 0) munmap(reinterpret_cast<void*>(aligned + bytes), tail);
  return reinterpret_cast<char*>(aligned);
}

}  // namespace

Reservation::Reservation(uint64_t bytes, uint64_t smallest) {
  bytes = round_up(std::max<uint64_t>(bytes, 1), alignment);
  for (; base_ == nullptr; bytes = round_up(bytes / 2, alignment)) {
    base_ = reserve_aligned(bytes);
    bytes_ = bytes;
    if (base_ == nullptr && (bytes / 2 < smallest || bytes == alignment)) throw std::bad_alloc();
  }
}

Reservation::~Reservation() { munmap(base_, bytes_); }

bool Reservation::commit(uint64_t bytes) {
  if (bytes <= committed_) return true;
  if (bytes > bytes_) return false;
  const uint64_t upto = std::min(round_up(bytes, commit_step), bytes_);
  if (mprotect(base_ + committed_, upto - committed_, PROT_READ | PROT_WRITE) != 0) return false;
  committed_ = upto;
  return true;
}

void throw_bad_alloc_unless(bool good) {
  if (!good) throw std::bad_alloc();
}

}  // namespace isotherm
