#include "tree/tree_run.h"

#include <algorithm>
#include <cstring>
#include <utility>

namespace isotherm {
namespace {

// Chunks of a shard double, so that a small run takes little.
constexpr uint64_t first_chunk = 512;
constexpr uint64_t largest_chunk = 16 << 10;
constexpr uint64_t node_bytes = 96;  // of the map, about
constexpr uint64_t state_bytes = 48;

}  // namespace

char* TreeRun::take(Shard& shard, uint64_t bytes) {
  if (bytes > shard.left) {
    const uint64_t usual = first_chunk << std::min<size_t>(shard.chunks.size(), 5);
    const uint64_t size = std::max(bytes, std::min(usual, largest_chunk));
    shard.chunks.push_back(std::make_unique_for_overwrite<char[]>(size));
    bytes_.fetch_add(size, std::memory_order_relaxed);
    // The rest of a chunk is not given up for one large value.
    if (size - bytes < shard.left) return shard.chunks.back().get();
    shard.next = shard.chunks.back().get();
    shard.left = size;
  }
  shard.left -= bytes;
  return std::exchange(shard.next, shard.next + bytes);
}

// About ten bits a key; a filter that is too small is made anew, four times as large.
void TreeRun::note_new(Shard& shard, uint64_t hash) {
  constexpr uint64_t keys_per_word = 6;
  const uint64_t words = shard.filter.size();
  if (shard.places.size() <= words * keys_per_word) return shard.note(hash);
  shard.filter.assign(words * 4, 0);
  for (const auto& [key, place] : shard.places) shard.note(hash_of(key));
  bytes_.fetch_add(words * 3 * sizeof(uint64_t), std::memory_order_relaxed);
}

void TreeRun::put(uint64_t hash, std::string_view key, const TreeRecord* record, uint64_t stamp,
                  uint64_t held) {
  Shard& shard = shards_[shard_of(hash)];
  auto place = shard.places.find(key);
  const bool is_new = place == shard.places.end();
  if (is_new) {
    char* const copy = take(shard, key.size());
    std::memcpy(copy, key.data(), key.size());
    place = shard.places.try_emplace({copy, key.size()}).first;
    bytes_.fetch_add(node_bytes, std::memory_order_relaxed);
    note_new(shard, hash);
  }
  Place& its = place->second;
  if (!is_new && its.stamp <= held) {
    its.older = &shard.older.emplace_front(its);
    its.room = 0;
    bytes_.fetch_add(state_bytes, std::memory_order_relaxed);
  }
  const auto bytes = static_cast<uint32_t>(record != nullptr ? record->bytes() : 0);
  if (bytes > its.room) {
    its.at = take(shard, bytes);
    its.room = bytes;
  }
  its.stamp = stamp;
  its.bytes = bytes;
  if (record != nullptr) record->write(its.at);
}

TreeRun::Found TreeRun::find(uint64_t hash, std::string_view key, uint64_t moment) const {
  const Shard& shard = shards_[shard_of(hash)];
  if (!shard.may_have(hash)) return {};
  const auto& places = shard.places;
  const auto place = places.find(key);
  if (place == places.end()) return {};
  const State* const state = place->second.at_moment(moment);
  if (state == nullptr) return {};
  return {true, state->bytes == 0, state->value()};
}

bool TreeRun::copy(uint32_t number, std::string_view from, std::string_view end, size_t most,
                   std::vector<TreeEntry>& to, uint64_t moment) const {
  const auto& places = shards_[number].places;
  for (auto place = places.lower_bound(from); place != places.end() && place->first < end;
       ++place) {
    const State* const state = place->second.at_moment(moment);
    if (state == nullptr) continue;
    if (most-- == 0) return true;
    to.push_back({place->first, state->value()});
  }
  return false;
}

bool TreeRun::copy_back(uint32_t number, std::string_view from, std::string_view end, size_t most,
                        std::vector<TreeEntry>& to, uint64_t moment) const {
  const auto& places = shards_[number].places;
  for (auto place = places.lower_bound(end); place != places.begin();) {
    --place;
    if (place->first < from) return false;
    const State* const state = place->second.at_moment(moment);
    if (state == nullptr) continue;
    if (most-- == 0) return true;
    to.push_back({place->first, state->value()});
  }
  return false;
}

std::vector<TreeEntry> TreeRun::all(bool in_order) const {
  std::vector<TreeEntry> all;
  size_t count = 0;
  for (const Shard& shard : shards_) count += shard.places.size();
  all.reserve(count);
  for (const Shard& shard : shards_) {
    const auto middle = static_cast<ptrdiff_t>(all.size());
    for (const auto& [key, place] : shard.places) all.push_back({key, {place.at, place.bytes}});
    if (!in_order) continue;
    std::inplace_merge(all.begin(), all.begin() + middle, all.end(),
                       [](const TreeEntry& a, const TreeEntry& b) { return a.key < b.key; });
  }
  return all;
}

}  // namespace isotherm
