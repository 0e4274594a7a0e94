#include "isotherm_bench/figures.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace isotherm::bench {
namespace {

constexpr double unknown = std::numeric_limits<double>::quiet_NaN();

constexpr FigureName names[] = {
    {"requests_per_second", "requests/s", &Figures::rate},
    {"p50_us", "p50 us", &Figures::p50_us},
    {"p99_us", "p99 us", &Figures::p99_us},
    {"p99_9_us", "p99.9 us", &Figures::p999_us},
    {"max_us", "max us", &Figures::max_us},
    {"hit_share", "hits", &Figures::hit_share},
    {"server_cpu_us_per_request", "server CPU us", &Figures::server_cpu_us},
    {"client_cpu_us_per_request", "client CPU us", &Figures::client_cpu_us},
};

template <typename Value>
Figures by_member(Value value) {
  Figures result;
  for (const FigureName& name : names) result.*name.member = value(name.member);
  return result;
}

}  // namespace

std::span<const FigureName> figure_names() { return names; }

Figures figures_of(const RunResult& run) {
  const Counts& counts = run.counts;
  const auto microseconds = [&](double percent) {
    return static_cast<double>(counts.latency.percentile(percent)) / 1e3;
  };
  const auto per_request = [&](double seconds) {
    return counts.requests == 0 ? unknown : seconds * 1e6 / static_cast<double>(counts.requests);
  };
  const auto asked = static_cast<double>(counts.hits + counts.misses);
  return {
      .rate = counts.rate,
      .p50_us = microseconds(50),
      .p99_us = microseconds(99),
      .p999_us = microseconds(99.9),
      .max_us = static_cast<double>(counts.latency.max()) / 1e3,
      .hit_share = asked == 0 ? unknown : static_cast<double>(counts.hits) / asked,
      .server_cpu_us = run.server_cpu ? per_request(run.server_cpu->total()) : unknown,
      .client_cpu_us = per_request(run.client_cpu.total()),
  };
}

double median(std::vector<double> values) {
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return unknown;
  std::sort(values.begin(), values.end());
  const size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

Figures median(const std::vector<Figures>& rounds) {
  return by_member([&](double Figures::*member) {
    std::vector<double> values;
    values.reserve(rounds.size());
    for (const Figures& round : rounds) values.push_back(round.*member);
    return median(std::move(values));
  });
}

Figures median_ratio(const std::vector<Figures>& subject, const std::vector<Figures>& peer) {
  return by_member([&](double Figures::*member) {
    std::vector<double> values;
    for (size_t i = 0; i < std::min(subject.size(), peer.size()); ++i) {
      if ((peer[i].*member) != 0) values.push_back((subject[i].*member) / (peer[i].*member));
    }
    return median(std::move(values));
  });
}

}  // namespace isotherm::bench
