// Reservation: a range of addresses that takes memory only where it is used.
//
// The whole range is reserved at once without access, so nothing in it ever moves; commit() opens
// it from the start to a mark that only rises, so the kernel keeps one mapping for the open part.
// Open memory reads as zero and takes real pages only where it is written.
//
// LazyArray is an array on such a range, all of it open: an element that was never written is zero
// and costs nothing.
//
// Threads. commit: one at a time. Everything else is constant after construction.
#pragma once

#include <cstdint>
#include <type_traits>

namespace isotherm {

class Reservation {
 public:
  static constexpr uint64_t alignment = 2 << 20;

  // Reserves `bytes`, or, where the kernel refuses, the largest half, quarter, … down to
  // `smallest`. Throws std::bad_alloc when that is refused, too.
  Reservation(uint64_t bytes, uint64_t smallest);
  ~Reservation();
  Reservation(const Reservation&) = delete;
  Reservation& operator=(const Reservation&) = delete;

  char* base() const { return base_; }  // aligned to 2 MiB
  uint64_t bytes() const { return bytes_; }

  // Opens [0, bytes) rounded up; false when the kernel refuses or the range is too small.
  bool commit(uint64_t bytes);

 private:
  char* base_ = nullptr;
  uint64_t bytes_ = 0;
  uint64_t committed_ = 0;
};

template <class T>
class LazyArray {
  static_assert(std::is_trivially_destructible_v<T>);

 public:
  // Throws std::bad_alloc. Zero bytes must be a valid T.
  explicit LazyArray(uint64_t size);

  T& operator[](uint64_t i) { return reinterpret_cast<T*>(range_.base())[i]; }
  const T& operator[](uint64_t i) const { return reinterpret_cast<const T*>(range_.base())[i]; }

 private:
  Reservation range_;
};

void throw_bad_alloc_unless(bool good);

template <class T>
LazyArray<T>::LazyArray(uint64_t size) : range_(size * sizeof(T), size * sizeof(T)) {
  throw_bad_alloc_unless(range_.commit(size * sizeof(T)));
}

}  // namespace isotherm
