// DeviceSegments: the segments of a table's index in device memory, their directory, and how the
// index grows.
//
// A segment has 2^line_bits lines. Hashes are uniform, so the entries of a segment follow from the
// count of the table and the segment's depth; a segment splits when they pass its threshold. As on
// the CPU (index/segment.h), thresholds are spread over a factor of two, so that bytes per entry
// stay level at any count.
//
// Growth happens between batches, with the table to itself: all segments past their thresholds are
// split by one kernel, then the directory is written anew in its place.
//
// Somebody else may have a part of the hashes, in bins (executor/device/root_table.h). The
// directory then shows `nowhere` for them, a segment without entries that nobody writes to, and the
// count of the table stands for the share of the hashes that are here.
//
// Threads. One at a time, in the order of the stream. Limits. 2^max_directory_bits segments; where
// that or memory ends the index stays as it is, and chains grow.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "gpu/platform/device_memory.h"
#include "gpu/platform/grid.h"
#include "gpu/table/drop_kernel.h"
#include "gpu/table/split_kernel.h"
#include "gpu/table/unlink_kernel.h"
#include "index/expected_overflow.h"
#include "index/hash_bin.h"
#include "index/split_spread.h"

namespace isotherm {

// The lowest threshold of a segment, as a share of its slots without overflow lines. A higher one
// means fewer bytes an entry and longer chains: at 0.7 it is 25.5 to 27.9 bytes and a hit reads
// 1.06 to 1.10 lines on average, at 1.0 it is 22.7 to 23.7 bytes and 1.19 to 1.24 lines.
inline constexpr double usual_load = 0.7;

// Lines of a segment, as a power of two, of an index that may be shared with the host: a cap has
// room for at least some 256 segments, so that it is shared in fine parts.
inline int shared_line_bits(uint64_t gpu_memory) {
  constexpr int usual = 16;
  constexpr int least = 8;
  constexpr uint64_t segments = 256;
  if (gpu_memory == 0) return usual;
  int bits = usual;
  while (bits > least && (segments * sizeof(Bucket) << bits) > gpu_memory) --bits;
  return bits;
}

template <class Device>
class DeviceSegments {
 public:
  using Stream = typename Device::Stream;
  static constexpr int max_directory_bits = 16;

  // Throws std::bad_alloc without memory for one segment.
  DeviceSegments(DeviceMemory<Device>& memory, int line_bits, double lowest_load, Stream stream)
      : memory_(memory),
        device_(memory.device()),
        line_bits_(line_bits),
        lowest_load_(lowest_load),
        directory_(memory, uint64_t{1} << max_directory_bits),
        jobs_(memory, most_jobs),
        uploaded_(device_.create_event()),
        staging_(device_.allocate_pinned(staging_bytes)) {
    if (directory_.empty() || jobs_.empty() || staging_ == nullptr || !reserve(1)) {
      release();
      throw std::bad_alloc();
    }
    // Nothing is under way where what follows throws.
    segments_.push_back({take(stream), 0, 0});
    require_device(device_.synchronize(stream), "make the first segment");
    publish(stream);
    require_device(device_.synchronize(stream), "make the directory");
  }
  ~DeviceSegments() { release(); }
  DeviceSegments(const DeviceSegments&) = delete;
  DeviceSegments& operator=(const DeviceSegments&) = delete;

  IndexView view() const { return {directory_.data(), bits_, line_bits_}; }
  uint64_t count() const { return segments_.size(); }
  uint64_t lines_each() const { return lines(); }

  // Where all hashes were left out there is no room, whatever the segments' is.
  bool fits(uint64_t entries) const {
    return entries == 0 || (share_ != 0 && static_cast<double>(entries) <= room_ * share_);
  }

  // How many overflow lines the chains have, about, when there are so many entries.
  uint64_t overflow_lines(uint64_t entries) const {
    double count = 0;
    for (const Segment& segment : segments_) {
      if (absent(segment)) continue;
      const double here = std::ldexp(whole(entries), -segment.depth);
      const auto home_lines = static_cast<double>(lines());
      count += home_lines * expected_overflow(here / home_lines);
    }
    return static_cast<uint64_t>(count);
  }

