// DirectPool: the columns of direct gets (gpu/items/direct_gets.h) of a tree's files that have
// them. Batches hold them until their replies are cleared.
//
// Values that are longer than a slot make the slots of columns that are made later larger, up to
// `most_stride`; columns with smaller ones are given up when they come back.
//
// Threads, memory. As tree/column_pool.h.
#pragma once

#include <atomic>
#include <cstdint>
#include <exception>
#include <memory>
#include <utility>

#include "gpu/items/direct_gets.h"
#include "tree/column_pool.h"
#include "tree/tree_files.h"

namespace isotherm {

class DirectPool final : public ColumnPool<DirectGets> {
 public:
  // The longest key, in a row of columns, that they are made for; longer ones fill them sooner.
  static constexpr uint32_t usual_key = 32;
  static constexpr uint32_t most_stride = 1024;

  DirectPool(TreeFiles& files, uint64_t most_bytes);

  bool serves() const { return rows_ != 0; }
  // A value was too long for slots of so many bytes.
  void note_long(uint32_t stride) { too_short_.store(stride, std::memory_order_relaxed); }

 private:
  uint64_t wanted_bytes() override;
  bool fits(const DirectGets& gets) const override { return gets.shape().stride >= stride_; }
  std::unique_ptr<DirectGets> make() override;

  TreeFiles& files_;
  const uint32_t rows_;
  std::atomic<uint32_t> too_short_{0};
  uint32_t stride_ = 96;  // with the pool's lock
};

// Columns that are given back when the device has answered, whoever waits for that.
class StartedGets final : public Backing::Held {
 public:
  explicit StartedGets(std::unique_ptr<DirectPool::Lent> lent) : lent_(std::move(lent)) {}
  ~StartedGets() override {
    try {
      gets().wait();
    } catch (const std::exception&) {
      // Nothing is under way any more.
    }
  }
  DirectGets& gets() const { return lent_->columns(); }

 private:
  const std::unique_ptr<DirectPool::Lent> lent_;
};

}  // namespace isotherm
