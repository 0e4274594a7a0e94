// The loops of hot_bench, one copy per instruction set: requests on keys, one after the other, or
// in batches, where the memory that a request needs is on its way while others run, as in the host
// executor (executor/host/host_stages.h).
//
// A table offers hash(key), prefetch(hash), find(hash, key) and replace(hash, key, from, to). As
// with the executor, only the files of one instruction set include this.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "hot/hot_table.h"
#include "hot_peers.h"
#include "index/item_table.h"

namespace isotherm::bench {

// Requests in the order in which they run; the keys' bytes lie in one buffer.
struct HotRequests {
  struct Row {
    uint32_t number;  // of the key
    uint32_t at;      // of its bytes
    uint16_t key_bytes;
    uint16_t value_bytes;
    bool sets;
    bool present;
  };
  std::vector<Row> rows;
  std::vector<char> bytes;

  std::string_view key(size_t row) const {
    return {bytes.data() + rows[row].at, rows[row].key_bytes};
  }
};

constexpr uint64_t hot_hash_seed = 0x3243f6a8885a308d;

// Every value begins with a word made of its key's number; what is wrong is counted.
ISOTHERM_INLINE uint64_t value_word(uint32_t number) { return number * 0x9e3779b97f4a7c15ULL + 1; }
ISOTHERM_INLINE bool is_right(const HotRequests::Row& row, const char* value, size_t size) {
  if (size == 0) return !row.present;
  uint64_t word = 0;
  std::memcpy(&word, value, sizeof word);
  return row.present && size == row.value_bytes && word == value_word(row.number);
}

// Items with what finds them.
struct HotStore {
  EpochDomain epochs;
  Pages pages;
  MemoryBudget budget{0};
  ItemStore items{pages, budget, epochs};
  ItemCache cache{items};
  LineIndex index{pages, budget, epochs};
  EpochDomain::Slot* slot = epochs.acquire();

  Location make(std::string_view key, std::string_view value) {
    const Item::Parts parts{key, value.size()};
    const Location location = cache.allocate(parts.bytes());
    std::memcpy(Item::create(items.address(location), parts)->value_data(), value.data(),
                value.size());
    items.set_live(location);
    return location;
  }
};

enum class HotKind : uint8_t { line_index, hot_table, fast_1, fast_2, fast_4, paper };

// What a run needs of the tables; null what it does not use.
struct HotTables {
  HotStore& store;
  HotTable* table = nullptr;
  FastPartOf<1>* fast_1 = nullptr;
  FastPartOf<2>* fast_2 = nullptr;
  FastPartOf<4>* fast_4 = nullptr;
  PaperTable* paper = nullptr;
  FastUse use{};
  bool both_at_once = false;  // the index's line is asked for together with the fast part's
  uint64_t looks = 0;
  uint64_t hits = 0;
};

struct HotLoops {
  // How many replies were wrong.
  uint64_t (*run)(HotKind kind, HotTables& tables, const HotRequests& requests, bool in_batches);
};
extern const HotLoops hot_loops_plain;
extern const HotLoops hot_loops_avx2;
extern const HotLoops hot_loops_avx512;

template <class Tile>
struct LineLookups {
  HotTables& tables;

  ISOTHERM_INLINE uint64_t hash(std::string_view key) const {
    return hash_bytes(key, hot_hash_seed);
  }
  ISOTHERM_INLINE void prefetch(uint64_t hash) const { tables.store.index.prefetch_home(hash); }
  ISOTHERM_INLINE Location find(uint64_t hash, std::string_view) {
    return tables.store.index.find<Tile>(hash).word;
  }
  ISOTHERM_INLINE void replace(uint64_t hash, std::string_view, Location from, Location to) {
    tables.store.index.update<Tile>(hash, [&](bool, uint64_t word, Segment&) {
      return Decision{word == from ? Action::store : Action::keep, to};
    });
  }
};

template <class Tile>
struct HotLookups : LineLookups<Tile> {
  ISOTHERM_INLINE void prefetch(uint64_t hash) const {
    this->tables.table->prefetch(this->tables.store.index, hash, this->tables.use);
    if (this->tables.both_at_once) this->tables.store.index.prefetch_home(hash);
  }
  ISOTHERM_INLINE Location find(uint64_t hash, std::string_view) {
    const LineIndex& index = this->tables.store.index;
    return this->tables.table->template find<Tile>(index, hash, this->tables.use).word;
  }
  ISOTHERM_INLINE void replace(uint64_t hash, std::string_view, Location from, Location to) {
    const auto swap = [&](bool, uint64_t word, Segment&) {
      return Decision{word == from ? Action::store : Action::keep, to};
    };
    this->tables.table->template update<Tile>(this->tables.store.index, hash, swap);
  }
};

// A fast part alone before the index, without bins and without skipping.
template <class Tile, int size>
struct FastLookups : LineLookups<Tile> {
  FastPartOf<size>& part;

