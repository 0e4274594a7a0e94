// LineIndex: maps 64-bit hashes to 64-bit words in lines of 128 bytes; grows and shrinks without
// stopping.
//
// Read first: index/bucket.h (a line), index/probe.h (find and update in a chain), index/view.h
// (the directory), index/segment.h (locks, versions, thresholds).
//
// Growth. When a segment holds more entries than its threshold it is queued; `step` moves a bounded
// number of lines of one segment:
//   1. two child segments are made and published in the old one;
//   2. line by line: lock, copy the chain into the two lines of the child, put MOVED into the
//      home line's last slot, unlock;
//   3. the directory's entries for the old segment are pointed at the children (the directory
//      doubles if it must), and the old lines retire by epoch.
// A reader or writer that meets MOVED goes to the child, so every write that was acknowledged is
// seen: the child is written only after MOVED stands, and MOVED is read after the candidate. The
// index is complete between steps, however late the next one comes.
//
// Steps of several threads run side by side: each claims lines that nobody else has claimed, of a
// segment whose lines are moving, or of the next one where there are none. Lines that a step could
// not move for want of memory are claimed again after everything else that can be done, since joins
// give memory back. A segment is split or joined only while it stands in the directory, which it
// does not before all its lines have come to it.
//
// Shrinking is growth backwards. When two siblings have few entries together (join_threshold), a
// fresh segment of their parent's prefix is made and published in both. Line by line, the two lines
// of a child that become one line of the parent are locked and copied into it, and MOVED in both
// points to it. Then the directory is pointed at the parent, and the children retire. The directory
// keeps its size.
//
// Who asks for a join. An erase that leaves a segment below its `join_below` queues it, once. If
// the sibling proves too full, the segment asks again at half its entries, and the sibling asks
// when it falls below the threshold itself. So one of two siblings that are both below it has
// asked, and a full sibling costs erases nothing. The queue holds prefixes, which may have been
// split or joined by the time they are looked at.
//
// Threads. find and scan: any number, within an epoch (items/epoch.h). update: any number, within
// an epoch; writers of one line take turns by its lock. step: any number; a mutex is held while a
// step claims lines and when it has moved them, not while it moves them.
//
// Limits. 2^24 segments; the directory's pointers are copied in one step when it doubles
// (2^16 segments, two billion entries: half a millisecond), and a join writes as many as its
// segments have. Entries with hash 0 do not exist.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "base/striped_count.h"
#include "index/line_pool.h"
#include "index/probe.h"
#include "index/segment.h"
#include "index/view.h"
#include "items/epoch.h"

namespace isotherm {

class LineIndex {
 public:
  struct Directory {
    explicit Directory(int bits) : entries(new Pair[uint64_t{1} << bits]) {
      view = {entries.get(), bits, segment_line_bits};
    }
    std::unique_ptr<Pair[]> entries;
    IndexView view;
    uint64_t size() const { return uint64_t{1} << view.bits; }
  };

  // `first_version` is the clock to start from; `capped`: see index/line_pool.h; `expected`:
  // entries to have segments for from the start. Throws std::bad_alloc without memory for these.
  LineIndex(Pages& pages, MemoryBudget& budget, EpochDomain& epochs, uint64_t first_version = 0,
            bool capped = false, uint64_t expected = 0);
  ~LineIndex();
  LineIndex(const LineIndex&) = delete;
  LineIndex& operator=(const LineIndex&) = delete;

  // No other index of the process has it, or had it before.
  ISOTHERM_INLINE uint64_t number() const { return number_; }

  // The view that leads to home lines; valid within the caller's epoch, also while the index grows.
  const IndexView& view() const { return directory_.load(std::memory_order_acquire)->view; }

  template <class Tile>
  ISOTHERM_INLINE Found find(uint64_t hash) const {
    return isotherm::find(Tile{}, view().home(hash), hash);
  }

  // Prefetches and returns the home line of `hash`; valid within the caller's epoch.
  ISOTHERM_INLINE const Bucket* prefetch_home(uint64_t hash) const {
    const Bucket* home = view().home(hash);
    __builtin_prefetch(home);
    __builtin_prefetch(reinterpret_cast<const char*>(home) + 64);
    return home;
  }

