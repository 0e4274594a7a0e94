// HotTable: the indexes of some databases with one fast part in front, for the keys of hot bins.
//
// The line indexes are complete, so they are the dictionary of EKRM; the fast part
// (hot/fast_part.h) has the words of keys whose bin is hot, as far as they find room. A look-up of
// a hot key asks the fast part first, then the index; everybody else asks the index alone. `find`
// and `update` are those of a LineIndex, so whatever works on an index works on this
// (index/item_table.h).
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
// memory budget. Where there is no room to grow, keys that are not read give way.
//
// Threads. find and update: any, within an epoch. warm, cool and step: one, in no epoch of its own.
// Limits. A database's index stays the same object, so a flush that detaches it is not served yet.
// Sources. EKRM, sections 4.1 to 4.3 and 5.4; docs/papers.md says what is different.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "base/macros.h"
#include "hot/bin_states.h"
#include "hot/fast_part.h"
#include "hot/fast_use.h"
#include "index/line_index.h"
#include "items/epoch.h"
#include "items/memory_budget.h"

namespace isotherm {

// Who has the keys of hot bins.
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
    uint64_t least_bytes = 2 << 20;  // of the fast part
    uint64_t most_bytes = uint64_t{1} << 40;
    HugeBlock::Pages largest = HugeBlock::Pages::huge_1g;
    uint64_t seed = draw_seed();
  };
  static constexpr double grow_at = 0.7;
  static constexpr double shrink_at = 0.1;
  static constexpr uint32_t lines_a_step = 256;

  // `indexes`: by database; null for one that has none, about which nobody asks here. Throws
  // std::bad_alloc.
  HotTable(std::vector<LineIndex*> indexes, BinStates& states, EpochDomain& epochs,
           MemoryBudget& budget, const Options& options);
  ~HotTable() override;
  HotTable(const HotTable&) = delete;
  HotTable& operator=(const HotTable&) = delete;

  template <class Tile, class Between = NothingBetween>
  ISOTHERM_INLINE Found find(uint32_t database, uint64_t hash, FastUse& use,
                             Between&& between = {}) const {
    if (states_.of(hash) == BinState::hot && use.tries()) {
      const FastPart& part = *parts_.load(std::memory_order_acquire)->current;
      const uint64_t word = part.find(hash, database, between);
      use.note(word != 0);
      if (word != 0) return {true, word};
    }
    return indexes_[database]->template find<Tile>(hash);
  }

  ISOTHERM_INLINE void prefetch(uint32_t database, uint64_t hash, const FastUse& use) const {
    if (states_.of(hash) == BinState::hot && !use.skips()) {
      return parts_.load(std::memory_order_acquire)->current->prefetch(hash);
    }
    indexes_[database]->prefetch_home(hash);
  }

  template <class Tile, class Decide, class Publish = NoPublish>
  ISOTHERM_INLINE Updated update(uint32_t database, uint64_t hash, Decide&& decide,
                                 Publish&& publish = {}) {
    const BinState state = states_.of(hash);
    LineIndex& index = *indexes_[database];
    if (state == BinState::cold) {
      return index.template update<Tile>(hash, decide, publish);
    }
    Changes changes(*parts_.load(std::memory_order_acquire), hash, database);
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

  uint64_t bytes() const { return parts_.load(std::memory_order_acquire)->current->bytes(); }
  uint64_t growths() const { return growths_; }
  const FastPart& part() const { return *parts_.load(std::memory_order_acquire)->current; }

 private:
  // What all see at once: the part that serves, and the one that will, into which changes put keys
  // once all who change know of it.
  struct Parts {
    FastPart* current;
    FastPart* next = nullptr;
    bool next_takes = false;
  };
  // The change of a key in both.
  class Changes {
   public:
    Changes(const Parts& parts, uint64_t hash, uint32_t database)
        : parts_(parts), hash_(hash), database_(database) {}
    void begin() {
      current_.emplace(*parts_.current, hash_, database_);
      if (parts_.next != nullptr) next_.emplace(*parts_.next, hash_, database_);
    }
    void put(uint64_t word) {
      if (current_) current_->put(word);
      if (next_ && parts_.next_takes) next_->put(word);
    }

   private:
    const Parts parts_;
    const uint64_t hash_;
    const uint32_t database_;
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
  void put_from_index(FastPart& part, uint32_t database, uint64_t hash);
  std::unique_ptr<FastPart> make_part(uint64_t bytes) const;
  uint64_t wanted_bytes() const;
  bool begin_growth();
  bool fill();
  void show(const Parts& parts);
  void count_memory(const FastPart& part, int sign);

  const std::vector<LineIndex*> indexes_;
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
  std::vector<uint64_t> hashes_;  // of the line that a walk is at
  uint64_t growths_ = 0;
};

}  // namespace isotherm
