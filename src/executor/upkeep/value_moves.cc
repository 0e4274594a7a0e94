#include "executor/upkeep/value_moves.h"

#include <algorithm>
#include <limits>
#include <memory>

#include "items/objects.h"

namespace isotherm {
namespace {

constexpr uint32_t looks_per_sweep = 1024;
constexpr uint64_t most_at_once = 8 * looks_per_sweep;
constexpr size_t cleaned_at_once = 64;

}  // namespace

void ValueMoves::send(std::vector<ItemMove>& moves, uint64_t bytes, int64_t now_ms,
                      SendFound& found) {
  found = find(bytes, now_ms);
  guarded(moves, [&] {
    std::vector<ValueTransfer::Bring> brings;
    for (const Location from : found_) {
      const Item& item = *store_.items.item(from);
      Location to = location::none;
      const Item* copy = make_away(item, to, ValueLog::For::new_value);
      found.no_memory = to == location::none;
      if (copy == nullptr) break;
      moves.push_back({from, to, MoveReason::moved});
      brings.push_back({copy->value_place(), item.value_bytes(), item.value().data()});
    }
    reader_.transfer().bring(brings);
  });
}

void ValueMoves::bring(std::vector<ItemMove>& moves, int64_t room) {
  std::vector<DeviceValues::Wanted> wanted = reader_.take_wanted();
  const auto before = [](const auto& a, const auto& b) { return a.place < b.place; };
  std::sort(wanted.begin(), wanted.end(), before);
  guarded(moves, [&] {
    std::vector<ValueTransfer::Fetch> fetches;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const auto [from, place] = wanted[i];
      // Once each, and not another item that has its place by now.
      if ((i > 0 && wanted[i - 1].place == place) || !is_at(from, place)) continue;
      const Item& item = *store_.items.item(from);
      const Item::Parts parts = item.parts(false);
      room -= static_cast<int64_t>(parts.bytes());
      if (room < 0) break;
      const Location to = executor_.cache().allocate(parts.bytes());
      if (to == location::none) break;
      Item* copy = Item::create(store_.items.address(to), parts);
      copy->set_version(item.version());
      moves.push_back({from, to, MoveReason::moved});
      fetches.push_back({place, item.value_bytes(), copy->value_data(), false});
    }
    reader_.transfer().fetch(fetches);
  });
}

void ValueMoves::clean(std::vector<ItemMove>& moves) {
  ValueLog::Value found[cleaned_at_once];
  const size_t count = values_.log().to_clean(found);
  if (count == 0) return;
  guarded(moves, [&] {
    uint64_t bytes = 0;
    std::vector<ValueTransfer::Fetch> fetches;
    std::vector<ValueTransfer::Bring> brings;
    for (size_t i = 0; i < count; ++i) {
      const auto [place, from] = found[i];
      if (!is_at(from, place)) continue;
      const Item& item = *store_.items.item(from);
      Location to = location::none;
      const Item* copy = make_away(item, to, ValueLog::For::cleaning);
      if (copy == nullptr) break;
      moves.push_back({from, to, MoveReason::moved});
      fetches.push_back({place, item.value_bytes(), nullptr, false});
      brings.push_back({copy->value_place(), item.value_bytes(), nullptr});
      bytes += item.value_bytes();
    }
    const auto buffer = std::make_unique_for_overwrite<char[]>(bytes);
    char* at = buffer.get();
    for (size_t i = 0; i < fetches.size(); ++i) {
      fetches[i].to = at;
      brings[i].from = at;
      at += fetches[i].bytes;
    }
    reader_.transfer().fetch(fetches);
    reader_.transfer().bring(brings);
  });
}

// Makes copies; none is left of those whose bytes have not travelled.
template <class Make>
void ValueMoves::guarded(std::vector<ItemMove>& moves, Make&& make) {
  const size_t first = moves.size();
  moves.reserve(first + most_at_once);
  try {
    make();
  } catch (...) {
    for (size_t i = first; i < moves.size(); ++i) drop_copy(executor_, moves[i]);
    moves.resize(first);
    throw;
  }
}

// Fills found_, sweep by sweep, so that other threads find some meanwhile. It looks at no more than
// a part of all items, so that the CLOCK of a small store does not go round before anything can be
// read again.
SendFound ValueMoves::find(uint64_t bytes, int64_t now_ms) {
  constexpr uint64_t part = 4;
  constexpr uint64_t much = 1 << 20;
  const uint64_t looks = bytes > much && !values_.poor() ? most_at_once : looks_per_sweep;
  const uint64_t most = std::min(looks, 1 + store_.entries() / part);
  // Where items are evicted, larger ones stay where they are in that order.
  const uint64_t most_bytes =
      store_.evicts ? values_.log().largest_value() * 3 / 2 : std::numeric_limits<uint64_t>::max();
  found_.clear();
  SendFound found;
  while (found.looked < most && found.bytes < bytes) {
    const uint64_t left = std::min<uint64_t>(looks_per_sweep, most - found.looked);
    const uint32_t looked = store_.items.sweep_clock(
        static_cast<uint32_t>(left),
        [&](Location location) {
          const Item& item = *store_.items.item(location);
          found.cold_bytes += item.bytes() + (item.is_object() ? Objects::bytes_of(item) : 0);
          if (!may_go(item, now_ms)) return true;
          found_.push_back(location);
          found.bytes += item.value_bytes();
          return found.bytes < bytes;
        },
        false, most_bytes);
    if (looked == 0) break;
    found.looked += looked;
  }
  return found;
}

bool ValueMoves::may_go(const Item& item, int64_t now_ms) const {
  const uint64_t bytes = item.value_bytes();
  if (!item.is_plain() || bytes < store_.options.gpu_values_from || item.expired(now_ms))
    return false;
  if (bytes > values_.log().largest_value()) return false;
  const uint64_t left = item.parts(true).bytes();
  return left <= size_classes::largest &&
         size_classes::bytes_of(size_classes::class_of(left)) < item.bytes();
}

// Whether the item there is the one that has the value: it may have gone, and its place may have
// another item.
bool ValueMoves::is_at(Location location, ValuePlace place) const {
  if (!store_.items.is_live_item(location)) return false;
  const Item& item = *store_.items.item(location);
  return item.away() && item.value_place() == place;
}

Item* ValueMoves::make_away(const Item& item, Location& to, ValueLog::For purpose) {
  const Item::Parts parts = item.parts(true);
  to = executor_.cache().allocate(parts.bytes(), true);
  if (to == location::none) return nullptr;
  const auto place = values_.log().add(item.value_bytes(), to, purpose);
  if (!place) {
    executor_.cache().free_unpublished(to);
    return nullptr;
  }
  Item* copy = Item::create(store_.items.address(to), parts);
  copy->set_version(item.version());
  copy->set_value_place(*place);
  return copy;
}

}  // namespace isotherm
