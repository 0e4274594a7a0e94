#include "server/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <iostream>
#include <limits>
#include <sstream>
#include <vector>

#include "net/client_limits.h"
#include "net/log.h"
#include "net/memory_amount.h"
#include "net/socket_address.h"
#include "net/text.h"
#include "net/version.h"
#include "server/flags_together.h"
#include "server/packet_flags.h"

namespace isotherm {
namespace {

constexpr uint64_t least_bulk = 1 << 20;
constexpr uint64_t most_bulk = std::numeric_limits<uint32_t>::max();

// With less an empty store has no room for its first item.
constexpr uint64_t least_maxmemory = 768 << 10;

std::string not_one_of(const std::string& text, const char* choices) {
  return "'" + text + "' is not one of: " + choices;
}

// Option callbacks: a text into its field, or an error that CLI11 prints with the flag's name.
void take_memory(const std::string& text, uint64_t least, uint64_t most, uint64_t& field) {
  const auto bytes = net::parse_memory(text);
  if (!bytes)
    throw CLI::ValidationError("'" + text +
                               "' is not an amount of memory; write bytes, or e.g. 100mb");
  if (*bytes < least || *bytes > most)
    throw CLI::ValidationError("'" + text + "' is out of range, from " + std::to_string(least) +
                               " to " + std::to_string(most) + " bytes");
  field = *bytes;
}

void take_maxmemory(const std::string& text, uint64_t& field) {
  uint64_t bytes = 0;
  take_memory(text, 0, std::numeric_limits<int64_t>::max(), bytes);
  if (bytes != 0 && bytes < least_maxmemory) {
    throw CLI::ValidationError("'" + text +
                               "' is too little; give at least 768kb, or 0 for no cap");
  }
  field = bytes;
}

void take_port(const std::string& text, int32_t& field) {
  if (text == "off") {
    field = -1;
    return;
  }
  const auto port = net::parse_integer(text);
  if (!port || *port < 0 || *port > 65'535) {
    throw CLI::ValidationError("'" + text + "' is not a port; give 0 to 65535, or off");
  }
  field = static_cast<int32_t>(*port);
}

void take_log_level(const std::string& text, net::LogLevel& field) {
  const auto level = net::parse_log_level(text);
  if (!level) throw CLI::ValidationError(not_one_of(text, "debug, verbose, notice, warning"));
  field = *level;
}

void take_policy(const std::string& text, EvictionPolicy& field) {
  const auto policy = parse_eviction_policy(text);
  if (!policy)
    throw CLI::ValidationError(
        not_one_of(text, "noeviction, allkeys-lru, allkeys-random, volatile-lru, volatile-ttl"));
  field = *policy;
}

void take_device(const std::string& text, DeviceChoice& field) {
  const auto choice = parse_device_choice(text);
  if (!choice) throw CLI::ValidationError(not_one_of(text, "auto, cpu, cuda"));
  field = *choice;
}

void take_schedule(const std::string& text, Scheduling& field) {
  const auto policy = parse_scheduling(text);
  if (!policy) {
    throw CLI::ValidationError(not_one_of(text, "greedy, fixed, periodic, adaptive"));
  }
  field = *policy;
}

void take_addresses(const std::string& text, std::vector<std::string>& field) {
  std::istringstream words(text);
  field.clear();
  for (std::string word; words >> word;) {
    if (!net::SocketAddress::parse(word, 0))
      throw CLI::ValidationError("'" + word + "' is not an address; give e.g. 127.0.0.1 or ::1");
    field.push_back(word);
  }
  if (field.empty()) throw CLI::ValidationError("no address is given; give e.g. 127.0.0.1");
}

// Permissions of a file, in octal.
void take_mode(const std::string& text, uint32_t& field) {
  constexpr uint32_t most = 0777;
  const char* const end = text.data() + text.size();
  const auto [rest, error] = std::from_chars(text.data(), end, field, 8);
  if (error != std::errc() || rest != end || field > most) {
    throw CLI::ValidationError("'" + text +
                               "' is not a file mode; give permissions in octal, e.g. 700");
  }
}

void take_trust(const std::string& text, net::UdpTrust& field) {
  if (text != "none" && text != "loopback" && text != "all") {
    throw CLI::ValidationError(not_one_of(text, "none, loopback, all"));
  }
  field = text == "none"  ? net::UdpTrust::none
          : text == "all" ? net::UdpTrust::all
                          : net::UdpTrust::loopback;
}

void take_yes(const std::string& text, bool& field) {
  if (text != "yes" && text != "no") throw CLI::ValidationError(not_one_of(text, "yes, no"));
  field = text == "yes";
}

void take_sync_policy(const std::string& text, SyncPolicy& field) {
  const auto policy = parse_sync_policy(text);
  if (!policy) throw CLI::ValidationError(not_one_of(text, "always, everysec, no"));
  field = *policy;
}

void take_file_name(const std::string& text, std::string& field) {
  constexpr size_t longest = 200;  // files of the journal have a number behind it
  if (text.empty() || text == "." || text == ".." || text.find('/') != std::string::npos) {
    throw CLI::ValidationError("'" + text + "' is not the name of a file; give one without '/'");
  }
  if (text.size() > longest) {
    throw CLI::ValidationError("the name is too long; give one of at most " +
                               std::to_string(longest) + " characters");
  }
  field = text;
}

template <typename Take>
void add_text_option(CLI::App& app, const std::string& flag, const std::string& help, Take take) {
  app.add_option_function<std::string>(
      flag,
      [flag, take](const std::string& text) {
        try {
          take(text);
        } catch (const CLI::ValidationError& error) {
          throw CLI::ValidationError(flag, error.what());
        }
      },
      help);
}

void add_value_options(CLI::App& app, Options& store) {
  add_text_option(app, "--gpu-values",
                  "Memory of each GPU for values that nobody has read lately; 0: all values stay "
                  "in host memory [0]",
                  [&](const std::string& text) {
                    take_memory(text, 0, std::numeric_limits<int64_t>::max(), store.gpu_values);
                  });
  add_text_option(
      app, "--gpu-values-from", "Shortest value, in bytes, that --gpu-values sends to a GPU [256]",
      [&](const std::string& text) { take_memory(text, 64, 1 << 20, store.gpu_values_from); });
}

void take_router(const std::string& text, RouterChoice& field) {
  const auto choice = parse_router_choice(text);
  if (!choice) throw CLI::ValidationError(not_one_of(text, "off, histogram, budget, chance"));
  field = *choice;
}

void add_router_options(CLI::App& app, RouterOptions& router) {
  add_text_option(app, "--router",
                  "Which keys are found by a table of hot keys, before the index is asked: off "
                  "(none), histogram (those of ranges with a share of the requests above "
                  "--router-threshold), budget (as many as --router-memory has room for), or, for "
                  "tests, chance [off]",
                  [&](const std::string& text) { take_router(text, router.choice); });
  app.add_option("--router-bins", router.bins,
                 "Number of ranges of hashes into which the router divides the keys [1048576]")
      ->check(CLI::Range(uint32_t{1}, RouterOptions::most_bins));
  add_text_option(app, "--router-memory",
                  "Most memory that the router's table of hot keys may take; 0: an eighth of "
                  "--maxmemory, or 1gb where that is 0 [0]",
                  [&](const std::string& text) {
                    if (text == "0") return;
                    take_memory(text, RouterOptions::least_memory,
                                std::numeric_limits<int64_t>::max(), router.memory);
                  });
  app.add_option("--router-threshold", router.threshold,
                 "Share of all requests above which --router histogram takes a range of keys for "
                 "hot [0.000013]")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--router-interval", router.interval_ms,
                 "Milliseconds after which the router decides again which keys are hot [100]")
      ->check(CLI::Range(1, 60'000));
}

void add_index_options(CLI::App& app, Options& store) {
  add_text_option(app, "--index",
                  "Which index the store has: line, which grows and shrinks, or one of a fixed "
                  "size, which evicts a key of its own accord where there is no room for another: "
                  "cuckoo or set [line]",
                  [&](const std::string& text) {
                    const auto choice = parse_index_choice(text);
                    if (!choice) {
                      throw CLI::ValidationError(not_one_of(text, "line, cuckoo, set"));
                    }
                    store.index = *choice;
                  });
  add_text_option(app, "--index-item-bytes",
                  "Bytes that an item takes on average, key and value included: an index of a "
                  "fixed size has room for as many as --maxmemory holds [128]",
                  [&](const std::string& text) {
                    take_memory(text, 16, uint64_t{1} << 32, store.index_item_bytes);
                  });
}

void add_round_options(CLI::App& app, RoundOptions& rounds) {
  add_text_option(app, "--gpu-schedule",
                  "When the requests of all threads go to the GPUs together: greedy, fixed or "
                  "periodic; with adaptive the CPU answers while requests are few, and the GPUs "
                  "while they are many [adaptive]",
                  [&](const std::string& text) { take_schedule(text, rounds.policy); });
  app.add_option("--gpu-batch", rounds.rows,
                 "Requests that go to the GPUs without waiting for more [fixed 512, periodic "
                 "2097152]; with adaptive: requests that are many [512]")
      ->check(CLI::Range(uint64_t{1}, RoundOptions::most_rows));
  app.add_option_function<int64_t>(
         "--gpu-wait-usec", [&](int64_t usec) { rounds.wait_ns = usec * 1000; },
         "Longest time in microseconds that requests wait for more; with periodic: length of a "
         "cycle [100]")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option("--gpu-write-cycles", rounds.write_cycles,
                 "With periodic: number of cycles after which writes go to the GPUs; reads go in "
                 "every cycle [1]")
      ->check(CLI::Range(1, 1000));
}

void add_crew_options(CLI::App& app, Options& store) {
  app.add_option("--gpu-threads", store.gpu_threads,
                 "Number of threads that wait for the GPUs, so that those of clients need not [as "
                 "many as --threads, at least 2]")
      ->check(CLI::Range(1, 256));
  app.add_option("--gpu-queue", store.gpu_queue,
                 "Most batches that wait for the threads of --gpu-threads; with more the server "
                 "stops reading requests [1024]")
      ->check(CLI::Range(1, 1'000'000));
}

void add_client_limits(CLI::App& app, net::ServerOptions& options) {
  static constexpr std::pair<const char*, const char*> helps[] = {
      {"client-output-buffer-limit",
       "Limits on the unsent replies of a client: class, hard limit, soft limit, seconds above the "
       "soft limit [\"normal 0 0 0\"]"},
      {"client-query-buffer-limit", "Longest unfinished request of a client [1gb]"},
      {"maxmemory-clients",
       "Most memory that the buffers of all clients take; 0: with a maxmemory, 128mb and a 16th of "
       "it [0]"},
  };
  for (const auto& [name, help] : helps) {
    add_text_option(app, "--" + std::string(name), help,
                    [&options, name = std::string(name)](const std::string& text) {
                      net::ClientLimits checked;
                      const std::string wrong =
                          net::find_client_limit(name)->set(checked, text, false);
                      if (!wrong.empty()) throw CLI::ValidationError(wrong);
                      options.client_limits.emplace_back(name, text);
                    });
  }
}

void add_unix_options(CLI::App& app, net::ServerOptions& options) {
  app.add_option("--unixsocket", options.unixsocket,
                 "Path of a UNIX socket for Redis clients [none]");
  add_text_option(app, "--unixsocketperm",
                  "Permissions of --unixsocket, in octal [as the umask says]",
                  [&](const std::string& text) { take_mode(text, options.unixsocketperm); });
  app.add_option("--memcached-unixsocket", options.memcached_unixsocket,
                 "Path of a UNIX socket for memcached clients [none]");
  add_text_option(
      app, "--memcached-unixsocket-mask", "Permissions of --memcached-unixsocket, in octal [700]",
      [&](const std::string& text) { take_mode(text, options.memcached_unixsocket_mask); });
}

void add_memcached_limits(CLI::App& app, net::ServerOptions& options) {
  constexpr int most_seconds = std::numeric_limits<int>::max();
  app.add_option("--memcached-max-connections", options.memcached_max_connections,
                 "Most memcached clients at one time; 0: the limit of --maxclients [0]")
      ->check(CLI::Range(0, 1'000'000));
  app.add_option("--memcached-idle-timeout", options.memcached_idle_timeout,
                 "Seconds after which a silent memcached client is disconnected; 0: the limit of "
                 "--timeout [0]")
      ->check(CLI::Range(0, most_seconds));
  add_text_option(
      app, "--memcached-item-size-max",
      "Largest item that memcached clients may store, counted as memcached does, with its overhead "
      "[1mb]",
      [&](const std::string& text) {
        take_memory(text, 1 << 10, 1 << 30, options.memcached_item_size_max);
      });
  app.add_option(
         "--memcached-reqs-per-event", options.memcached_reqs_per_event,
         "Most requests of one memcached client that run before other clients are served [4096]")
      ->check(CLI::Range(1, 4096));
  const auto disable = [&app](const char* flag, const char* help, bool& field) {
    app.add_flag_callback(
        flag, [&field] { field = false; }, help);
  };
  disable("--memcached-disable-flush-all", "Refuses flush_all of memcached clients with an error",
          options.memcached_flush);
  disable("--memcached-disable-dumping",
          "Refuses stats cachedump of memcached clients with an error", options.memcached_dumps);
}

void add_udp_options(CLI::App& app, net::ServerOptions& options) {
  add_text_option(app, "--memcached-udp-port",
                  "UDP port for memcached clients; 0 takes any free port, off opens none [off]",
                  [&](const std::string& text) { take_port(text, options.memcached_udp_port); });
  app.add_option(
         "--memcached-udp-amplification", options.memcached_udp_amplification,
         "Longest reply by UDP to an address that is neither trusted nor connected by TCP, as a "
         "multiple of the bytes of its request [3]")
      ->check(CLI::Range(0, 1'000'000));
  add_text_option(
      app, "--memcached-udp-trusted",
      "Which addresses may get longer replies by UDP: none, loopback or all [loopback]",
      [&](const std::string& text) { take_trust(text, options.memcached_udp_trusted); });
}

void add_journal_options(CLI::App& app, net::ServerOptions& options) {
  add_text_option(app, "--appendonly",
                  "Whether every change is written to a journal on disk, yes or no [no]",
                  [&](const std::string& text) { take_yes(text, options.appendonly); });
  add_text_option(app, "--appendfsync",
                  "When the journal is synced to the disk: always (before each reply), everysec or "
                  "no [everysec]",
                  [&](const std::string& text) { take_sync_policy(text, options.appendfsync); });
  add_text_option(app, "--appendfilename",
                  "Name of the folder of the journal, within --dir [appendonly.aof]",
                  [&](const std::string& text) { take_file_name(text, options.appendfilename); });
  app.add_option("--auto-aof-rewrite-percentage", options.auto_aof_rewrite_percentage,
                 "Growth of the journal, in percent, after which it is rewritten; 0: never [100]")
      ->check(CLI::Range(0, std::numeric_limits<int>::max()));
  add_text_option(app, "--auto-aof-rewrite-min-size",
                  "Size of the journal below which it is not rewritten by itself [64mb]",
                  [&](const std::string& text) {
                    take_memory(text, 0, std::numeric_limits<int64_t>::max(),
                                options.auto_aof_rewrite_min_size);
                  });
}

void take_save_points(const std::string& text, SavePoints& field) {
  const auto points = parse_save_points(text);
  if (!points) {
    throw CLI::ValidationError("'" + text +
                               "' is not a list of seconds and changes; give pairs, e.g. 3600 1");
  }
  field = *points;
}

void add_snapshot_options(CLI::App& app, net::ServerOptions& options) {
  add_text_option(
      app, "--save",
      "When the server writes a snapshot by itself, in pairs of seconds and changes: so many "
      "seconds after the last one, if there were so many changes, e.g. \"3600 1 300 100\"; \"\": "
      "never [\"\"]",
      [&](const std::string& text) { take_save_points(text, options.save); });
  add_text_option(app, "--dbfilename",
                  "Name of the file of snapshots, within --dir; the server reads it when it starts "
                  "without a journal [dump.rdb]",
                  [&](const std::string& text) { take_file_name(text, options.dbfilename); });
  app.add_option("--dir", options.dir, "Folder of the journal and of snapshots [.]");
}

void add_tree_options(CLI::App& app, Options& store) {
  app.add_option("--tree", store.tree,
                 "Folder of a tree (RocksDB) for more items than maxmemory holds: memory is then a "
                 "cache of it [none]");
  app.add_option("--tree-options", store.tree_options,
                 "RocksDB's options for the tree, e.g. \"max_background_jobs=4\" [none]");
  add_text_option(app, "--gpu-sorted",
                  "Memory of the first GPU for a copy of the tree's files, at least 16mb: what "
                  "maxmemory does not hold is read there and not from the disk, as long as the "
                  "copy has room for all; 0: none [0]",
                  [&](const std::string& text) {
                    take_memory(text, 0, std::numeric_limits<int64_t>::max(), store.gpu_sorted);
                  });
}

void add_options(CLI::App& app, net::ServerOptions& options) {
  Options& store = options.store;
  add_text_option(app, "--port",
                  "TCP port for Redis clients (RESP); 0 takes any free port, off opens none [6379]",
                  [&](const std::string& text) { take_port(text, options.port); });
  add_text_option(app, "--memcached-port",
                  "TCP port for memcached clients; 0 takes any free port, off opens none [11211]",
                  [&](const std::string& text) { take_port(text, options.memcached_port); });
  add_memcached_limits(app, options);
  add_udp_options(app, options);
  add_packet_options(app, options);
  add_unix_options(app, options);
  add_text_option(app, "--bind", "Addresses to listen on, separated by spaces [127.0.0.1]",
                  [&](const std::string& text) { take_addresses(text, options.bind); });
  app.add_option("--threads", options.threads,
                 "Number of threads that serve clients [one per core]")
      ->check(CLI::Range(1, 256));
  app.add_option("--databases", store.databases,
                 "Number of databases that SELECT chooses from [16]")
      ->check(CLI::Range(1, 16'384));
  add_text_option(app, "--maxmemory",
                  "Most memory that the server may take, e.g. 100mb; 0: no cap [0]",
                  [&](const std::string& text) { take_maxmemory(text, store.maxmemory); });
  add_text_option(app, "--maxmemory-policy",
                  "Which keys are evicted when maxmemory is reached: noeviction, allkeys-lru, "
                  "allkeys-random, volatile-lru or volatile-ttl [noeviction]",
                  [&](const std::string& text) { take_policy(text, store.maxmemory_policy); });
  add_text_option(
      app, "--device",
      "Where the index lies: cpu, cuda, or auto, which takes a GPU if there is one [cpu]",
      [&](const std::string& text) { take_device(text, store.device); });
  app.add_option("--gpus", store.gpus,
                 "GPUs that share the index, by the numbers that CUDA gives them, e.g. 0,1 [0]")
      ->delimiter(',')
      ->check(CLI::Range(0, 1023))
      ->expected(1, 16);
  add_text_option(app, "--gpu-memory",
                  "Most memory of each GPU that the index may take; 0: no cap [0]",
                  [&](const std::string& text) {
                    take_memory(text, 0, std::numeric_limits<int64_t>::max(), store.gpu_memory);
                  });
  add_text_option(app, "--gpu-items",
                  "Memory of the first GPU for whole items, at least 256mb: they live there, and "
                  "host memory (maxmemory) is a cache of them; 0: items live in host memory [0]",
                  [&](const std::string& text) {
                    take_memory(text, 0, std::numeric_limits<int64_t>::max(), store.gpu_items);
                  });
  add_index_options(app, store);
  add_router_options(app, store.router);
  add_value_options(app, store);
  add_round_options(app, store.rounds);
  add_crew_options(app, store);
  app.add_option("--maxclients", options.maxclients, "Most clients at one time [10000]")
      ->check(CLI::Range(1, 1'000'000));
  add_text_option(app, "--proto-max-bulk-len",
                  "Longest key or value that a client may send [512mb]",
                  [&](const std::string& text) {
                    take_memory(text, least_bulk, most_bulk, options.proto_max_bulk_len);
                  });
  add_client_limits(app, options);
  add_journal_options(app, options);
  add_snapshot_options(app, options);
  add_tree_options(app, store);
  constexpr int most_seconds = std::numeric_limits<int>::max();
  app.add_option("--timeout", options.timeout,
                 "Seconds after which a silent client is disconnected; 0: never [0]")
      ->check(CLI::Range(0, most_seconds));
  app.add_option("--tcp-keepalive", options.tcp_keepalive,
                 "Seconds between probes of a silent TCP connection; 0: none [300]")
      ->check(CLI::Range(0, most_seconds));
  add_text_option(app, "--loglevel", "What is logged: debug, verbose, notice or warning [notice]",
                  [&](const std::string& text) { take_log_level(text, options.loglevel); });
}

}  // namespace

std::optional<int> parse_flags(int argc, const char* const* argv, net::ServerOptions& options) {
  CLI::App app("Isotherm: a key-value store for Redis and memcached clients.", "isotherm-server");
  app.set_version_flag("--version", "isotherm-server " + std::string(net::isotherm_version));
  add_options(app, options);
  // Where few clients ask, the CPU answers sooner than a GPU. A program that fills batches itself
  // has another default: its batches go to the GPU at once.
  options.store.rounds.policy = Scheduling::adaptive;
  try {
    app.parse(argc, argv);
    check_together(options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "isotherm-server: " << error.what() << "\nRun with --help for the flags.\n";
    return exit_usage;
  }
  return std::nullopt;
}

}  // namespace isotherm
