// The text of INFO: sections of "name:value" lines, named as Redis names them where it has them.

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

#include "net/resp_handlers.h"
#include "net/server_state.h"
#include "net/text.h"
#include "net/version.h"

namespace isotherm::net {
namespace {

class Lines {
 public:
  explicit Lines(std::string& text) : text_(text) {}

  void section(std::string_view name) {
    if (!text_.empty()) text_ += "\r\n";
    text_.append("# ").append(name).append("\r\n");
  }
  void line(std::string_view name, std::string_view value) {
    text_.append(name).append(":").append(value).append("\r\n");
  }
  void line(std::string_view name, uint64_t value) { line(name, std::to_string(value)); }
  void line(std::string_view name, double value) {
    char digits[32];
    std::snprintf(digits, sizeof digits, "%.2f", value);
    line(name, digits);
  }

 private:
  std::string& text_;
};

std::string human(uint64_t bytes) {
  constexpr std::array<char, 5> units = {'B', 'K', 'M', 'G', 'T'};
  double value = static_cast<double>(bytes);
  size_t unit = 0;
  while (value >= 1024 && unit + 1 < units.size()) {
    value /= 1024;
    ++unit;
  }
  char text[32];
  std::snprintf(text, sizeof text, unit == 0 ? "%.0f%c" : "%.2f%c", value, units[unit]);
  return text;
}

uint64_t resident_bytes() {
  std::ifstream statm("/proc/self/statm");
  uint64_t total = 0, resident = 0;
  statm >> total >> resident;
  return resident * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

double ratio(uint64_t a, uint64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

void write_server(const ServerState& server, const Statistics&, Lines& lines) {
  const int64_t uptime = (server.clock.now_ms() - server.start_ms) / 1000;
  lines.line("redis_version", redis_version);
  lines.line("isotherm_version", isotherm_version);
  lines.line("redis_mode", "standalone");
  lines.line("arch_bits", uint64_t{64});
  lines.line("multiplexing_api", "epoll");
  lines.line("process_id", static_cast<uint64_t>(getpid()));
  lines.line("tcp_port", uint64_t{server.resp_port});
  lines.line("memcached_port", uint64_t{server.memcached_port});
  lines.line("threads", uint64_t{server.loops.size()});
  lines.line("uptime_in_seconds", static_cast<uint64_t>(std::max<int64_t>(uptime, 0)));
  lines.line("uptime_in_days", static_cast<uint64_t>(std::max<int64_t>(uptime, 0)) / 86'400);
}

void write_clients(const ServerState& server, const Statistics&, Lines& lines) {
  lines.line("connected_clients", uint64_t{server.resp_clients});
  lines.line("connected_memcached_clients", uint64_t{server.memcached_clients});
  lines.line("maxclients", uint64_t{server.options.maxclients});
}

void write_memory(const ServerState& server, const Statistics& statistics, Lines& lines) {
  const EngineStats& engine = statistics.engine;
  const Options& options = server.options.store;
  const uint64_t resident = resident_bytes();
  lines.line("used_memory", engine.used_memory);
  lines.line("used_memory_human", human(engine.used_memory));
  lines.line("used_memory_rss", resident);
  lines.line("used_memory_rss_human", human(resident));
  lines.line("used_memory_items", engine.item_bytes);
  lines.line("used_memory_index", engine.index_bytes);
  lines.line("used_memory_retired", engine.retired_bytes);
  lines.line("used_memory_buffers", engine.buffer_bytes);
  lines.line("used_memory_pages_ahead", engine.ahead_bytes);
  lines.line("maxmemory", options.maxmemory);
  lines.line("maxmemory_human", human(options.maxmemory));
  lines.line("maxmemory_policy", to_string(options.maxmemory_policy));
}

// When the batches of all loops go to a GPU together, and how many requests together.
void write_rounds(const EngineStats& engine, Lines& lines) {
  constexpr int64_t ns_a_us = 1000;
  lines.line("index_schedule", to_string(engine.round_options.policy));
  lines.line("index_schedule_batch", engine.round_options.rows);
  lines.line("index_schedule_wait_usec",
             static_cast<uint64_t>(engine.round_options.wait_ns / ns_a_us));
  lines.line("index_rounds", engine.rounds.rounds);
  lines.line("index_round_requests_mean", ratio(engine.rounds.rows, engine.rounds.rounds));
  lines.line("index_round_timeouts", engine.rounds.timeouts);
}

// Values in the memory of GPUs.
void write_values(const DeviceValueStats& values, Lines& lines) {
  lines.line("gpu_values", values.values);
  lines.line("gpu_values_bytes", values.bytes);
  lines.line("gpu_values_capacity", values.capacity);
  lines.line("gpu_values_fetched", values.fetched);
  lines.line("gpu_values_sent", values.to_device);
  lines.line("gpu_values_brought_back", values.from_device);
  lines.line("gpu_values_lost", values.lost);
}

void write_stats(const ServerState&, const Statistics& statistics, Lines& lines) {
  lines.line("total_connections_received", statistics.connections);
  lines.line("total_commands_processed", statistics.commands);
  lines.line("total_net_input_bytes", statistics.bytes_in);
  lines.line("total_net_output_bytes", statistics.bytes_out);
  lines.line("rejected_connections", statistics.rejected);
  lines.line("expired_keys", statistics.engine.expired);
  lines.line("evicted_keys", statistics.engine.evicted);
  lines.line("keyspace_hits", statistics.engine.hits);
  lines.line("keyspace_misses", statistics.engine.misses);
  lines.line("index_splits", statistics.engine.splits);
  lines.line("index_joins", statistics.engine.joins);
  lines.line("index_retries", statistics.engine.retries);
  lines.line("index_on_gpu", uint64_t{statistics.engine.on_device});
  lines.line("index_gpu_bytes", statistics.engine.root_table.device_bytes);
  lines.line("index_entries_beyond_gpu", statistics.engine.root_table.host_entries);
  lines.line("index_lookups_beyond_gpu", statistics.engine.root_table.host_lookups);
  lines.line("index_bins_from_gpu", statistics.engine.root_table.bins_to_host);
  lines.line("index_bins_to_gpu", statistics.engine.root_table.bins_to_device);
  lines.line("index_takeover_usec", statistics.engine.takeover_us);
  lines.line("index_memory_nodes", joined(statistics.engine.memory_nodes));
  write_rounds(statistics.engine, lines);
  write_values(statistics.engine.values, lines);
}

// How many requests a turn of a loop puts into one batch, and from how many connections.
void write_batches(const ServerState&, const Statistics& statistics, Lines& lines) {
  lines.line("batches", statistics.batches);
  lines.line("batch_requests", statistics.batch_rows);
  lines.line("batch_size_mean", ratio(statistics.batch_rows, statistics.batches));
  lines.line("batch_size_max", statistics.batch_rows_max);
  lines.line("batch_connections_mean", ratio(statistics.batch_connections, statistics.batches));
  lines.line("batch_connections_max", statistics.batch_connections_max);
  for (size_t i = 0; i < statistics.batch_histogram.size(); ++i) {
    if (statistics.batch_histogram[i] == 0) continue;
    lines.line("batch_size_from_" + std::to_string(uint64_t{1} << i),
               statistics.batch_histogram[i]);
  }
}

void write_cpu(const ServerState&, const Statistics&, Lines& lines) {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  const auto seconds = [](const timeval& time) {
    char text[48];
    std::snprintf(text, sizeof text, "%ld.%06ld", static_cast<long>(time.tv_sec),
                  static_cast<long>(time.tv_usec));
    return std::string(text);
  };
  lines.line("used_cpu_sys", seconds(usage.ru_stime));
  lines.line("used_cpu_user", seconds(usage.ru_utime));
}

void write_keyspace(const ServerState& server, const Statistics&, Lines& lines) {
  for (uint32_t i = 0; i < server.options.store.databases; ++i) {
    const DatabaseStats database = server.engine.database(i);
    if (database.keys == 0) continue;
    lines.line("db" + std::to_string(i), "keys=" + std::to_string(database.keys) + ",expires=" +
                                             std::to_string(database.expires) + ",avg_ttl=0");
  }
}

struct Section {
  std::string_view name;  // as shown; asked for in any case
  void (*write)(const ServerState& server, const Statistics& statistics, Lines& lines);
};

constexpr std::array<Section, 7> all_sections = {{{"Server", write_server},
                                                  {"Clients", write_clients},
                                                  {"Memory", write_memory},
                                                  {"Stats", write_stats},
                                                  {"Batches", write_batches},
                                                  {"CPU", write_cpu},
                                                  {"Keyspace", write_keyspace}}};

bool wanted(const Section& section, Arguments asked) {
  return asked.empty() || std::any_of(asked.begin(), asked.end(), [&](std::string_view name) {
           return equals_ignoring_case(name, section.name) ||
                  equals_ignoring_case(name, "default") || equals_ignoring_case(name, "all") ||
                  equals_ignoring_case(name, "everything");
         });
}

}  // namespace

std::string info_text(const ServerState& server, Arguments sections) {
  const Statistics statistics = server.statistics();
  std::string text;
  Lines lines(text);
  for (const Section& section : all_sections) {
    if (!wanted(section, sections)) continue;
    lines.section(section.name);
    section.write(server, statistics, lines);
  }
  return text;
}

}  // namespace isotherm::net
