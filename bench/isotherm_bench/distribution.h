// Distributions: which key a request goes to.
//
// `Zipf` draws ranks: rank r (from 0) with probability proportional to 1 / (r + 1)^theta, for any
// theta above 0, one and more included. The ranks are divided into spans: each of the first ranks
// by itself, further behind a thirty-second of the ranks in front. A span is drawn by the alias
// method (Walker 1977, Vose 1991), by the weight that it would have if all its ranks were as
// popular as its first; a rank of it is drawn evenly, and rejected as often as it is less popular
// than that. So the result is exact, the tables have some hundreds of entries for any count, and a
// draw takes some nanoseconds: a load generator must not cost as much as the store that it
// measures.
//
// `Scramble` spreads ranks over the key numbers. It is a bijection of [0, count), so scrambled keys
// keep the exact probabilities of their ranks (a hash modulo count would merge some keys).
//
// Threads. Immutable once built; the random source belongs to the caller.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

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
  // One span and its alias: the span itself for the lowest `keep` of 2^32 draws, else the other.
  struct Span {
    uint64_t first;  // its first rank, from 1
    uint32_t keep;
    uint32_t other;
  };
  void make_aliases(std::vector<double> weights);

  std::vector<Span> spans_;  // and one behind the last, for its first rank
  double theta_;
  double sure_;  // no rank is accepted more seldom than this
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
