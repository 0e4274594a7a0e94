#include "items/class_lists.h"

#include <algorithm>
#include <bit>

namespace isotherm {

void ClassLists::open(ChunkPool& pool, uint32_t size_class, std::atomic<int64_t>& free_bytes) {
  pool_ = &pool;
  free_bytes_of_all_ = &free_bytes;
  size_class_ = size_class;
  bytes_ = size_classes::bytes_of(size_class);
  capacity_ = size_classes::capacity_of(size_class);
  std::fill(std::begin(heads_), std::end(heads_), Chunk::none);
}

uint32_t ClassLists::take(Location* items, uint32_t wanted, bool force) {
  std::lock_guard guard(mutex_);
  uint32_t taken = 0;
  while (taken < wanted) {
    const auto* band = std::find_if(std::begin(heads_), std::end(heads_),
                                    [](uint32_t head) { return head != Chunk::none; });
    uint32_t number = Chunk::none;
    if (band != std::end(heads_)) {
      number = *band;
    } else {
      // Fewer items than asked for will do; a new chunk is taken only for a cache that would get
      // nothing.
      if (taken > 0) break;
      number = pool_->take(size_class_, force);
      if (number == Chunk::none) break;
      count_free(capacity_);
      pool_->chunk(number).band = unlisted;
    }
    taken += take_from(number, items + taken, wanted - taken);
    place(number);
  }
  return taken;
}

uint32_t ClassLists::take_from(uint32_t number, Location* items, uint32_t wanted) {
  Chunk& chunk = pool_->chunk(number);
  uint32_t taken = 0;
  for (uint32_t w = 0; w < Chunk::words_of(size_class_) && taken < wanted; ++w) {
    const uint32_t beyond = capacity_ - w * 64;
    const uint64_t valid = beyond >= 64 ? ~uint64_t{0} : (uint64_t{1} << beyond) - 1;
    uint64_t free = ~chunk.allocated[w] & valid;
    for (; free != 0 && taken < wanted; free &= free - 1) {
      const auto i = static_cast<uint32_t>(std::countr_zero(free));
      chunk.allocated[w] |= uint64_t{1} << i;
      items[taken++] = Chunk::location(number, size_class_, w * 64 + i);
    }
  }
  chunk.free_count -= taken;
  count_free(-int64_t{taken});
  return taken;
}

void ClassLists::give(const Location* items, uint32_t count) {
  constexpr uint32_t ahead = 8;
  std::lock_guard guard(mutex_);
  int64_t change = 0;
  for (uint32_t i = 0; i < count; ++i) {
    if (i + ahead < count) {
      const Chunk& coming = pool_->chunk(Chunk::number(items[i + ahead]));
      __builtin_prefetch(&coming, 1);
      __builtin_prefetch(&coming.allocated[Chunk::item_number(items[i + ahead]) / 64], 1);
    }
    const uint32_t number = Chunk::number(items[i]);
    const uint32_t item = Chunk::item_number(items[i]);
    Chunk& chunk = pool_->chunk(number);
    chunk.allocated[item / 64] &= ~(uint64_t{1} << (item % 64));
    ++chunk.free_count;
    const bool draining = chunk.draining.load(std::memory_order_relaxed);
    if (!draining) ++change;
    if (chunk.free_count == capacity_) {
      if (!draining) change -= capacity_;
      leave(number);
    } else if (!draining) {
      place(number);
    }
  }
  count_free(change);
}

void ClassLists::count_free(int64_t change) {
  if (change == 0) return;
  free_items_.fetch_add(change, std::memory_order_relaxed);
  free_bytes_of_all_->fetch_add(change * static_cast<int64_t>(bytes_), std::memory_order_relaxed);
}

void ClassLists::leave(uint32_t number) {
  unlink(number);
  pool_->chunk(number).leave();
  pool_->give(number);
}

uint8_t ClassLists::band_of(const Chunk& chunk) const {
  if (chunk.free_count == 0) return unlisted;
  return static_cast<uint8_t>((chunk.free_count - 1) * bands / capacity_);
}

void ClassLists::place(uint32_t number) {
  const Chunk& chunk = pool_->chunk(number);
  const uint8_t band = band_of(chunk);
  if (band == chunk.band) return;
  unlink(number);
  link(number, band);
}

void ClassLists::link(uint32_t number, uint8_t band) {
  Chunk& chunk = pool_->chunk(number);
  chunk.band = band;
  if (band == unlisted) return;
  chunk.previous = Chunk::none;
  chunk.next = heads_[band];
  if (chunk.next != Chunk::none) pool_->chunk(chunk.next).previous = number;
  heads_[band] = number;
}

void ClassLists::unlink(uint32_t number) {
  Chunk& chunk = pool_->chunk(number);
  if (chunk.band == unlisted) return;
  if (chunk.previous != Chunk::none) {
    pool_->chunk(chunk.previous).next = chunk.next;
  } else {
    heads_[chunk.band] = chunk.next;
  }
  if (chunk.next != Chunk::none) pool_->chunk(chunk.next).previous = chunk.previous;
  chunk.band = unlisted;
}

uint32_t ClassLists::drain_sparsest() {
  std::lock_guard guard(mutex_);
  for (uint32_t band = bands; band-- > 0;) {
    const uint32_t number = heads_[band];
    if (number == Chunk::none) continue;
    Chunk& chunk = pool_->chunk(number);
    // The items in use must find room in the other chunks.
    if (free_items() < capacity_) return Chunk::none;
    count_free(-int64_t{chunk.free_count});
    unlink(number);
    chunk.draining.store(true, std::memory_order_release);
    drains_.fetch_add(1, std::memory_order_release);
    return number;
  }
  return Chunk::none;
}

void ClassLists::undrain(uint32_t number) {
  std::lock_guard guard(mutex_);
  Chunk& chunk = pool_->chunk(number);
  if (chunk.size_class() != static_cast<int>(size_class_)) return;
  if (!chunk.draining.exchange(false)) return;
  count_free(chunk.free_count);
  place(number);
}

}  // namespace isotherm
