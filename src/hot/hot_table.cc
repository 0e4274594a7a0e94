#include "hot/hot_table.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/broken.h"
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

HotTable::HotTable(uint32_t databases, IndexOf index_of, BinStates& states, EpochDomain& epochs,
                   MemoryBudget& budget, const Options& options)
    : databases_(databases),
      index_of_(std::move(index_of)),
      states_(states),
      epochs_(epochs),
      budget_(budget),
      options_(options),
      current_(make_part(options.least_bytes)),
      numbers_(databases) {
  count_memory(*current_, 1);
  show({current_.get()});
}

HotTable::~HotTable() {
  for (const auto* part : {&current_, &next_}) {
    if (*part != nullptr) count_memory(**part, -1);
  }
}

std::unique_ptr<FastPart> HotTable::make_part(uint64_t bytes) const {
  // A large page would be larger than all of it.
  const bool small = bytes < options_.least_bytes;
  const HugeBlock::Pages largest = small ? HugeBlock::Pages::normal : options_.largest;
  return std::make_unique<FastPart>(bytes, largest, options_.seed);
}

void HotTable::count_memory(const FastPart& part, int sign) {
  budget_.hot.fetch_add(sign * static_cast<int64_t>(part.memory()));
}

HotTable::Changes::Changes(const Parts& parts, uint64_t hash, uint64_t index)
    : parts_(parts), hash_(hash), index_(index) {}
HotTable::Changes::~Changes() = default;

void HotTable::Changes::begin() {
  current_.emplace(*parts_.current, hash_, index_);
  if (parts_.next != nullptr) next_.emplace(*parts_.next, hash_, index_);
}

void HotTable::Changes::put(uint64_t word) {
  if (current_) current_->put(word);
  if (next_ && parts_.next_takes) next_->put(word);
}

void HotTable::show(const Parts& parts) {
  auto fresh = std::make_unique<Parts>(parts);
  parts_.store(fresh.get(), std::memory_order_seq_cst);
  bytes_.store(parts.current->bytes(), std::memory_order_relaxed);
  if (shown_ != nullptr) old_shown_.push_back(std::move(shown_));
  shown_ = std::move(fresh);
  grace_.begin(epochs_);
}

// Visits visit(index, hash) for hashes in [first, last] of some lines; true at the end of all
// databases, and then the cursor is at the start again.
template <class Visit>
bool HotTable::walk(Cursor& cursor, uint64_t first, uint64_t last, Visit&& visit) {
  const HotStay stay(epochs_);
  for (uint32_t line = 0; line < lines_a_step && cursor.database < databases_; ++line) {
    LineIndex* const index = index_of_(cursor.database);
    uint64_t next = 0;
    if (index != nullptr) {
      hashes_.clear();
      next = index->scan(cursor.bound.value_or(first), [&](uint64_t hash, uint64_t /*word*/) {
        if (hash >= first && hash <= last) hashes_.push_back(hash);
      });
      for (const uint64_t hash : hashes_) visit(*index, hash);
    }
    cursor.bound = next;
    if (next == 0 || next > last) cursor = {cursor.database + 1, {}};
  }
  if (cursor.database < databases_) return false;
  cursor = {};
  return true;
}

template <class Visit>
bool HotTable::walk_bin(uint32_t bin, Visit&& visit) {
  const uint64_t end = bin + 1 == states_.count() ? 0 : states_.first_hash(bin + 1);
  return walk(moving_, states_.first_hash(bin), end - 1, visit);
}

// Under the line's lock, as every change.
void HotTable::put_from_index(FastPart& part, LineIndex& index, uint64_t hash) {
  const auto put = [&](bool found, uint64_t word, Segment& /*segment*/) -> Decision {
    if (found) FastPart::Change(part, hash, index.number()).put(word);
    return {};
  };
  index.update<TilePlain>(hash, put);
}

bool HotTable::warm(uint32_t bin) {
  return walk_bin(bin, [&](LineIndex& index, uint64_t hash) {
    put_from_index(*current_, index, hash);
    // While the table grows, the next part takes the key, too.
    if (shown_->next_takes) put_from_index(*next_, index, hash);
  });
}

bool HotTable::cool(uint32_t bin) {
  if (broken(Rule::cooling)) return true;
  // One part after the other: changes that began before a part was replaced hold places of both,
  // and lock those of the old one first.
  return walk_bin(bin, [&](const LineIndex& index, uint64_t hash) {
    for (FastPart* const part : {current_.get(), next_.get()}) {
      if (part != nullptr) const FastPart::Change taken(*part, hash, index.number());
    }
  });
}

// The cap may have become smaller since the table was made.
uint64_t HotTable::most_bytes() const {
  const uint64_t cap = budget_.limit();
  return cap != 0 ? std::min(options_.most_bytes, cap / least_cap) : options_.most_bytes;
}

// 0: as it is.
uint64_t HotTable::wanted_bytes() const {
  const uint64_t now = current_->bytes();
  const uint64_t most = most_bytes();
  uint64_t fewer = now;
  while (fewer > most && fewer / 2 >= smallest_bytes) fewer /= 2;
  if (fewer != now) return fewer;
  const double load = current_->load();
  if (load > grow_at && now * 2 <= most) return now * 2;
  if (load < shrink_at && now / 2 >= options_.least_bytes) return now / 2;
  return 0;
}

bool HotTable::begin_growth() {
  const uint64_t bytes = wanted_bytes();
  if (bytes == 0) return false;
  // A table that is too large for the cap makes room by this, whatever else there is.
  const bool fits = budget_.fits(std::max(bytes, Reservation::alignment));
  if (!fits && current_->bytes() <= most_bytes()) return false;
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
  return walk(growing_, 0, ~uint64_t{0}, [&](LineIndex& index, uint64_t hash) {
    if (states_.of(hash) == BinState::hot) put_from_index(*next_, index, hash);
  });
}

// Whether one was taken away since the last look.
bool HotTable::indexes_went() {
  const HotStay stay(epochs_);
  bool went = false;
  for (uint32_t database = 0; database < databases_; ++database) {
    const LineIndex* const index = index_of_(database);
    const uint64_t number = index != nullptr ? index->number() : 0;
    const uint64_t before = std::exchange(numbers_[database], number);
    went |= before != 0 && before != number;
  }
  return went;
}

// A step of taking away the entries of indexes that are gone, if any are; true while there is more.
// If it takes out a key of an index that was made since, the key is still found in that index.
bool HotTable::sweep() {
  sweeps_ = sweeps_ || indexes_went();
  if (!sweeps_) return false;
  next_place_ = current_->sweep(next_place_, places_a_step, [&](uint64_t number) {
    return std::find(numbers_.begin(), numbers_.end(), number) != numbers_.end();
  });
  sweeps_ = next_place_ != 0;
  return true;
}

bool HotTable::step() {
  switch (phase_) {
    case Phase::rests:
      return sweep() || begin_growth();
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
      growths_.add();
      phase_ = Phase::rests;
      break;
  }
  return true;
}

}  // namespace isotherm
