// HotTable: the indexes of some databases with one fast part in front, for the keys of hot bins.
//
// The line indexes are complete, so they are the dictionary of EKRM; the fast part
// (hot/fast_part.h) has the words of keys whose bin is hot, as far as they find room. A look-up of
// a hot key asks the fast part first, then the index; everybody else asks the index alone. Whoever
// changes a word does so through a HotIndex, whose `find` and `update` are those of a LineIndex, so
// whatever works on an index works on this (index/item_table.h). What only looks at an index, walks
// over it or grows it needs to know nothing of the fast part.
//
// What a bin's state (hot/bin_states.h) means here:
//
//              look-ups ask       a change of a key
//   cold       the index          does not look at the fast part
//   warming    the index          takes the key away from it
//   hot        both               takes it away, and puts the new word behind the index
//   cooling    the index          takes it away
//
// Warming: the state changes, earlier epochs end (so every change now takes keys away), the bin's
// keys are put in from the index, each under its line's lock; then the bin is hot. Cooling is the
// same backwards: the state changes, earlier epochs end, the bin's keys are taken away; then it is
// cold. The words are those of the index, so nothing is dirty and no request waits for a move. A
// canonical store on a device gives its values away when it warms a bin and takes them back when it
// cools; then requests on the bin have to wait meanwhile. BinKeeper is what both have in common.
//
// Growth. `step` makes a part of twice the size when the fast part is filled beyond `grow_at`, and
// half of it when it is nearly empty: changes take keys away from both parts, earlier epochs end,
// changes put keys into both, the keys of hot bins are put into the new one, look-ups go there, and
// the old one goes when earlier epochs have ended. Parts stay within `most_bytes` and within the
// memory budget: one of more than half of a cap that was lowered is replaced by a smaller one, also
// by one of less than `least_bytes`.
// Where there is no room to grow, keys that are not read give way.
//
// Flushes. Entries name their index by its number, which no later index has. So nobody finds those
// of an index that was taken away, and `step` sweeps them out.
//
// Threads. find and update: any, within an epoch. warm, cool and step: one, in no epoch of its own.
// Limits. A bin that moves is walked over in all databases.
// Sources. EKRM, sections 4.1 to 4.3 and 5.4; docs/papers.md says what is different.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/counter.h"
#include "base/macros.h"
#include "hot/bin_states.h"
#include "hot/fast_part.h"
#include "hot/fast_use.h"
#include "index/line_index.h"
#include "items/epoch.h"
#include "items/memory_budget.h"

namespace isotherm {

// Has the keys of hot bins.
class BinKeeper {
 public:
  virtual ~BinKeeper() = default;
  // A step of taking over the keys of a bin that is warming, or of giving back those of one that is
  // cooling; false while there is more to do. Every request has seen the state.
  virtual bool warm(uint32_t bin) = 0;
  virtual bool cool(uint32_t bin) = 0;
};

class HotTable : public BinKeeper {
 public:
  struct Options {
    uint64_t least_bytes = 2 << 20;  // of the fast part, where the cap has room
    uint64_t most_bytes = uint64_t{1} << 40;
    HugeBlock::Pages largest = HugeBlock::Pages::huge_1g;
    uint64_t seed = draw_seed();
  };
  static constexpr double grow_at = 0.7;
  static constexpr double shrink_at = 0.1;
  static constexpr uint64_t least_cap = 2;  // times the part, but for the smallest one
  static constexpr uint64_t smallest_bytes = 4 << 10;
  static constexpr uint32_t lines_a_step = 256;
  static constexpr uint32_t places_a_step = 4096;

  // The index that a database has now, or null; asked within an epoch.
  using IndexOf = std::function<LineIndex*(uint32_t database)>;

  // Throws std::bad_alloc.
  HotTable(uint32_t databases, IndexOf index_of, BinStates& states, EpochDomain& epochs,
           MemoryBudget& budget, const Options& options);
  ~HotTable() override;
  HotTable(const HotTable&) = delete;
  HotTable& operator=(const HotTable&) = delete;

  template <class Tile, class Between = NothingBetween>
  ISOTHERM_INLINE Found find(const LineIndex& index, uint64_t hash, FastUse& use,
                             Between&& between = {}) const {
    if (states_.of(hash) == BinState::hot && use.tries()) {
      const FastPart& part = *parts_.load(std::memory_order_acquire)->current;
      const uint64_t word = part.find(hash, index.number(), between);
      use.note(word != 0);
      if (word != 0) return {true, word};
    }
    return index.template find<Tile>(hash);
  }

  ISOTHERM_INLINE void prefetch(const LineIndex& index, uint64_t hash, const FastUse& use) const {
    if (states_.of(hash) == BinState::hot && !use.skips()) {
      return parts_.load(std::memory_order_acquire)->current->prefetch(hash);
    }
    index.prefetch_home(hash);
  }
  ISOTHERM_INLINE void prefetch_change(const LineIndex& index, uint64_t hash) const {
    if (states_.of(hash) != BinState::cold) {
      parts_.load(std::memory_order_acquire)->current->prefetch(hash);
    }
    index.prefetch(hash, true);
  }

