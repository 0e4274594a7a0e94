#include "items/spans.h"

#include <bit>
#include <cstddef>

#include "base/wait_for_memory.h"

namespace isotherm {
namespace {

// `order` 5 covers all 32 leaves, where a plain shift would overflow.
constexpr uint32_t leaves_of(int order, uint32_t leaf) {
  const uint64_t ones = (uint64_t{1} << (1 << order)) - 1;
  return static_cast<uint32_t>(ones << leaf);
}

}  // namespace

int Spans::order_of(uint64_t bytes) {
  if (!std::has_single_bit(bytes) || bytes < leaf_bytes || bytes > page_bytes) return -1;
  return std::countr_zero(bytes / leaf_bytes);
}

void Spans::insert(uint64_t page_offset, Page& page, int order, uint32_t leaf) {
  const auto at = static_cast<size_t>(order);
  page.free[at] |= 1u << leaf;
  wait_for_memory([&] { with_free_[at].insert(page_offset); });
}

void Spans::remove(uint64_t page_offset, Page& page, int order, uint32_t leaf) {
  const auto at = static_cast<size_t>(order);
  page.free[at] &= ~(1u << leaf);
  if (page.free[at] == 0) with_free_[at].erase(page_offset);
}

Spans::Taken Spans::take(int order) {
  int from = order;
  while (from < orders && with_free_[static_cast<size_t>(from)].empty()) ++from;
  if (from == orders) return {};
  const uint64_t page_offset = *with_free_[static_cast<size_t>(from)].begin();
  Page& page = pages_[page_offset];
  const auto leaf = static_cast<uint32_t>(std::countr_zero(page.free[static_cast<size_t>(from)]));
  remove(page_offset, page, from, leaf);
  while (from > order) {
    --from;
    insert(page_offset, page, from, leaf + (1u << from));
  }
  const uint32_t mask = leaves_of(order, leaf);
  const uint32_t dirty = (page.dirty & mask) >> leaf;
  page.dirty |= mask;
  return {true, page_offset + leaf * leaf_bytes, dirty};
}

void Spans::add_page(uint64_t page_offset) {
  insert(page_offset, pages_[page_offset], orders - 1, 0);
}

bool Spans::give(uint64_t offset, int order) {
  const uint64_t page_offset = offset / page_bytes * page_bytes;
  Page& page = pages_[page_offset];
  auto leaf = static_cast<uint32_t>((offset - page_offset) / leaf_bytes);
  while (order < orders - 1) {
    const uint32_t buddy = leaf ^ (1u << order);
    if ((page.free[static_cast<size_t>(order)] >> buddy & 1) == 0) break;
    remove(page_offset, page, order, buddy);
    leaf &= ~(1u << order);
    ++order;
  }
  if (order == orders - 1) {
    pages_.erase(page_offset);
    return true;
  }
  insert(page_offset, page, order, leaf);
  return false;
}

}  // namespace isotherm
