#include "tree/run_order.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <iterator>
#include <memory>
#include <new>
#include <utility>

#include "base/worker_pool.h"

namespace isotherm {

RunPiece::RunPiece(std::vector<RunPlace> places) : places_(std::move(places)) {
  samples_.reserve(places_.size() / apart + 1);
  for (size_t i = 0; i < places_.size(); i += apart) samples_.push_back(places_[i].head);
}

// Among places whose heads agree with the key's may be some on both sides of it.
RunPiece::Block RunPiece::block_of(const KeyHead& head) const {
  const auto first = std::lower_bound(samples_.begin(), samples_.end(), head);
  auto last = first;
  while (last != samples_.end() && *last == head) ++last;
  const auto place_of = [&](auto sample) {
    return static_cast<size_t>(sample - samples_.begin()) * apart;
  };
  const size_t from = first == samples_.begin() ? 0 : place_of(first) - apart;
  const size_t upto = std::min(place_of(last), places_.size());
  constexpr size_t places_a_line = 2;
  for (size_t i = from; i < std::min(upto, from + apart); i += places_a_line) {
    __builtin_prefetch(&places_[i]);
  }
  return {begin() + from, begin() + upto};
}

// An entry is looked at only where heads agree.
const RunPlace* RunPiece::lower_bound(const Block& block, const KeyHead& head,
                                      std::string_view key) {
  return std::lower_bound(
      block.begin, block.end, key, [&](const RunPlace& place, std::string_view its_key) {
        return place.head != head ? place.head < head : place.entry->key() < its_key;
      });
}

RunOrder::RunOrder(const RunOrder& before, std::vector<RunPlace> more, bool whole)
    : pieces_(before.pieces_) {
  while (!pieces_.empty() && (whole || pieces_.back()->size() < 2 * more.size())) {
    std::vector<RunPlace> merged;
    merged.reserve(pieces_.back()->size() + more.size());
    std::merge(pieces_.back()->begin(), pieces_.back()->end(), more.begin(), more.end(),
               std::back_inserter(merged));
    more = std::move(merged);
    pieces_.pop_back();
  }
  if (!more.empty()) pieces_.push_back(std::make_shared<const RunPiece>(std::move(more)));
}

std::vector<TreeEntry> RunOrder::changes(uint64_t moment, uint64_t behind) const {
  constexpr size_t entries_ahead = 16;  // which lie anywhere
  std::vector<TreeEntry> changes;
  for (const auto& piece : pieces_) {
    for (const RunPlace& place : *piece) {
      __builtin_prefetch(std::min(&place + entries_ahead, piece->end() - 1)->entry);
      const RunEntry::Shown shown = place.entry->at_moment(moment);
      if (shown.stamp > behind) changes.push_back({place.entry->key(), shown.value});
    }
  }
  return changes;
}

namespace {

constexpr uint32_t order_parts = 64;  // of the order, and as many pieces of what is to be sorted
constexpr size_t worth_parts = 1 << 14;

// The first places of all parts but the first, by a sample, so that parts are about as long.
std::vector<RunPlace> cuts_of(std::span<const RunPlace> places) {
  constexpr size_t samples_a_part = 32;
  const size_t apart = places.size() / (order_parts * samples_a_part);
  std::vector<RunPlace> sample;
  for (size_t i = 0; i < order_parts * samples_a_part; ++i) sample.push_back(places[i * apart]);
  std::sort(sample.begin(), sample.end());
  std::vector<RunPlace> cuts;
  for (size_t part = 1; part < order_parts; ++part) cuts.push_back(sample[part * samples_a_part]);
  return cuts;
}

// False: there is no memory for a second copy.
bool sort_by_parts(std::span<RunPlace> places, WorkerPool& pool) {
  const size_t size = places.size();
  const std::unique_ptr<std::byte[]> memory(new (std::nothrow) std::byte[size * sizeof(RunPlace)]);
  const std::unique_ptr<uint8_t[]> part_of(new (std::nothrow) uint8_t[size]);
  if (memory == nullptr || part_of == nullptr) return false;
  auto* const moved = reinterpret_cast<RunPlace*>(memory.get());
  const std::vector<RunPlace> cuts = cuts_of(places);
  const auto each_of = [&](uint32_t piece, auto&& what) {
    for (size_t i = size * piece / order_parts; i < size * (piece + 1) / order_parts; ++i) what(i);
  };
  // How many places of a piece go to a part; then where the next of them goes.
  std::vector<std::array<size_t, order_parts>> next(order_parts);
  pool.run(order_parts, [&](uint32_t piece, uint32_t) {
    each_of(piece, [&](size_t i) {
      const auto cut = std::upper_bound(cuts.begin(), cuts.end(), places[i]);
      part_of[i] = static_cast<uint8_t>(cut - cuts.begin());
      ++next[piece][part_of[i]];
    });
  });
  std::array<size_t, order_parts + 1> begins{};
  size_t before = 0;
  for (uint32_t part = 0; part < order_parts; ++part) {
    for (auto& of_piece : next) before += std::exchange(of_piece[part], before);
    begins[part + 1] = before;
  }
  pool.run(order_parts, [&](uint32_t piece, uint32_t) {
    each_of(piece,
            [&](size_t i) { ::new (&moved[next[piece][part_of[i]]++]) RunPlace(places[i]); });
  });
  pool.run(order_parts, [&](uint32_t part, uint32_t) {
    std::sort(moved + begins[part], moved + begins[part + 1]);
    std::copy(moved + begins[part], moved + begins[part + 1], places.data() + begins[part]);
  });
  return true;
}

}  // namespace

void sort_places(std::span<RunPlace> places, WorkerPool& pool) {
  const bool by_parts = pool.threads() > 1 && places.size() >= worth_parts;
  if (!by_parts || !sort_by_parts(places, pool)) std::sort(places.begin(), places.end());
}

}  // namespace isotherm
