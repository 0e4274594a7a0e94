#include "items/pages.h"

#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/sysinfo.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <fstream>
#include <functional>
#include <utility>

#include "base/memory_node.h"
#include "base/wait_for_memory.h"
#include "items/poison.h"

namespace isotherm {
namespace {

constexpr uint64_t smallest_reserve = 64 << 20;

// Twice what the machine has, with what it swaps. A process has 128 TiB of addresses, which all its
// stores share; the sanitizers leave less. Where a limit leaves fewer (ulimit -v), half of them are
// for all else.
uint64_t default_reserve() {
  constexpr uint64_t least = uint64_t{64} << 30;
  constexpr uint64_t most = uint64_t{4} << 40;
  struct sysinfo machine {};
  if (poison::sanitized) return least;
  struct rlimit addresses {};
  const bool limited = getrlimit(RLIMIT_AS, &addresses) == 0 && addresses.rlim_cur != RLIM_INFINITY;
  if (limited && addresses.rlim_cur / 2 < least) return addresses.rlim_cur / 2;
  if (sysinfo(&machine) != 0) return most;
  const uint64_t has = (uint64_t{machine.totalram} + machine.totalswap) * machine.mem_unit;
  return std::clamp(has * 2, least, most);
}

bool hugetlb_pages_free() {
  std::ifstream file("/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages");
  uint64_t count = 0;
  return (file >> count) && count > 0;
}

bool transparent_pages_allowed() {
  std::ifstream file("/sys/kernel/mm/transparent_hugepage/enabled");
  std::string line;
  return std::getline(file, line) && line.find("[never]") == std::string::npos;
}

}  // namespace

Pages::Pages(uint64_t reserve_bytes)
    : arena_(reserve_bytes == 0 ? default_reserve() : reserve_bytes,
             std::min(reserve_bytes == 0 ? smallest_reserve : reserve_bytes, smallest_reserve)),
      backing_(arena_.bytes() / page_bytes) {
  probe();
}

void Pages::probe() {
  try_hugetlb_ = hugetlb_pages_free();
  const bool transparent =
      madvise(arena_.base(), arena_.bytes(), MADV_HUGEPAGE) == 0 && transparent_pages_allowed();
  if (!try_hugetlb_ && !transparent) {
    warning_ =
        "no huge pages: lookups will be slower; allow them with 'echo madvise > "
        "/sys/kernel/mm/transparent_hugepage/enabled'";
  }
}

uint64_t Pages::take() {
  std::lock_guard guard(mutex_);
  return take_locked();
}

void Pages::give(uint64_t offset) {
  std::lock_guard guard(mutex_);
  give_locked(offset);
}

uint64_t Pages::take_locked() {
  if (ahead_ != nullptr) {
    const uint64_t ready = ahead_->take(pages_open());
    if (ready != npos) return ready;
  }
  return take_cold();
}

void Pages::fault_ahead(MemoryBudget& budget) {
  ahead_ = std::make_unique<PagesAhead>([this] { return make_ready(); }, budget);
}

// Touches every small page: a huge page is there after the first.
uint64_t Pages::make_ready() {
  constexpr uint64_t small_page = 4096;
  uint64_t offset = npos;
  {
    std::lock_guard guard(mutex_);
    offset = take_cold();
  }
  if (offset == npos) return npos;
  volatile char* page = arena_.base() + offset;
  for (uint64_t at = 0; at < page_bytes; at += small_page) page[at] = 0;
  return offset;
}

bool Pages::trim_ahead() {
  if (ahead_ == nullptr) return false;
  const uint64_t page = ahead_->trim();
  if (page != npos) give(page);
  return page != npos;
}

uint64_t Pages::take_cold() {
  uint64_t offset = fresh_;
  if (!free_.empty()) {
    std::pop_heap(free_.begin(), free_.end(), std::greater<>());
    offset = free_.back();
    free_.pop_back();
  } else {
    if (!arena_.commit(fresh_ + page_bytes)) return npos;
    fresh_ += page_bytes;
  }
  if (try_hugetlb_) try_hugetlb_ = back_by_hugetlb(offset);
  return offset;
}

bool Pages::prefer(const std::vector<int>& nodes) {
  std::lock_guard guard(mutex_);
  if (!prefer_nodes(arena_.base(), arena_.bytes(), nodes)) return false;
  nodes_ = nodes;
  return true;
}

// A mapping of its own in the place of what was there, from the preferred nodes like the rest.
void* Pages::map_page(uint64_t offset, int flags) {
  void* page = mmap(arena_.base() + offset, page_bytes, PROT_READ | PROT_WRITE,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED | flags, -1, 0);
  if (page != MAP_FAILED && !nodes_.empty()) prefer_nodes(page, page_bytes, nodes_);
  return page;
}

// Without MAP_NORESERVE the kernel sets the page aside now or refuses, before it touches the
// mapping that is there; a page that is promised can be written later.
bool Pages::back_by_hugetlb(uint64_t offset) {
  if (map_page(offset, MAP_HUGETLB) == MAP_FAILED) return false;
  backing(offset) = Backing::hugetlb;
  return true;
}

void Pages::give_locked(uint64_t offset) {
  char* page = arena_.base() + offset;
  const Backing was = std::exchange(backing(offset), Backing::ordinary);
  if (was == Backing::hugetlb) {
    const void* normal = map_page(offset, MAP_NORESERVE);
    if (normal == MAP_FAILED) std::memset(page, 0, page_bytes);
    try_hugetlb_ = normal != MAP_FAILED;
  } else {
    madvise(page, page_bytes, MADV_DONTNEED);
  }
  if (was != Backing::ordinary) madvise(page, page_bytes, MADV_HUGEPAGE);
  wait_for_memory([&] { free_.push_back(offset); });
  std::push_heap(free_.begin(), free_.end(), std::greater<>());
}

uint64_t Pages::take_span(uint64_t bytes) {
  const int order = Spans::order_of(bytes);
  if (order < 0) return npos;
  Spans::Taken taken;
  {
    std::lock_guard guard(mutex_);
    taken = spans_.take(order);
    if (!taken.found) {
      const uint64_t page = take_locked();
      if (page == npos) return npos;
      wait_for_memory([&] { spans_.add_page(page); });
      taken = spans_.take(order);
    }
  }
  for (uint32_t dirty = taken.dirty; dirty != 0; dirty &= dirty - 1) {
    const auto leaf = static_cast<uint64_t>(std::countr_zero(dirty));
    std::memset(arena_.base() + taken.offset + leaf * Spans::leaf_bytes, 0, Spans::leaf_bytes);
  }
  return taken.offset;
}

void Pages::give_span(uint64_t offset, uint64_t bytes) {
  std::lock_guard guard(mutex_);
  if (spans_.give(offset, Spans::order_of(bytes))) give_locked(offset / page_bytes * page_bytes);
}

bool Pages::divisible(uint64_t offset) const {
  std::lock_guard guard(mutex_);
  return backing_[offset / page_bytes] != Backing::hugetlb;
}

bool Pages::release_part(uint64_t offset, uint64_t bytes) {
  const uint64_t page = offset / page_bytes * page_bytes;
  std::lock_guard guard(mutex_);
  if (std::exchange(backing(page), Backing::split) != Backing::split) {
    madvise(arena_.base() + page, page_bytes, MADV_NOHUGEPAGE);
  }
  return madvise(arena_.base() + offset, bytes, MADV_DONTNEED) == 0;
}

void Pages::restore(uint64_t offset) {
  const uint64_t page = offset / page_bytes * page_bytes;
  std::lock_guard guard(mutex_);
  if (backing(page) != Backing::split) return;
  madvise(arena_.base() + page, page_bytes, MADV_HUGEPAGE);
  backing(page) = Backing::ordinary;
}

uint64_t Pages::pages_taken() const {
  std::lock_guard guard(mutex_);
  return pages_open() - (ahead_ != nullptr ? ahead_->held() : 0);
}

}  // namespace isotherm
