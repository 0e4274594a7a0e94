// DirectReads: keys that a tree's files read from a device, by direct gets
// (gpu/items/direct_gets.h) whose columns are kept between the calls.
//
// A value that no slot has room for is read in another way. Where that was so of most keys of a
// call, the next calls do not ask at all.
//
// Threads. Any. Memory. Pinned, `bytes` at most. Errors. DeviceError when the device fails.
#pragma once

#include <atomic>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "tree/direct_pool.h"
#include "tree/tree_files.h"

namespace isotherm {

class DirectReads {
 public:
  // The files give the columns (TreeFiles::make_direct), and must outlive this.
  DirectReads(TreeFiles& files, uint64_t bytes) : pool_(files, bytes) {}

  // Reads keys of the tree, from the first on; adds those whose values were too long to `left`.
  // Returns how many it has looked at: fewer than all where there are no columns.
  size_t read(std::span<const std::string_view> keys, TreeRead* reads, std::vector<size_t>& left);

  // Of columns that nobody uses.
  void release() { pool_.release(); }
  uint64_t bytes() const { return pool_.bytes(); }

 private:
  static constexpr uint32_t pause = 64;  // calls that do not ask

  size_t read_some(DirectGets& gets, std::span<const std::string_view> keys, TreeRead* reads,
                   size_t first, std::vector<size_t>& left);

  DirectPool pool_;
  std::atomic<uint32_t> pauses_{0};
};

}  // namespace isotherm
