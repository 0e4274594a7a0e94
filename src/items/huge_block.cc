#include "items/huge_block.h"

#include <sys/mman.h>

#include <new>

namespace isotherm {
namespace {

constexpr uint64_t normal_page = 4096;
constexpr int page_size_shift = 26;  // of mmap's flags: the logarithm of the size

constexpr int shift_of(HugeBlock::Pages pages) {
  return pages == HugeBlock::Pages::huge_1g ? 30 : 21;
}

}  // namespace

HugeBlock::HugeBlock(uint64_t bytes, Pages largest) {
  for (const Pages pages : {Pages::huge_1g, Pages::huge_2m}) {
    // A block smaller than a page would waste most of it.
    if (largest >= pages && bytes >> shift_of(pages) != 0 && map_set_aside(bytes, pages)) return;
  }
  map_others(bytes, largest);
}

HugeBlock::~HugeBlock() {
  if (range_ == nullptr) munmap(data_, bytes_);
}

bool HugeBlock::map_set_aside(uint64_t bytes, Pages pages) {
  const int shift = shift_of(pages);
  const uint64_t page = uint64_t{1} << shift;
  const uint64_t whole = (bytes + page - 1) & ~(page - 1);
  const int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_HUGETLB | shift << page_size_shift;
  void* got = mmap(nullptr, whole, PROT_READ | PROT_WRITE, flags, -1, 0);
  if (got == MAP_FAILED) return false;
  data_ = static_cast<char*>(got);
  bytes_ = whole;
  pages_ = pages;
  return true;
}

void HugeBlock::map_others(uint64_t bytes, Pages largest) {
  range_ = std::make_unique<Reservation>(bytes, bytes);
  if (!range_->commit(bytes)) throw std::bad_alloc();
  data_ = range_->base();
  bytes_ = range_->bytes();
  const bool huge = largest >= Pages::transparent;
  // The advice alone decides where the system's setting is "madvise" or "always".
  const int refused = madvise(data_, bytes_, huge ? MADV_HUGEPAGE : MADV_NOHUGEPAGE);
  pages_ = huge && refused == 0 ? Pages::transparent : Pages::normal;
  if (pages_ == Pages::normal) bytes_ = (bytes + normal_page - 1) & ~(normal_page - 1);
}

}  // namespace isotherm
