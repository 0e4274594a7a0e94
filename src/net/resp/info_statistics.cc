#include <cstdio>
#include <string>
#include <vector>

#include "net/resp/command.h"
#include "net/resp/info_sections.h"

namespace isotherm::net::info_sections {
namespace {

double kilobytes(uint64_t bytes) { return static_cast<double>(bytes) / 1024; }

std::string joined(const std::vector<int>& numbers) {
  std::string text;
  for (const int number : numbers) {
    if (!text.empty()) text += ',';
    text += std::to_string(number);
  }
  return text;
}

// When the batches of all loops go to a GPU together, and how many requests together.
void write_rounds(const EngineStats& engine, InfoLines& lines) {
  constexpr int64_t ns_a_us = 1000;
  lines.line("index_schedule", to_string(engine.round_options.policy));
  lines.line("index_schedule_batch", engine.round_options.rows);
  lines.line("index_schedule_wait_usec",
             static_cast<uint64_t>(engine.round_options.wait_ns / ns_a_us));
  lines.line("index_rounds", engine.rounds.rounds);
  lines.line("index_round_requests_mean",
             InfoLines::ratio(engine.rounds.rows, engine.rounds.rounds));
  lines.line("index_round_timeouts", engine.rounds.timeouts);
  lines.line("index_side_switches", engine.rounds.switches);
  lines.line("index_queue_full", engine.queue_full);
}

// Values in the memory of GPUs.
void write_values(const DeviceValueStats& values, InfoLines& lines) {
  lines.line("gpu_values", values.values);
  lines.line("gpu_values_bytes", values.bytes);
  lines.line("gpu_values_capacity", values.capacity);
  lines.line("gpu_values_fetched", values.fetched);
  lines.line("gpu_values_sent", values.to_device);
  lines.line("gpu_values_brought_back", values.from_device);
  lines.line("gpu_values_lost", values.lost);
}

void write_command(const Command& command, const CommandTotals& totals, InfoLines& lines) {
  if (totals.calls + totals.rejected + totals.failed == 0) return;
  const uint64_t usec = totals.nanoseconds / 1000;
  const double each = InfoLines::ratio(totals.nanoseconds, totals.calls) / 1000;
  char text[192];
  std::snprintf(text, sizeof text,
                "calls=%llu,usec=%llu,usec_per_call=%.2f,rejected_calls=%llu,failed_calls=%llu",
                static_cast<unsigned long long>(totals.calls),
                static_cast<unsigned long long>(usec), each,
                static_cast<unsigned long long>(totals.rejected),
                static_cast<unsigned long long>(totals.failed));
  lines.line("cmdstat_" + std::string(command.name), text);
}

}  // namespace

void stats(ServerState& server, const Statistics& statistics, InfoLines& lines) {
  uint64_t errors = 0;
  for (const auto& [code, count] : statistics.errors) errors += count;
  lines.line("total_connections_received", statistics[LoopCount::connections]);
  lines.line("total_commands_processed", statistics[LoopCount::commands]);
  lines.line("instantaneous_ops_per_sec", server.rates.commands.a_second());
  lines.line("total_net_input_bytes", statistics[LoopCount::bytes_in]);
  lines.line("total_net_output_bytes", statistics[LoopCount::bytes_out]);
  lines.line("instantaneous_input_kbps", kilobytes(server.rates.bytes_in.a_second()));
  lines.line("instantaneous_output_kbps", kilobytes(server.rates.bytes_out.a_second()));
  lines.line("rejected_connections", statistics.rejected);
  lines.zero("sync_full");
  lines.zero("sync_partial_ok");
  lines.zero("sync_partial_err");
  lines.line("expired_keys", statistics.engine.expired);
  lines.line("evicted_keys", statistics.engine.evicted);
  lines.line("evicted_clients", statistics[LoopCount::evicted_clients]);
  lines.line("keyspace_hits", statistics.engine.hits);
  lines.line("keyspace_misses", statistics.engine.misses);
  lines.zero("pubsub_channels");
  lines.zero("pubsub_patterns");
  lines.zero("latest_fork_usec");
  lines.zero("total_forks");
  lines.zero("tracking_total_keys");
  lines.line("client_query_buffer_limit_disconnections", statistics[LoopCount::over_query_limit]);
  lines.line("client_output_buffer_limit_disconnections", statistics[LoopCount::over_output_limit]);
  lines.line("total_error_replies", errors);
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
void batches(ServerState&, const Statistics& statistics, InfoLines& lines) {
  lines.line("batches", statistics[LoopCount::batches]);
  lines.line("batch_requests", statistics[LoopCount::batch_rows]);
  lines.line("batch_size_mean",
             InfoLines::ratio(statistics[LoopCount::batch_rows], statistics[LoopCount::batches]));
  lines.line("batch_retries", statistics.engine.retried);
  lines.line("batch_size_max", statistics.batch_rows_max);
  lines.line("batch_connections_mean", InfoLines::ratio(statistics[LoopCount::batch_connections],
                                                        statistics[LoopCount::batches]));
  lines.line("batch_connections_max", statistics.batch_connections_max);
  for (size_t i = 0; i < statistics.batch_histogram.size(); ++i) {
    if (statistics.batch_histogram[i] == 0) continue;
    lines.line("batch_size_from_" + std::to_string(uint64_t{1} << i),
               statistics.batch_histogram[i]);
  }
}

// In the order of the table, which is that of the numbers.
void commandstats(ServerState&, const Statistics& statistics, InfoLines& lines) {
  size_t number = 1;
  for (const Command& command : command_table()) {
    write_command(command, statistics.by_command[number++], lines);
    for (const Command& subcommand : command.subcommands) {
      write_command(subcommand, statistics.by_command[number++], lines);
    }
  }
}

void errorstats(ServerState&, const Statistics& statistics, InfoLines& lines) {
  for (const auto& [code, count] : statistics.errors) {
    lines.line("errorstat_" + code, "count=" + std::to_string(count));
  }
}

}  // namespace isotherm::net::info_sections
