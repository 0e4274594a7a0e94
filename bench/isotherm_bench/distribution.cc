#include "isotherm_bench/distribution.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <utility>

namespace isotherm::bench {
namespace {

// A span behind the first ranks has this share of the ranks in front of it.
constexpr uint64_t span_share = 32;
constexpr double all_draws = 0x1.0p32;  // of what `Span::keep` counts

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

Zipf::Zipf(uint64_t count, double theta)
    : theta_(theta), sure_(std::pow(1 + 1.0 / span_share, -theta)) {
  std::vector<double> weights;
  uint64_t first = 1;
  while (first <= count) {
    const uint64_t width = std::min(std::max<uint64_t>(first / span_share, 1), count + 1 - first);
    const auto itself = static_cast<uint32_t>(spans_.size());
    spans_.push_back({.first = first, .keep = 0, .other = itself});
    weights.push_back(static_cast<double>(width) * std::pow(static_cast<double>(first), -theta));
    first += width;
  }
  make_aliases(std::move(weights));
  spans_.push_back({.first = first, .keep = 0, .other = 0});
}

// What is left in the end has the mean but for rounding, and so needs no other than itself.
void Zipf::make_aliases(std::vector<double> weights) {
  const double mean =
      std::accumulate(weights.begin(), weights.end(), 0.0) / static_cast<double>(weights.size());
  std::vector<uint32_t> light, heavy;
  for (uint32_t i = 0; i < weights.size(); ++i) (weights[i] < mean ? light : heavy).push_back(i);
  while (!light.empty() && !heavy.empty()) {
    const uint32_t less = light.back();
    const uint32_t more = heavy.back();
    light.pop_back();
    spans_[less].keep = static_cast<uint32_t>(weights[less] / mean * all_draws);
    spans_[less].other = more;
    weights[more] -= mean - weights[less];
    if (weights[more] >= mean) continue;
    heavy.pop_back();
    light.push_back(more);
  }
}

uint64_t Zipf::draw(Random& random) const {
  for (;;) {
    const uint64_t bits = random.next();
    const uint64_t slot = (bits >> 32) * (spans_.size() - 1) >> 32;
    const bool keeps = static_cast<uint32_t>(bits) < spans_[slot].keep;
    const Span* span = &spans_[keeps ? slot : spans_[slot].other];
    const uint64_t width = span[1].first - span->first;
    if (width == 1) return span->first - 1;
    const uint64_t rank = span->first + random.below(width);
    const double popular = static_cast<double>(rank) / static_cast<double>(span->first);
    const double chance = random.unit();
    if (chance < sure_ || chance < std::pow(popular, -theta_)) {
      return rank - 1;
    }
  }
}

Scramble::Scramble(uint64_t count) : count_(std::max<uint64_t>(count, 1)) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(count_ - 1)));
  mask_ = ~uint64_t{0} >> (64 - bits);
  shift_ = bits / 2;
}

}  // namespace isotherm::bench
