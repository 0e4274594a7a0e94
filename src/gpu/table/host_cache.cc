#include "gpu/table/host_cache.h"

#include <algorithm>
#include <atomic>
#include <stdexcept>

#include "base/hash.h"
#include "gpu/kernel/request_op.h"
#include "index/cuckoo_part.h"
#include "index/set_part.h"
#include "items/huge_block.h"

namespace isotherm {
namespace {

template <class Part>
class HostCacheOf final : public HostCache {
 public:
  HostCacheOf(uint64_t parts, uint64_t seed)
      : memory_(parts * sizeof(Part), HugeBlock::Pages::transparent),
        parts_(reinterpret_cast<Part*>(memory_.data())),
        count_(parts),
        seed_(seed) {}

  Done run(const TableRequests& requests) override { return run_rows(requests, nullptr); }
  uint64_t get_stored(const TableRequests& gets, uint64_t* stored_keys) override {
    return run_rows(gets, stored_keys).found;
  }

  uint64_t scan(uint64_t cursor, uint64_t count, const Visit& visit) override {
    Pair found[Part::entries];
    for (uint64_t visited = 0; cursor < count_ && visited < count; ++cursor) {
      Part& part = parts_[cursor];
      const HostUnit unit;
      uint32_t entries = 0;
      lock_part(unit, &part.version);
      each_entry(part, [&](const Pair& pair) { found[entries++] = pair; });
      unlock_part(unit, &part.version);
      for (uint32_t i = 0; i < entries; ++i) visit(unmix(found[i].first, seed_), found[i].second);
      visited += entries;
    }
    return cursor < count_ ? cursor : 0;
  }

  uint64_t size() const override { return static_cast<uint64_t>(entries_.load()); }
  uint64_t room() const override { return count_ * Part::entries; }
  uint64_t bytes() const override { return count_ * sizeof(Part); }
  uint64_t evictions() const override { return evicted_.load(); }
  uint64_t displaced() const override { return moved_.load(); }

 private:
  static constexpr uint64_t ahead = 16;
  // Stamps of lookups stand for so long: a share of the time in which all entries could be new.
  static constexpr uint64_t slack_share = 64;

  // `stored_keys`: null, or of gets that compare no keys.
  Done run_rows(const TableRequests& requests, uint64_t* stored_keys) {
    const uint64_t time = time_.fetch_add(requests.rows, std::memory_order_relaxed) + 1;
    CacheTally tally;
    Done done;
    uint64_t hashes[ahead];
    for (uint64_t first = 0; first < requests.rows; first += ahead) {
      const uint64_t rows = std::min(ahead, requests.rows - first);
      for (uint64_t i = 0; i < rows; ++i) {
        hashes[i] = mix(requests.keys[first + i], seed_);
        Part::prefetch(part(hashes[i]), hashes[i]);
      }
      if (rows > 1) {
        for (uint64_t i = 0; i < rows; ++i) Part::prefetch_entry(part(hashes[i]), hashes[i]);
      }
      for (uint64_t i = 0; i < rows; ++i) {
        done.found +=
            answer(requests, first + i, hashes[i], time + first + i, tally, stored_keys) ? 1 : 0;
      }
    }
    note(tally);
    done.evicted = tally.evicted;
    return done;
  }

  Part& part(uint64_t hash) { return parts_[part_of_hash(hash, count_)]; }

  // Whether the key was found.
  bool answer(const TableRequests& requests, uint64_t row, uint64_t hash, uint64_t time,
              CacheTally& tally, uint64_t* stored_keys) {
    const TableOp op = requests.ops != nullptr ? requests.ops[row] : requests.op;
    Found before;
    if (op == TableOp::get) {
      const CachePlace place =
          stored_keys != nullptr ? look_up<false>(hash, time) : look_up<true>(hash, time);
      before = {place.found, place.word};
      if (stored_keys != nullptr && place.found) stored_keys[row] = unmix(place.hash, seed_);
    } else {
      before = update(requests, row, op, hash, time, tally);
    }
    if (requests.found != nullptr) {
      if (before.found) requests.values_out[row] = before.word;
      requests.found[row] = before.found ? 1 : 0;
    }
    return before.found;
  }

  template <bool compare>
  CachePlace look_up(uint64_t hash, uint64_t time) {
    const HostUnit unit;
    Part& its = part(hash);
    const CachePlace place = read_part<Part, compare>(unit, its, hash);
    if (place.found) Part::touch(unit, its, place, time, room() / slack_share);
    return place;
  }

  Found update(const TableRequests& requests, uint64_t row, TableOp op, uint64_t hash,
               uint64_t time, CacheTally& tally) {
    const uint64_t value = requests.values != nullptr ? requests.values[row] : 0;
    const uint64_t expected = requests.expected != nullptr ? requests.expected[row] : 0;
    return update_part(
        HostUnit(), part(hash), hash, time, tally, [&](bool found, uint64_t word) -> Decision {
          const KeyState to = apply(op, value, expected, {found ? word : 0, uint8_t{found}});
          if (to.found == 0) return {found ? Action::erase : Action::keep, 0};
          return {found && to.value == word ? Action::keep : Action::store, to.value};
        });
  }

  void note(const CacheTally& tally) {
    if (tally.entries != 0) entries_.fetch_add(tally.entries, std::memory_order_relaxed);
    if (tally.evicted != 0) evicted_.fetch_add(tally.evicted, std::memory_order_relaxed);
    if (tally.moved != 0) moved_.fetch_add(tally.moved, std::memory_order_relaxed);
  }

  HugeBlock memory_;
  Part* const parts_;
  const uint64_t count_;
  const uint64_t seed_;
  alignas(64) std::atomic<uint64_t> time_ = 0;
  alignas(64) std::atomic<int64_t> entries_ = 0;
  std::atomic<uint64_t> evicted_ = 0;
  std::atomic<uint64_t> moved_ = 0;
};

template <class Part>
std::unique_ptr<HostCache> make_of(uint64_t bytes, uint64_t entries, uint64_t seed) {
  const uint64_t parts = parts_for<Part>(bytes, entries);
  return std::make_unique<HostCacheOf<Part>>(parts, seed);
}

}  // namespace

std::unique_ptr<HostCache> make_host_cache(FixedIndexKind index, uint64_t bytes, uint64_t entries,
                                           uint64_t seed) {
  return index == FixedIndexKind::cuckoo ? make_of<CuckooPart>(bytes, entries, seed)
                                         : make_of<SetPart>(bytes, entries, seed);
}

}  // namespace isotherm
