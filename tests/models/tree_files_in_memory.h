// TreeFilesInMemory: files of a tree (tree/tree_files.h) that lie in memory, fail when they are
// told to, and whose reads wait.
//
// A TreeDisk outlives the tree that has them, so the next tree finds what is there.
//
// Threads. Any.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <iterator>
#include <map>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "models/failing_memory.h"
#include "tree/tree_files.h"

namespace isotherm {

using TreePairs = std::map<std::string, std::string, std::less<>>;

struct TreeDisk {
  std::mutex mutex;
  std::condition_variable changed;
  TreePairs pairs;
  std::map<std::string, TreePairs> checkpoints;  // by folder
  bool has_meta = false;
  TreeMeta meta;
  // What fails is told while threads of the tree read and write.
  std::atomic<bool> fails_to_write = false;
  std::atomic<bool> fails_to_read = false;
  // std::bad_alloc, when a cursor goes on, many keys are read, or something is taken in.
  std::atomic<bool> throws = false;
  // The same once, when a run was taken in.
  std::atomic<bool> throws_behind = false;
  bool holds_reads = false;  // when they have read
  // From the next run on, so many allocations of the thread that writes it work, and the next one
  // fails.
  std::atomic<int64_t> memory_works{-1};
  uint32_t held = 0;
  uint32_t reads = 0;
  std::atomic<uint32_t> ingested{0};

  void hold(bool holds) {
    const std::lock_guard guard(mutex);
    holds_reads = holds;
    changed.notify_all();
  }
  void wait_for_held() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return held != 0; });
  }
};

class TreeCursorInMemory final : public TreeCursor {
 public:
  TreeCursorInMemory(const TreePairs& pairs, const TreeDisk& disk, std::string_view first,
                     std::string_view end)
      : first_(pairs.lower_bound(first)),
        end_(pairs.lower_bound(end)),
        at_(end_),
        pairs_(pairs),
        disk_(disk) {}
  void seek(std::string_view key) override { look(pairs_.lower_bound(key)); }
  void seek_before(std::string_view key) override { look_before(pairs_.lower_bound(key)); }
  void next() override {
    if (disk_.throws) throw std::bad_alloc();
    look(std::next(at_));
  }
  void prev() override { look_before(at_); }
  std::string error() const override { return disk_.fails_to_read ? "cannot be read" : ""; }

 private:
  void look(TreePairs::const_iterator at) {
    at_ = at;
    at_ == end_ ? show_end() : show(at_->first, at_->second);
  }
  void look_before(TreePairs::const_iterator at) { look(at == first_ ? end_ : std::prev(at)); }

  const TreePairs::const_iterator first_;
  const TreePairs::const_iterator end_;
  TreePairs::const_iterator at_;
  const TreePairs& pairs_;
  const TreeDisk& disk_;
};

class TreeViewInMemory final : public TreeView {
 public:
  explicit TreeViewInMemory(TreeDisk& disk) : disk_(disk) {
    const std::lock_guard guard(disk.mutex);
    pairs_ = disk.pairs;
  }
  void read(std::string_view key, TreeRead& read) override {
    using enum TreeRead::State;
    const auto at = pairs_.find(key);
    read.state = at != pairs_.end() ? found : absent;
    if (at != pairs_.end()) read.value = at->second;
  }
  std::unique_ptr<TreeCursor> cursor(std::string_view first, std::string_view end,
                                     bool /*once*/) override {
    return std::make_unique<TreeCursorInMemory>(pairs_, disk_, first, end);
  }

 private:
  const TreeDisk& disk_;
  TreePairs pairs_;
};

class TreeFilesInMemory final : public TreeFiles {
 public:
  explicit TreeFilesInMemory(TreeDisk& disk) : disk_(disk) {}

  Glance glance(std::string_view key, std::string& /*value*/) override {
    const std::lock_guard guard(disk_.mutex);
    return disk_.pairs.contains(key) ? Glance::maybe : Glance::absent;
  }
  void read(std::span<const std::string_view> keys, TreeRead* reads) override {
    std::unique_lock lock(disk_.mutex);
    if (disk_.throws) throw std::bad_alloc();
    for (const std::string_view key : keys) {
      using enum TreeRead::State;
      const auto at = disk_.pairs.find(key);
      reads->state = disk_.fails_to_read ? failed : at != disk_.pairs.end() ? found : absent;
      if (at != disk_.pairs.end()) reads->value = at->second;
      ++reads;
      ++disk_.reads;
    }
    ++disk_.held;
    disk_.changed.notify_all();
    disk_.changed.wait(lock, [&] { return !disk_.holds_reads; });
    --disk_.held;
  }
  std::string ingest(std::span<const TreeEntry> entries, const TreeMeta& meta,
                     uint32_t /*threads*/) override {
    if (const int64_t works = disk_.memory_works.exchange(-1); works >= 0) memory_.emplace(works);
    const std::lock_guard guard(disk_.mutex);
    if (disk_.throws) throw std::bad_alloc();
    if (disk_.fails_to_write) return "no room";
    for (const TreeEntry& entry : entries) {
      if (entry.value.empty()) {
        disk_.pairs.erase(std::string(entry.key));
      } else {
        disk_.pairs[std::string(entry.key)] = entry.value;
      }
    }
    disk_.meta = meta;
    disk_.has_meta = true;
    ++disk_.ingested;
    if (disk_.throws_behind.exchange(false)) throw std::bad_alloc();
    return {};
  }
  std::string erase_range(std::string_view first, std::string_view end) override {
    const std::lock_guard guard(disk_.mutex);
    if (disk_.fails_to_write) return "no room";
    disk_.pairs.erase(disk_.pairs.lower_bound(first), disk_.pairs.lower_bound(end));
    return {};
  }
  std::string walk(std::string_view from, std::string_view end, const Visit& visit) override {
    const std::lock_guard guard(disk_.mutex);
    for (auto at = disk_.pairs.lower_bound(from); at != disk_.pairs.end() && at->first < end;
         ++at) {
      if (!visit(at->first, at->second)) break;
    }
    return disk_.fails_to_read ? "cannot be read" : "";
  }
  std::unique_ptr<TreeView> view(bool /*sorted*/) override {
    return std::make_unique<TreeViewInMemory>(disk_);
  }
  std::string checkpoint(const std::string& folder) override {
    const std::lock_guard guard(disk_.mutex);
    disk_.checkpoints[folder] = disk_.pairs;
    return {};
  }
  bool load(TreeMeta& meta) override {
    meta = disk_.meta;
    return disk_.has_meta;
  }
  uint64_t memory() override { return 0; }
  uint64_t disk_bytes() override { return 0; }
  uint64_t keys() override { return 0; }

 private:
  TreeDisk& disk_;
  std::optional<FailingMemory> memory_;
};

}  // namespace isotherm