  // Prefetches the home line of `hash`, and for an update its lock.
  ISOTHERM_INLINE void prefetch(uint64_t hash, bool for_update) const {
    const Pair entry = view().entry(hash);
    const uint64_t number = line_number(hash, DirectoryEntry::depth(entry), segment_line_bits);
    const auto* line = reinterpret_cast<const char*>(DirectoryEntry::lines(entry) + number);
    __builtin_prefetch(line);
    __builtin_prefetch(line + 64);
    if (for_update) __builtin_prefetch(&reinterpret_cast<Segment*>(entry.second)->lock[number], 1);
  }

  // Runs decide(found, word, segment) -> Decision and publish() under the line's lock; see
  // index/probe.h. The segment gives the version of the write (next_version).
  template <class Tile, class Decide, class Publish = NoPublish>
  ISOTHERM_INLINE Updated update(uint64_t hash, Decide&& decide, Publish&& publish = {}) {
    auto* segment = reinterpret_cast<Segment*>(view().entry(hash).second);
    for (;;) {
      const uint64_t line = line_number(hash, segment->depth, segment_line_bits);
      Updated updated;
      {
        LineLock guard(segment->lock[line]);
        updated = isotherm::update(
            Tile{}, segment->lines + line, hash, pool_,
            [&](bool found, uint64_t word) { return decide(found, word, *segment); }, publish);
      }
      if (updated.change != Change::moved) {
        if (updated.change == Change::inserted || updated.change == Change::erased) {
          count_change(*segment, updated.change);
        }
        return updated;
      }
      segment = segment->next_of(hash);
    }
  }

  // Moves at most `max_lines` lines of a segment that splits, or into one that two are joined to,
  // and frees what is old enough. True while there may be more to do now; false also without
  // memory, and where other threads do all that is left.
  bool step(uint32_t max_lines);
  // True when step has work; cheap.
  bool wants_step() const { return pending_.load(std::memory_order_relaxed) != 0; }

  // Call it after an index with segments for many entries was filled: it asks for the splits and
  // joins of those that have too many or too few.
  void check_loads();

  // Counts an index of any size at the same cost, also while it grows.
  uint64_t count() const;
  uint64_t splits() const { return splits_.load(std::memory_order_relaxed); }
  uint64_t joins() const { return joins_.load(std::memory_order_relaxed); }
  // Lines that steps have moved; a line of a parent and the two of its child count as one.
  uint64_t lines_moved() const { return lines_moved_.load(std::memory_order_relaxed); }
  // No smaller than any version given so far. Only when no update runs.
  uint64_t last_version() const;
  // Versions that are given from now on are larger than `version`.
  void begin_versions(uint64_t version);

  // Visits the entries of the line that `bound` falls into, visit(hash, word), and returns where
  // the next line begins; 0 after the last.
  template <class Visit>
  uint64_t scan(uint64_t bound, Visit&& visit) const;
  // The same under the lock of the line, so that no write of its keys runs: each entry from `bound`
  // on that there is, once. Then done(next), with what it returns, before the lock is let go.
  template <class Visit, class Done>
  uint64_t scan_locked(uint64_t bound, Visit&& visit, Done&& done) const;

  // Takes the index apart, at most `max_lines` lines a call: visit(word) for every entry. True
  // while there is more. Only when no other thread can reach the index any more.
  template <class Visit>
  bool drain(uint32_t max_lines, Visit&& visit);

 private:
  // Lines of the parent of a move.
  struct Lines {
    uint32_t first = 0;
    uint32_t count = 0;
  };
  // A segment whose lines move to its children, or two whose lines move to their parent.
  struct Move {
    Segment* parent = nullptr;
    Segment* child[2] = {};
    bool joins = false;
    std::vector<Lines> free{{0, segment_lines}};  // that nobody has claimed
    uint32_t left = segment_lines;                // that have not moved
    bool starved = false;                         // a claim found no memory; others go first
    std::vector<Bucket*> overflow{};              // lines of chains that have moved
  };
  // What one step works with.
  struct Scratch {
    std::vector<Slot> entries;
    std::vector<Bucket*> fresh;
    std::vector<Bucket*> overflow;
    uint32_t moved = 0;  // lines

