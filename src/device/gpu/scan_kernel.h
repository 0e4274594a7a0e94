// ScanKernel: entries of a table in order of hash, whole lines at a time, for walks over all of it.
//
// One lane walks from the line that `bound` falls into: walks are rare, and lines are few a call.
// It stops before a line whose entries would not all fit, so what it returns is every entry between
// two bounds; where not even the first line fits, it says how much room that needs. A walk from
// bound 0 meets the entry of hash 0 first (device/gpu/table_view.h).
//
// Threads. No writes to the table may run. Splits between calls keep lines in order of hash, so a
// walk that spans them meets every entry that was there all the time.
#pragma once

#include <cstdint>

#include "device/gpu/table_view.h"

namespace isotherm {

// In memory that the host reads.
struct ScanResult {
  uint64_t entries = 0;
  uint64_t next = 0;    // the bound to go on from, 0 at the end
  uint64_t wanted = 0;  // room that the first line needs; 0: it fitted
};

struct ScanKernel {
  static constexpr uint32_t threads = 32;

  TableView table;
  uint64_t bound = 0;
  uint64_t lines = 0;     // at most
  uint64_t capacity = 0;  // entries
  uint64_t* hashes = nullptr;
  uint64_t* words = nullptr;
  ScanResult* result = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.block() != 0 || lane.thread() != 0) return;
    ScanResult done{0, bound, 0};
    if (bound == 0) head(done);
    for (uint64_t i = 0; i < lines; ++i) {
      const uint64_t before = done.entries;
      const Bucket* home = table.index.home(done.next);
      const uint64_t total = before + chain(home, done.next, before);
      if (total > capacity) {
        if (i == 0) done = {0, bound, total};
        break;
      }
      done.entries = total;
      done.next = bound_behind(done.next);
      if (done.next == 0) break;
    }
    *result = done;
  }

 private:
  // The entry of hash 0 is kept as one of hash 1.
  ISOTHERM_HOST_DEVICE void head(ScanResult& done) const {
    for (int i = 0; i < Bucket::slots; ++i) {
      const Slot slot = load_pair(&table.head->slot[i]);
      if (slot.first == 1 && done.entries < capacity) put(done.entries++, {0, slot.second});
    }
  }

  // Writes what fits, and returns how many entries there are.
  ISOTHERM_HOST_DEVICE uint64_t chain(const Bucket* line, uint64_t hash, uint64_t at) const {
    uint64_t count = 0;
    while (line != nullptr) {
      const Bucket* next = nullptr;
      for (int i = 0; i < Bucket::slots; ++i) {
        const Slot slot = load_pair(&line->slot[i]);
        if (slot.first == 0) continue;
        if (i == Bucket::last && mark::is_mark(slot, hash)) {
          next = mark::link_target(slot);
          continue;
        }
        if (at + count < capacity) put(at + count, slot);
        ++count;
      }
      line = next;
    }
    return count;
  }

  ISOTHERM_HOST_DEVICE void put(uint64_t at, Slot slot) const {
    hashes[at] = slot.first;
    words[at] = slot.second;
  }

  ISOTHERM_HOST_DEVICE uint64_t bound_behind(uint64_t hash) const {
    const int depth = DirectoryEntry::depth(table.index.entry(hash));
    const int shift = 64 - depth - table.index.line_bits;
    return ((hash >> shift) + 1) << shift;
  }
};

}  // namespace isotherm
