// Fifo: a queue whose elements keep their numbers: 0, 1, 2, … in the order they were pushed.
//
// Elements lie in a ring that doubles when it is full and never shrinks, so a queue that has
// reached its size allocates nothing more. Threads. One.
#pragma once

#include <cstdint>
#include <vector>

namespace isotherm {

template <class T>
class Fifo {
 public:
  // Numbers of the oldest element, and of the next to be pushed.
  uint64_t begin() const { return begin_; }
  uint64_t end() const { return end_; }
  bool empty() const { return begin_ == end_; }

  T& operator[](uint64_t number) { return ring_[number & (ring_.size() - 1)]; }
  const T& operator[](uint64_t number) const { return ring_[number & (ring_.size() - 1)]; }
  T& front() { return (*this)[begin_]; }
  T& back() { return (*this)[end_ - 1]; }

  void push(const T& element) {
    if (end_ - begin_ == ring_.size()) grow();
    (*this)[end_++] = element;
  }
  void pop() { ++begin_; }

 private:
  void grow() {
    std::vector<T> larger(ring_.size() * 2);
    for (uint64_t number = begin_; number != end_; ++number) {
      larger[number & (larger.size() - 1)] = (*this)[number];
    }
    ring_.swap(larger);
  }

  std::vector<T> ring_ = std::vector<T>(64);
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
};

}  // namespace isotherm
