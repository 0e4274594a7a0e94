// DirectPool: the columns of direct gets (gpu/items/direct_gets.h) of a tree's files that have
// them: lent to batches, which hold them until their replies are cleared.
//
// Values that are longer than a slot make the slots of columns that are made later larger, up to
// `most_stride`; columns with smaller ones are given up when they come back.
//
// Threads. Any. Memory. Pinned, `bytes`, at most `most_bytes`: where that is lent there are none.
#pragma once

#include <atomic>
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
    Lent(DirectPool& pool, std::unique_ptr<DirectGets> gets)
        : pool_(pool), gets_(std::move(gets)) {}
    ~Lent() override { pool_.give_back(std::move(gets_)); }
    DirectGets& gets() { return *gets_; }

   private:
    DirectPool& pool_;
    std::unique_ptr<DirectGets> gets_;
  };

  bool serves() const { return rows_ != 0; }
  // Null: not now.
  std::unique_ptr<Lent> lend();
  // A value was too long for the slots.
  void note_long() { longer_.store(true, std::memory_order_relaxed); }
  uint64_t bytes() const { return bytes_.load(std::memory_order_relaxed); }

 private:
  void give_back(std::unique_ptr<DirectGets> gets);

  TreeFiles& files_;
  const uint64_t most_bytes_;
  const uint32_t rows_;
  std::atomic<uint64_t> bytes_{0};
  std::atomic<bool> longer_{false};
  std::mutex mutex_;  // of what follows
  uint32_t stride_ = 96;
  std::vector<std::unique_ptr<DirectGets>> free_;
};

}  // namespace isotherm
