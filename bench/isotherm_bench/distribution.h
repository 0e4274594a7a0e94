// Distributions: which key a request goes to.
//
// `Zipf` draws ranks: rank r (from 0) with probability proportional to 1 / (r + 1)^theta, for any
// theta above 0, one and more included. It uses rejection-inversion (Hörmann and Derflinger, 1996):
// the area under the continuous curve is inverted and a few draws are rejected, so there is no
// table, no sum over all keys, and the result is exact, not an approximation.
//
// `Scramble` spreads ranks over the key numbers. It is a bijection of [0, count), so scrambled keys
// keep the exact probabilities of their ranks (a hash modulo count would merge some keys).
//
// Threads. Immutable once built; the random source belongs to the caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "isotherm_bench/random.h"

namespace isotherm::bench {

enum class Distribution : uint8_t {
  zipf,     // scrambled Zipf: the popular keys lie anywhere
  uniform,  // every key alike
  latest,   // Zipf over the age: the key inserted last is the most popular
};

std::string_view to_string(Distribution distribution);
std::optional<Distribution> parse_distribution(std::string_view name);

class Zipf {
 public:
  // count >= 1, theta > 0.
  Zipf(uint64_t count, double theta);

  // A rank in [0, count).
  uint64_t draw(Random& random) const;

 private:
  double area(double x) const;
  double inverse_area(double y) const;
  double height(double x) const;

  double count_;
  double theta_;
  double area_begin_;
  double area_end_;
  double sure_;  // so close above an integer a draw is always accepted
};

class Scramble {
 public:
  explicit Scramble(uint64_t count);

  uint64_t operator()(uint64_t rank) const {
    // The rounds permute the next power of two; numbers beyond the count go round again.
    do {
      rank = round(rank);
    } while (rank >= count_);
    return rank;
  }

 private:
  uint64_t round(uint64_t x) const {
    x = (x * 0x9e3779b97f4a7c15ULL) & mask_;
    x ^= x >> shift_;
    x = (x * 0xd6e8feb86659fd93ULL) & mask_;
    x ^= x >> shift_;
    return x;
  }

  uint64_t count_;
  uint64_t mask_;
  int shift_;
};

}  // namespace isotherm::bench
