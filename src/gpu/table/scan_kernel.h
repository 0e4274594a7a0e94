// ScanKernel: entries of a table in order of hash, whole lines at a time, for walks over all of it.
//
// One block walks from the line that `bound` falls into, as many lines at a time as it has threads,
// within one segment: each thread counts the entries of its line, a sum over the block says where
// they go, and those of the lines up to where there are `wanted` entries, or no more room, are
// written. So empty lines cost next to nothing. Where not even the first line has room, the kernel
// says how much it needs. A walk from bound 0 meets the entry of hash 0 first
// (gpu/kernel/table_view.h).
//
// Threads. No writes to the table may run. Splits between calls keep lines in order of hash, so a
// walk that spans them meets every entry that was there all the time.
#pragma once

#include <cstdint>

#include "gpu/kernel/block_sum.h"
#include "gpu/kernel/table_view.h"

namespace isotherm {

// In memory that the host reads.
struct ScanResult {
  uint64_t entries = 0;
  uint64_t next = 0;    // the bound to go on from, 0 at the end
  uint64_t needed = 0;  // room that the first line needs; 0: it had room
};

// Where a walk leaves what it finds: memory that the device writes and the host reads.
struct ScanRoom {
  uint64_t* hashes;
  uint64_t* values;
  uint64_t entries;
  ScanResult* result;
};

struct ScanKernel {
  static constexpr uint32_t threads = 256;
  struct Shared {
    BlockSums<uint64_t, threads> sums;
    uint64_t ends[threads];  // entries up to and with each thread's line
    uint32_t taken;          // lines of this step
  };

  TableView table;
  uint64_t bound = 0;
  uint64_t lines = 0;   // at most about so many
  uint64_t wanted = 0;  // entries after which it stops
  ScanRoom room;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* shared = lane.template shared<Shared>();
    const uint32_t thread = lane.thread();
    ScanResult done{0, bound, 0};
    if (bound == 0) head(thread, done);
    for (uint64_t walked = 0; walked < lines;) {
      const int depth = DirectoryEntry::depth(table.index.entry(done.next));
      const int shift = 64 - depth - table.index.line_bits;
      const uint64_t first = line_number(done.next, depth, table.index.line_bits);
      const uint64_t in_segment = (uint64_t{1} << table.index.line_bits) - first;
      const auto count = static_cast<uint32_t>(in_segment < threads ? in_segment : threads);
      const uint64_t mine = done.next + (uint64_t{thread} << shift);
      const uint64_t entries = thread < count ? chain(mine, nowhere) : 0;
      shared->ends[thread] = sum_upto(lane, shared->sums, entries);
      lane.sync_block();
      if (thread == 0) shared->taken = lines_to_take(*shared, done.entries, count);
      lane.sync_block();
      const uint32_t taken = shared->taken;
      if (thread < taken) chain(mine, done.entries + shared->ends[thread] - entries);
      if (taken == 0) {
        // The first line has no room: if it is the first of all, more is needed.
        if (walked == 0) done = {0, bound, done.entries + shared->ends[0]};
        break;
      }
      done.entries += shared->ends[taken - 1];
      done.next = ((done.next >> shift) + taken) << shift;
      walked += taken;
      lane.sync_block();
      if (done.next == 0 || taken < count || done.entries >= wanted) break;
    }
    if (thread == 0) *room.result = done;
  }

 private:
  static constexpr uint64_t nowhere = ~uint64_t{0};

  // The entry of hash 0 is kept as one of hash 1.
  ISOTHERM_HOST_DEVICE void head(uint32_t thread, ScanResult& done) const {
    for (int i = 0; i < Bucket::slots; ++i) {
      const Slot slot = load_pair(&table.head->slot[i]);
      if (slot.first != 1 || done.entries == room.entries) continue;
      if (thread == 0) put(done.entries, {0, slot.second});
      ++done.entries;
    }
  }

  // Of `count` lines, those up to where there is enough, as far as there is room.
  ISOTHERM_HOST_DEVICE uint32_t lines_to_take(const Shared& shared, uint64_t before,
                                              uint32_t count) const {
    const uint32_t fit = lines_below(shared, count, room.entries - before + 1);
    const uint32_t too_few = lines_below(shared, count, wanted > before ? wanted - before : 0);
    return fit <= too_few ? fit : too_few + 1;
  }

  // How many of the lines, with all before them, have fewer than so many entries.
  ISOTHERM_HOST_DEVICE static uint32_t lines_below(const Shared& shared, uint32_t count,
                                                   uint64_t entries) {
    uint32_t first = 0;
    while (count != 0) {
      const uint32_t half = count / 2;
      const bool below = shared.ends[first + half] < entries;
      first += below ? half + 1 : 0;
      count = below ? count - half - 1 : half;
    }
    return first;
  }

  // How many entries the chain of the line of `hash` has; they are written from `at` on.
  ISOTHERM_HOST_DEVICE uint64_t chain(uint64_t hash, uint64_t at) const {
    uint64_t count = 0;
    for (const Bucket* line = table.index.home(hash); line != nullptr;) {
      const Bucket* next = nullptr;
      Slot slots[Bucket::slots];  // all on their way before one is looked at
      for (int i = 0; i < Bucket::slots; ++i) slots[i] = load_pair(&line->slot[i]);
      for (int i = 0; i < Bucket::slots; ++i) {
        const Slot slot = slots[i];
        if (slot.first == 0) continue;
        if (i == Bucket::last && mark::is_mark(slot, hash)) {
          next = mark::link_target(slot);
          continue;
        }
        if (at != nowhere) put(at + count, slot);
        ++count;
      }
      line = next;
    }
    return count;
  }

  ISOTHERM_HOST_DEVICE void put(uint64_t at, Slot slot) const {
    room.hashes[at] = slot.first;
    room.values[at] = slot.second;
  }
};

}  // namespace isotherm
