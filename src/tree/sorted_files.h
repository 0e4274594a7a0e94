// SortedFiles: a tree's files (tree/tree_files.h) with a sorted copy of what they have in the
// memory of a GPU (gpu/store/sorted_tier.h), which answers gets and ranges, many at a time.
//
//   a run ─▶ the files (RocksDB's), and at the same time a run of the copy
//   gets and ranges of many, and what memory misses ─▶ the copy        all else ─▶ the files
// The files are what counts: the copy is made of them at the start, and takes each run that they
// take in. Where they fail it has the run already, and is given it again with the next try: until
// the files have it the run itself is looked at first, and shows the same. So a GPU that fails
// loses nothing. Keys there are those of tree/device_files.h, which sort as the tree's do; values
// are records without their first byte, which is in the flags.
//
// Given up. Where the GPU fails, or has no room for a run, there is no copy from then on, and the
// files answer alone; `sorted_copy` says why. What gets have shown counts only if that was not so
// when they ended (`direct_counts`): a run is taken away behind `ingest`, so who began to read
// before that has looked into the run itself.
//
// Threads. As TreeFiles.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/store/sorted_tier.h"
#include "tree/direct_reads.h"
#include "tree/tree_files.h"

namespace isotherm {

class SortedFiles final : public TreeFiles {
 public:
  // Reads all that the files have, to so many bytes of a device's memory. Throws TreeError where
  // they cannot be read, and DeviceError, std::bad_alloc.
  SortedFiles(std::unique_ptr<TreeFiles> files, const SortedTierMaker& make, uint64_t bytes,
              std::function<int64_t()> now_ms);

  std::string ingest(std::span<const TreeEntry> entries, const TreeMeta& meta,
                     uint32_t threads) override;
  std::string erase_range(std::string_view first, std::string_view end) override;
  std::unique_ptr<TreeView> view(bool with_sorted) override;
  std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) override;
  std::unique_ptr<DirectRanges> make_ranges(const RangeShape& shape) override;
  bool direct_counts() const override { return !given_up_.load(std::memory_order_acquire); }
  void lose(const std::string& why) override { give_up(why); }
  SortedCopy sorted_copy() override;

  Glance glance(std::string_view key, std::string& value) override {
    return files_->glance(key, value);
  }
  void read(std::span<const std::string_view> keys, TreeRead* reads) override;
  std::string walk(std::string_view from, std::string_view end, const Visit& visit) override {
    return files_->walk(from, end, visit);
  }
  std::string checkpoint(const std::string& folder) override { return files_->checkpoint(folder); }
  bool load(TreeMeta& meta) override { return files_->load(meta); }
  uint64_t memory() override { return files_->memory() + gets_.bytes(); }
  uint64_t disk_bytes() override { return files_->disk_bytes(); }
  uint64_t keys() override { return files_->keys(); }

 private:
  static constexpr uint64_t read_columns = 4 << 20;  // bytes

  class View;

  std::string copy(std::string_view first, std::string_view end, bool erases);
  void put(std::span<const TreeEntry> entries, uint32_t threads);
  void give_up(const std::string& why);
  void clear();

  const std::unique_ptr<TreeFiles> files_;
  const std::unique_ptr<SortedTier> tier_;
  DirectReads gets_;
  std::atomic<bool> given_up_{false};
  std::atomic<uint64_t> reads_{0};
  std::mutex mutex_;  // of what follows
  std::string problem_;
};

}  // namespace isotherm
