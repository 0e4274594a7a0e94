#include "items/sampler.h"

#include <bit>

#include "items/chunk_walk.h"
#include "items/item_store.h"

namespace isotherm {
namespace {

// Draws that may fail (an empty page, no item with an expiry) for each sample asked for.
constexpr uint32_t draws_per_sample = 8;
constexpr uint32_t pages_per_draw = 64;
constexpr uint32_t large_looks = 16;

}  // namespace

// xorshift64*: a few cycles, and good enough to pick victims by.
uint64_t Sampler::random(uint64_t below) {
  state_ ^= state_ >> 12;
  state_ ^= state_ << 25;
  state_ ^= state_ >> 27;
  const uint64_t high = (state_ * 0x2545f4914f6cdd1d) >> 32;
  return below <= uint64_t{1} << 32 ? high * below >> 32 : (high << 32 | high) % below;
}

uint32_t Sampler::sample(uint32_t limit, Visitor visit, bool with_expiry) {
  std::unique_lock guard(mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return 0;
  uint32_t looked = 0;
  for (uint64_t draws = uint64_t{limit} * draws_per_sample; draws > 0 && looked < limit; --draws) {
    const Location location = draw(with_expiry);
    if (location == location::none) continue;
    ++looked;
    if (!visit(location)) break;
  }
  return looked;
}

Location Sampler::draw(bool with_expiry) {
  const uint64_t chunks = pool_.chunks_in_classes() * Chunk::bytes;
  const uint64_t large = large_.bytes();
  if (chunks + large == 0) return location::none;
  const auto fits = [&](Location location) {
    return !with_expiry || store_.item(location)->expiry() != no_expiry;
  };
  if (random(chunks + large) >= chunks) {
    const Location location = draw_large();
    return location != location::none && fits(location) ? location : location::none;
  }
  const uint32_t number = random_chunk();
  if (number == Chunk::none) return location::none;
  const Chunk& chunk = pool_.chunk(number);
  if (with_expiry && chunk.next_expiry.load(std::memory_order_relaxed) == Chunk::never) {
    return location::none;
  }
  const int size_class = chunk.size_class();
  if (size_class == Chunk::no_class) return location::none;
  const auto capacity = size_classes::capacity_of(static_cast<uint32_t>(size_class));
  const auto start = static_cast<uint32_t>(random(capacity));
  const uint32_t words = Chunk::words_of(static_cast<uint32_t>(size_class));
  // One word more than there are: the first one again, for the items before the start.
  for (uint32_t i = 0; i <= words; ++i) {
    const uint32_t w = (start / 64 + i) % words;
    LiveWord word;
    if (!LiveWord::read(chunk, w, word)) return location::none;
    if (i == 0) word.live = word.live >> (start % 64) << (start % 64);
    for (; word.live != 0; word.live &= word.live - 1) {
      const auto bit = static_cast<uint32_t>(std::countr_zero(word.live));
      const Location location = Chunk::location(number, word.size_class, w * 64 + bit);
      if (fits(location)) return location;
    }
  }
  return location::none;
}

Location Sampler::draw_large() {
  const uint32_t limit = large_.limit();
  if (limit == 0) return location::none;
  auto number = static_cast<uint32_t>(random(limit));
  uint32_t looks = large_looks;
  Location found = location::none;
  return large_.find(number, looks, &found, 1) == 1 ? found : location::none;
}

uint32_t Sampler::random_chunk() {
  const uint32_t limit = pool_.page_limit();
  if (limit == 0) return Chunk::none;
  auto page = static_cast<uint32_t>(random(limit));
  for (uint32_t i = 0; i < pages_per_draw; ++i, page = (page + 1) % limit) {
    uint32_t mask = pool_.in_classes(page);
    if (mask == 0) continue;
    for (uint64_t skip = random(static_cast<uint64_t>(std::popcount(mask))); skip > 0; --skip) {
      mask &= mask - 1;
    }
    return page * Chunk::per_page + static_cast<uint32_t>(std::countr_zero(mask));
  }
  return Chunk::none;
}

}  // namespace isotherm
