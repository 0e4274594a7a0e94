#include "hot/hot_table.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/tile.h"

namespace isotherm {
namespace {

// A background thread's stay in an epoch.
class HotStay {
 public:
  explicit HotStay(EpochDomain& epochs) : taken_(epochs), guard_(epochs, *taken_.slot) {}

 private:
  TakenSlot taken_;
  EpochGuard guard_;
};

}  // namespace

HotTable::HotTable(std::vector<LineIndex*> indexes, BinStates& states, EpochDomain& epochs,
                   MemoryBudget& budget, const Options& options)
    : indexes_(std::move(indexes)),
      states_(states),
      epochs_(epochs),
      budget_(budget),
      options_(options),
      current_(make_part(options.least_bytes)) {
  count_memory(*current_, 1);
  show({current_.get()});
}

HotTable::~HotTable() {
  for (const auto* part : {&current_, &next_}) {
    if (*part != nullptr) count_memory(**part, -1);
  }
}

std::unique_ptr<FastPart> HotTable::make_part(uint64_t bytes) const {
  return std::make_unique<FastPart>(bytes, options_.largest, options_.seed);
}

void HotTable::count_memory(const FastPart& part, int sign) {
  budget_.hot.fetch_add(sign * static_cast<int64_t>(part.memory()));
}

void HotTable::show(const Parts& parts) {
  auto fresh = std::make_unique<Parts>(parts);
  parts_.store(fresh.get(), std::memory_order_seq_cst);
  if (shown_ != nullptr) old_shown_.push_back(std::move(shown_));
  shown_ = std::move(fresh);
  grace_.begin(epochs_);
}

// Visits visit(database, hash) for hashes in [first, last] of some lines; true at the end of all
// databases, and then the cursor is at the start again.
template <class Visit>
bool HotTable::walk(Cursor& cursor, uint64_t first, uint64_t last, Visit&& visit) {
  const HotStay stay(epochs_);
  for (uint32_t line = 0; line < lines_a_step && cursor.database < indexes_.size(); ++line) {
    LineIndex* index = indexes_[cursor.database];
    uint64_t next = 0;
    if (index != nullptr) {
      hashes_.clear();
      next = index->scan(cursor.bound.value_or(first), [&](uint64_t hash, uint64_t /*word*/) {
        if (hash >= first && hash <= last) hashes_.push_back(hash);
      });
      for (const uint64_t hash : hashes_) visit(cursor.database, hash);
    }
    cursor.bound = next;
    if (next == 0 || next > last) cursor = {cursor.database + 1, {}};
  }
  if (cursor.database < indexes_.size()) return false;
  cursor = {};
  return true;
}

template <class Visit>
bool HotTable::walk_bin(uint32_t bin, Visit&& visit) {
  const uint64_t end = bin + 1 == states_.count() ? 0 : states_.first_hash(bin + 1);
  return walk(moving_, states_.first_hash(bin), end - 1, visit);
}

// Under the line's lock, as every change.
void HotTable::put_from_index(FastPart& part, uint32_t database, uint64_t hash) {
  const auto put = [&](bool found, uint64_t word, Segment& /*segment*/) -> Decision {
    if (found) FastPart::Change(part, hash, database).put(word);
    return {};
  };
  indexes_[database]->update<TilePlain>(hash, put);
}

bool HotTable::warm(uint32_t bin) {
  return walk_bin(bin, [&](uint32_t database, uint64_t hash) {
    put_from_index(*current_, database, hash);
    // Of a growth that rests until the bin has moved.
    if (shown_->next_takes) put_from_index(*next_, database, hash);
  });
}

bool HotTable::cool(uint32_t bin) {
  return walk_bin(bin, [&](uint32_t database, uint64_t hash) {
    const FastPart::Change taken(*current_, hash, database);
    if (next_ != nullptr) const FastPart::Change taken_too(*next_, hash, database);
  });
}

// 0: as it is.
uint64_t HotTable::wanted_bytes() const {
  const uint64_t now = current_->bytes();
  const double load = current_->load();
  if (load > grow_at && now * 2 <= options_.most_bytes) return now * 2;
  if (load < shrink_at && now / 2 >= options_.least_bytes) return now / 2;
  return 0;
}

bool HotTable::begin_growth() {
  const uint64_t bytes = wanted_bytes();
  if (bytes == 0 || !budget_.fits(std::max(bytes, Reservation::alignment))) return false;
  try {
    next_ = make_part(bytes);
  } catch (const std::bad_alloc&) {
    return false;
  }
  count_memory(*next_, 1);
  show({current_.get(), next_.get()});
  phase_ = Phase::announced;
  return true;
}

// Keys of bins that are not hot are put by `warm` when they become so.
bool HotTable::fill() {
  return walk(growing_, 0, ~uint64_t{0}, [&](uint32_t database, uint64_t hash) {
    if (states_.of(hash) == BinState::hot) put_from_index(*next_, database, hash);
  });
}

bool HotTable::step() {
  switch (phase_) {
    case Phase::rests:
      return begin_growth();
    case Phase::announced:
      if (!grace_.is_over(epochs_)) break;
      show({current_.get(), next_.get(), true});
      phase_ = Phase::fills;
      break;
    case Phase::fills:
      if (!fill()) break;
      std::swap(current_, next_);
      show({current_.get()});
      phase_ = Phase::replaced;
      break;
    case Phase::replaced:
      if (!grace_.is_over(epochs_)) break;
      count_memory(*next_, -1);
      next_.reset();
      old_shown_.clear();
      ++growths_;
      phase_ = Phase::rests;
      break;
  }
  return true;
}

}  // namespace isotherm