    // Makes room to note the overflow lines, so that nothing fails once the entries are copied.
    void reserve_overflow() {
      const size_t needed = overflow.size() + entries.size();
      if (overflow.capacity() < needed) overflow.reserve(needed * 2);
    }
  };
  using Guard = std::unique_lock<std::mutex>;
  // A line of the parent, and the two neighbouring ones of a child that hold the same hashes.
  struct MovingLine {
    uint64_t hash;  // the lowest
    Bucket* home;
    Segment* child;
    uint32_t pair;  // number of the first of the two
  };
  // A segment that may be joined with its sibling.
  struct Candidate {
    uint64_t prefix;
    int depth;
  };
  // What readers may still see.
  struct Retired {
    uint64_t epoch;
    Segment* segment;            // or null
    const Directory* directory;  // or null
    std::vector<Bucket*> lines;  // overflow lines of the segment
  };

  ISOTHERM_INLINE void count_change(Segment& segment, Change change) {
    const int64_t delta = change == Change::inserted ? 1 : -1;
    entries_.add(delta);
    const int64_t count = segment.count.fetch_add(delta, std::memory_order_relaxed) + delta;
    if (count > segment.split_at) {
      if (!segment.split_wanted.load(std::memory_order_relaxed)) request_split(segment);
    } else if (count < segment.join_below.load(std::memory_order_relaxed)) {
      if (change == Change::erased) request_join(segment);
    }
  }
  void request_split(Segment& segment);
  void let_split(Segment& segment);
  void request_join(Segment& segment);
  void check_load(Segment& segment);
  void queue_split(Segment& segment);
  void queue_join(const Segment& segment);
  Move* find_move(uint32_t& max_lines, Guard& guard);
  static Lines claim(Move& move, uint32_t max_lines);
  void move_lines(const Move& move, Lines lines, Scratch& scratch);
  Segment* take_wanted();
  Move* begin_split(Guard& guard);
  Move* begin(std::list<Move>& begun, Segment* parent, Segment* low, Segment* high, bool joins);
  Move* begin_join(uint32_t& max_lines);
  Segment* joinable_sibling(Segment& segment);
  Move* begin_join_of(Segment& low, Segment& high);
  Segment* segment_at(uint64_t prefix, int depth) const;
  bool in_directory(const Segment& segment) const;
  bool moves(const Segment& segment) const;
  static MovingLine moving_line(const Move& move, uint32_t line);
  bool split_line(const Move& move, uint32_t line, Scratch& scratch);
  bool join_line(const Move& move, uint32_t line, Scratch& scratch);
  static void leave_line(Bucket* home, uint64_t hash, Slot moved, Scratch& scratch);
  void finish_move(Move& move);
  void point_directory(const Move& move);
  void retire(Segment* segment, const Directory* directory, std::vector<Bucket*> lines);
  std::optional<Retired> take_old();
  Segment* new_segment(uint64_t prefix, int depth, uint64_t clock, LineUse use = LineUse::grow);
  void make_directory(const std::vector<Segment*>& segments);
  void make_segments(uint64_t prefix, int depth, uint64_t clock, uint64_t expected,
                     std::vector<Segment*>& made);
  void free_segment(Segment* segment);
  void free_retired(Retired& retired);
  template <class Visit>
  void each_segment(const Visit& visit) const;
  std::vector<Segment*> all_segments() const;

  template <class Visit>
  static void visit_chain(const Bucket* home, uint64_t hash, Visit&& visit);
  template <class Visit>
  static void scan_home(const Bucket* home, uint64_t hash, Visit& visit);

  LinePool pool_;
  EpochDomain& epochs_;
  std::atomic<Directory*> directory_{nullptr};
  const uint64_t number_;
  StripedCount entries_;
  std::atomic<uint64_t> splits_{0};
  std::atomic<uint64_t> joins_{0};
  std::atomic<uint64_t> lines_moved_{0};
  std::atomic<uint64_t> pending_{0};  // queued and running moves, and retired things