  // Of the segments that are here, the fewest bits that the hashes of one share.
  int least_depth() const {
    int depth = max_directory_bits;
    for (const Segment& segment : segments_) {
      if (!absent(segment)) depth = std::min(depth, segment.depth);
    }
    return depth;
  }

  // For an empty table: makes room for `entries` entries at once, or for as many as memory has room
  // for, found by halves.
  void rebuild(uint64_t entries, Stream stream) {
    for (const Segment& segment : segments_) {
      if (!absent(segment)) free_.push_back(segment.lines);
    }
    std::vector<Segment> wanted;
    for (bool fits = false; !fits; entries /= 2) {
      wanted.clear();
      plan({nullptr, 0, 0}, static_cast<double>(entries), wanted);
      fits = wanted.size() == 1 || reserve(wanted.size());
    }
    for (Segment& segment : wanted) segment.lines = take(stream);
    segments_ = std::move(wanted);
    publish(stream);
  }

  // Splits until `entries` fit, or no memory is left. The table is this stream's alone; `table` has
  // the stock that spare lines go to.
  void grow(uint64_t entries, TableView table, Stream stream) {
    for (bool more = true; more;) {
      table.index = view();
      more = split_all(entries, table, stream);
    }
  }

  // Has the chains of `count` segments from number `first` on, and from the first again behind the
  // last, return the overflow lines that they can do without to the stock of `table`. The table is
  // this stream's alone.
  void unlink(uint64_t first, uint64_t count, const TableView& table, Stream stream) {
    std::vector<SegmentJob> jobs;
    for (uint64_t i = first; i < first + count; ++i) {
      const Segment& segment = segments_[i % segments_.size()];
      if (!absent(segment)) jobs.push_back(job_of(segment));
    }
    run_all<UnlinkKernel>(jobs, table, stream);
  }

  // Leaves out the hashes of `bin`, of whole segments, with their entries, whose overflow lines go
  // to the stock of `table`. The table is this stream's alone, as below.
  void drop(const HashBin& bin, const TableView& table, Stream stream) {
    std::vector<SegmentJob> jobs;
    std::vector<Segment> after;
    for (const Segment& segment : segments_) {
      if (absent(segment) || !bin.contains(segment.prefix, segment.depth)) {
        after.push_back(segment);
        continue;
      }
      if (jobs.empty()) after.push_back({nullptr, bin.number, bin.bits});
      jobs.push_back(job_of(segment));
    }
    run_all<DropKernel>(jobs, table, stream);
    for (const SegmentJob& job : jobs) free_.push_back(job.lines);
    if (nowhere_ == nullptr && !jobs.empty()) nowhere_ = take(stream);
    segments_ = std::move(after);
    publish(stream);
  }

  // Takes in the hashes of a bin that was left out, empty, with as many segments as a table that
  // has `entries` without it needs for it. False without memory.
  bool restore(const HashBin& bin, uint64_t entries, Stream stream) {
    std::vector<Segment> wanted;
    plan({nullptr, bin.number, bin.bits}, whole(entries), wanted);
    // Others must be able to go on splitting.
    constexpr uint64_t spare = 4;
    if (!reserve(wanted.size() + spare)) return false;
    for (Segment& segment : wanted) segment.lines = take(stream);
    std::vector<Segment> after;
    for (const Segment& segment : segments_) {
      if (absent(segment) && contains(segment, bin)) {
        fill_in(segment, bin, wanted, after);
      } else {
        after.push_back(segment);
      }
    }
    segments_ = std::move(after);
    publish(stream);
    return true;
  }

 private:
  struct Segment {
    Bucket* lines;    // null: somebody else has its hashes
    uint64_t prefix;  // the top `depth` bits of its hashes
    int depth;
  };

  static constexpr uint64_t most_jobs = 1024;  // in a round
  // Of the largest directory, so that growth never fails for want of them.
  static constexpr uint64_t staging_bytes = (uint64_t{1} << max_directory_bits) * sizeof(Pair);
  static_assert(staging_bytes >= most_jobs * sizeof(SplitJob));
  static_assert(sizeof(SplitJob) >= sizeof(SegmentJob));

