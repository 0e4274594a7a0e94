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

Segment* LineIndex::new_segment(uint64_t prefix, int depth, uint64_t clock, SegmentUse use) {
  Bucket* lines = pool_.take_segment(use);
  if (lines == nullptr) return nullptr;
  auto* segment = new (std::nothrow) Segment(lines, prefix, depth, clock);
  if (segment == nullptr) pool_.give_segment(lines);
  return segment;
}

void LineIndex::free_segment(Segment* segment) {
  pool_.give_segment(segment->lines);
  delete segment;
}

void LineIndex::free_retired(Retired& retired) {
  if (retired.segment != nullptr) free_segment(retired.segment);
  delete retired.directory;
  pool_.give(retired.lines);
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
  for (const Move& move : moves_) {
    if (move.joins) {
      segments.push_back(move.parent);
    } else {
      segments.insert(segments.end(), std::begin(move.child), std::end(move.child));
    }
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
  if (!moves_.empty()) return;
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
  Guard guard(grow_mutex_);
  std::optional<Retired> old = take_old();
  const bool more_retired = old && !retired_.empty();
  if (old) {
    guard.unlock();
    free_retired(*old);
    guard.lock();
  }
  Move* const move = find_move(max_lines, guard);
  if (move == nullptr || max_lines == 0) return more_retired || max_lines == 0;
  const Lines lines = claim(*move, max_lines);
  guard.unlock();
  Scratch scratch;
  const uint32_t moved = move_lines(*move, lines, scratch);
  guard.lock();
  move->overflow.insert(move->overflow.end(), scratch.overflow.begin(), scratch.overflow.end());
  move->left -= moved;
  if (moved < lines.count) move->free.push_back({lines.first + moved, lines.count - moved});
  if (move->left == 0) finish_move(*move);
  return moved == lines.count || more_retired;
}

// One with lines that nobody has claimed; begins one where there is none. Null without anything to
// do, or without memory; or when so many candidates were looked at, each for one of `max_lines`.
LineIndex::Move* LineIndex::find_move(uint32_t& max_lines, Guard& guard) {
  for (Move& move : moves_) {
    if (!move.free.empty()) return &move;
  }
  Move* const split = begin_split(guard);
  return split != nullptr ? split : begin_join(max_lines);
}

LineIndex::Lines LineIndex::claim(Move& move, uint32_t max_lines) {
  Lines& free = move.free.back();
  const Lines mine{free.first, std::min(free.count, max_lines)};
  free = {mine.first + mine.count, free.count - mine.count};
  if (free.count == 0) move.free.pop_back();
  return mine;
}

// Without the mutex. How many it could move.
uint32_t LineIndex::move_lines(const Move& move, Lines lines, Scratch& scratch) {
  for (uint32_t i = 0; i < lines.count; ++i) {
    const uint32_t line = lines.first + i;
    if (!(move.joins ? join_line(move, line, scratch) : split_line(move, line, scratch))) return i;
    lines_moved_.fetch_add(1, std::memory_order_relaxed);
  }
  return lines.count;
}

// Takes the segment that waits longest for its split and has all its lines. One may have waited
// long, for memory, and lost what it was to be split for.
Segment* LineIndex::take_wanted() {
  for (size_t i = 0; i < wanted_.size();) {
    Segment& segment = *wanted_[i];
    if (!in_directory(segment)) {
      ++i;
      continue;
    }
    wanted_.erase(wanted_.begin() + static_cast<ptrdiff_t>(i));
    if (segment.count.load(std::memory_order_relaxed) >= segment.split_at / 2) return &segment;
    pending_.fetch_sub(1, std::memory_order_relaxed);
    segment.split_wanted.store(false);
    check_load(segment);
  }
  return nullptr;
}

// Makes two empty children of a segment that waits, and publishes them in it.
LineIndex::Move* LineIndex::begin_split(Guard& guard) {
  Segment* const segment = take_wanted();
  if (segment == nullptr) return nullptr;
  guard.unlock();
  const uint64_t clock = segment->clock.load(std::memory_order_relaxed);
  Segment* low = new_segment(segment->prefix << 1, segment->depth + 1, clock);
  Segment* high = new_segment(segment->prefix << 1 | 1, segment->depth + 1, clock);
  guard.lock();
  if (low == nullptr || high == nullptr) {
    for (Segment* child : {low, high}) {
      if (child != nullptr) free_segment(child);
    }
    wanted_.push_front(segment);
    return nullptr;
  }
  segment->join_below.store(0, std::memory_order_relaxed);
  segment->next[0].store(low, std::memory_order_release);
  segment->next[1].store(high, std::memory_order_release);
  return &moves_.emplace_back(Move{segment, {low, high}, false});
}

// Looks at candidates, each for one of `max_lines`, until one can be joined with its sibling. Null
// without one, or without memory.
LineIndex::Move* LineIndex::begin_join(uint32_t& max_lines) {
  for (; !candidates_.empty() && max_lines > 0; --max_lines) {
    const auto [prefix, depth] = candidates_.front();
    Segment* segment = segment_at(prefix, depth);
    if (segment != nullptr && moves(*segment)) segment = nullptr;
    Segment* sibling = segment != nullptr ? joinable_sibling(*segment) : nullptr;
    Move* move = nullptr;
    if (sibling != nullptr) {
      const bool is_low = prefix % 2 == 0;
      move = begin_join_of(is_low ? *segment : *sibling, is_low ? *sibling : *segment);
      if (move == nullptr) return nullptr;
    }
    candidates_.pop_front();
    if (move != nullptr) return move;
    pending_.fetch_sub(1, std::memory_order_relaxed);
  }
  return nullptr;
}

// The segment of the directory with just this prefix, or null.
Segment* LineIndex::segment_at(uint64_t prefix, int depth) const {
  const Directory* directory = directory_.load(std::memory_order_relaxed);
  if (depth == 0 || depth > directory->view.bits) return nullptr;
  auto* segment = reinterpret_cast<Segment*>(directory->view.entry(prefix << (64 - depth)).second);
  return segment->depth == depth ? segment : nullptr;
}

bool LineIndex::in_directory(const Segment& segment) const {
  const int shift = 64 - segment.depth;
  const uint64_t hash = segment.depth == 0 ? 0 : segment.prefix << shift;
  return reinterpret_cast<const Segment*>(view().entry(hash).second) == &segment;
}

// Whether it is on its way.
bool LineIndex::moves(const Segment& segment) const {
  return std::any_of(moves_.begin(), moves_.end(), [&](const Move& move) {
    return move.parent == &segment || move.child[0] == &segment || move.child[1] == &segment;
  });
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
LineIndex::Move* LineIndex::begin_join_of(Segment& low, Segment& high) {
  const uint64_t clock = std::max(low.clock.load(std::memory_order_relaxed),
                                  high.clock.load(std::memory_order_relaxed));
  Segment* parent = new_segment(low.prefix >> 1, low.depth - 1, clock, SegmentUse::join);
  if (parent == nullptr) return nullptr;
  for (Segment* child : {&low, &high}) {
    child->split_wanted.store(true);
    child->join_below.store(0, std::memory_order_relaxed);
    child->next[0].store(parent, std::memory_order_release);
    child->next[1].store(parent, std::memory_order_release);
  }
  return &moves_.emplace_back(Move{parent, {&low, &high}, true});
}

LineIndex::Place LineIndex::place(const Move& move, uint32_t line) {
  const Segment& parent = *move.parent;
  const int shift = 64 - parent.depth;
  const uint64_t prefix = parent.depth == 0 ? 0 : parent.prefix << shift;
  return {prefix | uint64_t{line} << (shift - segment_line_bits), parent.lines + line,
          move.child[line >> (segment_line_bits - 1)], 2 * line % segment_lines};
}

bool LineIndex::split_line(const Move& move, uint32_t line, Scratch& scratch) {
  Segment& segment = *move.parent;
  const Place at = place(move, line);
  const int bit = segment.depth + segment_line_bits;  // the hash bit that picks one of the pair
  Bucket* pair = at.child->lines + at.pair;

  LineLock guard(segment.lock[line]);
  std::vector<Slot>& entries = scratch.entries;
  entries.clear();
  visit_chain(at.home, at.hash, [&](uint64_t h, uint64_t word) { entries.push_back({h, word}); });
  const auto side = [&](const Slot& entry) { return (entry.first >> (63 - bit)) & 1; };
  uint64_t counts[2] = {};
  for (const Slot& entry : entries) ++counts[side(entry)];
  std::vector<Bucket*>& fresh = scratch.fresh;
  const uint32_t overflow = ChainWriter::lines_for(counts[0]) + ChainWriter::lines_for(counts[1]);
  if (overflow != 0 && !pool_.take(overflow, fresh)) return false;
  ChainWriter writers[2] = {{pair, fresh}, {pair + 1, fresh}};
  for (const Slot& entry : entries) writers[side(entry)].append(entry);

  hand_over(segment, *at.child, entries.size());
  leave_line(at.home, at.hash, mark::make_moved(pair, bit, at.hash), scratch);
  return true;
}

bool LineIndex::join_line(const Move& move, uint32_t line, Scratch& scratch) {
  const Place at = place(move, line);
  Bucket* pair = at.child->lines + at.pair;

  LineLock first(at.child->lock[at.pair]);
  LineLock second(at.child->lock[at.pair + 1]);
  std::vector<Slot>& entries = scratch.entries;
  entries.clear();
  const auto gather = [&](uint64_t h, uint64_t word) { entries.push_back({h, word}); };
  for (Bucket* home : {pair, pair + 1}) visit_chain(home, at.hash, gather);
  std::vector<Bucket*>& fresh = scratch.fresh;
  const uint32_t overflow = ChainWriter::lines_for(entries.size());
  if (overflow != 0 && !pool_.take(overflow, fresh)) return false;
  ChainWriter writer(at.home, fresh);
  for (const Slot& entry : entries) writer.append(entry);

  hand_over(*at.child, *move.parent, entries.size());
  for (Bucket* home : {pair, pair + 1}) {
    leave_line(home, at.hash, mark::make_joined(at.home, at.hash), scratch);
  }
  return true;
}

// Notes the overflow lines of a chain that was copied, and says in its home line where it went.
void LineIndex::leave_line(Bucket* home, uint64_t hash, [[maybe_unused]] Slot moved,
                           Scratch& scratch) {
  for (Slot last = home->slot[Bucket::last]; mark::is_mark(last, hash);) {
    Bucket* behind = mark::link_target(last);
    scratch.overflow.push_back(behind);
    last = behind->slot[Bucket::last];
  }
#if !defined(ISOTHERM_BREAK_SPLIT)  // a test build: the stress of splits has to catch a plain copy
                                    // and swap
  store_pair(&home->slot[Bucket::last], moved);
#endif
}

// `under_way` is one of the moves; all its lines have moved.
void LineIndex::finish_move(Move& under_way) {
  const auto at = std::find_if(moves_.begin(), moves_.end(),
                               [&](const Move& move) { return &move == &under_way; });
  Move move = std::move(*at);
  moves_.erase(at);
  point_directory(move);
  if (move.joins) {
    check_load(*move.parent);
    retire(move.child[0], nullptr, std::move(move.overflow));
    retire(move.child[1], nullptr, {});
  } else {
    for (Segment* child : move.child) check_load(*child);
    retire(move.parent, nullptr, std::move(move.overflow));
  }
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

// One retired thing, if it is old enough to be freed.
std::optional<LineIndex::Retired> LineIndex::take_old() {
  if (retired_.empty() || retired_.front().epoch >= epochs_.advance()) return std::nullopt;
  std::optional<Retired> old = std::move(retired_.front());
  retired_.pop_front();
  pending_.fetch_sub(1, std::memory_order_relaxed);
  return old;
}

}  // namespace isotherm
