// DeviceMoment: what is on a GPU at one moment, for a walk over it (tree/tree_files.h), while
// others write there.
//
//   a step:   lines of the index from `walked_` on ─▶ keys ─▶ their records ─▶ shown
//             what is kept ─▶ shown; its key stays known until the walk has passed it
//   a write:  of its keys that the walk has not come to, the records there are ─▶ kept
//
// The walk goes in order of hash. A key that is known was written since the moment, so the walk
// passes over what it finds of it. What the GPU evicts or lets expire meanwhile is left out, if the
// walk has not come to it.
//
// What is too long for the GPU, and lies on the host, is held from the moment on.
//
// Who waits. Where more than `most_kept` bytes are kept, those who write wait for the walk, which
// waits for nobody but whoever takes what it shows.
//
// Threads. `step`: one; `keep`: any. The files must outlive it.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/items/walked_item.h"
#include "tree/device_columns.h"
#include "tree/tree_files.h"

namespace isotherm {

class DeviceFiles;

// An item that is too long for the device. Keys and values are those of tree/tree_record.h.
struct HostItem {
  std::string key;
  std::string record;
};

class DeviceMoment {
 public:
  using HostItems = std::vector<std::shared_ptr<const HostItem>>;

  DeviceMoment(DeviceFiles& files, HostItems host_items, uint64_t most_kept)
      : files_(files), most_kept_(most_kept), host_items_(std::move(host_items)) {}

  // Before the keys are written on the device. Where what is there cannot be read the device is
  // lost.
  void keep(const ByteColumn& device_keys);
  std::string step(const MomentWalk::Show& show);
  bool ended() const { return ended_; }
  // Nobody walks on.
  void leave();
  // Of memory that is taken for what is kept.
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  struct Kept {
    std::string device_key;
    std::string record;  // empty: there was none, or it was shown
  };
  // By where walks have them.
  using AllKept = std::multimap<uint64_t, Kept>;
  using Records = std::vector<std::pair<std::string, std::string>>;  // by keys of the tree
  static constexpr uint64_t node_bytes = 128;
  static constexpr uint64_t piece_bytes = 1 << 20;  // of records that a step shows, about

  bool is_known(uint64_t place, std::string_view device_key) const;
  bool keep_some(const ByteColumn& device_keys, size_t& row);
  bool walk(Records& shown);
  bool read_walked(const std::vector<WalkedItem>& some, Records& shown);
  void take_kept(Records& shown);
  void show_host_item(const MomentWalk::Show& show);
  static uint64_t bytes_of(const Kept& kept) { return node_bytes + kept.device_key.size(); }

  DeviceFiles& files_;
  const uint64_t most_kept_;
  HostItems host_items_;
  bool ended_ = false;    // all was shown
  uint64_t wanted_ = 16;  // items of a step, at least
  // A step wants the mutex, before those who write: else many of these would keep it from them.
  std::atomic<bool> steps_{false};

  std::mutex mutex_;  // of what follows
  std::condition_variable room_;
  uint64_t walked_ = 0;  // all places below it were shown
  bool passed_ = false;  // all were, or nobody walks on
  AllKept kept_;
  std::vector<AllKept::iterator> records_;  // of these, those that have one
  std::atomic<uint64_t> bytes_{0};
};

}  // namespace isotherm