  uint64_t lines() const { return uint64_t{1} << line_bits_; }
  uint64_t segment_bytes() const { return lines() * sizeof(Bucket); }

  // Entries of the whole table from which on the segment splits.
  double most_entries(const Segment& segment) const {
    if (segment.depth >= max_directory_bits) return std::numeric_limits<double>::infinity();
    const double slots = static_cast<double>(lines()) * Bucket::slots;
    return std::ldexp(slots * lowest_load_ * split_spread(segment.prefix, segment.depth),
                      segment.depth);
  }
  // Entries of all hashes, if so many are here.
  double whole(uint64_t entries) const {
    return share_ == 0 ? 0 : static_cast<double>(entries) / share_;
  }
  bool splits(const Segment& segment, double whole_entries) const {
    return whole_entries > most_entries(segment);
  }
  static bool absent(const Segment& segment) { return segment.lines == nullptr; }
  static bool contains(const Segment& segment, const HashBin& bin) {
    return HashBin{segment.prefix, segment.depth}.contains(bin.number, bin.bits);
  }
  static uint64_t first_hash(const Segment& segment) {
    return HashBin{segment.prefix, segment.depth}.first();
  }

  // Puts `wanted`, which have the hashes of `bin`, into what was absent around it.
  void fill_in(const Segment& around, const HashBin& bin, const std::vector<Segment>& wanted,
               std::vector<Segment>& after) const {
    if (around.depth == bin.bits) {
      after.insert(after.end(), wanted.begin(), wanted.end());
      return;
    }
    for (uint64_t side = 0; side < 2; ++side) {
      const Segment half{nullptr, around.prefix << 1 | side, around.depth + 1};
      if (contains(half, bin)) {
        fill_in(half, bin, wanted, after);
      } else {
        after.push_back(half);
      }
    }
  }

  // The segments that `entries` entries need, in order.
  void plan(const Segment& segment, double entries, std::vector<Segment>& wanted) const {
    if (!splits(segment, entries)) {
      wanted.push_back(segment);
      return;
    }
    plan({nullptr, segment.prefix << 1, segment.depth + 1}, entries, wanted);
    plan({nullptr, segment.prefix << 1 | 1, segment.depth + 1}, entries, wanted);
  }

  // One round: true where there may be more to split.
  bool split_all(uint64_t entries, const TableView& table, Stream stream) {
    std::vector<SplitJob> jobs;
    std::vector<Segment> after;
    std::vector<Bucket*> emptied;
    bool memory_left = true;
    // What a round empties the next one takes, so that little is left over behind the last.
    const uint64_t most = std::clamp<uint64_t>(segments_.size() / 16, 8, most_jobs);
    for (const Segment& segment : segments_) {
      const bool wanted = !absent(segment) && splits(segment, whole(entries)) && jobs.size() < most;
      if (wanted && memory_left) memory_left = reserve(2);
      if (!wanted || !memory_left) {
        after.push_back(segment);
        continue;
      }
      Bucket* child[2] = {take_as_is(), take_as_is()};
      jobs.push_back({segment.lines, {child[0], child[1]}, segment.depth, first_hash(segment)});
      for (uint64_t side = 0; side < 2; ++side) {
        after.push_back({child[side], segment.prefix << 1 | side, segment.depth + 1});
      }
      emptied.push_back(segment.lines);
    }
    if (jobs.empty()) return false;
    run<SplitKernel>(jobs.data(), static_cast<uint32_t>(jobs.size()), table, stream);
    segments_ = std::move(after);
    free_.insert(free_.end(), emptied.begin(), emptied.end());
    publish(stream);
    return memory_left;
  }

  static SegmentJob job_of(const Segment& segment) {
    return {segment.lines, segment.depth, first_hash(segment)};
  }
  template <class Kernel>
  void run_all(const std::vector<SegmentJob>& jobs, const TableView& table, Stream stream) {
    for (size_t first = 0; first < jobs.size(); first += most_jobs) {
      const size_t count = std::min<size_t>(most_jobs, jobs.size() - first);
      run<Kernel>(jobs.data() + first, static_cast<uint32_t>(count), table, stream);
    }
  }

