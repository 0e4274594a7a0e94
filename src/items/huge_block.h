// HugeBlock: one run of zeroed memory on the largest pages that the system gives.
//
// Tried in this order: pages of 1 GiB and of 2 MiB that the administrator has set aside
// (hugetlbfs), transparent huge pages, normal pages. Pages set aside are reserved when the block is
// made, so touching them later cannot fail. Whoever asks says which pages are the largest to try.
//
// Threads. None; what lies in the block has rules of its own.
#pragma once

#include <cstdint>
#include <memory>

#include "items/reservation.h"

namespace isotherm {

class HugeBlock {
 public:
  enum class Pages : uint8_t { normal, transparent, huge_2m, huge_1g };

  // Throws std::bad_alloc.
  explicit HugeBlock(uint64_t bytes, Pages largest = Pages::huge_1g);
  ~HugeBlock();
  HugeBlock(const HugeBlock&) = delete;
  HugeBlock& operator=(const HugeBlock&) = delete;

  char* data() const { return data_; }
  uint64_t bytes() const { return bytes_; }  // whole pages
  Pages pages() const { return pages_; }

 private:
  bool map_set_aside(uint64_t bytes, Pages pages);
  void map_others(uint64_t bytes, Pages largest);

  char* data_ = nullptr;
  uint64_t bytes_ = 0;
  Pages pages_ = Pages::normal;
  std::unique_ptr<Reservation> range_;  // of pages that are not set aside
};

}  // namespace isotherm
