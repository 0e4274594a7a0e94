#include "isotherm_bench/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace isotherm::bench {
namespace {

// (e^t - 1) / t and log(1 + t) / t, continuous at 0: they carry theta = 1 and its neighbourhood.
double exp_ratio(double t) { return std::abs(t) < 1e-8 ? 1 + t / 2 : std::expm1(t) / t; }
double log_ratio(double t) { return std::abs(t) < 1e-8 ? 1 - t / 2 : std::log1p(t) / t; }

}  // namespace

std::string_view to_string(Distribution distribution) {
  switch (distribution) {
    case Distribution::zipf:
      return "zipf";
    case Distribution::uniform:
      return "uniform";
    case Distribution::latest:
      return "latest";
  }
  return "?";
}

std::optional<Distribution> parse_distribution(std::string_view name) {
  for (auto distribution : {Distribution::zipf, Distribution::uniform, Distribution::latest}) {
    if (name == to_string(distribution)) return distribution;
  }
  return std::nullopt;
}

Zipf::Zipf(uint64_t count, double theta) : count_(static_cast<double>(count)), theta_(theta) {
  area_begin_ = area(1.5) - 1;
  area_end_ = area(count_ + 0.5);
  sure_ = 2 - inverse_area(area(2.5) - height(2));
}

// The integral of x^-theta from 1 to x.
double Zipf::area(double x) const {
  const double log_x = std::log(x);
  return log_x * exp_ratio((1 - theta_) * log_x);
}

double Zipf::inverse_area(double y) const {
  // Rounding may push the argument past the pole of the logarithm.
  const double t = std::max((1 - theta_) * y, -1.0);
  return std::exp(y * log_ratio(t));
}

double Zipf::height(double x) const { return std::exp(-theta_ * std::log(x)); }

uint64_t Zipf::draw(Random& random) const {
  for (;;) {
    const double y = area_end_ + random.unit() * (area_begin_ - area_end_);
    const double x = inverse_area(y);
    const double rank = std::clamp(std::floor(x + 0.5), 1.0, count_);
    if (rank - x <= sure_ || y >= area(rank + 0.5) - height(rank)) {
      return static_cast<uint64_t>(rank) - 1;
    }
  }
}

Scramble::Scramble(uint64_t count) : count_(std::max<uint64_t>(count, 1)) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(count_ - 1)));
  mask_ = ~uint64_t{0} >> (64 - bits);
  shift_ = bits / 2;
}

}  // namespace isotherm::bench
