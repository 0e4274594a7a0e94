#include "isotherm_bench/progress.h"

#include <stdio.h>
#include <unistd.h>

#include "isotherm_bench/control.h"

namespace isotherm::bench {
namespace {

constexpr int64_t draw_every_ns = 200'000'000;

}  // namespace

Progress::Progress(bool wanted) : shown_(wanted && isatty(STDERR_FILENO) == 1) {}

void Progress::stage(const std::string& what) {
  stage_ = what;
  begun_ = now_ns();
  drawn_ = 0;
  update(0);
}

void Progress::update(uint64_t done) {
  if (!shown_) return;
  const int64_t now = now_ns();
  if (now - drawn_ < draw_every_ns) return;
  drawn_ = now;
  const double seconds = static_cast<double>(now - begun_) / 1e9;
  const double rate = seconds > 0 ? static_cast<double>(done) / seconds : 0;
  fprintf(stderr, "\r\033[K%s: %.1f s, %.2f M requests, %.0f k/s", stage_.c_str(), seconds,
          static_cast<double>(done) / 1e6, rate / 1e3);
  fflush(stderr);
}

void Progress::clear() {
  if (!shown_) return;
  fprintf(stderr, "\r\033[K");
  fflush(stderr);
}

}  // namespace isotherm::bench
