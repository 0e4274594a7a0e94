// Pages: the memory of items and index, in pages of 2 MiB out of one arena.
//
// The arena is one reserved range of addresses (twice the memory of the machine, from 64 GiB to 4
// TiB, less where the kernel refuses), so the place of an item is an offset that fits a location. A
// page is backed, in this order, by
//   - a huge page of hugetlbfs, where the administrator has set some aside;
//   - a transparent huge page;
//   - normal pages; then `warning()` says so, once for the server's log.
//
// Whole pages (take, give) hold chunks of items. Spans (take_span, give_span) are power-of-two
// parts of a page, for segments and overflow lines of the index; items/spans.h keeps their account.
// A page with parts given back to the kernel (release_part) is advised against huge pages, so that
// the kernel does not fill the holes again, until the page is whole (restore) or given back.
//
// A store that asks for it (`fault_ahead`) has a few fresh pages touched ahead by a thread of its
// own (items/pages_ahead.h) and gets those first.
//
// Pages come from the memory nodes that `prefer` names (base/memory_node.h), unless they were taken
// before it was called.
//
// Only pages made ready ahead are reported to the memory budget here; the users of pages report the
// others.
//
// Invariants. What take and take_span return is zero. A given page holds no memory.
// Threads. Any; one mutex. The longest step is one page given back or one span cleared: some 0.1
// ms.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "items/memory_budget.h"
#include "items/pages_ahead.h"
#include "items/reservation.h"
#include "items/spans.h"

namespace isotherm {

class Pages {
 public:
  static constexpr uint64_t page_bytes = PagesAhead::page_bytes;
  static constexpr uint64_t npos = PagesAhead::npos;

  // `reserve_bytes` of address space; 0: as much as is sensible. Throws std::bad_alloc.
  explicit Pages(uint64_t reserve_bytes = 0);
  ~Pages() = default;
  Pages(const Pages&) = delete;
  Pages& operator=(const Pages&) = delete;

  void* base() const { return arena_.base(); }
  uint64_t capacity() const { return arena_.bytes(); }

  // From now on fresh memory comes from these nodes if possible. Returns whether the kernel agreed.
  bool prefer(const std::vector<int>& nodes);

  // From now on pages are made ready ahead. Call it before other threads use the pages; `budget`
  // must outlive them.
  void fault_ahead(MemoryBudget& budget);
  // Gives back a page that was made ready and does not fit the budget; true if there was one.
  bool trim_ahead();

  // The offset of a zeroed page; npos when the arena is full or the kernel refuses.
  uint64_t take();
  void give(uint64_t offset);

  // The offset of `bytes` zeroed bytes, aligned to their size; `bytes` is a power of two from 64
  // KiB to 2 MiB. npos as with take.
  uint64_t take_span(uint64_t bytes);
  void give_span(uint64_t offset, uint64_t bytes);

  // Whether parts of this taken page can be given back; those of hugetlbfs cannot.
  bool divisible(uint64_t offset) const;
  // Gives the memory of a part of a divisible page back to the kernel; the part reads as zero then.
  bool release_part(uint64_t offset, uint64_t bytes);
  // All parts of this page are in use again.
  void restore(uint64_t offset);

  // Empty, or what the administrator should know about huge pages.
  const std::string& warning() const { return warning_; }
  // Pages in use, spans included, those made ready excluded.
  uint64_t pages_taken() const;

 private:
  enum class Backing : uint8_t { ordinary, hugetlb, split };  // split: parts were given back

  uint64_t take_locked();
  uint64_t take_cold();
  uint64_t make_ready();
  uint64_t pages_open() const { return fresh_ / page_bytes - free_.size(); }
  void give_locked(uint64_t offset);
  bool back_by_hugetlb(uint64_t offset);
  void* map_page(uint64_t offset, int flags);
  Backing& backing(uint64_t offset) { return backing_[offset / page_bytes]; }
  void probe();

  Reservation arena_;
  std::string warning_;

  mutable std::mutex mutex_;  // all below
  bool try_hugetlb_ = false;
  uint64_t fresh_ = 0;          // pages from here on were never taken
  std::vector<int> nodes_;      // preferred
  std::vector<uint64_t> free_;  // offsets of given pages; a heap, lowest first
  LazyArray<Backing> backing_;  // by page
  Spans spans_;

  std::unique_ptr<PagesAhead> ahead_;  // its thread ends before all else goes
};

}  // namespace isotherm
