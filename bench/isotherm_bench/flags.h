// Flags: what the command line says, before presets and defaults; options.cc makes options of it.
// What stands for itself goes into the options at once.
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "isotherm_bench/options.h"

namespace isotherm::bench {

struct Flags {
  std::string preset, mix, distribution, records, requests, value_size, seed, protocol;
  std::optional<double> theta;
  std::optional<uint32_t> key_size, batch, rounds;
  std::optional<std::string> rate;
  std::string arrival = "poisson";
  std::vector<std::string> targets, peers, pids;
  std::string device = "cpu";
  std::string gpu_memory, gpu_items, gpu_values, maxmemory;
  std::string maxmemory_policy = "noeviction";
  std::string router = "off", router_memory;
  std::string index = "line";
  std::string gpu_schedule = "greedy";
  std::string isotherm_arguments, redis_arguments, memcached_arguments;
  bool list_presets = false, no_load = false, no_floor = false;
};

void add_flags(CLI::App& app, Flags& flags, Options& options);

}  // namespace isotherm::bench
