#include "tree/run_order.h"

#include <algorithm>
#include <iterator>
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

// Parts are sorted side by side, then merged by pairs, then pairs of pairs.
void sort_places(std::vector<RunPlace>& places, WorkerPool& pool) {
  if (pool.threads() == 1) return std::sort(places.begin(), places.end());
  constexpr uint32_t parts = 16;
  const auto at = [&](uint32_t part) {
    return places.begin() + static_cast<ptrdiff_t>(places.size() * part / parts);
  };
  pool.run(parts, [&](uint32_t part, uint32_t) { std::sort(at(part), at(part + 1)); });
  for (uint32_t width = 1; width < parts; width *= 2) {
    pool.run(parts / (2 * width), [&](uint32_t piece, uint32_t) {
      const uint32_t first = piece * 2 * width;
      std::inplace_merge(at(first), at(first + width), at(first + 2 * width));
    });
  }
}

}  // namespace isotherm
