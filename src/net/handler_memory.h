// HandlerMemory: the memory of one pending Asio operation.
//
// A connection starts an operation per request; Asio takes the operation's memory from the
// allocator that its handler names. Each connection keeps one block for reads and one for writes,
// so an operation costs no allocation. A second operation at the same time, or one that does not
// fit, falls back to the heap.
//
// Threads. Belongs to the connection's loop.
#pragma once

#include <cstddef>
#include <new>

namespace isotherm::net {

class HandlerMemory {
 public:
  HandlerMemory() = default;
  HandlerMemory(const HandlerMemory&) = delete;
  HandlerMemory& operator=(const HandlerMemory&) = delete;

  void* take(size_t bytes) {
    if (taken_ || bytes > sizeof block_) return ::operator new(bytes);
    taken_ = true;
    return block_;
  }
  void give(void* memory) {
    if (memory == block_) {
      taken_ = false;
    } else {
      ::operator delete(memory);
    }
  }

 private:
  bool taken_ = false;
  alignas(std::max_align_t) std::byte block_[240];
};

template <typename T>
class HandlerAllocator {
 public:
  using value_type = T;

  explicit HandlerAllocator(HandlerMemory& memory) : memory_(&memory) {}
  template <typename U>
  HandlerAllocator(const HandlerAllocator<U>& other) noexcept : memory_(other.memory_) {}

  T* allocate(size_t count) { return static_cast<T*>(memory_->take(count * sizeof(T))); }
  void deallocate(T* block, size_t) { memory_->give(block); }

  bool operator==(const HandlerAllocator&) const = default;

 private:
  template <typename U>
  friend class HandlerAllocator;

  HandlerMemory* memory_;
};

// A function object with the memory for its operation.
template <typename Function>
class Handler {
 public:
  using allocator_type = HandlerAllocator<Function>;

  Handler(HandlerMemory& memory, Function function) : memory_(&memory), function_(function) {}

  allocator_type get_allocator() const noexcept { return allocator_type(*memory_); }

  template <typename... Values>
  void operator()(Values... values) {
    function_(values...);
  }

 private:
  HandlerMemory* memory_;
  Function function_;
};

}  // namespace isotherm::net
