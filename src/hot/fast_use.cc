#include "hot/fast_use.h"

namespace isotherm {

// Skipped once fewer than half are hits, and until five of eight are.
void FastUse::decide() {
  skips_ = hits_ < (skips_ ? window / 8 * 5 : window / 2);
  all_looks_.add(looks_);
  all_hits_.add(hits_);
  all_skipped_.add(skipped_);
  looks_ = hits_ = skipped_ = 0;
}

}  // namespace isotherm
