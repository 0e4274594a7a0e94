#include "index/line_index.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

namespace isotherm {
namespace {

// Appends entries to a chain that nobody else sees yet.
class ChainWriter {
 public:
  // `fresh` has the lines that all its writers will need.
  ChainWriter(Bucket* home, std::vector<Bucket*>& fresh) : line_(home), fresh_(fresh) {}

  // Lines that a chain of so many entries has behind its home line: each gives a slot to its link.
  static constexpr uint32_t lines_for(uint64_t entries) {
    if (entries <= Bucket::slots) return 0;
    return static_cast<uint32_t>((entries - Bucket::slots + Bucket::last - 1) / Bucket::last);
  }

  void append(Slot entry) {
    if (used_ == Bucket::slots) {
      Bucket* fresh = fresh_.back();
      fresh_.pop_back();
      store_pair(&fresh->slot[0], line_->slot[Bucket::last]);
      store_pair(&line_->slot[Bucket::last], mark::make_link(fresh, entry.first));
      line_ = fresh;
      used_ = 1;
    }
    store_pair(&line_->slot[used_++], entry);
  }

 private:
  Bucket* line_;
  int used_ = 0;
  std::vector<Bucket*>& fresh_;
};

// `count` entries go from one segment to another, under the lock of their line. Versions of their
// keys go on from where the old clock stands.
void hand_over(Segment& from, Segment& to, size_t count) {
  to.count.fetch_add(static_cast<int64_t>(count), std::memory_order_relaxed);
  from.count.fetch_sub(static_cast<int64_t>(count), std::memory_order_relaxed);
  const uint64_t clock = from.clock.load(std::memory_order_relaxed);
  uint64_t seen = to.clock.load(std::memory_order_relaxed);
  while (seen < clock && !to.clock.compare_exchange_weak(seen, clock)) {
  }
}

}  // namespace

LineIndex::LineIndex(Pages& pages, MemoryBudget& budget, EpochDomain& epochs,
                     uint64_t first_version, bool capped, uint64_t expected)
    : pool_(pages, budget, capped), epochs_(epochs) {
  std::vector<Segment*> segments;
  make_segments(0, 0, first_version, expected, segments);
  int bits = 0;
  for (const Segment* segment : segments) bits = std::max(bits, segment->depth);
  auto directory = std::make_unique<Directory>(bits);
  uint64_t at = 0;
  for (Segment* segment : segments) {
    const uint64_t end = at + (uint64_t{1} << (bits - segment->depth));
    for (; at < end; ++at) {
      directory->entries[at] = DirectoryEntry::make(segment->lines, segment->depth, segment);
    }
  }
  directory_.store(directory.release(), std::memory_order_release);
}

// Segments for a share of `expected` entries, in the order of their prefixes.
void LineIndex::make_segments(uint64_t prefix, int depth, uint64_t clock, uint64_t expected,
                              std::vector<Segment*>& made) {
  if (expected >> depth > split_threshold(prefix, depth)) {
    make_segments(prefix << 1, depth + 1, clock, expected, made);
    make_segments(prefix << 1 | 1, depth + 1, clock, expected, made);
    return;
  }
  if (Segment* segment = new_segment(prefix, depth, clock)) return made.push_back(segment);
  for (Segment* segment : made) free_segment(segment);
  throw std::bad_alloc();
}

LineIndex::~LineIndex() {
  for (Segment* segment : all_segments()) free_segment(segment);
  for (Retired& retired : retired_) free_retired(retired);
  delete directory_.load(std::memory_order_relaxed);
}

Segment* LineIndex::new_segment(uint64_t prefix, int depth, uint64_t clock) {
  Bucket* lines = pool_.take_segment();
  if (lines == nullptr) return nullptr;
  return new Segment(lines, prefix, depth, clock);
}

void LineIndex::free_segment(Segment* segment) {
  pool_.give_segment(segment->lines);
  delete segment;
}

void LineIndex::free_retired(Retired& retired) {
  if (retired.segment != nullptr) free_segment(retired.segment);
  delete retired.directory;
  for (Bucket* line : retired.lines) pool_.give(line);
}

// Segments of the directory, each once, and those that lines are moving to.
std::vector<Segment*> LineIndex::all_segments() const {
  std::vector<Segment*> segments;
  const Directory* directory = directory_.load(std::memory_order_acquire);
  for (uint64_t i = 0; i < directory->size();) {
    auto* segment = reinterpret_cast<Segment*>(load_pair(&directory->entries[i]).second);
    segments.push_back(segment);
    i += uint64_t{1} << (directory->view.bits - segment->depth);
  }
  if (move_.parent != nullptr && move_.joins) {
    segments.push_back(move_.parent);
  } else if (move_.parent != nullptr) {
    segments.insert(segments.end(), std::begin(move_.child), std::end(move_.child));
  }
  return segments;
}

uint64_t LineIndex::count() const {
  std::lock_guard guard(grow_mutex_);
  int64_t sum = 0;
  for (const Segment* segment : all_segments()) {
    sum += segment->count.load(std::memory_order_relaxed);
  }
  return sum > 0 ? static_cast<uint64_t>(sum) : 0;
}

uint64_t LineIndex::last_version() const {
  std::lock_guard guard(grow_mutex_);
  uint64_t last = 0;
  for (const Segment* segment : all_segments()) {
    last = std::max(last, segment->clock.load(std::memory_order_relaxed));
  }
  return last;
}

void LineIndex::request_split(Segment& segment) {
  if (segment.split_wanted.exchange(true)) return;
  std::lock_guard guard(grow_mutex_);
  queue_split(segment);
}

void LineIndex::queue_split(Segment& segment) {
  wanted_.push_back(&segment);
  pending_.fetch_add(1, std::memory_order_relaxed);
}

void LineIndex::request_join(Segment& segment) {
  if (segment.join_below.exchange(0) == 0) return;
  std::lock_guard guard(grow_mutex_);
  queue_join(segment);
}

void LineIndex::queue_join(const Segment& segment) {
  candidates_.push_back({segment.prefix, segment.depth});
  pending_.fetch_add(1, std::memory_order_relaxed);
}

void LineIndex::check_loads() {
  const std::lock_guard guard(grow_mutex_);
  if (move_.parent != nullptr) return;
  for (Segment* segment : all_segments()) check_load(*segment);
}

// Of a segment that could not ask while its lines came in.
void LineIndex::check_load(Segment& segment) {
  const int64_t count = segment.count.load(std::memory_order_relaxed);
  const uint32_t join_below = join_threshold(segment.prefix, segment.depth);
  if (count > segment.split_at) {
    if (!segment.split_wanted.exchange(true)) queue_split(segment);
  } else if (count < join_below) {
    queue_join(segment);
  } else {
    segment.join_below.store(join_below, std::memory_order_relaxed);
  }
}

bool LineIndex::step(uint32_t max_lines) {
  const std::lock_guard guard(grow_mutex_);
  return move_lines(max_lines);
}

std::optional<bool> LineIndex::try_step(uint32_t max_lines) {
  const std::unique_lock guard(grow_mutex_, std::try_to_lock);
  if (!guard.owns_lock()) return std::nullopt;
  return move_lines(max_lines);
}

// Holds the mutex.
bool LineIndex::move_lines(uint32_t max_lines) {
  const bool more_retired = reclaim();
  if (move_.parent == nullptr && !begin_split() && !begin_join(max_lines)) return more_retired;
  if (move_.parent == nullptr) return true;
  for (; max_lines > 0 && move_.line < segment_lines; --max_lines, ++move_.line) {
    if (!(move_.joins ? join_line(move_.line) : split_line(move_.line))) return more_retired;
    lines_moved_.fetch_add(1, std::memory_order_relaxed);
  }
  if (move_.line == segment_lines) finish_move();
  return true;
}

// A segment may have waited long, for memory, and lost what it was to be split for.
void LineIndex::drop_stale_splits() {
  while (!wanted_.empty() &&
         wanted_.front()->count.load(std::memory_order_relaxed) < wanted_.front()->split_at / 2) {
    Segment& segment = *wanted_.front();
    wanted_.pop_front();
    pending_.fetch_sub(1, std::memory_order_relaxed);
    segment.split_wanted.store(false);
    check_load(segment);
  }
}

// Makes two empty children of the segment that waits longest, and publishes them in it.
bool LineIndex::begin_split() {
  drop_stale_splits();
  if (wanted_.empty()) return false;
  Segment* segment = wanted_.front();
  const uint64_t clock = segment->clock.load(std::memory_order_relaxed);
  Segment* low = new_segment(segment->prefix << 1, segment->depth + 1, clock);
  if (low == nullptr) return false;
  Segment* high = new_segment(segment->prefix << 1 | 1, segment->depth + 1, clock);
  if (high == nullptr) {
    free_segment(low);
    return false;
  }
  wanted_.pop_front();
  segment->join_below.store(0, std::memory_order_relaxed);
  segment->next[0].store(low, std::memory_order_release);
  segment->next[1].store(high, std::memory_order_release);
  move_ = {segment, {low, high}, false, 0};
  return true;
}

// Looks at candidates, each for one of `max_lines`, until one can be joined with its sibling. False
// without one, or without memory.
bool LineIndex::begin_join(uint32_t& max_lines) {
  for (; !candidates_.empty(); --max_lines) {
    if (max_lines == 0) return true;
    const auto [prefix, depth] = candidates_.front();
    Segment* segment = segment_at(prefix, depth);
    Segment* sibling = segment != nullptr ? joinable_sibling(*segment) : nullptr;
    if (sibling != nullptr) {
      const bool is_low = prefix % 2 == 0;
      if (!begin_join_of(is_low ? *segment : *sibling, is_low ? *sibling : *segment)) return false;
    }
    candidates_.pop_front();
    if (sibling != nullptr) return true;
    pending_.fetch_sub(1, std::memory_order_relaxed);
  }
  return false;
}

// The segment of the directory with just this prefix, or null.
Segment* LineIndex::segment_at(uint64_t prefix, int depth) const {
  const Directory* directory = directory_.load(std::memory_order_relaxed);
  if (depth == 0 || depth > directory->view.bits) return nullptr;
  auto* segment = reinterpret_cast<Segment*>(directory->view.entry(prefix << (64 - depth)).second);
  return segment->depth == depth ? segment : nullptr;
}

// The sibling, where the two have few enough entries. Otherwise sees to it that the one or the
// other asks again.
Segment* LineIndex::joinable_sibling(Segment& segment) {
  const uint32_t below = join_threshold(segment.prefix, segment.depth);
  const auto count = [](const Segment& of) { return of.count.load(std::memory_order_relaxed); };
  Segment* sibling = segment_at(segment.prefix ^ 1, segment.depth);
  const bool wanted = segment.split_wanted.load() || (sibling != nullptr && sibling->split_wanted);
  if (sibling != nullptr && !wanted && count(segment) + count(*sibling) < 2 * int64_t{below}) {
    return sibling;
  }
  const int64_t half = std::clamp<int64_t>(count(segment) / 2, 0, below);
  segment.join_below.store(count(segment) >= below ? below : static_cast<uint32_t>(half),
                           std::memory_order_relaxed);
  if (sibling != nullptr && count(*sibling) >= below) {
    sibling->join_below.store(below, std::memory_order_relaxed);
  }
  return nullptr;
}

// Makes an empty parent and publishes it in both. Neither is queued for a split meanwhile: the flag
// says that it is already.
bool LineIndex::begin_join_of(Segment& low, Segment& high) {
  const uint64_t clock = std::max(low.clock.load(std::memory_order_relaxed),
                                  high.clock.load(std::memory_order_relaxed));
  Segment* parent = new_segment(low.prefix >> 1, low.depth - 1, clock);
  if (parent == nullptr) return false;
  for (Segment* child : {&low, &high}) {
    child->split_wanted.store(true);
    child->join_below.store(0, std::memory_order_relaxed);
    child->next[0].store(parent, std::memory_order_release);
    child->next[1].store(parent, std::memory_order_release);
  }
  move_ = {parent, {&low, &high}, true, 0};
  return true;
}

LineIndex::Place LineIndex::place(uint32_t line) const {
  const Segment& parent = *move_.parent;
  const int shift = 64 - parent.depth;
  const uint64_t prefix = parent.depth == 0 ? 0 : parent.prefix << shift;
  return {prefix | uint64_t{line} << (shift - segment_line_bits), parent.lines + line,
          move_.child[line >> (segment_line_bits - 1)], 2 * line % segment_lines};
}

bool LineIndex::split_line(uint32_t line) {
  Segment& segment = *move_.parent;
  const Place at = place(line);
  const int bit = segment.depth + segment_line_bits;  // the hash bit that picks one of the pair
  Bucket* pair = at.child->lines + at.pair;

  LineLock guard(segment.lock[line]);
  std::vector<Slot> entries;
  visit_chain(at.home, at.hash, [&](uint64_t h, uint64_t word) { entries.push_back({h, word}); });
  const auto side = [&](const Slot& entry) { return (entry.first >> (63 - bit)) & 1; };
  uint64_t counts[2] = {};
  for (const Slot& entry : entries) ++counts[side(entry)];
  std::vector<Bucket*> fresh;
  const uint32_t overflow = ChainWriter::lines_for(counts[0]) + ChainWriter::lines_for(counts[1]);
  if (overflow != 0 && !pool_.take(overflow, fresh)) return false;
  ChainWriter writers[2] = {{pair, fresh}, {pair + 1, fresh}};
  for (const Slot& entry : entries) writers[side(entry)].append(entry);

  hand_over(segment, *at.child, entries.size());
  leave_line(at.home, at.hash, mark::make_moved(pair, bit, at.hash));
  return true;
}

bool LineIndex::join_line(uint32_t line) {
  const Place at = place(line);
  Bucket* pair = at.child->lines + at.pair;

  LineLock first(at.child->lock[at.pair]);
  LineLock second(at.child->lock[at.pair + 1]);
  std::vector<Slot> entries;
  const auto gather = [&](uint64_t h, uint64_t word) { entries.push_back({h, word}); };
  for (Bucket* home : {pair, pair + 1}) visit_chain(home, at.hash, gather);
  std::vector<Bucket*> fresh;
  const uint32_t overflow = ChainWriter::lines_for(entries.size());
  if (overflow != 0 && !pool_.take(overflow, fresh)) return false;
  ChainWriter writer(at.home, fresh);
  for (const Slot& entry : entries) writer.append(entry);

  hand_over(*at.child, *move_.parent, entries.size());
  for (Bucket* home : {pair, pair + 1}) {
    leave_line(home, at.hash, mark::make_joined(at.home, at.hash));
  }
  return true;
}

// Notes the overflow lines of a chain that was copied, and says in its home line where it went.
void LineIndex::leave_line(Bucket* home, uint64_t hash, [[maybe_unused]] Slot moved) {
  for (Slot last = home->slot[Bucket::last]; mark::is_mark(last, hash);) {
    Bucket* behind = mark::link_target(last);
    moved_overflow_.push_back(behind);
    last = behind->slot[Bucket::last];
  }
#if !defined(ISOTHERM_BREAK_SPLIT)  // a test build: the stress of splits has to catch a plain copy
                                    // and swap
  store_pair(&home->slot[Bucket::last], moved);
#endif
}

void LineIndex::finish_move() {
  const Move move = std::exchange(move_, {});
  point_directory(move);
  if (move.joins) {
    check_load(*move.parent);
    retire(move.child[0], nullptr, std::move(moved_overflow_));
    retire(move.child[1], nullptr, {});
  } else {
    for (Segment* child : move.child) check_load(*child);
    retire(move.parent, nullptr, std::move(moved_overflow_));
  }
  moved_overflow_.clear();
  (move.joins ? joins_ : splits_).fetch_add(1, std::memory_order_relaxed);
  pending_.fetch_sub(1, std::memory_order_relaxed);
}

void LineIndex::point_directory(const Move& move) {
  const int depth = move.parent->depth;
  Directory* directory = directory_.load(std::memory_order_relaxed);
  if (directory->view.bits == depth) {
    auto* doubled = new Directory(depth + 1);
    for (uint64_t i = 0; i < doubled->size(); ++i) {
      doubled->entries[i] = directory->entries[i >> 1];
    }
    directory_.store(doubled, std::memory_order_release);
    retire(nullptr, directory, {});
    directory = doubled;
  }
  const int below = directory->view.bits - depth;  // bits of the directory past the prefix
  const uint64_t first = move.parent->prefix << below;
  for (uint64_t i = 0; i < uint64_t{1} << below; ++i) {
    Segment* to = move.joins ? move.parent : move.child[i >> (below - 1)];
    store_pair(&directory->entries[first + i], DirectoryEntry::make(to->lines, to->depth, to));
  }
}

void LineIndex::retire(Segment* segment, const Directory* directory, std::vector<Bucket*> lines) {
  retired_.push_back({epochs_.current(), segment, directory, std::move(lines)});
  pending_.fetch_add(1, std::memory_order_relaxed);
}

// Frees one retired thing if it is old enough; true while others wait and may soon be.
bool LineIndex::reclaim() {
  if (retired_.empty()) return false;
  const uint64_t oldest = epochs_.advance();
  if (retired_.front().epoch >= oldest) return false;
  free_retired(retired_.front());
  retired_.pop_front();
  pending_.fetch_sub(1, std::memory_order_relaxed);
  return !retired_.empty();
}

}  // namespace isotherm