  mutable std::mutex grow_mutex_;  // all below
  std::deque<Segment*> wanted_;    // to be split
  std::deque<Candidate> candidates_;
  std::list<Move> moves_;  // under way, the oldest first
  std::deque<Retired> retired_;
  std::vector<Segment*> draining_;
  uint32_t drain_line_ = 0;
  bool drain_started_ = false;
};

template <class Visit>
void LineIndex::visit_chain(const Bucket* home, uint64_t hash, Visit&& visit) {
  for (const Bucket* line = home; line != nullptr;) {
    const Bucket* next = nullptr;
    for (int i = 0; i < Bucket::slots; ++i) {
      const Slot slot = load_pair(&line->slot[i]);
      if (slot.first == 0) continue;
      if (i == Bucket::last && mark::is_mark(slot, hash)) {
        if (!mark::is_moved(slot, hash)) next = mark::link_target(slot);
        break;
      }
      visit(slot.first, slot.second);
    }
    line = next;
  }
}

// Entries are gathered before the look at MOVED, so that a line which moved meanwhile is read again
// where it went. A line that is being joined shows its neighbour's entries, too.
template <class Visit>
void LineIndex::scan_home(const Bucket* home, uint64_t hash, Visit& visit) {
  std::vector<Slot> entries;
  const auto gather = [&](uint64_t h, uint64_t word) { entries.push_back({h, word}); };
  visit_chain(home, hash, gather);
  const Slot last = load_pair(&home->slot[Bucket::last]);
  if (mark::is_mark(last, hash) && mark::is_moved(last, hash)) {
    if (mark::is_joined(last)) return scan_home(mark::moved_target(last, hash), hash, visit);
    const uint64_t bit = uint64_t{1} << (63 - (last.second & mark::bit_mask));
    scan_home(mark::moved_target(last, hash & ~bit), hash & ~bit, visit);
    scan_home(mark::moved_target(last, hash | bit), hash | bit, visit);
    return;
  }
  for (const Slot& entry : entries) visit(entry.first, entry.second);
}

template <class Visit>
uint64_t LineIndex::scan(uint64_t bound, Visit&& visit) const {
  const IndexView at = view();
  const Pair entry = at.entry(bound);
  const int depth = DirectoryEntry::depth(entry);
  const int shift = 64 - depth - segment_line_bits;
  const auto visit_own = [&](uint64_t hash, uint64_t word) {
    if (hash >> shift == bound >> shift) visit(hash, word);
  };
  scan_home(DirectoryEntry::lines(entry) + line_number(bound, depth, segment_line_bits), bound,
            visit_own);
  return ((bound >> shift) + 1) << shift;
}

template <class Visit, class Done>
uint64_t LineIndex::scan_locked(uint64_t bound, Visit&& visit, Done&& done) const {
  auto* segment = reinterpret_cast<Segment*>(view().entry(bound).second);
  for (;;) {
    const uint64_t line = line_number(bound, segment->depth, segment_line_bits);
    const LineLock guard(segment->lock[line]);
    const Bucket* const home = segment->lines + line;
    const Slot last = load_pair(&home->slot[Bucket::last]);
    if (mark::is_mark(last, bound) && mark::is_moved(last, bound)) {
      segment = segment->next_of(bound);
      continue;
    }
    // A line that two were joined to has what was visited before.
    visit_chain(home, bound, [&](uint64_t hash, uint64_t word) {
      if (hash >= bound) visit(hash, word);
    });
    const int shift = 64 - segment->depth - segment_line_bits;
    const uint64_t next = ((bound >> shift) + 1) << shift;
    done(next);
    return next;
  }
}

template <class Visit>
bool LineIndex::drain(uint32_t max_lines, Visit&& visit) {
  std::lock_guard guard(grow_mutex_);
  if (!drain_started_) {
    draining_ = all_segments();
    drain_started_ = true;
  }
  const auto word_only = [&](uint64_t, uint64_t word) { visit(word); };
  while (!draining_.empty() && max_lines > 0) {
    Segment* segment = draining_.back();
    // Any hash of the line will do to tell marks from entries.
    const int shift = 64 - segment->depth;
    const uint64_t prefix = segment->depth == 0 ? 0 : segment->prefix << shift;
    for (; drain_line_ < segment_lines && max_lines > 0; ++drain_line_, --max_lines) {
      const uint64_t hash = prefix | uint64_t{drain_line_} << (shift - segment_line_bits);
      const Bucket* home = segment->lines + drain_line_;
      // Entries that a moved line still shows are also where the line went, which is drained too.
      const Slot last = load_pair(&home->slot[Bucket::last]);
      if (!mark::is_moved(last, hash)) visit_chain(home, hash, word_only);
    }
    if (drain_line_ == segment_lines) {
      draining_.pop_back();
      drain_line_ = 0;
    }
  }
  return !draining_.empty();
}

}  // namespace isotherm
