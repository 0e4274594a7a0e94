#include "fake_device/fake_memory.h"

#include <sys/mman.h>

#include <algorithm>
#include <cinttypes>
#include <cstdio>
#include <cstring>
#include <iterator>
#include <new>
#include <utility>

#include "fake_device/filled_pages.h"
#include "items/poison.h"

namespace isotherm {
namespace {

constexpr uint64_t small_page_bytes = 4096;
constexpr uint64_t none = ~uint64_t{0};

constexpr uint64_t round_up(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

// An allocation with the gap behind it.
constexpr uint64_t span_of(uint64_t bytes) {
  return round_up(bytes, FakeMemory::unit) + FakeMemory::unit;
}

void forbid([[maybe_unused]] char* at, [[maybe_unused]] uint64_t bytes) {
#if defined(ISOTHERM_ASAN)
  __asan_poison_memory_region(at, bytes);
#endif
}
void allow([[maybe_unused]] char* at, [[maybe_unused]] uint64_t bytes) {
#if defined(ISOTHERM_ASAN)
  __asan_unpoison_memory_region(at, bytes);
#endif
}

// The first byte that is not `dead`, or `upto`. Reads what the address sanitizer forbids.
__attribute__((no_sanitize("address"))) uint64_t first_written(const char* base, uint64_t from,
                                                               uint64_t upto) {
  constexpr uint64_t dead_word = uint64_t{0x0101010101010101} * FakeMemory::dead;
  constexpr uint64_t words = 8;  // looked at together
  for (; from % sizeof dead_word == 0 && upto - from >= sizeof dead_word * words;
       from += sizeof dead_word * words) {
    const auto* at = reinterpret_cast<const uint64_t*>(base + from);
    uint64_t differ = 0;
    for (uint64_t i = 0; i < words; ++i) differ |= at[i] ^ dead_word;
    if (differ != 0) break;
  }
  while (from < upto && static_cast<unsigned char>(base[from]) == FakeMemory::dead) ++from;
  return from;
}

}  // namespace

FakeMemory::FakeMemory(uint64_t bytes, std::function<void(std::string)> report)
    : report_(std::move(report)),
      bytes_(bytes),
      arena_bytes_(round_up(4 * bytes + (uint64_t{1} << 20), small_page_bytes)),
      live_units_(arena_bytes_ / unit) {
  void* got =
      mmap(nullptr, arena_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED) throw std::bad_alloc();
  base_ = static_cast<char*>(got);
}

FakeMemory::~FakeMemory() {
  allow(base_, top_);
  munmap(base_, arena_bytes_);
}

// Of the pages in which the bytes lie.
void FakeMemory::protect(uint64_t offset, uint64_t bytes, bool hide) const {
  const uint64_t from = offset / small_page_bytes * small_page_bytes;
  const uint64_t length = round_up(offset + bytes, small_page_bytes) - from;
  mprotect(base_ + from, length, hide ? PROT_NONE : PROT_READ | PROT_WRITE);
}

void FakeMemory::open() {
  if (!open_) protect(0, top_, false);
  open_ = true;
}

void FakeMemory::close() {
  constexpr uint64_t always = uint64_t{1} << 25;  // takes some 0.003 s
  constexpr uint64_t seldom = 64;
  ++open_for_;
  if (hidden_bytes_ > always && open_for_ < std::max(seldom, top_ * seldom / always)) return;
  open_for_ = 0;
  hidden_bytes_ += top_;
  protect(0, top_, true);
  open_ = false;
}

void* FakeMemory::allocate(uint64_t bytes) {
  if (bytes == 0 || bytes > bytes_ - used_) return nullptr;
  const uint64_t span = span_of(bytes);
  const uint64_t offset = find_room(span);
  if (offset == none) return nullptr;
  protect(offset, span, false);
  allow(base_ + offset, span);
  fill_pages(base_ + offset, bytes, fresh);
  std::memset(base_ + offset + bytes, dead, span - bytes);
  forbid(base_ + offset + bytes, span - bytes);
  protect(offset, span, !open_);
  live_[offset] = bytes;
  set_live(offset, bytes, true);
  used_ += bytes;
  return base_ + offset;
}

// The fresh part first, so that what was released stays dead for long.
uint64_t FakeMemory::find_room(uint64_t span) {
  if (span <= arena_bytes_ - top_) return std::exchange(top_, top_ + span);
  for (auto at = vacant_.begin(); at != vacant_.end(); ++at) {
    const auto [offset, bytes] = *at;
    if (bytes < span) continue;
    protect(offset, span, false);
    check_dead(offset, offset + span);
    protect(offset, span, !open_);
    vacant_.erase(at);
    if (bytes > span) vacant_[offset + span] = bytes - span;
    return offset;
  }
  return none;
}

void FakeMemory::release(void* at, uint64_t bytes) {
  if (at == nullptr) return;
  const auto offset = static_cast<uint64_t>(static_cast<char*>(at) - base_);
  const auto found = live_.find(offset);
  if (found == live_.end()) return report_("release of memory that is not allocated");
  if (found->second != bytes) report_("release of another number of bytes than was allocated");
  bytes = found->second;
  live_.erase(found);
  used_ -= bytes;
  set_live(offset, bytes, false);
  const uint64_t span = span_of(bytes);
  protect(offset, span, false);
  check_dead(offset + bytes, offset + span);
  allow(base_ + offset, span);
  fill_pages(base_ + offset, span, dead);
  forbid(base_ + offset, span);
  protect(offset, span, !open_);
  return_room(offset, span);
}

void FakeMemory::return_room(uint64_t offset, uint64_t span) {
  auto next = vacant_.lower_bound(offset);
  if (next != vacant_.end() && next->first == offset + span) {
    span += next->second;
    next = vacant_.erase(next);
  }
  if (next != vacant_.begin()) {
    const auto before = std::prev(next);
    if (before->first + before->second == offset) {
      before->second += span;
      return;
    }
  }
  vacant_[offset] = span;
}

void FakeMemory::set_live(uint64_t offset, uint64_t bytes, bool live) {
  for (uint64_t i = offset / unit; i * unit < offset + bytes; ++i) live_units_[i] = live;
}

bool FakeMemory::allocated(const void* at, uint64_t bytes) const {
  const auto offset = static_cast<uint64_t>(static_cast<const char*>(at) - base_);
  auto after = live_.upper_bound(offset);
  if (after == live_.begin()) return false;
  const auto [start, length] = *std::prev(after);
  return offset - start <= length && bytes <= length - (offset - start);
}

void FakeMemory::check_dead(uint64_t from, uint64_t upto) {
  const uint64_t at = first_written(base_, from, upto);
  if (at == upto) return;
  char text[120];
  std::snprintf(text, sizeof text, "device memory was written where none is allocated, at %p",
                static_cast<void*>(base_ + at));
  report_(text);
  // Once is enough.
  allow(base_ + from, upto - from);
  std::memset(base_ + from, dead, upto - from);
  forbid(base_ + from, upto - from);
}

void FakeMemory::check_gaps() {
  for (const auto& [offset, bytes] : live_) check_dead(offset + bytes, offset + span_of(bytes));
}

void FakeMemory::check_all() {
  check_gaps();
  for (const auto& [offset, bytes] : vacant_) check_dead(offset, offset + bytes);
}

void FakeMemory::scramble() {
  for (const auto& [offset, bytes] : live_) fill_pages(base_ + offset, bytes, fresh);
}

}  // namespace isotherm
