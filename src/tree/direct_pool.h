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
#include <string_view>
#include <utility>

#include "base/bytes.h"
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

// Writes keys into columns, from the first on; how many of `count` found room. key(i) is the i-th
// as the device has it, until the next call.
template <class Key>
size_t pack_keys(DirectGets& gets, size_t count, const Key& key) {
  const DirectColumns& to = gets.columns();
  const DirectShape& shape = gets.shape();
  uint32_t at = 0;
  size_t packed = 0;
  for (; packed < count && packed < shape.rows; ++packed) {
    const std::string_view its = key(packed);
    if (its.size() > shape.key_room - at) break;
    copy_bytes(to.keys + at, its.data(), its.size());
    at += static_cast<uint32_t>(its.size());
    to.key_ends[packed + 1] = at;
  }
  return packed;
}

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
