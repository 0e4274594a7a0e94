// DirectPool: the columns of direct gets (gpu/items/direct_gets.h) of a tree's files that have
// them: lent to batches, which hold them until their replies are cleared. A part of them is only
// for those that give them back before they wait for anything but the device, so that batches that
// find no others go on, with copies of their replies.
//
// Values that are longer than a slot make the slots of columns that are made later larger, up to
// `most_stride`; columns with smaller ones are given up when they come back.
//
// Threads. Any. Memory. Pinned, `bytes`, at most `most_bytes`: where that is lent there are none.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "executor/backing.h"
#include "gpu/items/direct_gets.h"
#include "tree/tree_files.h"

namespace isotherm {

class DirectPool {
 public:
  // The longest key, in a row of columns, that they are made for; longer ones fill them sooner.
  static constexpr uint32_t usual_key = 32;
  static constexpr uint32_t most_stride = 1024;

  DirectPool(TreeFiles& files, uint64_t most_bytes);

  // Held by a batch.
  class Lent final : public Backing::Held {
   public:
    Lent(DirectPool& pool, std::unique_ptr<DirectGets> gets, bool held)
        : pool_(pool), gets_(std::move(gets)), held_(held) {}
    ~Lent() override { pool_.give_back(std::move(gets_), held_); }
    DirectGets& gets() { return *gets_; }

   private:
    DirectPool& pool_;
    std::unique_ptr<DirectGets> gets_;
    const bool held_;
  };

  bool serves() const { return rows_ != 0; }
  // Null: not now. `held`: until a batch is cleared; else it waits while others have some that they
  // give back soon, and the thread must have no such columns itself.
  std::unique_ptr<Lent> lend(bool held);
  // A value was too long for slots of so many bytes.
  void note_long(uint32_t stride) { too_short_.store(stride, std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }
  // Of columns that nobody has.
  void release();

 private:
  void give_back(std::unique_ptr<DirectGets> gets, bool held);
  std::unique_ptr<DirectGets> take_or_make(bool held);

  TreeFiles& files_;
  const uint64_t most_bytes_;
  const uint32_t rows_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<uint32_t> too_short_{0};
  std::mutex mutex_;  // of what follows
  uint32_t stride_ = 96;
  uint64_t held_bytes_ = 0;
  uint32_t passing_ = 0;  // columns that are lent and not held
  std::condition_variable returned_;
  std::vector<std::unique_ptr<DirectGets>> free_;
};

}  // namespace isotherm
