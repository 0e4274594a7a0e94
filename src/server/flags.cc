#include "server/flags.h"

#include <CLI/CLI.hpp>
#include <charconv>
#include <functional>
#include <iostream>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/flag_words.h"
#include "base/words.h"
#include "net/client_limits.h"
#include "net/log.h"
#include "net/socket_address.h"
#include "net/text.h"
#include "net/version.h"
#include "server/file_flags.h"
#include "server/flag_values.h"
#include "server/flag_words.h"
#include "server/flags_together.h"
#include "server/gpu_flags.h"
#include "server/idle_flags.h"
#include "server/packet_flags.h"

namespace isotherm {
namespace {

constexpr uint64_t least_bulk = 1 << 20;
constexpr uint64_t most_bulk = std::numeric_limits<uint32_t>::max();

void take_maxmemory(const std::string& text, uint64_t& field) {
  uint64_t bytes = 0;
  take_memory(text, 0, most_memory, bytes);
  if (bytes != 0 && bytes < Options::least_maxmemory) {
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

void take_addresses(const std::string& text, std::vector<std::string>& field) {
  field.clear();
  for (const std::string_view word : words_of(text, " \t\r\n")) {
    field.emplace_back(word);
    if (!net::BindAddress::parse(field.back(), 0)) {
      throw CLI::ValidationError("'" + field.back() +
                                 "' is not an address; give e.g. 127.0.0.1 or ::1, or 0.0.0.0 for "
                                 "all of this machine");
    }
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

std::optional<net::UdpTrust> parse_trust(std::string_view text) {
  if (text == "none") return net::UdpTrust::none;
  if (text == "loopback") return net::UdpTrust::loopback;
  if (text == "all") return net::UdpTrust::all;
  return {};
}

void add_router_options(CLI::App& app, RouterOptions& router) {
  add_choice(app, "--router",
             "Which keys are found by a table of hot keys, before the index is asked: off "
             "(none), histogram (those of ranges with a share of the requests above "
             "--router-threshold), budget (as many as --router-memory has room for), or, for "
             "tests, chance [off]",
             "off, histogram, budget, chance", parse_router_choice, router.choice);
  app.add_option("--router-bins", router.bins,
                 "Number of ranges of hashes into which the router divides the keys [1048576]")
      ->check(CLI::Range(uint32_t{1}, RouterOptions::most_bins));
  add_text_option(app, "--router-memory",
                  "Most memory that the router's table of hot keys may take; 0: an eighth of "
                  "--maxmemory, or 1gb where that is 0 [0]",
                  [&](const std::string& text) {
                    if (text != "0")
                      take_memory(text, RouterOptions::least_memory, most_memory, router.memory);
                  });
  app.add_option("--router-threshold", router.threshold,
                 "Share of all requests above which --router histogram takes a range of keys for "
                 "hot [0.000013]")
      ->check(CLI::Range(0.0, 1.0));
  app.add_option("--router-interval", router.interval_ms,
                 "Milliseconds after which the router decides again which keys are hot [100]")
      ->check(CLI::Range(1, 60'000));
}

void add_store_options(CLI::App& app, Options& store) {
  app.add_option("--databases", store.databases,
                 "Number of databases that SELECT chooses from [16]")
      ->check(CLI::Range(1, 16'384));
  add_text_option(app, "--maxmemory",
                  "Most memory that the server may take, e.g. 100mb; 0: no cap [0]",
                  [&](const std::string& text) { take_maxmemory(text, store.maxmemory); });
  constexpr const char* policies =
      "noeviction, allkeys-lru, allkeys-random, volatile-lru, volatile-ttl";
  add_choice(app, "--maxmemory-policy",
             "Which keys are evicted when maxmemory is reached: noeviction, allkeys-lru, "
             "allkeys-random, volatile-lru or volatile-ttl [noeviction]",
             policies, parse_eviction_policy, store.maxmemory_policy);
  add_choice(app, "--index",
             "Which index the store has: line, which grows and shrinks, or one of a fixed "
             "size, which evicts a key of its own accord where there is no room for another: "
             "cuckoo or set [line]",
             "line, cuckoo, set", parse_index_choice, store.index);
  add_memory_option(app, "--index-item-bytes",
                    "Bytes that an item takes on average, key and value included: an index of a "
                    "fixed size has room for as many as --maxmemory holds [128]",
                    store.index_item_bytes, 16, uint64_t{1} << 32);
  add_router_options(app, store.router);
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
  add_memory_option(
      app, "--memcached-item-size-max",
      "Largest item that memcached clients may store, counted as memcached does, with its overhead "
      "[1mb]",
      options.memcached_item_size_max, 1 << 10, 1 << 30);
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
  add_choice(app, "--memcached-udp-trusted",
             "Which addresses may get longer replies by UDP: none, loopback or all [loopback]",
             "none, loopback, all", parse_trust, options.memcached_udp_trusted);
}

void add_ports(CLI::App& app, net::ServerOptions& options) {
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
  add_text_option(app, "--bind",
                  "Addresses to listen on, separated by spaces; one behind a - may be missing, * "
                  "and ::* are all of the machine [127.0.0.1]",
                  [&](const std::string& text) { take_addresses(text, options.bind); });
}

void add_client_options(CLI::App& app, net::ServerOptions& options) {
  constexpr int most_seconds = std::numeric_limits<int>::max();
  app.add_option("--maxclients", options.maxclients, "Most clients at one time [10000]")
      ->check(CLI::Range(1, 1'000'000));
  app.add_option(
      "--requirepass", options.requirepass,
      "Password that Redis clients must give (AUTH) before anything else; memcached's are "
      "not asked for one [none]");
  add_memory_option(app, "--proto-max-bulk-len",
                    "Longest key or value that a client may send [512mb]",
                    options.proto_max_bulk_len, least_bulk, most_bulk);
  add_client_limits(app, options);
  app.add_option("--timeout", options.timeout,
                 "Seconds after which a silent client is disconnected; 0: never [0]")
      ->check(CLI::Range(0, most_seconds));
  app.add_option("--tcp-keepalive", options.tcp_keepalive,
                 "Seconds between probes of a silent TCP connection; 0: none [300]")
      ->check(CLI::Range(0, most_seconds));
}

void add_slow_log_options(CLI::App& app, net::ServerOptions& options) {
  constexpr int64_t most = std::numeric_limits<int64_t>::max();
  app.add_option("--slowlog-log-slower-than", options.slowlog_log_slower_than,
                 "Microseconds from which on a command is noted in the slow log (SLOWLOG); 0: "
                 "every command, -1: none [10000]")
      ->check(CLI::Range(int64_t{-1}, most));
  app.add_option("--slowlog-max-len", options.slowlog_max_len,
                 "Most commands in the slow log, which takes 16mb at most [128]")
      ->check(CLI::Range(uint64_t{0}, static_cast<uint64_t>(most)));
}

void add_options(CLI::App& app, net::ServerOptions& options) {
  // As in Redis the last of several counts, so whoever starts the server may add options to a
  // command that is there; of two flags, as in redis.conf, each adds to those before.
  app.option_defaults()->multi_option_policy(CLI::MultiOptionPolicy::TakeLast);
  add_ports(app, options);
  app.add_option("--threads", options.threads,
                 "Number of threads that serve clients [one per core]")
      ->check(CLI::Range(1, 256));
  add_store_options(app, options.store);
  add_gpu_options(app, options.store);
  add_client_options(app, options);
  add_slow_log_options(app, options);
  add_file_options(app, options);
  add_choice(app, "--loglevel", "What is logged: debug, verbose, notice or warning [notice]",
             "debug, verbose, notice, warning", net::parse_log_level, options.loglevel);
  for (const char* flag : {"--save", "--client-output-buffer-limit"}) {
    app.get_option(flag)->join(' ');
  }
  take_only_decimal(app);
}

// Whether one flag can be meant, whatever else there is. The options are described once, when the
// first is asked for.
class AloneCheck {
 public:
  void operator()(const std::string& flag) {
    if (!app_) add_options(app_.emplace(), unused_);
    unused_ = {};
    parse_words(*app_, flag_words({flag}, *app_));
  }

 private:
  net::ServerOptions unused_;
  std::optional<CLI::App> app_;
};

// CLI11's own words show unknown flags in reverse.
std::string reason_of(const CLI::ParseError& error, const CLI::App& app) {
  if (dynamic_cast<const CLI::ExtrasError*>(&error) == nullptr) return error.what();
  std::string text = "no such option:";
  for (const std::string& word : app.remaining()) text += " " + word;
  return text;
}

}  // namespace

std::optional<int> parse_flags(int argc, const char* const* argv, net::ServerOptions& options) {
  CLI::App app(
      "Isotherm: a key-value store for Redis and memcached clients.\n"
      "A first word that is no option names a file of options in the format of redis.conf.",
      "isotherm-server");
  app.set_version_flag("--version", "isotherm-server " + std::string(net::isotherm_version));
  add_options(app, options);
  // Where few clients ask, the CPU answers sooner than a GPU. A program that fills batches itself
  // has another default: its batches go to the GPU at once.
  options.store.rounds.policy = Scheduling::adaptive;
  try {
    AloneCheck check_alone;
    parse_words(app, flag_words(argc, argv, app, std::ref(check_alone), options));
    check_together(options);
    check_for_idle(app, options);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() == 0) return app.exit(error);
    std::cerr << "isotherm-server: " << reason_of(error, app)
              << "\nRun with --help for the flags.\n";
    return exit_usage;
  }
  return std::nullopt;
}

}  // namespace isotherm
