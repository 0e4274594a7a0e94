// DeviceLines: the lines of one table in device memory: a directory of segments, overflow lines,
// and the means to look at them afterwards.
//
// The shape is a list of segments (depth and prefix) that cover the hash space. Home lines lie in
// one array, segment after segment, overflow lines in another. Nothing grows: a batch that finds
// no overflow line is told so.
//
// Threads. One; no batch runs during a call.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "cuda/device_array.h"
#include "cuda/overflow_lines.h"
#include "index/view.h"

namespace isotherm {

struct SegmentShape {
  int depth;
  uint64_t prefix;  // the top `depth` bits of its hashes
};

class DeviceLines {
 public:
  DeviceLines(const std::vector<SegmentShape>& segments, int line_bits, uint64_t overflow_lines)
      : segments_(segments),
        line_bits_(line_bits),
        home_(segments.size() << line_bits),
        overflow_(overflow_lines),
        free_(overflow_lines),
        returned_(overflow_lines),
        counters_(2),
        directory_(make_directory()) {
    for (uint64_t i = 0; i < overflow_lines; ++i) free_list_.push_back(overflow_.data() + i);
    free_.upload(free_list_);
  }

  IndexView index() { return {directory_.data(), directory_bits(), line_bits_}; }

  OverflowLines overflow() {
    return {free_.data(), free_list_.size(), counters_.data(), returned_.data(),
            counters_.data() + 1};
  }

  // Puts the lines that the batch returned back on the free list.
  void recycle() {
    const std::vector<unsigned long long> counters = counters_.download();
    const uint64_t taken = std::min<uint64_t>(counters[0], free_list_.size());
    free_list_.erase(free_list_.begin(), free_list_.begin() + static_cast<int64_t>(taken));
    const std::vector<Bucket*> returned = returned_.download();
    free_list_.insert(free_list_.end(), returned.begin(),
                      returned.begin() + static_cast<int64_t>(counters[1]));
    free_.upload(free_list_);
    counters_.upload({0, 0});
  }

  // What stands in the lines, as the host reads it.
  struct Contents {
    std::vector<Slot> entries;
    uint64_t linked = 0;          // overflow lines in chains
    uint64_t longest = 0;         // lines of the longest chain
    uint64_t unlinked_dirty = 0;  // overflow lines in no chain that are not all zero
    bool misplaced = false;       // an entry lies in a chain that is not its own
  };
  Contents contents() {
    const std::vector<Bucket> home = home_.download();
    const std::vector<Bucket> overflow = overflow_.download();
    std::vector<bool> in_chain(overflow.size(), false);
    Contents contents;
    for (uint64_t i = 0; i < home.size(); ++i) visit_chain(home, overflow, i, in_chain, contents);
    for (uint64_t i = 0; i < overflow.size(); ++i) {
      if (in_chain[i]) continue;
      for (const Slot& slot : overflow[i].slot) {
        if (slot == Slot{0, 0}) continue;
        ++contents.unlinked_dirty;
        break;
      }
    }
    return contents;
  }
  // Overflow lines that can be had.
  uint64_t free_lines() const { return free_list_.size(); }
  uint64_t overflow_lines() const { return overflow_.size(); }

 private:
  int directory_bits() const {
    int bits = 0;
    for (const SegmentShape& segment : segments_) bits = std::max(bits, segment.depth);
    return bits;
  }

  std::vector<Pair> make_directory() {
    const int bits = directory_bits();
    std::vector<Pair> entries(uint64_t{1} << bits);
    for (uint64_t i = 0; i < segments_.size(); ++i) {
      const SegmentShape& segment = segments_[i];
      const int below = bits - segment.depth;
      const Pair entry =
          DirectoryEntry::make(home_.data() + (i << line_bits_), segment.depth, nullptr);
      for (uint64_t j = 0; j < uint64_t{1} << below; ++j) {
        entries[(segment.prefix << below) + j] = entry;
      }
    }
    return entries;
  }

  void visit_chain(const std::vector<Bucket>& home, const std::vector<Bucket>& overflow,
                   uint64_t number, std::vector<bool>& in_chain, Contents& contents) {
    const SegmentShape& segment = segments_[number >> line_bits_];
    const uint64_t in_segment = number & ((uint64_t{1} << line_bits_) - 1);
    // The lowest hash of the line, and the bits that all its hashes share.
    const int bits = segment.depth + line_bits_;
    const uint64_t hash = ((segment.prefix << line_bits_) | in_segment) << (64 - bits);
    const auto own = [&](uint64_t other) { return (other ^ hash) >> (64 - bits) == 0; };

    const Bucket* line = &home[number];
    for (uint64_t length = 1;; ++length) {
      contents.longest = std::max(contents.longest, length);
      for (int i = 0; i < Bucket::slots; ++i) {
        const Slot& slot = line->slot[i];
        if (slot.first == 0 || (i == Bucket::last && mark::is_mark(slot, hash))) continue;
        contents.entries.push_back(slot);
        contents.misplaced |= !own(slot.first);
      }
      if (!mark::is_mark(line->slot[Bucket::last], hash)) return;
      const auto at =
          static_cast<uint64_t>(mark::link_target(line->slot[Bucket::last]) - overflow_.data());
      if (at >= overflow.size() || in_chain[at]) {
        contents.misplaced = true;
        return;
      }
      in_chain[at] = true;
      ++contents.linked;
      line = &overflow[at];
    }
  }

  const std::vector<SegmentShape> segments_;
  const int line_bits_;
  DeviceArray<Bucket> home_;
  DeviceArray<Bucket> overflow_;
  DeviceArray<Bucket*> free_;
  DeviceArray<Bucket*> returned_;
  DeviceArray<unsigned long long> counters_;  // taken, given
  DeviceArray<Pair> directory_;
  std::vector<Bucket*> free_list_;
};

}  // namespace isotherm
