#include "device/value_moves.h"

#include <algorithm>
#include <memory>

namespace isotherm {
namespace {

constexpr uint32_t items_per_sweep = 1024;
constexpr uint64_t bytes_per_sweep = 1 << 20;
constexpr size_t cleaned_at_once = 64;

}  // namespace

uint32_t ValueMoves::send(std::vector<ItemMove>& moves, int64_t now_ms) {
  found_.clear();
  uint64_t bytes = 0;
  const uint32_t looked = store_.items.sweep_clock(looks(), [&](Location location) {
    const Item& item = *store_.items.item(location);
    if (!may_go(item, now_ms)) return true;
    found_.push_back(location);
    bytes += item.value_bytes();
    return bytes < bytes_per_sweep;
  });
  const size_t first = moves.size();
  std::vector<ValueTransfer::Bring> brings;
  for (const Location from : found_) {
    const Item& item = *store_.items.item(from);
    Location to = location::none;
    const Item* copy = make_away(item, to, ValueLog::For::new_value);
    if (copy == nullptr) break;
    brings.push_back({copy->value_place(), item.value_bytes(), item.value().data()});
    moves.push_back({from, to, MoveReason::moved});
  }
  try {
    reader_.transfer().bring(brings);
  } catch (const std::exception&) {
    drop(moves, first);
    throw;
  }
  return looked;
}

void ValueMoves::bring(std::vector<ItemMove>& moves, int64_t room) {
  const size_t first = moves.size();
  std::vector<ValueTransfer::Fetch> fetches;
  for (const Location from : reader_.wanted()) {
    if (!store_.items.is_live(from)) continue;
    const Item& item = *store_.items.item(from);
    if (!item.away()) continue;  // another one by now
    const Item::Parts parts = item.parts(false);
    room -= static_cast<int64_t>(parts.bytes());
    if (room < 0) break;
    const Location to = executor_.cache().allocate(parts.bytes());
    if (to == location::none) break;
    Item* copy = Item::create(store_.items.address(to), parts);
    copy->set_version(item.version());
    fetches.push_back({item.value_place(), item.value_bytes(), copy->value_data(), false});
    moves.push_back({from, to, MoveReason::moved});
  }
  reader_.clear_wanted();
  try {
    reader_.transfer().fetch(fetches);
  } catch (const std::exception&) {
    drop(moves, first);
    throw;
  }
}

void ValueMoves::clean(std::vector<ItemMove>& moves) {
  ValueLog::Value found[cleaned_at_once];
  const size_t count = values_.log().to_clean(found);
  const size_t first = moves.size();
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
    fetches.push_back({place, item.value_bytes(), nullptr, false});
    brings.push_back({copy->value_place(), item.value_bytes(), nullptr});
    moves.push_back({from, to, MoveReason::moved});
    bytes += item.value_bytes();
  }
  const auto buffer = std::make_unique_for_overwrite<char[]>(bytes);
  char* at = buffer.get();
  for (size_t i = 0; i < fetches.size(); ++i) {
    fetches[i].to = at;
    brings[i].from = at;
    at += fetches[i].bytes;
  }
  try {
    reader_.transfer().fetch(fetches);
    reader_.transfer().bring(brings);
  } catch (const std::exception&) {
    drop(moves, first);
    throw;
  }
}

// Of a sweep: no more than a part of all items, so that the CLOCK of a small store does not go
// round before anything can be read again.
uint32_t ValueMoves::looks() const {
  constexpr uint64_t part = 4;
  return static_cast<uint32_t>(std::min<uint64_t>(items_per_sweep, 1 + store_.entries() / part));
}

bool ValueMoves::may_go(const Item& item, int64_t now_ms) const {
  const uint64_t bytes = item.value_bytes();
  if (item.away() || bytes < store_.options.gpu_values_from || item.expired(now_ms)) return false;
  if (bytes > values_.log().largest_value()) return false;
  const uint64_t left = item.parts(true).bytes();
  return left <= size_classes::largest &&
         size_classes::bytes_of(size_classes::class_of(left)) < item.bytes();
}

// Whether the item there is the one that has the value: it may have gone, and its place may have
// another item.
bool ValueMoves::is_at(Location location, ValuePlace place) const {
  if (!store_.items.is_live(location)) return false;
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

void ValueMoves::drop(std::vector<ItemMove>& moves, size_t first) {
  for (size_t i = first; i < moves.size(); ++i) drop_copy(executor_, moves[i]);
  moves.resize(first);
}

}  // namespace isotherm
