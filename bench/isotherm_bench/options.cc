#include "isotherm_bench/options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <sstream>

#include "isotherm_bench/presets.h"

namespace isotherm::bench {
namespace {

// What the command line says, before presets and defaults.
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
  if (!count) throw UsageError{std::string(flag) + ": '" + text + "' is no count"};
  return *count;
}

std::vector<std::string> words(const std::string& text) {
  std::istringstream stream(text);
  std::vector<std::string> all;
  for (std::string word; stream >> word;) all.push_back(word);
  return all;
}

void add_workload_flags(CLI::App& app, Flags& flags, Options& options) {
  const char* group = "Load";
  app.add_option("--preset", flags.preset, "a load by name; see --list-presets")->group(group);
  app.add_flag("--list-presets", flags.list_presets, "print the presets")->group(group);
  app.add_option("--mix", flags.mix,
                 "shares in percent of read, update, insert, scan, rmw, erase, e.g. "
                 "read=95,update=5 (the default)")
      ->group(group);
  app.add_option("--distribution", flags.distribution, "zipf (scrambled; default), uniform, latest")
      ->group(group);
  app.add_option("--theta", flags.theta, "skew of zipf and latest, above 0 (default 0.99)")
      ->group(group);
  app.add_option("--records", flags.records, "keys stored before the run (default 1M)")
      ->group(group);
  app.add_option("--key-size", flags.key_size, "bytes of a key (default 16)")->group(group);
  app.add_option("--value-size", flags.value_size, "bytes of a value, N or MIN-MAX (default 32)")
      ->group(group);
  app.add_option("--scan-length", options.workload.scan_length, "most items of a scan")
      ->check(CLI::Range(1, 1'000'000))
      ->group(group);
  app.add_option("--seed", flags.seed, "of the random streams (default 1)")->group(group);
}

void add_run_flags(CLI::App& app, Flags& flags, Options& options) {
  const char* group = "Run";
  app.add_option("--batch", flags.batch,
                 "in process: requests a batch (default 512); sockets: keys a MGET or get "
                 "(default 1)")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--pipeline", options.run.pipeline, "commands under way on a connection")
      ->check(CLI::Range(1, 1 << 20))
      ->group(group);
  app.add_option("--threads", options.run.threads, "threads that load")
      ->check(CLI::Range(1, 256))
      ->group(group);
  app.add_option("--connections", options.run.connections, "over all threads (default 50)")
      ->check(CLI::Range(1, 100'000))
      ->group(group);
  app.add_option("--rate", flags.rate,
                 "open loop: commands a second over sockets, requests in process; latency counts "
                 "from the time each was due")
      ->group(group);
  app.add_option("--arrival", flags.arrival, "of an open loop: poisson (default) or fixed")
      ->check(CLI::IsMember({"poisson", "fixed"}))
      ->group(group);
  app.add_option("--seconds", options.run.seconds, "length of a run (default 5)")->group(group);
  app.add_option("--warm-up", options.run.warm_up, "seconds before it that do not count")
      ->group(group);
  app.add_option("--requests", flags.requests, "end a run after so many requests instead")
      ->group(group);
  app.add_option("--rounds", flags.rounds,
                 "runs of each system, in turn; medians are printed (default 1, with peers 5)")
      ->check(CLI::Range(1, 1000))
      ->group(group);
  app.add_flag("--no-load", flags.no_load, "the records are there already")->group(group);
  app.add_flag("--load-only", options.load_only, "store the records, report time and memory")
      ->group(group);
  app.add_flag("--verify", options.run.verify, "check every value read against its key")
      ->group(group);
  app.add_option("--json", options.json, "write all results to a file, or - for standard output")
      ->group(group);
  app.add_flag("--quiet", options.quiet, "no progress line")->group(group);
}

void add_system_flags(CLI::App& app, Flags& flags, Options& options) {
  const char* group = "Systems (without any: in process)";
  app.add_flag("--in-process", options.in_process, "run the engine inside this program")
      ->group(group);
  app.add_flag("--fixed", options.fixed,
               "in process: the table of 64-bit keys and values instead of byte strings")
      ->group(group);
  app.add_option("--device", flags.device,
                 "in process: where the index lies: cpu (default), cuda, or auto")
      ->group(group);
  app.add_option("--gpus", options.store.gpus, "GPUs that share it, e.g. 0,1 (default 0)")
      ->delimiter(',')
      ->group(group);
  app.add_option("--gpu-memory", flags.gpu_memory, "bytes of each that it may take (default: all)")
      ->group(group);
  app.add_option(
      "--gpu-items", flags.gpu_items,
      "bytes of the first one's memory for whole items, of which host memory is a cache");
  app.add_option("--gpu-values", flags.gpu_values,
                 "bytes of each for values that nobody reads (default: none)")
      ->group(group);
  app.add_option("--maxmemory", flags.maxmemory, "in process: cap in bytes (default: none)")
      ->group(group);
  app.add_option("--maxmemory-policy", flags.maxmemory_policy, "in process: as in redis.conf")
      ->group(group);
  app.add_option("--router", flags.router,
                 "in process: which keys have a table of their own: off (default), histogram, "
                 "budget")
      ->group(group);
  app.add_option("--index", flags.index,
                 "in process: line (default), cuckoo or set; the latter with --maxmemory")
      ->group(group);
  app.add_option("--index-item-bytes", options.store.index_item_bytes,
                 "of an item, by which an index of a fixed size gets its own (default 128)")
      ->group(group);
  app.add_option("--router-bins", options.store.router.bins, "as of isotherm-server")->group(group);
  app.add_option("--router-memory", flags.router_memory, "likewise")->group(group);
  app.add_option("--router-threshold", options.store.router.threshold, "likewise")->group(group);
  app.add_option("--gpu-schedule", flags.gpu_schedule,
                 "when the batches of all threads go there: greedy (default), fixed, periodic, "
                 "adaptive")
      ->group(group);
  app.add_option("--gpu-batch", options.store.rounds.rows, "requests that wait for no more")
      ->group(group);
  app.add_option_function<uint32_t>(
         "--gpu-wait-usec",
         [&options](uint32_t usec) { options.store.rounds.wait_ns = int64_t{usec} * 1000; },
         "longest wait for more, or the cycle, in microseconds")
      ->group(group);
  app.add_option("--gpu-write-cycles", options.store.rounds.write_cycles,
                 "cycles that writes wait for (default: 1)")
      ->group(group);
  app.add_option("--target", flags.targets,
                 "servers to measure: redis://HOST:PORT, "
                 "memcached://HOST:PORT")
      ->group(group);
  app.add_option("--against", flags.peers, "peers to compare with, under the same load in turn")
      ->group(group);
  app.add_option("--spawn-isotherm", options.spawn_isotherm,
                 "start this isotherm-server as the target")
      ->group(group);
  app.add_flag("--spawn-redis", options.spawn_redis, "start redis-server as a peer")->group(group);
  app.add_flag("--spawn-memcached", options.spawn_memcached, "start memcached as a peer")
      ->group(group);
  app.add_flag("--floor", options.floor,
               "also a peer that only answers, without any store: what sockets cost alone "
               "(the default where there is no other peer)")
      ->group(group);
  app.add_flag("--no-floor", flags.no_floor, "never that peer")->group(group);
  app.add_option("--protocol", flags.protocol,
                 "of a spawned isotherm-server without peers: redis (default) or memcached")
      ->check(CLI::IsMember({"redis", "memcached"}))
      ->group(group);
  app.add_option("--isotherm-args", flags.isotherm_arguments, "more arguments for it, in one word")
      ->group(group);
  app.add_option("--redis-args", flags.redis_arguments, "likewise for redis-server")->group(group);
  app.add_option("--memcached-args", flags.memcached_arguments, "likewise for memcached")
      ->group(group);
  app.add_option("--pid", flags.pids,
                 "PORT=PID: the process behind a port, where it cannot be found")
      ->group(group);
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
  if (!flags.gpu_memory.empty()) {
    options.store.gpu_memory = count_of("--gpu-memory", flags.gpu_memory);
  }
  if (!flags.gpu_items.empty()) {
    options.store.gpu_items = count_of("--gpu-items", flags.gpu_items);
  }
  if (!flags.gpu_values.empty()) {
    options.store.gpu_values = count_of("--gpu-values", flags.gpu_values);
  }
  if (!flags.maxmemory.empty()) {
    options.store.maxmemory = count_of("--maxmemory", flags.maxmemory);
  }
  const auto policy = parse_eviction_policy(flags.maxmemory_policy);
  if (!policy) throw UsageError{"--maxmemory-policy: '" + flags.maxmemory_policy + "' is none"};
  options.store.maxmemory_policy = *policy;
  const auto router = parse_router_choice(flags.router);
  if (!router) throw UsageError{"--router: '" + flags.router + "' is none"};
  options.store.router.choice = *router;
  const auto index = parse_index_choice(flags.index);
  if (!index) throw UsageError{"--index: '" + flags.index + "' is none"};
  options.store.index = *index;
  if (!flags.router_memory.empty()) {
    options.store.router.memory = count_of("--router-memory", flags.router_memory);
  }
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
  if (options.in_process && sockets) {
    throw UsageError{
        "--in-process goes without servers: --target, --against, --spawn-..., --floor"};
  }
  if (options.fixed && sockets) throw UsageError{"--fixed is for in-process runs"};
  options.in_process = !sockets;
  if (options.fixed) {
    Workload& workload = options.workload;
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
  require(options.load || !options.in_process, "--no-load: in process there is nothing yet");
  require(options.load || !options.load_only, "--load-only and --no-load exclude each other");
  if (memcached_is_asked(options)) {
    require(workload.key_size <= 250, "memcached keys have at most 250 bytes");
    require(workload.share(Operation::scan) == 0, "memcached has no scan");
  }
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
  app.set_version_flag("--version", ISOTHERM_VERSION);
  add_workload_flags(app, flags, options);
  add_run_flags(app, flags, options);
  add_system_flags(app, flags, options);
  try {
    app.parse(argc, argv);
    if (flags.list_presets) {
      print_presets();
      parsed.exit_code = 0;
      return parsed;
    }
    apply_workload(flags, options.workload);
    apply_systems(flags, options);
    apply_run(flags, options);
    check(options);
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
