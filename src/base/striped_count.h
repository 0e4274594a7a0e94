// StripedCount: a count that many threads change with every request, and that few threads read.
//
//   [ thread 0 ][ thread 1 ] … [ threads without a stripe of their own ]     a cache line each
//
// A thread adds to a stripe of its own by a load and a store: nobody else writes to it, so no
// instruction is locked, and no cache line goes from core to core. The count is the sum of all
// stripes. A thread gets the number of its stripe when it first adds to any count, has the same
// number in all counts, and gives it back when it ends. While there are more threads than numbers,
// the others share the last stripe, by locked instructions.
//
// Threads. Any. `sum` has everything that its caller was told of; of what others add meanwhile it
// may have some.
// Limits. 64 stripes, 4 KiB a count.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>

#include "base/macros.h"

namespace isotherm {

class StripedCount {
 public:
  static constexpr uint32_t own_stripes = 63;

  ISOTHERM_INLINE void add(int64_t amount) {
    const uint32_t own = own_stripe;
    if (ISOTHERM_UNLIKELY(own >= own_stripes)) return add_slowly(amount);
    std::atomic<int64_t>& value = stripes_[own].value;
    value.store(value.load(std::memory_order_relaxed) + amount, std::memory_order_relaxed);
  }

  int64_t sum() const;

 private:
  struct alignas(64) Stripe {
    std::atomic<int64_t> value{0};
  };
  static constexpr uint32_t undecided = uint32_t{1} << 31;

  void add_slowly(int64_t amount);

  // The stripe of the calling thread; own_stripes: it has none of its own.
  inline static thread_local uint32_t own_stripe = undecided;
  friend class StripeNumber;

  std::array<Stripe, own_stripes + 1> stripes_;
};

}  // namespace isotherm
