#include "net/resp/config_options.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <limits>

#include "base/memory_amount.h"
#include "net/descriptor_limit.h"
#include "net/log.h"
#include "net/server_state.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr uint64_t most_int = std::numeric_limits<int32_t>::max();
constexpr uint64_t most_long = std::numeric_limits<int64_t>::max();
constexpr uint64_t least_bulk = 1 << 20;
constexpr uint64_t most_bulk = std::numeric_limits<uint32_t>::max();

std::string out_of_range(int64_t least, int64_t most) {
  return "argument must be between " + std::to_string(least) + " and " + std::to_string(most) +
         " inclusive";
}

// What is wrong with the text of a number; empty: it is `number`.
std::string read_number(std::string_view text, int64_t least, int64_t most, int64_t& number) {
  const auto parsed = parse_integer(text);
  if (!parsed) return "argument couldn't be parsed into an integer";
  if (*parsed < least || *parsed > most) return out_of_range(least, most);
  number = *parsed;
  return {};
}

// CONFIG SET takes each blank for the end of a word, so that two in a row have an empty one between
// them; the flags of the program do not.
bool has_empty_word(std::string_view text) {
  return text.starts_with(' ') || text.ends_with(' ') || text.find("  ") != std::string_view::npos;
}

// A number of an option that is one of LiveOptions.
template <std::atomic<uint32_t> LiveOptions::*field>
std::string get_number(const ServerState& server) {
  return std::to_string((server.live.*field).load());
}
template <std::atomic<uint32_t> LiveOptions::*field, int64_t least, int64_t most>
std::string set_number(ServerState& server, std::string_view text, bool dry) {
  int64_t number = 0;
  std::string wrong = read_number(text, least, most, number);
  if (wrong.empty() && !dry) server.live.*field = static_cast<uint32_t>(number);
  return wrong;
}

std::string set_maxclients(ServerState& server, std::string_view text, bool dry) {
  constexpr auto set =
      set_number<&LiveOptions::maxclients, 1, std::numeric_limits<uint32_t>::max()>;
  std::string wrong = set(server, text, true);
  if (!wrong.empty()) return wrong;
  const auto wanted = static_cast<uint32_t>(*parse_integer(text));
  const uint32_t allowed = allow_clients(wanted, static_cast<uint32_t>(server.loop_count()),
                                         !server.options.store.tree.empty());
  if (allowed < wanted) {
    return "The operating system is not able to handle the specified number of clients, try with " +
           std::to_string(allowed);
  }
  return dry ? std::string() : set(server, text, false);
}

std::string get_password(const ServerState& server) { return server.password.text(); }
std::string set_password(ServerState& server, std::string_view text, bool dry) {
  if (!dry) server.password.set(text);
  return {};
}

std::string get_maxmemory(const ServerState& server) {
  return std::to_string(server.engine.maxmemory());
}
std::string set_maxmemory(ServerState& server, std::string_view text, bool dry) {
  const auto bytes = parse_memory(text);
  if (!bytes || *bytes > std::numeric_limits<int64_t>::max()) {
    return "argument must be a memory value";
  }
  if (*bytes != 0 && server.options.store.gpu_items_host > *bytes / 2) {
    return "argument must be at least twice --gpu-items-host, which is part of it";
  }
  if (!dry) server.engine.set_maxmemory(*bytes);
  return {};
}

std::string get_policy(const ServerState& server) {
  return std::string(to_string(server.policy()));
}
std::string set_policy(ServerState& server, std::string_view text, bool dry) {
  std::string name(text);
  std::transform(name.begin(), name.end(), name.begin(), to_lower);
  const auto policy = parse_eviction_policy(name);
  if (!policy) {
    return "argument(s) must be one of the following: volatile-lru, volatile-ttl, allkeys-lru, "
           "allkeys-random, noeviction";
  }
  if (server.options.store.gpu_items != 0) {
    return *policy == server.policy() ? "" : "with items on a GPU the policy is chosen at start";
  }
  if (server.options.store.index != IndexChoice::line && !evicts_any_key(*policy)) {
    return "an index of a fixed size needs allkeys-lru or allkeys-random";
  }
  if (!dry) server.engine.set_policy(*policy);
  return {};
}

