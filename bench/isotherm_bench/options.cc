#include "isotherm_bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>
#include <system_error>

#include "base/flag_words.h"
#include "base/memory_amount.h"
#include "engine/option_clash.h"
#include "isotherm_bench/flags.h"
#include "isotherm_bench/presets.h"

namespace isotherm::bench {
namespace {

struct UsageError {
  std::string what;
};

template <typename T>
bool parse_integer(std::string_view text, T* value) {
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *value);
  return error == std::errc() && stop == end && !text.empty();
}

uint64_t count_of(const char* flag, const std::string& text) {
  const auto count = parse_count(text);
  if (!count) {
    throw UsageError{std::string(flag) + ": '" + text +
                     "' is not a count; write digits, or e.g. 500k, 20M or 1G"};
  }
  return *count;
}

void take_memory(const char* flag, const std::string& text, uint64_t& bytes) {
  if (text.empty()) return;
  const auto amount = parse_memory(text);
  if (!amount) {
    throw UsageError{std::string(flag) + ": '" + text +
                     "' is not an amount of memory; write bytes, or e.g. 100mb"};
  }
  bytes = *amount;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

void apply_value_size(const std::string& text, Workload& workload) {
  const size_t dash = text.find('-');
  workload.value_size_min = count_of("--value-size", text.substr(0, dash));
  workload.value_size_max = dash == std::string::npos
                                ? workload.value_size_min
                                : count_of("--value-size", text.substr(dash + 1));
  if (workload.value_size_min > workload.value_size_max) {
    throw UsageError{"--value-size: '" + text + "' ends before it begins"};
  }
}

void apply_workload(const Flags& flags, Workload& workload) {
  if (!flags.preset.empty() && !apply_preset(flags.preset, workload)) {
    throw UsageError{"--preset: '" + flags.preset +
                     "' is unknown; see --list-presets (figures of "
                     "papers: bench/paper_figures.py)"};
  }
  if (!flags.mix.empty()) {
    std::string error;
    const auto mix = parse_mix(flags.mix, &error);
    if (!mix) throw UsageError{"--mix: " + error};
    workload.mix = *mix;
  }
  if (!flags.distribution.empty()) {
    const auto distribution = parse_distribution(flags.distribution);
    if (!distribution) {
      throw UsageError{"--distribution: '" + flags.distribution +
                       "' is not zipf, uniform or latest"};
    }
    workload.distribution = *distribution;
  }
  if (flags.theta) workload.theta = *flags.theta;
  if (flags.theta && workload.distribution == Distribution::uniform) {
    throw UsageError{"--theta goes with --distribution zipf or latest"};
  }
  if (flags.key_size) workload.key_size = *flags.key_size;
  if (!flags.records.empty()) workload.records = count_of("--records", flags.records);
  if (!flags.value_size.empty()) apply_value_size(flags.value_size, workload);
  if (!flags.seed.empty() && !parse_integer(flags.seed, &workload.seed)) {
    throw UsageError{"--seed: '" + flags.seed + "' is no number"};
  }
}

void apply_systems(const Flags& flags, Options& options) {
  std::string error;
  const auto addresses = [&](const std::vector<std::string>& texts, std::vector<Address>& all) {
    for (const std::string& text : texts) {
      const auto address = parse_address(text, &error);
      if (!address) throw UsageError{error};
      all.push_back(*address);
    }
  };
  addresses(flags.targets, options.targets);
  addresses(flags.peers, options.peers);
  for (const std::string& text : flags.pids) {
    const size_t equals = text.find('=');
    std::pair<uint16_t, pid_t> entry;
    if (equals == std::string::npos || !parse_integer(text.substr(0, equals), &entry.first) ||
        !parse_integer(text.substr(equals + 1), &entry.second)) {
      throw UsageError{"--pid: '" + text + "' is not PORT=PID"};
    }
    options.pids.push_back(entry);
  }
  options.isotherm_arguments = words(flags.isotherm_arguments);
  options.redis_arguments = words(flags.redis_arguments);
  options.memcached_arguments = words(flags.memcached_arguments);
  const auto device = parse_device_choice(flags.device);
  if (!device) throw UsageError{"--device: '" + flags.device + "' is not one of cpu, cuda, auto"};
  options.store.device = *device;
  take_memory("--gpu-memory", flags.gpu_memory, options.store.gpu_memory);
  take_memory("--gpu-items", flags.gpu_items, options.store.gpu_items);
  take_memory("--gpu-values", flags.gpu_values, options.store.gpu_values);
  take_memory("--maxmemory", flags.maxmemory, options.store.maxmemory);
  take_memory("--router-memory", flags.router_memory, options.store.router.memory);
  const auto policy = parse_eviction_policy(flags.maxmemory_policy);
  if (!policy)
    throw UsageError{
        "--maxmemory-policy: '" + flags.maxmemory_policy +
        "' is not one of noeviction, allkeys-lru, allkeys-random, volatile-lru, volatile-ttl"};
  options.store.maxmemory_policy = *policy;
  const auto router = parse_router_choice(flags.router);
  if (!router)
    throw UsageError{"--router: '" + flags.router + "' is not one of off, histogram, budget"};
  options.store.router.choice = *router;
  const auto index = parse_index_choice(flags.index);
  if (!index) throw UsageError{"--index: '" + flags.index + "' is not one of line, cuckoo, set"};
  options.store.index = *index;
  const auto schedule = parse_scheduling(flags.gpu_schedule);
  if (!schedule) {
    throw UsageError{"--gpu-schedule: '" + flags.gpu_schedule +
                     "' is not one of greedy, fixed, periodic, adaptive"};
  }
  options.store.rounds.policy = *schedule;
  if (flags.protocol == "redis") options.protocol = WireProtocol::redis;
  if (flags.protocol == "memcached") options.protocol = WireProtocol::memcached;
}

void apply_run(const Flags& flags, Options& options) {
  const bool with_peers = !options.peers.empty() || options.spawn_redis || options.spawn_memcached;
  const bool sockets =
      with_peers || options.floor || !options.targets.empty() || !options.spawn_isotherm.empty();
  options.in_process = !sockets;
  if (options.fixed) {
    Workload& workload = options.workload;
    const bool other_values = workload.value_size_min != 8 || workload.value_size_max != 8;
    if (flags.key_size.value_or(8) != 8 || (!flags.value_size.empty() && other_values)) {
      throw UsageError{"--fixed has keys and values of 8 bytes"};
    }
    workload.key_size = 8;
    workload.value_size_min = workload.value_size_max = 8;
  }
  if (flags.batch && options.in_process) options.batch = *flags.batch;
  if (flags.batch && sockets) options.workload.keys_per_read = *flags.batch;
  if (flags.no_floor) {
    options.floor = false;
  } else if (sockets && !with_peers && !options.load_only) {
    options.floor = true;
  }
  options.rounds = flags.rounds.value_or(with_peers ? 5 : 1);
  options.load = !flags.no_load;
  options.run.poisson = flags.arrival == "poisson";
  if (flags.rate) options.run.rate = static_cast<double>(count_of("--rate", *flags.rate));
  if (flags.rate && options.run.rate == 0) throw UsageError{"--rate must be above 0"};
  if (!flags.requests.empty()) options.run.requests = count_of("--requests", flags.requests);
}

// A flag that would have no effect is refused: who gave it expects one.
void check_together(const CLI::App& app, const Options& options) {
  const bool in_process = options.in_process;
  const auto given = [&](const char* flag) { return app.count(flag) > 0; };
  const auto refuse_with_servers = [&](const char* flag) {
    if (in_process || !given(flag)) return;
    throw UsageError{std::string(flag) +
                     " goes with a run in process, not with servers; options of a server that "
                     "is started: --isotherm-args"};
  };
  for (const char* flag : {"--in-process", "--fixed", "--mica"}) refuse_with_servers(flag);
  for (const char* flag :
       {"--device", "--gpus", "--gpu-memory", "--gpu-items", "--gpu-values", "--maxmemory",
        "--maxmemory-policy", "--router", "--router-bins", "--router-memory", "--router-threshold",
        "--index", "--index-item-bytes", "--gpu-schedule", "--gpu-batch", "--gpu-wait-usec",
        "--gpu-write-cycles"}) {
    refuse_with_servers(flag);
    if (!given(flag) || (!given("--fixed") && !given("--mica"))) continue;
    throw UsageError{std::string(flag) + " goes with a store, not with " +
                     (given("--mica") ? "--mica" : "--fixed")};
  }
  for (const char* flag : {"--connections", "--pipeline", "--pid", "--no-load"}) {
    if (in_process && given(flag)) {
      throw UsageError{std::string(flag) + " goes with servers: --target or --spawn-..."};
    }
  }
  constexpr std::pair<const char*, const char*> together[] = {
      {"--isotherm-args", "--spawn-isotherm"},
      {"--protocol", "--spawn-isotherm"},
      {"--redis-args", "--spawn-redis"},
      {"--memcached-args", "--spawn-memcached"},
      {"--arrival", "--rate"},
      {"--gpus", "--device"},
      {"--gpu-schedule", "--device"},
      {"--gpu-batch", "--gpu-schedule"},
      {"--gpu-wait-usec", "--gpu-schedule"},
      {"--gpu-write-cycles", "--gpu-schedule"},
      {"--router-bins", "--router"},
      {"--router-memory", "--router"},
      {"--router-threshold", "--router"},
      {"--index-item-bytes", "--index"}};
  for (const auto& [flag, other] : together) {
    if (given(flag) && !given(other)) throw UsageError{std::string(flag) + " goes with " + other};
  }
  constexpr std::pair<const char*, const char*> apart[] = {{"--floor", "--no-floor"},
                                                           {"--fixed", "--mica"}};
  for (const auto& [flag, other] : apart) {
    if (!given(flag) || !given(other)) continue;
    throw UsageError{std::string(flag) + " and " + other + " exclude each other"};
  }
  if (given("--maxmemory-policy") && !given("--maxmemory") && !given("--gpu-items")) {
    throw UsageError{"--maxmemory-policy goes with --maxmemory or --gpu-items"};
  }
  if (given("--scan-length") && options.workload.share(Operation::scan) == 0) {
    throw UsageError{"--scan-length goes with a --mix that has scans"};
  }
}

bool memcached_is_asked(const Options& options) {
  const auto speaks = [](const Address& a) { return a.protocol == WireProtocol::memcached; };
  return options.spawn_memcached || options.protocol == WireProtocol::memcached ||
         std::any_of(options.targets.begin(), options.targets.end(), speaks) ||
         std::any_of(options.peers.begin(), options.peers.end(), speaks);
}

void check(const Options& options) {
  const Workload& workload = options.workload;
  const RunOptions& run = options.run;
  const auto require = [](bool good, const std::string& what) {
    if (!good) throw UsageError{what};
  };
  require(workload.records >= 1, "--records must be at least 1");
  require(workload.theta > 0 && workload.theta <= 100, "--theta must be above 0 and at most 100");
  require(workload.key_size >= 1 && workload.key_size <= 65'535,
          "--key-size must be from 1 to 65535");
  require(options.fixed || workload.records <= key_capacity(workload.key_size) / 2,
          "--key-size " + std::to_string(workload.key_size) + " cannot tell so many records apart");
  require(workload.value_size_max <= (uint64_t{512} << 20), "--value-size is limited to 512 MB");
  require(std::isfinite(run.seconds) && run.seconds > 0 && run.seconds <= 1e6,
          "--seconds must be above 0");
  require(std::isfinite(run.warm_up) && run.warm_up >= 0 && run.warm_up <= 1e6,
          "--warm-up must not be negative");
  require(run.rate == 0 || run.requests == 0,
          "--requests goes with a closed loop, not with --rate");
  require(options.load || !options.load_only, "--load-only and --no-load exclude each other");
  if (options.mica) {
    require(workload.value_size_min == workload.value_size_max,
            "--mica has values of one size: --value-size N");
    require(workload.share(Operation::scan) == 0, "--mica has no scan");
  }
  if (memcached_is_asked(options)) {
    require(workload.key_size <= 250, "memcached keys have at most 250 bytes");
    require(workload.share(Operation::scan) == 0, "memcached has no scan");
  }
}

// What the engine would refuse only when the run begins.
void check_store(const isotherm::Options& store) {
  const auto clash = clash_in(store);
  if (!clash) return;
  std::string text = "--" + std::string(clash->option) + ": " + std::string(clash->needs);
  std::replace(text.begin(), text.end(), '_', '-');
  throw UsageError{text};
}

void print_presets() {
  for (const Preset& preset : presets()) {
    std::printf("%-20s %-30s %-8s theta %-4g %4u + %-4llu B  %s\n",
                std::string(preset.name).c_str(), to_string(preset.mix).c_str(),
                std::string(to_string(preset.distribution)).c_str(), preset.theta, preset.key_size,
                static_cast<unsigned long long>(preset.value_size),
                std::string(preset.description).c_str());
  }
}

}  // namespace

std::optional<Address> parse_address(const std::string& text, std::string* error) {
  Address address;
  size_t begin = 0;
  if (text.starts_with("redis://")) {
    begin = 8;
  } else if (text.starts_with("memcached://")) {
    begin = 12;
    address.protocol = WireProtocol::memcached;
  }
  std::string rest = text.substr(begin);
  if (!rest.empty() && rest.back() == '/') rest.pop_back();
  const size_t colon = rest.rfind(':');
  if (begin == 0 || colon == std::string::npos || colon == 0 ||
      !parse_integer(rest.substr(colon + 1), &address.port) || address.port == 0) {
    *error = "'" + text + "' is not redis://HOST:PORT or memcached://HOST:PORT";
    return std::nullopt;
  }
  address.host = rest.substr(0, colon);
  if (address.host.size() > 2 && address.host.front() == '[' && address.host.back() == ']') {
    address.host = address.host.substr(1, address.host.size() - 2);
  }
  return address;
}

std::optional<uint64_t> parse_count(const std::string& text) {
  if (text.empty()) return std::nullopt;
  uint64_t factor = 1;
  std::string digits = text;
  switch (digits.back()) {
    case 'k':
      factor = 1'000;
      break;
    case 'M':
      factor = 1'000'000;
      break;
    case 'G':
      factor = 1'000'000'000;
      break;
    default:
      break;
  }
  if (factor > 1) digits.pop_back();
  uint64_t count = 0;
  if (!parse_integer(digits, &count) || count > (uint64_t{1} << 60) / factor) return std::nullopt;
  return count * factor;
}

ParsedOptions parse_options(int argc, char** argv) {
  ParsedOptions parsed;
  Options& options = parsed.options;
  Flags flags;
  CLI::App app("isotherm-bench: loads key-value stores, in process or over sockets, and compares");
  app.set_version_flag("--version", "isotherm-bench " ISOTHERM_VERSION);
  add_flags(app, flags, options);
  try {
    parse_command_line(app, argc, argv);
    if (flags.list_presets) {
      print_presets();
      parsed.exit_code = 0;
      return parsed;
    }
    apply_workload(flags, options.workload);
    apply_systems(flags, options);
    apply_run(flags, options);
    check_together(app, options);
    check(options);
    if (options.in_process) check_store(options.store);
  } catch (const CLI::ParseError& error) {
    parsed.exit_code = app.exit(error) == 0 ? 0 : exit_usage;
  } catch (const UsageError& error) {
    std::fprintf(stderr, "isotherm-bench: %s\nRun with --help for more information.\n",
                 error.what.c_str());
    parsed.exit_code = exit_usage;
  }
  return parsed;
}

}  // namespace isotherm::bench
