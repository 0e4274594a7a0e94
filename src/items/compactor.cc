#include "items/compactor.h"

#include <algorithm>

namespace isotherm {
namespace {

constexpr size_t most_closed = 64;
constexpr uint32_t closed_at_a_time = 8;
constexpr uint32_t visits_per_call = 8;
constexpr uint32_t most_passes = 1000;
constexpr uint32_t calls_between_looks = 16;
// Waste below it is not worth the work.
constexpr uint64_t least_waste = 4 * Chunk::bytes;
constexpr uint64_t waste_percent = 15;

}  // namespace

uint32_t Compactor::step(uint32_t limit, Visitor relocate) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  uint32_t looked = 0;
  for (uint32_t visits = 0; visits < visits_per_call && looked < limit; ++visits) {
    if (closed_.empty() && !close_sparsest()) break;
    next_ %= closed_.size();
    Closed& closed = closed_[next_];
    const Outcome outcome = empty(closed, limit, looked, relocate);
    if (outcome == Outcome::pause) {
      if (closed.item == 0) ++next_;
      continue;
    }
    if (outcome == Outcome::no_memory) classes_[closed.size_class].undrain(closed.number);
    closed = closed_.back();
    closed_.pop_back();
    if (outcome == Outcome::no_memory) break;
  }
  // If the closed chunks only wait for readers, others are closed, too.
  if (looked < limit && !closed_.empty() && closed_.size() + closed_at_a_time <= most_closed) {
    close_sparsest();
  }
  count_.store(closed_.size(), std::memory_order_relaxed);
  return looked;
}

Compactor::Outcome Compactor::empty(Closed& closed, uint32_t limit, uint32_t& looked,
                                    Visitor relocate) {
  const Chunk& chunk = pool_.chunk(closed.number);
  if (!chunk.draining.load(std::memory_order_acquire) ||
      chunk.size_class() != static_cast<int>(closed.size_class)) {
    return Outcome::done;
  }
  ChunkWalk walk(closed.number, closed.item);
  bool memory = true;
  LiveWord word;
  while (LiveWord::read(chunk, walk.item / 64, word)) {
    const bool whole = walk.each(word, [&](Location location, uint64_t) {
      ++looked;
      memory = relocate(location);
      return memory && looked < limit;
    });
    if (!memory) return Outcome::no_memory;
    if (!whole) {
      closed.item = walk.item;
      return Outcome::pause;
    }
  }
  closed.item = 0;
  return ++closed.passes < most_passes ? Outcome::pause : Outcome::no_memory;
}

bool Compactor::close_sparsest() {
  if (patience_ > 0) {
    --patience_;
    return false;
  }
  const uint32_t size_class = wasteful() ? most_wasteful_class() : size_classes::count;
  uint32_t count = 0;
  while (size_class < size_classes::count && count < closed_at_a_time) {
    count_.store(closed_.size() + 1, std::memory_order_relaxed);
    const uint32_t number = classes_[size_class].drain_sparsest();
    if (number == Chunk::none) break;
    closed_.push_back({number, size_class});
    ++count;
  }
  if (count == 0) {
    patience_ = calls_between_looks;
    return false;
  }
  drains_.fetch_add(1);
  return true;
}

bool Compactor::wasteful() const {
  const int64_t free = free_bytes_.load(std::memory_order_relaxed);
  const uint64_t all = pool_.chunks_in_classes() * Chunk::bytes;
  const uint64_t tolerated =
      pool_.exhausted() ? tolerated_at_cap(all) : std::max(least_waste, all * waste_percent / 100);
  return free > static_cast<int64_t>(tolerated);
}

// size_classes::count when none has a chunk to spare.
uint32_t Compactor::most_wasteful_class() const {
  uint64_t most = 0;
  uint32_t size_class = size_classes::count;
  for (uint32_t c = 0; c < size_classes::count; ++c) {
    const uint64_t free = classes_[c].free_bytes();
    if (free > most && classes_[c].free_items() >= size_classes::capacity_of(c)) {
      most = free;
      size_class = c;
    }
  }
  return size_class;
}

}  // namespace isotherm
