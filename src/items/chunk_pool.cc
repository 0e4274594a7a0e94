#include "items/chunk_pool.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <cstddef>

#include "items/poison.h"

namespace isotherm {
namespace {

constexpr uint64_t least_stock = Chunk::per_page;  // a page
constexpr uint64_t stock_share = 50;               // 2%
constexpr int released_per_step = 4;
constexpr auto chunk_cost = static_cast<int64_t>(Chunk::bytes);

constexpr uint32_t chunk_bit(uint32_t number) { return 1u << (number % Chunk::per_page); }
constexpr uint64_t page_offset(uint32_t page) { return uint64_t{page} * Pages::page_bytes; }

}  // namespace

ChunkPool::ChunkPool(Pages& pages, MemoryBudget& budget)
    : pages_(pages),
      budget_(budget),
      max_pages_(pages.capacity() / Pages::page_bytes),
      description_(max_pages_ * description_bytes, max_pages_ * description_bytes),
      chunks_(reinterpret_cast<Chunk*>(description_.base())),
      page_states_(max_pages_),
      with_stock_(max_pages_),
      with_cold_(max_pages_),
      free_(max_pages_),
      releasable_(max_pages_) {}

ChunkPool::~ChunkPool() {
  for (uint32_t page = 0; page < page_limit(); ++page) {
    PageState& state = page_states_[page];
    const uint32_t used = state.in_classes.exchange(0);
    if ((used | state.stock | state.cold) == 0) continue;
    poison::usable(memory(page * Chunk::per_page), Pages::page_bytes);
    account(-(std::popcount(used) * chunk_cost));
    state.cold |= used;
    give_page(page);
  }
}

bool ChunkPool::add_page(bool force) {
  const bool roomy = budget_.fits(Pages::page_bytes + description_bytes);
  if (!force && !roomy && !budget_.fits(Chunk::bytes + description_bytes)) return false;
  const uint64_t offset = pages_.take();
  if (offset == Pages::npos) return false;
  const auto page = static_cast<uint32_t>(offset / Pages::page_bytes);
  if (!description_.commit((uint64_t{page} + 1) * description_bytes)) {
    pages_.give(offset);
    return false;
  }
  PageState& state = page_states_[page];
  state.divisible = pages_.divisible(offset);
  // A page that cannot be resident in parts counts as a whole, also where that exceeds the cap.
  const bool whole = roomy || !state.divisible;
  if (!whole) pages_.release_part(offset, Pages::page_bytes);
  account(static_cast<int64_t>(description_bytes));
  (whole ? state.stock : state.cold) = all;
  if (whole) {
    add_stock(Chunk::per_page);
    account(Chunk::per_page * chunk_cost);
  }
  if (page >= page_limit()) page_limit_.store(page + 1, std::memory_order_release);
  update_sets(page);
  return true;
}

uint32_t ChunkPool::take(uint32_t size_class, bool force) {
  std::lock_guard guard(mutex_);
  uint32_t page = with_stock_.first();
  if (page == PageSet::none) {
    if (force ? !budget_.fits_over(Chunk::bytes) : !budget_.fits(Chunk::bytes)) return Chunk::none;
    page = with_cold_.first();
    if (page == PageSet::none) {
      if (!add_page(force)) return Chunk::none;
      page = std::min(with_stock_.first(), with_cold_.first());
    }
  }
  PageState& state = page_states_[page];
  const bool resident = state.stock != 0;
  const uint32_t number = take_from(page, resident ? state.stock : state.cold);
  if (resident) {
    add_stock(-1);
  } else {
    account(chunk_cost);
    if (state.cold == 0) pages_.restore(page_offset(page));
  }
  in_classes_.fetch_add(1, std::memory_order_relaxed);
  chunks_[number].join(size_class);
  state.in_classes.fetch_or(chunk_bit(number), std::memory_order_release);
  update_sets(page);
  return number;
}

uint32_t ChunkPool::take_from(uint32_t page, uint32_t& mask) {
  const auto chunk = static_cast<uint32_t>(std::countr_zero(mask));
  mask &= mask - 1;
  return page * Chunk::per_page + chunk;
}

void ChunkPool::give(uint32_t number) {
  poison::usable(memory(number), Chunk::bytes);
  std::lock_guard guard(mutex_);
  const uint32_t page = number / Chunk::per_page;
  PageState& state = page_states_[page];
  state.in_classes.fetch_and(~chunk_bit(number), std::memory_order_release);
  state.stock |= chunk_bit(number);
  in_classes_.fetch_sub(1, std::memory_order_relaxed);
  add_stock(1);
  update_sets(page);
}

void ChunkPool::update_sets(uint32_t page) {
  const PageState& state = page_states_[page];
  with_stock_.set(page, state.stock != 0);
  with_cold_.set(page, state.cold != 0);
  free_.set(page, (state.stock | state.cold) == all);
  releasable_.set(page, state.stock != 0 && state.divisible);
}

void ChunkPool::add_stock(int64_t chunks) {
  stock_.fetch_add(static_cast<uint64_t>(chunks), std::memory_order_relaxed);
}

uint64_t ChunkPool::stock_limit() const {
  if (!budget_.fits(0)) return 0;
  return std::max(least_stock, chunks_in_classes() / stock_share);
}

bool ChunkPool::trim() {
  if (stock() <= stock_limit()) return false;
  std::lock_guard guard(mutex_);
  if (const uint32_t page = free_.last(); page != PageSet::none) {
    give_page(page);
    return true;
  }
  const uint32_t page = releasable_.last();
  return page != PageSet::none && release_chunks(page);
}

void ChunkPool::give_page(uint32_t page) {
  PageState& state = page_states_[page];
  const int resident = std::popcount(state.stock);
  account(-(resident * chunk_cost) - static_cast<int64_t>(description_bytes));
  add_stock(-resident);
  state.stock = 0;
  state.cold = 0;
  update_sets(page);
  madvise(description_.base() + page * description_bytes, description_bytes, MADV_DONTNEED);
  pages_.give(page_offset(page));
}

bool ChunkPool::release_chunks(uint32_t page) {
  PageState& state = page_states_[page];
  for (int i = 0; i < released_per_step && state.stock != 0 && stock() > stock_limit(); ++i) {
    const uint32_t bit = state.stock & (~state.stock + 1);
    const auto chunk = static_cast<uint32_t>(std::countr_zero(bit));
    if (!pages_.release_part(page_offset(page) + chunk * Chunk::bytes, Chunk::bytes)) return false;
    state.stock ^= bit;
    state.cold |= bit;
    add_stock(-1);
    account(-chunk_cost);
  }
  update_sets(page);
  return true;
}

bool ChunkPool::exhausted() const { return stock() == 0 && !budget_.fits(Chunk::bytes); }

}  // namespace isotherm