  template <class Tile, class Decide, class Publish = NoPublish>
  ISOTHERM_INLINE Updated update(LineIndex& index, uint64_t hash, Decide&& decide,
                                 Publish&& publish = {}) {
    const BinState state = states_.of(hash);
    if (state == BinState::cold) {
      return index.template update<Tile>(hash, decide, publish);
    }
    Changes changes(*parts_.load(std::memory_order_acquire), hash, index.number());
    uint64_t word = 0;
    const auto note_word = [&](bool found, uint64_t old, Segment& segment) {
      const Decision decision = decide(found, old, segment);
      word = decision.action == Action::store ? decision.word : 0;
      return decision;
    };
    const auto take_away = [&] {
      publish();
      changes.begin();
    };
    const Updated updated = index.template update<Tile>(hash, note_word, take_away);
    if (word != 0 && state == BinState::hot) changes.put(word);
    return updated;
  }

  bool warm(uint32_t bin) override;
  bool cool(uint32_t bin) override;

  // A step of growing or shrinking, if there is one to be made; true while there may be more.
  bool step();
  // Whether the next one only looks if requests that began earlier have ended.
  bool waits() const { return phase_ == Phase::announced || phase_ == Phase::replaced; }

  // Any thread.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  uint64_t growths() const { return growths_.get(); }
  // For the thread that moves and steps, or within an epoch.
  const FastPart& part() const { return *parts_.load(std::memory_order_acquire)->current; }

 private:
  // All threads see these together: the part that serves, and the next one, into which changes put
  // keys once all who change know of it.
  struct Parts {
    FastPart* current;
    FastPart* next = nullptr;
    bool next_takes = false;
  };
  // The change of a key in both. No function of it is inline, since code for AVX-512 calls it.
  class Changes {
   public:
    Changes(const Parts& parts, uint64_t hash, uint64_t index);
    ~Changes();
    Changes(const Changes&) = delete;
    Changes& operator=(const Changes&) = delete;
    void begin();
    void put(uint64_t word);

   private:
    const Parts parts_;
    const uint64_t hash_;
    const uint64_t index_;
    std::optional<FastPart::Change> current_;
    std::optional<FastPart::Change> next_;
  };
  // How far a walk over all databases has come.
  struct Cursor {
    uint32_t database = 0;
    std::optional<uint64_t> bound;  // none: at the start of the database
  };
  enum class Phase : uint8_t { rests, announced, fills, replaced };

  template <class Visit>
  bool walk(Cursor& cursor, uint64_t first, uint64_t last, Visit&& visit);
  template <class Visit>
  bool walk_bin(uint32_t bin, Visit&& visit);
  static void put_from_index(FastPart& part, LineIndex& index, uint64_t hash);
  std::unique_ptr<FastPart> make_part(uint64_t bytes) const;
  uint64_t most_bytes() const;
  uint64_t wanted_bytes() const;
  bool begin_growth();
  bool fill();
  bool sweep();
  bool indexes_went();
  void show(const Parts& parts);
  void count_memory(const FastPart& part, int sign);

  const uint32_t databases_;
  const IndexOf index_of_;
  BinStates& states_;
  EpochDomain& epochs_;
  MemoryBudget& budget_;
  const Options options_;
  std::unique_ptr<FastPart> current_;
  std::unique_ptr<FastPart> next_;  // or the one that was replaced
  std::unique_ptr<Parts> shown_;
  std::vector<std::unique_ptr<Parts>> old_shown_;  // until the growth ends
  std::atomic<const Parts*> parts_{nullptr};
  Phase phase_ = Phase::rests;
  Grace grace_;
  Cursor growing_;
  Cursor moving_;
  std::vector<uint64_t> hashes_;   // of the line that a walk is at
  std::vector<uint64_t> numbers_;  // of the databases' indexes when it was last looked; 0: none
  bool sweeps_ = false;
  uint64_t next_place_ = 0;  // to be swept
  std::atomic<uint64_t> bytes_{0};
  Counter growths_;
};

// An index of the table as whoever changes it sees it. Roots that are to be replaced are read from
// the index itself, whose line the change needs anyway.
class HotIndex {
 public:
  HotIndex() = default;
  ISOTHERM_INLINE HotIndex(HotTable& table, LineIndex& index) : table_(&table), index_(&index) {}

  template <class Tile>
  ISOTHERM_INLINE Found find(uint64_t hash) const {
    return index_->template find<Tile>(hash);
  }
  template <class Tile, class Decide, class Publish = NoPublish>
  ISOTHERM_INLINE Updated update(uint64_t hash, Decide&& decide, Publish&& publish = {}) {
    return table_->template update<Tile>(*index_, hash, decide, publish);
  }

 private:
  HotTable* table_ = nullptr;
  LineIndex* index_ = nullptr;
};

}  // namespace isotherm
