#include "base/striped_count.h"

#include <bit>
#include <mutex>

namespace isotherm {
namespace {

std::mutex numbers_mutex;
uint64_t free_numbers = (uint64_t{1} << StripedCount::own_stripes) - 1;  // a bit each

}  // namespace

// The number of a thread's stripe, for as long as the thread lives.
class StripeNumber {
 public:
  StripeNumber() {
    const std::lock_guard guard(numbers_mutex);
    if (free_numbers != 0) {
      number_ = static_cast<uint32_t>(std::countr_zero(free_numbers));
      free_numbers &= free_numbers - 1;
    }
    StripedCount::own_stripe = number_;
  }
  // If the thread adds more while it ends, that goes to the shared stripe.
  ~StripeNumber() {
    StripedCount::own_stripe = StripedCount::own_stripes;
    if (number_ == StripedCount::own_stripes) return;
    const std::lock_guard guard(numbers_mutex);
    free_numbers |= uint64_t{1} << number_;
  }
  StripeNumber(const StripeNumber&) = delete;
  StripeNumber& operator=(const StripeNumber&) = delete;

 private:
  uint32_t number_ = StripedCount::own_stripes;
};

void StripedCount::add_slowly(int64_t amount) {
  if (own_stripe == undecided) {
    thread_local const StripeNumber number;
    if (own_stripe < own_stripes) return add(amount);
  }
  stripes_[own_stripes].value.fetch_add(amount, std::memory_order_relaxed);
}

int64_t StripedCount::sum() const {
  int64_t sum = 0;
  for (const Stripe& stripe : stripes_) sum += stripe.value.load(std::memory_order_relaxed);
  return sum;
}

}  // namespace isotherm
