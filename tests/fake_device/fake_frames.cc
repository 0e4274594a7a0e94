#include "fake_device/fake_frames.h"

#include <atomic>

#include "items/poison.h"

#if defined(ISOTHERM_ASAN)
// Of the sanitizer's library; each function looks at it when it begins.
extern "C" int __asan_option_detect_stack_use_after_return;
#endif

namespace isotherm {
namespace {

std::atomic<uint32_t> blind{0};  // of those that do not look

void look([[maybe_unused]] bool on) {
#if defined(ISOTHERM_ASAN)
  static const int as_started = __asan_option_detect_stack_use_after_return;
  __asan_option_detect_stack_use_after_return = on ? as_started : 0;
#endif
}

}  // namespace

bool FakeFrames::looks() {
#if defined(ISOTHERM_ASAN)
  return __asan_option_detect_stack_use_after_return != 0;
#else
  return false;
#endif
}

FakeFrames::Unseen::Unseen(bool unseen) : unseen_(unseen) {
  if (unseen_ && blind.fetch_add(1) == 0) look(false);
}

FakeFrames::Unseen::~Unseen() {
  if (unseen_ && blind.fetch_sub(1) == 1) look(true);
}

}  // namespace isotherm
