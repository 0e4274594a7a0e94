#include "index/line_index.h"

#include <algorithm>
#include <new>
#include <utility>

#include "base/raise_to.h"
#include "base/wait_for_memory.h"

namespace isotherm {

static uint64_t draw_number() {
  static std::atomic<uint64_t> last{0};
  return last.fetch_add(1, std::memory_order_relaxed) + 1;
}

LineIndex::LineIndex(Pages& pages, MemoryBudget& budget, EpochDomain& epochs,
                     uint64_t first_version, bool capped, uint64_t expected)
    : pool_(pages, budget, capped), epochs_(epochs), number_(draw_number()) {
  std::vector<Segment*> segments;
  try {
    make_segments(0, 0, first_version, expected, segments);
    make_directory(segments);
  } catch (const std::bad_alloc&) {
    for (Segment* segment : segments) {
      if (segment != nullptr) free_segment(segment);
    }
    throw;
  }
}

void LineIndex::make_directory(const std::vector<Segment*>& segments) {
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

// Makes the segments below `prefix` for its share of `expected` entries, in the order of their
// prefixes. Throws std::bad_alloc; what was made by then is in `made`, and perhaps a null.
void LineIndex::make_segments(uint64_t prefix, int depth, uint64_t clock, uint64_t expected,
                              std::vector<Segment*>& made) {
  if (expected >> depth > split_threshold(prefix, depth)) {
    make_segments(prefix << 1, depth + 1, clock, expected, made);
    make_segments(prefix << 1 | 1, depth + 1, clock, expected, made);
    return;
  }
  made.push_back(nullptr);  // there may be no memory for that, either
  made.back() = new_segment(prefix, depth, clock);
  if (made.back() == nullptr) throw std::bad_alloc();
}

LineIndex::~LineIndex() {
  each_segment([this](Segment* segment) { free_segment(segment); });
  for (Retired& retired : retired_) free_retired(retired);
  delete directory_.load(std::memory_order_relaxed);
}

Segment* LineIndex::new_segment(uint64_t prefix, int depth, uint64_t clock, LineUse use) {
  Bucket* lines = pool_.take_segment(use);
  if (lines == nullptr) return nullptr;
  try {
    return new Segment(lines, prefix, depth, clock);
  } catch (const std::bad_alloc&) {
    pool_.give_segment(lines);
    return nullptr;
  }
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

// Segments of the directory, each once, and behind them those that lines are moving to. The visitor
// may free them.
template <class Visit>
void LineIndex::each_segment(const Visit& visit) const {
  // Each has to be read before the next one is known, so they are asked for before.
  constexpr uint64_t ahead = 16;
  const Directory* directory = directory_.load(std::memory_order_acquire);
  const auto segment_at = [&](uint64_t i) {
    return reinterpret_cast<Segment*>(load_pair(&directory->entries[i]).second);
  };
  for (uint64_t i = 0; i < directory->size();) {
    if (i + ahead < directory->size()) __builtin_prefetch(segment_at(i + ahead));
    auto* segment = segment_at(i);
    i += uint64_t{1} << (directory->view.bits - segment->depth);
    visit(segment);
  }
  for (const Move& move : moves_) {
    if (move.joins) {
      visit(move.parent);
    } else {
      for (Segment* const child : move.child) visit(child);
    }
  }
}

std::vector<Segment*> LineIndex::all_segments() const {
  std::vector<Segment*> segments;
  each_segment([&](Segment* segment) { segments.push_back(segment); });
  return segments;
}

uint64_t LineIndex::count() const {
  return static_cast<uint64_t>(std::max<int64_t>(entries_.sum(), 0));
}

uint64_t LineIndex::last_version() const {
  std::lock_guard guard(grow_mutex_);
  uint64_t last = 0;
  each_segment([&](const Segment* segment) {
    last = std::max(last, segment->clock.load(std::memory_order_relaxed));
  });
  return last;
}

// Segments that lines move to hear of it when they get them.
void LineIndex::begin_versions(uint64_t version) {
  std::lock_guard guard(grow_mutex_);
  each_segment(
      [&](Segment* segment) { raise_to(segment->clock, version, std::memory_order_seq_cst); });
}

void LineIndex::request_split(Segment& segment) {
  if (segment.split_wanted.exchange(true)) return;
  std::lock_guard guard(grow_mutex_);
  try {
    queue_split(segment);
  } catch (const std::bad_alloc&) {  // the write has succeeded; the next one asks again
    segment.split_wanted.store(false);
  }
}

// Lets a segment ask for a split again that was kept from asking.
void LineIndex::let_split(Segment& segment) {
  segment.split_wanted.store(false);
  if (segment.count.load(std::memory_order_relaxed) <= segment.split_at) return;
  if (!segment.split_wanted.exchange(true)) queue_split(segment);
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
  for (Segment* segment : all_segments()) {
    if (in_directory(*segment) && !moves(*segment)) check_load(*segment);
  }
}

// Asks for a segment that could not ask while its lines came in.
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
  move_lines(*move, lines, scratch);
  guard.lock();
  const uint32_t moved = scratch.moved;
  // Others find the lines where they are now, so what is noted of them must not be lost.
  wait_for_memory([&] {
    move->overflow.insert(move->overflow.end(), scratch.overflow.begin(), scratch.overflow.end());
  });
  move->left -= moved;
  move->starved = moved < lines.count;
  if (move->starved) {  // behind the others
    const Lines rest{lines.first + moved, lines.count - moved};
    wait_for_memory([&] { move->free.insert(move->free.begin(), rest); });
  }
  if (move->left == 0) finish_move(*move);
  return moved == lines.count || more_retired;
}

// Returns a move with lines that nobody has claimed, and begins one where there is none. Null when
// there is nothing to do, when there is no memory, and when `max_lines` candidates for a join were
// looked at.
LineIndex::Move* LineIndex::find_move(uint32_t& max_lines, Guard& guard) {
  Move* starved = nullptr;
  for (Move& move : moves_) {
    if (move.free.empty()) continue;
    if (!move.starved) return &move;
    starved = &move;
  }
  Move* move = nullptr;
  if (starved == nullptr) move = begin_split(guard);
  if (move == nullptr) move = begin_join(max_lines);
  return move != nullptr ? move : starved;
}

LineIndex::Lines LineIndex::claim(Move& move, uint32_t max_lines) {
  Lines& free = move.free.back();
  const Lines mine{free.first, std::min(free.count, max_lines)};
  free = {mine.first + mine.count, free.count - mine.count};
  if (free.count == 0) move.free.pop_back();
  return mine;
}

// Takes the segment that waits longest for its split and has all its lines. A segment that waited
// long, for memory, may have lost the entries that it was to be split for; it is left out.
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
  if (wanted_.empty() || !pool_.has_room_to_split()) return nullptr;
  std::list<Move> begun(1);  // before the segment is taken, which would be forgotten
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
  return begin(begun, segment, low, high, false);
}

// `begun` holds the one move, which was made before anything was published.
LineIndex::Move* LineIndex::begin(std::list<Move>& begun, Segment* parent, Segment* low,
                                  Segment* high, bool joins) {
  Move& move = begun.front();
  move.parent = parent;
  move.child[0] = low;
  move.child[1] = high;
  move.joins = joins;
  moves_.splice(moves_.end(), begun);
  return &move;
}

// Looks at candidates until one can be joined with its sibling; each costs one of `max_lines`. Null
// when there is none, or no memory.
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

// Whether its lines are moving, from it or to it.
bool LineIndex::moves(const Segment& segment) const {
  return std::any_of(moves_.begin(), moves_.end(), [&](const Move& move) {
    return move.parent == &segment || move.child[0] == &segment || move.child[1] == &segment;
  });
}

// Returns the sibling if the two have few enough entries. Otherwise makes sure that one of them
// asks again.
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

// Makes an empty parent and publishes it in both. Neither is queued for a split meanwhile, since
// its flag says that it already is. Null without memory, or if one has asked for a split since it
// was looked at.
LineIndex::Move* LineIndex::begin_join_of(Segment& low, Segment& high) {
  std::list<Move> begun(1);
  if (low.split_wanted.exchange(true)) return nullptr;
  if (high.split_wanted.exchange(true)) {
    let_split(low);
    return nullptr;
  }
  const uint64_t clock = std::max(low.clock.load(std::memory_order_relaxed),
                                  high.clock.load(std::memory_order_relaxed));
  Segment* parent = new_segment(low.prefix >> 1, low.depth - 1, clock, LineUse::join);
  if (parent == nullptr) {
    let_split(low);
    let_split(high);
    return nullptr;
  }
  for (Segment* child : {&low, &high}) {
    child->join_below.store(0, std::memory_order_relaxed);
    child->next[0].store(parent, std::memory_order_release);
    child->next[1].store(parent, std::memory_order_release);
  }
  return begin(begun, parent, &low, &high, true);
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

// Takes the oldest retired thing if it is old enough to be freed.
std::optional<LineIndex::Retired> LineIndex::take_old() {
  if (retired_.empty() || retired_.front().epoch >= epochs_.advance()) return std::nullopt;
  std::optional<Retired> old = std::move(retired_.front());
  retired_.pop_front();
  pending_.fetch_sub(1, std::memory_order_relaxed);
  return old;
}

}  // namespace isotherm
