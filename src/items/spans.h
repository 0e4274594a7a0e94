// Spans: which parts of which pages are free, a buddy system.
//
// A page of 2 MiB consists of 32 leaves of 64 KiB; a span of order k is 2^k leaves, aligned to its
// size. Free spans are kept as one bit mask per order and page, and per order the set of pages that
// have one; the lowest page is used first, so the highest become empty. A span that is given merges
// with its buddy as far as it can. Leaves that were in use are noted as dirty; the next one who
// takes them clears them.
//
// Pure bookkeeping: no memory is touched here. Who gives a span back cannot be refused, so it waits
// for the little memory that a note of it needs. Threads: the owner's lock (items/pages.h).
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>

namespace isotherm {

class Spans {
 public:
  static constexpr uint64_t leaf_bytes = 64 << 10;
  static constexpr uint64_t page_bytes = 2 << 20;
  static constexpr int orders = 6;

  struct Taken {
    bool found = false;
    uint64_t offset = 0;
    uint32_t dirty = 0;  // mask of leaves, from the span's first on
  };

  // 0 for 64 KiB to 5 for 2 MiB; -1 for any other size.
  static int order_of(uint64_t bytes);

  Taken take(int order);
  // A clean, free page.
  void add_page(uint64_t page_offset);
  // True when the page is free as a whole now; it is forgotten then, and the caller's.
  bool give(uint64_t offset, int order);

 private:
  struct Page {
    std::array<uint32_t, orders> free{};  // bit i: the span that begins at leaf i
    uint32_t dirty = 0;
  };
  void insert(uint64_t page_offset, Page& page, int order, uint32_t leaf);
  void remove(uint64_t page_offset, Page& page, int order, uint32_t leaf);

  std::map<uint64_t, Page> pages_;
  std::array<std::set<uint64_t>, orders> with_free_;
};

}  // namespace isotherm