  template <class Kernel, class Job>
  void run(const Job* jobs, uint32_t count, const TableView& table, Stream stream) {
    auto* uploaded = reinterpret_cast<Job*>(jobs_.data());
    upload(uploaded, jobs, count * sizeof(Job), stream);
    constexpr uint32_t threads = 256;
    const uint64_t tiles = uint64_t{count} << line_bits_;
    const uint32_t grid = grid_for(device_, tiles, threads / tile_lanes);
    require_device(device_.launch(stream, grid, threads, Kernel{table, uploaded, count}),
                   "launch a kernel over segments");
  }

  // Writes the directory from the list of segments.
  void publish(Stream stream) {
    bits_ = 0;
    share_ = 0;
    room_ = std::numeric_limits<double>::infinity();
    for (const Segment& segment : segments_) {
      bits_ = std::max(bits_, segment.depth);
      if (absent(segment)) continue;
      share_ += std::ldexp(1.0, -segment.depth);
      room_ = std::min(room_, most_entries(segment));
    }
    std::vector<Pair> entries(uint64_t{1} << bits_);
    for (const Segment& segment : segments_) {
      const int below = bits_ - segment.depth;
      const auto first = entries.begin() + static_cast<int64_t>(segment.prefix << below);
      std::fill(
          first, first + (int64_t{1} << below),
          DirectoryEntry::make(absent(segment) ? nowhere_ : segment.lines, segment.depth, nullptr));
    }
    upload(directory_.data(), entries.data(), entries.size() * sizeof(Pair), stream);
  }

  // Through pinned memory, which is used again once the last copy is through.
  void upload(void* to, const void* from, uint64_t bytes, Stream stream) {
    require_device(device_.synchronize(uploaded_), "wait for a copy");
    std::copy_n(static_cast<const char*>(from), bytes, static_cast<char*>(staging_));
    require_device(
        device_.to_device(stream, to, staging_, bytes) && device_.record(uploaded_, stream),
        "copy to the device");
  }

  // Makes sure of `count` free segments. Slabs are 3% of the index, so that there are few.
  bool reserve(uint64_t count) {
    if (free_.size() >= count) return true;
    const uint64_t missing = count - free_.size();
    for (const uint64_t size : {std::max(missing, slab_segments_ / 32), missing}) {
      DeviceArray<Device, Bucket> slab(memory_, size * lines());
      if (slab.empty()) continue;
      for (uint64_t i = 0; i < size; ++i) free_.push_back(slab.data() + i * lines());
      slabs_.push_back(std::move(slab));
      slab_segments_ += size;
      return true;
    }
    return false;
  }

  Bucket* take_as_is() {
    Bucket* lines = free_.back();
    free_.pop_back();
    return lines;
  }
  // A free segment, cleared.
  Bucket* take(Stream stream) {
    Bucket* lines = take_as_is();
    require_device(device_.clear(stream, lines, segment_bytes()), "clear a segment");
    return lines;
  }

  void release() {
    device_.destroy_event(uploaded_);
    if (staging_ != nullptr) device_.release_pinned(staging_, staging_bytes);
  }

  DeviceMemory<Device>& memory_;
  Device& device_;
  const int line_bits_;
  const double lowest_load_;
  int bits_ = 0;
  std::vector<Segment> segments_;  // by prefix
  double share_ = 1;               // of all hashes that are here
  double room_ = 0;                // entries up to which none of them splits, if all were here
  Bucket* nowhere_ = nullptr;      // once hashes were left out
  std::vector<Bucket*> free_;
  std::vector<DeviceArray<Device, Bucket>> slabs_;
  uint64_t slab_segments_ = 0;
  DeviceArray<Device, Pair> directory_;
  DeviceArray<Device, SplitJob> jobs_;
  typename Device::Event uploaded_;
  void* staging_;
};

}  // namespace isotherm
