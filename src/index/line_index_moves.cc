// How lines of a LineIndex go from one segment to another: what a step does without the mutex.
#include <new>

#include "base/broken.h"
#include "base/raise_to.h"
#include "index/line_index.h"

namespace isotherm {
namespace {

// Appends entries to a chain that nobody else sees yet.
class ChainWriter {
 public:
  // `fresh` has the lines that all its writers will need.
  ChainWriter(Bucket* home, std::vector<Bucket*>& fresh) : line_(home), fresh_(fresh) {}

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

// Counts `count` entries for another segment, under the lock of their line. The versions of their
// keys go on from where the old clock stands.
void hand_over(Segment& from, Segment& to, size_t count) {
  to.count.fetch_add(static_cast<int64_t>(count), std::memory_order_relaxed);
  from.count.fetch_sub(static_cast<int64_t>(count), std::memory_order_relaxed);
  raise_to(to.clock, from.clock.load(std::memory_order_relaxed), std::memory_order_seq_cst);
}

}  // namespace

// Runs without the mutex, and as far as there is memory.
void LineIndex::move_lines(const Move& move, Lines lines, Scratch& scratch) {
  try {
    for (; scratch.moved < lines.count; ++scratch.moved) {
      const uint32_t line = lines.first + scratch.moved;
      if (!(move.joins ? join_line(move, line, scratch) : split_line(move, line, scratch))) return;
      lines_moved_.fetch_add(1, std::memory_order_relaxed);
    }
  } catch (const std::bad_alloc&) {  // for the lists of a line that has not moved
  }
}

LineIndex::MovingLine LineIndex::moving_line(const Move& move, uint32_t line) {
  const Segment& parent = *move.parent;
  const int shift = 64 - parent.depth;
  const uint64_t prefix = parent.depth == 0 ? 0 : parent.prefix << shift;
  return {prefix | uint64_t{line} << (shift - segment_line_bits), parent.lines + line,
          move.child[line >> (segment_line_bits - 1)], 2 * line % segment_lines};
}

bool LineIndex::split_line(const Move& move, uint32_t line, Scratch& scratch) {
  Segment& segment = *move.parent;
  const MovingLine at = moving_line(move, line);
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
  const auto overflow =
      static_cast<uint32_t>(overflow_lines_for(counts[0]) + overflow_lines_for(counts[1]));
  if (overflow != 0 && !pool_.take(overflow, fresh)) return false;
  scratch.reserve_overflow();
  ChainWriter writers[2] = {{pair, fresh}, {pair + 1, fresh}};
  for (const Slot& entry : entries) writers[side(entry)].append(entry);

  hand_over(segment, *at.child, entries.size());
  leave_line(at.home, at.hash, mark::make_moved(pair, bit, at.hash), scratch);
  return true;
}

bool LineIndex::join_line(const Move& move, uint32_t line, Scratch& scratch) {
  const MovingLine at = moving_line(move, line);
  Bucket* pair = at.child->lines + at.pair;

  LineLock first(at.child->lock[at.pair]);
  LineLock second(at.child->lock[at.pair + 1]);
  std::vector<Slot>& entries = scratch.entries;
  entries.clear();
  const auto gather = [&](uint64_t h, uint64_t word) { entries.push_back({h, word}); };
  for (Bucket* home : {pair, pair + 1}) visit_chain(home, at.hash, gather);
  std::vector<Bucket*>& fresh = scratch.fresh;
  const auto overflow = static_cast<uint32_t>(overflow_lines_for(entries.size()));
  if (overflow != 0 && !pool_.take(overflow, fresh, LineUse::join)) return false;
  scratch.reserve_overflow();
  ChainWriter writer(at.home, fresh);
  for (const Slot& entry : entries) writer.append(entry);

  hand_over(*at.child, *move.parent, entries.size());
  for (Bucket* home : {pair, pair + 1}) {
    leave_line(home, at.hash, mark::make_joined(at.home, at.hash), scratch);
  }
  return true;
}

// Notes the overflow lines of a chain that was copied, and says in its home line where it went.
void LineIndex::leave_line(Bucket* home, uint64_t hash, Slot moved, Scratch& scratch) {
  for (Slot last = home->slot[Bucket::last]; mark::is_mark(last, hash);) {
    Bucket* behind = mark::link_target(last);
    scratch.overflow.push_back(behind);
    last = behind->slot[Bucket::last];
  }
  if (!broken(Rule::splits)) store_pair(&home->slot[Bucket::last], moved);
}

}  // namespace isotherm
