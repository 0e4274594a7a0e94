// SplitParts: the parts of a call to a table that is split over several GPUs and the host, in their
// order, and the buffers they take turns in.
//
// Each GPU has some sets of buffers for the parts whose home it is: three, or two where it is the
// only one. Parts are split ahead, as far as there are buffers, while the host waits for the counts
// of the oldest; so splits, copies and lookups of successive parts overlap, and where the parts of
// one slice come before those of the next all GPUs share the work of splitting.
//
// Memory. Three sets for parts of `rows` rows take at most 3 × 81 × rows bytes of each GPU: 711 MiB
// for 2^22 rows and two GPUs, and never more than 972 MiB. Threads. One at a time.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "gpu/split/split_part.h"

namespace isotherm {

// Some rows of a call.
struct SplitStep {
  uint32_t gpu = 0;  // the home of the part
  uint32_t set = 0;  // of its buffers
  uint64_t first = 0;
  uint64_t rows = 0;
};

template <class Device>
class SplitParts {
 public:
  // Throws std::bad_alloc.
  SplitParts(const SplitGpus<Device>& gpus, bool direct, const SplitLayout& layout,
             SplitHost<Device>* host)
      : rows_(layout.rows), sets_(layout.sets()), begun_(gpus.size()) {
    for (uint32_t gpu = 0; gpu < gpus.size(); ++gpu) {
      for (uint32_t set = 0; set < sets_; ++set) {
        parts_.push_back(std::make_unique<SplitPart<Device>>(gpus, gpu, direct, layout, host));
      }
    }
  }

  // Of a part.
  uint32_t rows() const { return rows_; }
  // Of each GPU.
  uint32_t sets() const { return sets_; }
  SplitPart<Device>& part(const SplitStep& step) { return part(step.gpu, step.set); }
  SplitPart<Device>& part(uint32_t gpu, uint32_t set) { return *parts_[gpu * sets_ + set]; }
  uint64_t pinned_bytes() const {
    uint64_t bytes = 0;
    for (const auto& part : parts_) bytes += part->pinned_bytes();
    return bytes;
  }

  // The next part of that GPU, in the order of calls.
  SplitStep next(uint32_t gpu, uint64_t first, uint64_t rows) {
    return {gpu, begun_[gpu]++ % sets_, first, rows};
  }

  // The parts of a call with a slice for each GPU, of `rows` rows. Slice after slice, or all GPUs
  // at the same time.
  std::vector<SplitStep> steps(std::span<const TableRequests> slices, uint64_t rows,
                               bool at_the_same_time) {
    std::vector<SplitStep> steps;
    const auto add = [&](uint32_t gpu, uint64_t first) {
      if (first >= slices[gpu].rows) return;
      steps.push_back(next(gpu, first, std::min(rows, slices[gpu].rows - first)));
    };
    uint64_t most = 0;
    for (const TableRequests& slice : slices) most = std::max(most, slice.rows);
    const auto gpus = static_cast<uint32_t>(slices.size());
    if (at_the_same_time) {
      for (uint64_t first = 0; first < most; first += rows) {
        for (uint32_t gpu = 0; gpu < gpus; ++gpu) add(gpu, first);
      }
    } else {
      for (uint32_t gpu = 0; gpu < gpus; ++gpu) {
        for (uint64_t first = 0; first < most; first += rows) add(gpu, first);
      }
    }
    return steps;
  }

  // Calls begin(step) and answer(step) for all steps, which begin the part and answer it. Answers
  // come in the order of the steps, and so do the beginnings of each set of buffers; but a GPU
  // whose turn comes later begins as soon as its buffers are free. Looks at most `window` steps
  // ahead.
  template <class Begin, class Answer>
  void work_off(const std::vector<SplitStep>& steps, uint64_t window, Begin&& begin,
                Answer&& answer) {
    std::vector<bool> begun(steps.size());
    for (uint64_t at = 0; at < steps.size(); ++at) {
      const uint64_t upto = std::min<uint64_t>(at + window, steps.size());
      for (uint64_t i = at; i < upto; ++i) {
        if (begun[i] || part(steps[i]).begun()) continue;
        begin(steps[i]);
        begun[i] = true;
      }
      answer(steps[at]);
    }
  }

  // Waits for all that is queued.
  void settle() {
    for (const auto& part : parts_) part->settle();
  }

 private:
  const uint32_t rows_;
  const uint32_t sets_;
  std::vector<std::unique_ptr<SplitPart<Device>>> parts_;
  std::vector<uint32_t> begun_;  // parts of each GPU
};

}  // namespace isotherm
