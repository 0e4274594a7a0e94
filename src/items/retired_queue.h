// RetiredQueue: retired items in the order of their epochs, until they may be reused.
//
// A ring that doubles when full and, if it is large, goes when it has become empty, so in steady
// state nothing is allocated; to take entries out needs no memory. Threads: its owner.
#pragma once

#include <cstdint>
#include <memory>
#include <new>
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

  // Whether the next `push` needs no memory.
  bool make_room() {
    return size() != capacity_ || resize(capacity_ == 0 ? smallest : capacity_ * 2);
  }
  // Throws std::bad_alloc, and then nothing has changed.
  void push(Entry entry) {
    if (!make_room()) throw std::bad_alloc();
    ring_[tail_++ & mask_] = entry;
  }
  Entry pop() {
    const Entry entry = ring_[head_++ & mask_];
    if (empty() && capacity_ > largest_kept) *this = RetiredQueue();
    return entry;
  }

 private:
  static constexpr uint64_t smallest = 256;
  static constexpr uint64_t largest_kept = 16384;

  bool resize(uint64_t capacity) {
    std::unique_ptr<Entry[]> ring(new (std::nothrow) Entry[capacity]);
    if (ring == nullptr) return false;
    const uint64_t count = size();
    for (uint64_t i = 0; i < count; ++i) ring[i] = ring_[(head_ + i) & mask_];
    ring_ = std::move(ring);
    capacity_ = capacity;
    mask_ = capacity - 1;
    head_ = 0;
    tail_ = count;
    return true;
  }

  std::unique_ptr<Entry[]> ring_;
  uint64_t capacity_ = 0;
  uint64_t mask_ = 0;
  uint64_t head_ = 0;
  uint64_t tail_ = 0;
};

}  // namespace isotherm
