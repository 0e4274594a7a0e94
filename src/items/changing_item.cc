#include "items/changing_item.h"

#include <thread>

namespace isotherm {
namespace {

using Header = LargeItems::Header;

// A writer whose thread does not run for a while lets others run.
void wait_for_writer(const std::atomic<uint32_t>& state) {
  constexpr int looks_before_yield = 64;
  for (int looks = 0; (state.load(std::memory_order_acquire) & Header::written) != 0; ++looks) {
    looks < looks_before_yield ? __builtin_ia32_pause() : std::this_thread::yield();
  }
}

}  // namespace

// The keep comes first: no other writer begins behind the one that it waits for.
void ChangingItem::share(Location location) {
  std::atomic<uint32_t>& state = LargeItems::header(location).state;
  const uint32_t before = state.fetch_add(Header::one_keep, std::memory_order_acquire);
  if ((before & Header::written) != 0) wait_for_writer(state);
}

void ChangingItem::fix(Location location) {
  std::atomic<uint32_t>& state = LargeItems::header(location).state;
  const uint32_t before = state.fetch_or(Header::constant, std::memory_order_acquire);
  if ((before & Header::written) != 0) wait_for_writer(state);
}

// Other bits may change meanwhile.
ChangingItem::Writing::Writing(Location location) {
  std::atomic<uint32_t>& state = LargeItems::header(location).state;
  const auto is_free = [](uint32_t is) {
    return is < Header::one_keep && (is & (Header::written | Header::constant)) == 0;
  };
  uint32_t before = state.load(std::memory_order_relaxed);
  while (is_free(before)) {
    if (state.compare_exchange_weak(before, before | Header::written, std::memory_order_acquire,
                                    std::memory_order_relaxed)) {
      state_ = &state;
      return;
    }
  }
}

ChangingItem::Writing::~Writing() {
  if (state_ != nullptr) state_->fetch_and(~Header::written, std::memory_order_release);
}

}  // namespace isotherm
