// Report: results for people (a table) and for programs (JSON).
#pragma once

#include <cstdio>
#include <string>
#include <vector>

#include "isotherm_bench/figures.h"
#include "isotherm_bench/json.h"
#include "isotherm_bench/options.h"
#include "isotherm_bench/socket_run.h"

namespace isotherm::bench {

// All that was measured of one system.
struct SystemResult {
  std::string label;
  WireProtocol protocol = WireProtocol::redis;
  bool peer = false;
  std::optional<LoadResult> load;
  std::vector<RunResult> rounds;
};

// What the same run measured of the machine, to hold the figures against.
struct Reference {
  std::string what;
  double rate = 0;
};

void print_heading(std::FILE* out, const Options& options);
void print_results(std::FILE* out, const std::vector<SystemResult>& results,
                   const std::optional<Reference>& reference);
std::string json_report(const Options& options, const std::vector<SystemResult>& results,
                        const std::optional<Reference>& reference);

}  // namespace isotherm::bench
