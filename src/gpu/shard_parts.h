// ShardParts: the parts of a call to a sharded table, in their order, and the buffers they take
// turns in.
//
// Each GPU has three sets of buffers for the parts whose home it is. Parts are split ahead, as far
// as there are buffers, while the host waits for the counts of the oldest; so splits, copies and
// lookups of successive parts overlap, and where the parts of one slice come before those of the
// next all GPUs share the work of splitting.
//
// Memory. Three sets for parts of `rows` rows take at most 3 × 81 × rows bytes of each GPU: 711 MiB
// for 2^22 rows and two GPUs, and never more than 972 MiB. Where gpu_memory is capped parts are
// made smaller until the sets take an eighth. Threads. One at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <memory>
#include <new>
#include <vector>

#include "gpu/shard_part.h"

namespace isotherm {

// Some rows of a call.
struct ShardStep {
  uint32_t gpu = 0;  // the home of the part
  uint32_t set = 0;  // of its buffers
  uint64_t first = 0;
  uint64_t rows = 0;
};

template <class Device>
class ShardParts {
 public:
  static constexpr uint32_t sets = 3;
  static constexpr uint32_t least_rows = 1 << 8;

  // Throws std::bad_alloc where not even the smallest parts have room.
  ShardParts(const ShardGpus<Device>& gpus, bool direct, const FixedDeviceOptions& options,
             uint32_t part_rows)
      : gpus_(gpus), begun_(gpus.size()) {
    rows_ = std::max(std::bit_floor(part_rows), least_rows);
    const uint64_t cap = options.gpu_memory / 8;
    while (cap != 0 && rows_ > least_rows && bytes_for(rows_) > cap) rows_ /= 2;
    while (!make(direct, options.seed)) {
      if (rows_ == least_rows) throw std::bad_alloc();
      rows_ /= 2;
    }
  }

  // Of a part.
  uint32_t rows() const { return rows_; }
  ShardPart<Device>& part(const ShardStep& step) { return *parts_[step.gpu * sets + step.set]; }
  ShardPart<Device>& part(uint32_t gpu, uint32_t set) { return *parts_[gpu * sets + set]; }

  // The next part of that GPU, in the order of calls.
  ShardStep next(uint32_t gpu, uint64_t first, uint64_t rows) {
    return {gpu, begun_[gpu]++ % sets, first, rows};
  }

  // Calls begin(step) and end(step) for all steps; in between the part that begin has begun is
  // answered. Answers come in the order of the steps, and so do the beginnings of each set of
  // buffers; but a GPU whose turn comes later begins as soon as its buffers are free. Looks at most
  // `window` steps ahead.
  template <class Begin, class End>
  void work_off(const std::vector<ShardStep>& steps, uint64_t window, Begin&& begin, End&& end) {
    std::vector<bool> begun(steps.size());
    for (uint64_t at = 0; at < steps.size(); ++at) {
      const uint64_t upto = std::min<uint64_t>(at + window, steps.size());
      for (uint64_t i = at; i < upto; ++i) {
        if (begun[i] || part(steps[i]).begun()) continue;
        begin(steps[i]);
        begun[i] = true;
      }
      part(steps[at]).answer();
      end(steps[at]);
    }
  }

  // Waits for all that is queued.
  void settle() {
    for (const auto& part : parts_) part->settle();
  }

 private:
  uint64_t bytes_for(uint64_t rows) const {
    using Part = ShardPart<Device>;
    const uint64_t gpus = gpus_.size();
    return sets * (Part::home_bytes(rows, gpus) + Part::away_bytes(rows, gpus) * (gpus - 1));
  }

  bool make(bool direct, uint64_t seed) {
    try {
      for (uint32_t gpu = 0; gpu < gpus_.size(); ++gpu) {
        for (uint32_t set = 0; set < sets; ++set) {
          parts_.push_back(std::make_unique<ShardPart<Device>>(gpus_, gpu, direct, seed, rows_));
        }
      }
    } catch (const std::bad_alloc&) {
      parts_.clear();
    }
    return !parts_.empty();
  }

  const ShardGpus<Device>& gpus_;
  uint32_t rows_ = 0;
  std::vector<std::unique_ptr<ShardPart<Device>>> parts_;
  std::vector<uint32_t> begun_;  // parts of each GPU
};

}  // namespace isotherm
