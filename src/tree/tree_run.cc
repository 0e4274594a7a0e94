#include "tree/tree_run.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "base/worker_pool.h"

namespace isotherm {
namespace {

// Chunks of a shard double, so that a small run takes little.
constexpr uint64_t first_chunk = 512;
constexpr uint64_t largest_chunk = 16 << 10;
constexpr uint64_t node_bytes = 48;  // of the set, about
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

void TreeRun::grow(Shard& shard) {
  constexpr uint64_t first_slots = 16;
  std::vector<Slot> old(std::max(first_slots, shard.slots.size() * 2));
  old.swap(shard.slots);
  const uint64_t mask = shard.slots.size() - 1;
  for (const Slot& slot : old) {
    if (slot.entry == nullptr) continue;
    uint64_t at = slot.hash / shards;
    while (shard.slots[at & mask].entry != nullptr) ++at;
    shard.slots[at & mask] = slot;
  }
  bytes_.fetch_add((shard.slots.size() - old.size()) * sizeof(Slot), std::memory_order_relaxed);
}

// Of a key that is not there, with room for its value: where there is no memory for all of it the
// run knows nothing of the key.
TreeRun::Entry* TreeRun::make_entry(Shard& shard, uint64_t hash, std::string_view key,
                                    uint32_t room) {
  static_assert(std::is_trivially_destructible_v<Entry>);
  if (shard.keys >= shard.slots.size() / 4 * 3) grow(shard);
  char* const copy = take(shard, key.size() + sizeof(Entry) + alignof(Entry) + room);
  std::memcpy(copy, key.data(), key.size());
  const auto end = reinterpret_cast<uintptr_t>(copy + key.size());
  char* const at = copy + key.size() + (-end & (alignof(Entry) - 1));
  Entry* const entry = ::new (at) Entry(std::string_view(copy, key.size()), State());
  entry->second.at = at + sizeof(Entry);
  entry->second.room = room;
  if (shard.in_order) {
    shard.in_order->insert(entry);
    bytes_.fetch_add(node_bytes, std::memory_order_relaxed);
  }
  slot_of(shard.slots, hash, key) = {hash, entry};
  ++shard.keys;
  return entry;
}

void TreeRun::put(uint64_t hash, std::string_view key, const TreeRecord* record, uint64_t stamp,
                  uint64_t held) {
  Shard& shard = shards_[shard_of(hash)];
  Entry* entry = shard.keys == 0 ? nullptr : slot_of(shard.slots, hash, key).entry;
  const auto bytes = static_cast<uint32_t>(record != nullptr ? record->bytes() : 0);
  const bool is_new = entry == nullptr;
  if (is_new) entry = make_entry(shard, hash, key, bytes);
  State& its = entry->second;
  if (!is_new && its.stamp <= held) {
    its.older = &shard.older.emplace_front(its);
    its.room = 0;
    bytes_.fetch_add(state_bytes, std::memory_order_relaxed);
  }
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
  if (shard.keys == 0) return {};
  const Entry* const entry = slot_of(shard.slots, hash, key).entry;
  if (entry == nullptr) return {};
  const State* const state = entry->second.at_moment(moment);
  if (state == nullptr) return {};
  return {true, state->bytes == 0, state->value()};
}

bool TreeRun::copy(uint32_t number, std::string_view from, std::string_view end, size_t most,
                   std::vector<TreeEntry>& to, uint64_t moment) const {
  const InOrder& places = in_order(shards_[number]);
  for (auto place = places.lower_bound(from); place != places.end() && (*place)->first < end;
       ++place) {
    const State* const state = (*place)->second.at_moment(moment);
    if (state == nullptr) continue;
    if (most-- == 0) return true;
    to.push_back({(*place)->first, state->value()});
  }
  return false;
}

bool TreeRun::copy_back(uint32_t number, std::string_view from, std::string_view end, size_t most,
                        std::vector<TreeEntry>& to, uint64_t moment) const {
  const InOrder& places = in_order(shards_[number]);
  for (auto place = places.lower_bound(end); place != places.begin();) {
    --place;
    if ((*place)->first < from) return false;
    const State* const state = (*place)->second.at_moment(moment);
    if (state == nullptr) continue;
    if (most-- == 0) return true;
    to.push_back({(*place)->first, state->value()});
  }
  return false;
}

// Writes all entries of the shard to `to`.
void TreeRun::collect(const Shard& shard, Sorted* to) {
  const auto number_at = [](std::string_view key, size_t at) {
    uint64_t number = 0;
    if (at < key.size())
      std::memcpy(&number, key.data() + at, std::min<size_t>(8, key.size() - at));
    return __builtin_bswap64(number);
  };
  constexpr size_t slots_ahead = 16;
  for (size_t i = 0; i < shard.slots.size(); ++i) {
    if (i + slots_ahead < shard.slots.size()) {
      __builtin_prefetch(shard.slots[i + slots_ahead].entry);
    }
    const Entry* const entry = shard.slots[i].entry;
    if (entry == nullptr) continue;
    *to++ = {number_at(entry->first, 0), number_at(entry->first, 8), entry};
  }
}

// With the lock of the shard.
const TreeRun::InOrder& TreeRun::in_order(const Shard& shard) const {
  if (shard.in_order) return *shard.in_order;
  std::vector<Sorted> sorted(shard.keys);
  collect(shard, sorted.data());
  std::sort(sorted.begin(), sorted.end());
  auto made = std::make_unique<InOrder>();
  for (const Sorted& one : sorted) made->insert(made->end(), one.entry);
  shard.in_order = std::move(made);
  bytes_.fetch_add(shard.keys * node_bytes, std::memory_order_relaxed);
  return *shard.in_order;
}

// Shards are sorted side by side, then merged by pairs, then pairs of pairs.
std::vector<TreeEntry> TreeRun::all(bool in_order, uint32_t threads) const {
  std::array<ptrdiff_t, shards + 1> begins{};
  for (uint32_t i = 0; i < shards; ++i) {
    begins[i + 1] = begins[i] + static_cast<ptrdiff_t>(shards_[i].keys);
  }
  std::vector<Sorted> sorted(static_cast<size_t>(begins[shards]));
  const auto at = [&](uint32_t shard) { return sorted.begin() + begins[shard]; };
  constexpr size_t worth_threads = 4096;
  WorkerPool pool(sorted.size() < worth_threads ? 1 : threads);
  pool.run(shards, [&](uint32_t shard, uint32_t) {
    collect(shards_[shard], sorted.data() + begins[shard]);
    if (in_order) std::sort(at(shard), at(shard + 1));
  });
  for (uint32_t width = 1; width < shards && in_order; width *= 2) {
    pool.run(shards / (2 * width), [&](uint32_t piece, uint32_t) {
      const uint32_t first = piece * 2 * width;
      std::inplace_merge(at(first), at(first + width), at(first + 2 * width));
    });
  }
  std::vector<TreeEntry> all(sorted.size());
  pool.run(shards, [&](uint32_t shard, uint32_t) {
    std::transform(at(shard), at(shard + 1), all.begin() + begins[shard], [](const Sorted& one) {
      return TreeEntry{one.entry->first, one.entry->second.value()};
    });
  });
  return all;
}

}  // namespace isotherm