  ISOTHERM_INLINE void prefetch(uint64_t hash) const { part.prefetch(hash); }
  ISOTHERM_INLINE Location find(uint64_t hash, std::string_view key) {
    const uint64_t word = part.find(hash, 0);
    ++this->tables.looks;
    if (word == 0) return LineLookups<Tile>::find(hash, key);
    ++this->tables.hits;
    return word;
  }
  ISOTHERM_INLINE void replace(uint64_t hash, std::string_view key, Location from, Location to) {
    typename FastPartOf<size>::Change change(part, hash, 0);
    LineLookups<Tile>::replace(hash, key, from, to);
    change.put(to);
  }
};

struct PaperLookups {
  HotTables& tables;

  ISOTHERM_INLINE uint64_t hash(std::string_view key) const { return PaperTable::hash(key); }
  ISOTHERM_INLINE void prefetch(uint64_t hash) const { tables.paper->prefetch(hash); }
  ISOTHERM_INLINE Location find(uint64_t hash, std::string_view key) {
    return tables.paper->find(hash, key);
  }
  ISOTHERM_INLINE void replace(uint64_t hash, std::string_view key, Location, Location to) {
    tables.paper->replace(hash, key, to);
  }
};

template <class Table>
struct HotLoop {
  static constexpr size_t ahead = 16;
  static constexpr size_t batch_rows = 512;  // until memory of replaced items may be used again

  Table table;
  HotStore& store;
  uint64_t wrong = 0;

  // A key's hash is what the table makes of it; a row's word is the item's location.
  ISOTHERM_INLINE void answer(const HotRequests& requests, size_t at, uint64_t hash,
                              Location location) {
    const HotRequests::Row& row = requests.rows[at];
    const std::string_view key = requests.key(at);
    const Member member = resolve(store.items, location, key);
    if (!row.sets) {
      const std::string_view value =
          member.item != nullptr ? member.item->value() : std::string_view();
      wrong += !is_right(row, value.data(), value.size());
      return;
    }
    const Location fresh = store.make(key, member.item->value());
    table.replace(hash, key, location, fresh);
    store.items.clear_live(location);
    store.cache.retire(location);
  }

  void one_by_one(const HotRequests& requests) {
    for (size_t at = 0; at < requests.rows.size(); ++at) {
      if (at % batch_rows == 0) begin_batch();
      const uint64_t hash = table.hash(requests.key(at));
      answer(requests, at, hash, table.find(hash, requests.key(at)));
    }
  }

  void in_batches(const HotRequests& requests) {
    for (size_t from = 0; from < requests.rows.size(); from += batch_rows) {
      begin_batch();
      run_batch(requests, from, std::min(from + batch_rows, requests.rows.size()));
    }
  }

  // Three passes at once, each some rows behind the one before.
  void run_batch(const HotRequests& requests, size_t from, size_t to) {
    uint64_t hashes[2 * ahead];
    Location found[ahead];
    size_t sure_from = from;  // rows before it may have been found before a row wrote
    for (size_t step = from; step < to + 2 * ahead; ++step) {
      if (step >= from + 2 * ahead) {
        const size_t at = step - 2 * ahead;
        const uint64_t hash = hashes[at % (2 * ahead)];
        if (at < sure_from) found[at % ahead] = table.find(hash, requests.key(at));
        answer(requests, at, hash, found[at % ahead]);
        if (requests.rows[at].sets) sure_from = at + ahead;
      }
      if (step >= from + ahead && step - ahead < to) {
        const size_t at = step - ahead;
        const Location location = table.find(hashes[at % (2 * ahead)], requests.key(at));
        found[at % ahead] = location;
        if (location != location::none) {
          __builtin_prefetch(store.items.address(location));
          __builtin_prefetch(store.items.address(location) + 64);
        }
      }
      if (step < to) {
        hashes[step % (2 * ahead)] = table.hash(requests.key(step));
        table.prefetch(hashes[step % (2 * ahead)]);
      }
    }
  }

  // What others have replaced may be used again.
  void begin_batch() {
    EpochDomain::leave(*store.slot);
    store.cache.reclaim();
    store.epochs.enter(*store.slot);
  }
};

template <class Table>
uint64_t run_hot_loop(Table table, HotStore& store, const HotRequests& requests, bool in_batches) {
  HotLoop<Table> loop{table, store};
  in_batches ? loop.in_batches(requests) : loop.one_by_one(requests);
  EpochDomain::leave(*store.slot);
  return loop.wrong;
}

template <class Tile>
uint64_t run_hot(HotKind kind, HotTables& tables, const HotRequests& requests, bool in_batches) {
  const auto run = [&](auto table) {
    return run_hot_loop(table, tables.store, requests, in_batches);
  };
  switch (kind) {
    case HotKind::hot_table:
      return run(HotLookups<Tile>{{tables}});
    case HotKind::fast_1:
      return run(FastLookups<Tile, 1>{{tables}, *tables.fast_1});
    case HotKind::fast_2:
      return run(FastLookups<Tile, 2>{{tables}, *tables.fast_2});
    case HotKind::fast_4:
      return run(FastLookups<Tile, 4>{{tables}, *tables.fast_4});
    case HotKind::paper:
      return run(PaperLookups{tables});
    case HotKind::line_index:
      break;
  }
  return run(LineLookups<Tile>{tables});
}

}  // namespace isotherm::bench
