// RetiredQueue: retired items in the order of their epochs, until they may be reused.
//
// A ring that doubles when full and shrinks when it has become empty, so in steady state nothing is
// allocated. Threads: its owner.
#pragma once

#include <cstdint>
#include <memory>
#include <utility>

#include "items/location.h"

namespace isotherm {

class RetiredQueue {
 public:
  struct Entry {
    Location location;
    uint64_t epoch;
  };

  bool empty() const { return head_ == tail_; }
  uint64_t size() const { return tail_ - head_; }
  const Entry& front() const { return ring_[head_ & mask_]; }

  void push(Entry entry) {
    if (size() == capacity_) resize(capacity_ == 0 ? smallest : capacity_ * 2);
    ring_[tail_++ & mask_] = entry;
  }
  Entry pop() {
    const Entry entry = ring_[head_++ & mask_];
    if (empty() && capacity_ > largest_kept) resize(smallest);
    return entry;
  }

 private:
  static constexpr uint64_t smallest = 256;
  static constexpr uint64_t largest_kept = 16384;

  void resize(uint64_t capacity) {
    auto ring = std::make_unique<Entry[]>(capacity);
    const uint64_t count = size();
    for (uint64_t i = 0; i < count; ++i) ring[i] = ring_[(head_ + i) & mask_];
    ring_ = std::move(ring);
    capacity_ = capacity;
    mask_ = capacity - 1;
    head_ = 0;
    tail_ = count;
  }

  std::unique_ptr<Entry[]> ring_;
  uint64_t capacity_ = 0;
  uint64_t mask_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace isotherm