std::string get_longest_bulk(const ServerState& server) {
  return std::to_string(server.live.proto_max_bulk_len.load());
}
std::string set_longest_bulk(ServerState& server, std::string_view text, bool dry) {
  const auto bytes = parse_memory(text);
  if (!bytes) return "argument must be a memory value";
  if (*bytes < least_bulk || *bytes > most_bulk) return out_of_range(least_bulk, most_bulk);
  if (dry) return {};
  server.engine.set_max_value_bytes(*bytes);
  server.live.proto_max_bulk_len = *bytes;
  return {};
}

std::string get_log_level(const ServerState& server) {
  return std::string(to_string(server.live.loglevel.load()));
}
std::string set_log_level(ServerState& server, std::string_view text, bool dry) {
  const auto level = parse_log_level(text);
  if (!level) {
    return "argument(s) must be one of the following: debug, verbose, notice, warning";
  }
  if (dry) return {};
  server.live.loglevel = *level;
  use_log_level(*level);
  return {};
}

// A port that is off is written as 0, the way redis.conf says it.
std::string port_text(int32_t configured, uint16_t bound) {
  return std::to_string(configured < 0 ? 0 : bound != 0 ? bound : configured);
}
std::string get_port(const ServerState& server) {
  return port_text(server.options.port, server.resp_port);
}
std::string get_memcached_port(const ServerState& server) {
  return port_text(server.options.memcached_port, server.memcached_port);
}
std::string get_bind(const ServerState& server) {
  std::string line;
  for (const std::string& address : server.options.bind) {
    if (!line.empty()) line += ' ';
    line += address;
  }
  return line;
}
std::string get_threads(const ServerState& server) { return std::to_string(server.loop_count()); }
std::string get_router(const ServerState& server) {
  return std::string(to_string(server.options.store.router.choice));
}
std::string get_index(const ServerState& server) {
  return std::string(to_string(server.options.store.index));
}
std::string get_databases(const ServerState& server) {
  return std::to_string(server.options.store.databases);
}

std::string get_slower_than(const ServerState& server) {
  return std::to_string(server.slow_log.slower_than_us.load());
}
std::string set_slower_than(ServerState& server, std::string_view text, bool dry) {
  int64_t number = 0;
  std::string wrong = read_number(text, -1, most_long, number);
  if (wrong.empty() && !dry) server.slow_log.slower_than_us = number;
  return wrong;
}
std::string get_slow_most(const ServerState& server) {
  return std::to_string(server.slow_log.most());
}
std::string set_slow_most(ServerState& server, std::string_view text, bool dry) {
  int64_t number = 0;
  std::string wrong = read_number(text, 0, most_long, number);
  if (wrong.empty() && !dry) server.slow_log.set_most(static_cast<uint64_t>(number));
  return wrong;
}

// The i-th limit of clients (client_limits.h).
template <size_t i>
ConfigOption client_limit() {
  return {client_limit_options()[i].name,
          [](const ServerState& server) { return client_limit_options()[i].get(server.limits); },
          [](ServerState& server, std::string_view text, bool dry) {
            return client_limit_options()[i].set(server.limits, text, dry);
          }};
}
ConfigOption output_limit() {
  ConfigOption option = client_limit<0>();
  option.set = [](ServerState& server, std::string_view text, bool dry) -> std::string {
    if (has_empty_word(text)) return "Wrong number of arguments in buffer limit configuration.";
    return client_limit_options()[0].set(server.limits, text, dry);
  };
  return option;
}

std::string get_save(const ServerState& server) { return to_string(server.saves.points()); }
std::string get_dbfilename(const ServerState& server) { return server.options.dbfilename; }
std::string get_appendonly(const ServerState& server) {
  return server.options.appendonly ? "yes" : "no";
}
std::string get_appendfsync(const ServerState& server) {
  return std::string(to_string(server.live.appendfsync.load()));
}
std::string get_appendfilename(const ServerState& server) { return server.options.appendfilename; }
std::string get_dir(const ServerState& server) {
  std::error_code error;
  const std::filesystem::path whole = std::filesystem::absolute(server.options.dir, error);
  if (error) return server.options.dir;
  std::string text = whole.lexically_normal().string();
  while (text.size() > 1 && text.back() == '/') text.pop_back();
  return text;
}
std::string set_save(ServerState& server, std::string_view text, bool dry) {
  auto points = parse_save_points(text);
  if (!points || has_empty_word(text)) return "Invalid save parameters";
  if (!points->empty() && server.engine.stats().on_device) {
    return "there are no snapshots while the index is on a GPU";
  }
  if (!dry) server.saves.set_points(*std::move(points));
  return {};
}
// A journal has all changes since the store was empty, so it begins with the server.
std::string set_appendonly(ServerState& server, std::string_view text, bool) {
  const bool yes = equals_ignoring_case(text, "yes");
  if (!yes && !equals_ignoring_case(text, "no")) return "argument must be 'yes' or 'no'";
  return yes == server.options.appendonly ? "" : "the journal is chosen at start: --appendonly";
}
std::string set_appendfsync(ServerState& server, std::string_view text, bool dry) {
  for (const SyncPolicy policy : {SyncPolicy::always, SyncPolicy::everysec, SyncPolicy::no}) {
    if (!equals_ignoring_case(text, to_string(policy))) continue;
    if (dry) return {};
    server.live.appendfsync = policy;
    if (server.journal != nullptr) server.journal->set_policy(policy);
    return {};
  }
  return "argument(s) must be one of the following: everysec, always, no";
}

