// Figures: the numbers a run comes down to, and medians and ratios of them.
//
// A ratio of two systems is taken round by round, since rounds run side by side and share what the
// machine was doing then; the median of these ratios is the figure, not the ratio of two medians.
#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "isotherm_bench/socket_run.h"

namespace isotherm::bench {

// Not a number where a figure could not be taken.
struct Figures {
  double rate = 0;  // requests a second
  double p50_us = 0;
  double p99_us = 0;
  double p999_us = 0;
  double max_us = 0;
  double hit_share = 0;      // of reads and erases
  double server_cpu_us = 0;  // of server CPU time, a request
  double client_cpu_us = 0;
};

struct FigureName {
  std::string_view name;     // in JSON
  std::string_view heading;  // in the table
  double Figures::*member;
};
std::span<const FigureName> figure_names();

Figures figures_of(const RunResult& run);
double median(std::vector<double> values);
Figures median(const std::vector<Figures>& rounds);
// Medians of subject / peer, by round.
Figures median_ratio(const std::vector<Figures>& subject, const std::vector<Figures>& peer);

}  // namespace isotherm::bench
