#include "tree/tree_run.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <new>
#include <type_traits>
#include <utility>

#include "base/worker_pool.h"

namespace isotherm {
namespace {

// Pieces of a shard double, so that a small run takes little.
constexpr uint64_t first_piece = 128;
constexpr size_t most_doublings = 7;
constexpr uint64_t kept_bytes = 48;
constexpr size_t worth_threads = 4096;  // places to be sorted

// At the least; a quarter of them stays free.
constexpr size_t slots_for(size_t keys) { return keys + (keys + 2) / 3; }

}  // namespace

// Its shards have about as many keys each.
TreeRun::TreeRun(const TreeRun& before, bool lists, uint32_t threads) {
  const size_t keys = before.shards_.front().keys;
  first_slots_ = std::bit_ceil(slots_for(keys + keys / 8));
  WorkerPool pool(threads);
  pool.run(shards, [&](uint32_t i, uint32_t) {
    shards_[i].slots.resize(first_slots_);
    shards_[i].lists = lists;
  });
}

char* TreeRun::take(Shard& shard, uint64_t bytes) {
  if (bytes > shard.left) {
    const uint64_t usual = first_piece << std::min(shard.pieces.size(), most_doublings);
    const uint64_t size = std::max(bytes, usual);
    shard.pieces.push_back(std::make_unique_for_overwrite<char[]>(size));
    bytes_.fetch_add(size, std::memory_order_relaxed);
    // The rest of a piece is not given up for one large value.
    if (size - bytes < shard.left) return shard.pieces.back().get();
    shard.next = shard.pieces.back().get();
    shard.left = size;
  }
  shard.left -= bytes;
  return std::exchange(shard.next, shard.next + bytes);
}

void TreeRun::grow(Shard& shard) {
  constexpr uint64_t first_slots = 4;
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
RunEntry* TreeRun::make_entry(Shard& shard, uint64_t hash, std::string_view key, uint32_t room) {
  static_assert(std::is_trivially_destructible_v<RunEntry>);
  if (shard.keys == 0) {
    bytes_.fetch_add(shard.slots.size() * sizeof(Slot), std::memory_order_relaxed);
  }
  if (slots_for(shard.keys + 1) > shard.slots.size()) grow(shard);
  char* const copy = take(shard, key.size() + sizeof(RunEntry) + alignof(RunEntry) + room);
  std::memcpy(copy, key.data(), key.size());
  const auto end = reinterpret_cast<uintptr_t>(copy + key.size());
  char* const at = copy + key.size() + (-end & (alignof(RunEntry) - 1));
  auto* const entry = ::new (at) RunEntry(std::string_view(copy, key.size()), room);
  if (shard.lists) {
    shard.listed.push_back(entry);
    if (!any_listed_.load(std::memory_order_relaxed)) any_listed_.store(true);
  }
  slot_of(shard.slots, hash, key) = {hash, entry};
  ++shard.keys;
  return entry;
}

void TreeRun::put(uint64_t hash, std::string_view key, const TreeRecord* record, uint64_t stamp,
                  uint64_t held) {
  Shard& shard = shards_[shard_of(hash)];
  RunEntry* entry = shard.keys == 0 ? nullptr : slot_of(shard.slots, hash, key).entry;
  const auto bytes = static_cast<uint32_t>(record != nullptr ? record->bytes() : 0);
  const bool is_new = entry == nullptr;
  if (is_new) entry = make_entry(shard, hash, key, bytes);
  const bool keeps = !is_new && entry->stamp() <= held;
  const uint32_t room = keeps ? 0 : entry->room();
  char* const more = bytes > room ? take(shard, bytes) : nullptr;
  if (keeps) {
    entry->keep(shard.kept.emplace_front(entry->newest()));
    bytes_.fetch_add(kept_bytes, std::memory_order_relaxed);
  }
  char* const at = entry->change(stamp, bytes, more);
  if (record != nullptr) record->write(at);
}

TreeRun::Found TreeRun::find(uint64_t hash, std::string_view key, uint64_t moment) const {
  const Shard& shard = shards_[shard_of(hash)];
  if (shard.keys == 0) return {};
  const RunEntry* const entry = slot_of(shard.slots, hash, key).entry;
  if (entry == nullptr) return {};
  const RunEntry::Shown shown = entry->at_moment(moment);
  return {shown.known, shown.known && shown.value.empty(), shown.value};
}

// Writes all entries of the shard to `to`.
void TreeRun::collect(const Shard& shard, RunPlace* to) {
  constexpr size_t slots_ahead = 16;
  for (size_t i = 0; i < shard.slots.size(); ++i) {
    if (i + slots_ahead < shard.slots.size()) {
      __builtin_prefetch(shard.slots[i + slots_ahead].entry);
    }
    if (shard.slots[i].entry != nullptr) *to++ = RunPlace(*shard.slots[i].entry);
  }
}

// With the mutex of the order. Whoever lists a key from now on says so.
void TreeRun::collect_new(Locks& locks) const {
  any_listed_.store(false);
  for (uint32_t i = 0; i < shards; ++i) {
    Shard& shard = shards_[i];
    const std::lock_guard guard(locks[i]);
    const size_t before = unsorted_.size();
    unsorted_.resize(before + (shard.lists ? shard.listed.size() : shard.keys));
    RunPlace* const to = unsorted_.data() + before;
    if (shard.lists) {
      std::transform(shard.listed.begin(), shard.listed.end(), to,
                     [](const RunEntry* entry) { return RunPlace(*entry); });
    } else {
      collect(shard, to);
    }
    shard.listed.clear();
    shard.lists = true;
  }
}

std::shared_ptr<const RunOrder> TreeRun::in_order(Locks& locks, uint32_t threads) const {
  const std::lock_guard guard(order_mutex_);
  const bool whole = sealed_.load(std::memory_order_acquire);
  const bool has_all = !any_listed_.load();
  if (has_all && (!whole || order_->pieces().size() <= 1)) return order_;
  try {
    collect_new(locks);
    WorkerPool pool(unsorted_.size() < worth_threads ? 1 : threads);
    sort_places(unsorted_, pool);
    order_ = std::make_shared<const RunOrder>(*order_, unsorted_, whole);
    bytes_.fetch_add(unsorted_.size() * sizeof(RunPlace), std::memory_order_relaxed);
    unsorted_ = {};
  } catch (const std::bad_alloc&) {
    any_listed_.store(true);
    throw;
  }
  return order_;
}

std::vector<TreeEntry> TreeRun::all(bool in_order, uint32_t threads) const {
  std::array<size_t, shards + 1> begins{};
  for (uint32_t i = 0; i < shards; ++i) begins[i + 1] = begins[i] + shards_[i].keys;
  std::vector<RunPlace> places(begins[shards]);
  std::vector<TreeEntry> all(places.size());
  WorkerPool pool(places.size() < worth_threads ? 1 : threads);
  pool.run(shards, [&](uint32_t i, uint32_t) { collect(shards_[i], places.data() + begins[i]); });
  if (in_order) sort_places(places, pool);
  pool.run(shards, [&](uint32_t i, uint32_t) {
    constexpr size_t entries_ahead = 16;  // in order, entries lie anywhere
    for (size_t at = begins[i]; at < begins[i + 1]; ++at) {
      __builtin_prefetch(places[std::min(at + entries_ahead, places.size() - 1)].entry);
      const RunEntry& entry = *places[at].entry;
      all[at] = {entry.key(), entry.at_moment(RunEntry::latest).value};
    }
  });
  return all;
}

}  // namespace isotherm