std::string get_rewrite_min_size(const ServerState& server) {
  return std::to_string(server.live.auto_aof_rewrite_min_size.load());
}
std::string set_rewrite_min_size(ServerState& server, std::string_view text, bool dry) {
  const auto bytes = parse_memory(text);
  if (!bytes) return "argument must be a memory value";
  if (*bytes > most_long) return out_of_range(0, most_long);
  if (!dry) server.live.auto_aof_rewrite_min_size = *bytes;
  return {};
}

using Live = LiveOptions;

const std::array all_options{
    ConfigOption{"port", get_port, nullptr},
    ConfigOption{"memcached-port", get_memcached_port, nullptr},
    ConfigOption{"bind", get_bind, nullptr},
    ConfigOption{"threads", get_threads, nullptr},
    ConfigOption{"databases", get_databases, nullptr},
    ConfigOption{"router", get_router, nullptr},
    ConfigOption{"index", get_index, nullptr},
    ConfigOption{"maxmemory", get_maxmemory, set_maxmemory},
    ConfigOption{"maxmemory-policy", get_policy, set_policy},
    // Taken, and of no effect: eviction does not sample (docs/differences.md).
    ConfigOption{"maxmemory-samples", get_number<&Live::maxmemory_samples>,
                 set_number<&Live::maxmemory_samples, 1, most_int>},
    ConfigOption{"maxclients", get_number<&Live::maxclients>, set_maxclients},
    ConfigOption{"requirepass", get_password, set_password},
    ConfigOption{"timeout", get_number<&Live::timeout>, set_number<&Live::timeout, 0, most_int>},
    ConfigOption{"tcp-keepalive", get_number<&Live::tcp_keepalive>,
                 set_number<&Live::tcp_keepalive, 0, most_int>},
    ConfigOption{"proto-max-bulk-len", get_longest_bulk, set_longest_bulk},
    ConfigOption{"loglevel", get_log_level, set_log_level},
    ConfigOption{"slowlog-log-slower-than", get_slower_than, set_slower_than},
    ConfigOption{"slowlog-max-len", get_slow_most, set_slow_most},
    // Nothing is monitored (LATENCY).
    ConfigOption{"latency-monitor-threshold", [](const ServerState&) { return std::string("0"); },
                 nullptr},
    ConfigOption{"save", get_save, set_save},
    ConfigOption{"dbfilename", get_dbfilename, nullptr},
    ConfigOption{"appendonly", get_appendonly, set_appendonly},
    ConfigOption{"appendfsync", get_appendfsync, set_appendfsync},
    ConfigOption{"appendfilename", get_appendfilename, nullptr},
    ConfigOption{"auto-aof-rewrite-percentage", get_number<&Live::auto_aof_rewrite_percentage>,
                 set_number<&Live::auto_aof_rewrite_percentage, 0, most_int>},
    ConfigOption{"auto-aof-rewrite-min-size", get_rewrite_min_size, set_rewrite_min_size},
    ConfigOption{"dir", get_dir, nullptr},
    output_limit(),
    client_limit<1>(),
    client_limit<2>(),
};

}  // namespace

std::span<const ConfigOption> config_options() { return all_options; }

const ConfigOption* find_config_option(std::string_view name) {
  const auto found = std::find_if(
      all_options.begin(), all_options.end(),
      [&](const ConfigOption& option) { return equals_ignoring_case(option.name, name); });
  return found == all_options.end() ? nullptr : &*found;
}

}  // namespace isotherm::net
