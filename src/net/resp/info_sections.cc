#include "net/resp/info_sections.h"

#include <sys/resource.h>
#include <sys/sysinfo.h>
#include <sys/utsname.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <string>

#include "net/version.h"
#include "tree/tree.h"

namespace isotherm::net::info_sections {
namespace {

std::string operating_system() {
  utsname name{};
  uname(&name);
  return std::string(name.sysname) + " " + name.release + " " + name.machine;
}

std::string executable() {
  char path[4096];
  const ssize_t bytes = readlink("/proc/self/exe", path, sizeof path);
  return bytes > 0 ? std::string(path, static_cast<size_t>(bytes)) : std::string();
}

std::string seconds(const timeval& time) {
  char text[48];
  std::snprintf(text, sizeof text, "%ld.%06ld", static_cast<long>(time.tv_sec),
                static_cast<long>(time.tv_usec));
  return text;
}

}  // namespace

void server(ServerState& server, const Statistics&, InfoLines& lines) {
  const int64_t now_ms = server.clock.now_ms();
  const auto uptime = static_cast<uint64_t>(std::max<int64_t>(now_ms - server.start_ms, 0) / 1000);
  constexpr uint64_t ticks_a_second = 10;
  lines.line("redis_version", redis_version);
  lines.line("isotherm_version", isotherm_version);
  lines.line("redis_mode", "standalone");
  lines.line("os", operating_system());
  lines.line("arch_bits", uint64_t{64});
  lines.line("multiplexing_api", "epoll");
  lines.line("process_id", static_cast<uint64_t>(getpid()));
  lines.line("process_supervised", "no");
  lines.line("run_id", server.run_id);
  lines.line("tcp_port", uint64_t{server.resp_port});
  lines.line("memcached_port", uint64_t{server.memcached_port});
  lines.line("threads", uint64_t{server.loop_count()});
  lines.line("server_time_usec", static_cast<uint64_t>(now_ms) * 1000);
  lines.line("uptime_in_seconds", uptime);
  lines.line("uptime_in_days", uptime / 86'400);
  lines.line("hz", ticks_a_second);
  lines.line("configured_hz", ticks_a_second);
  lines.line("executable", executable());
  lines.line("config_file", server.options.config_file);
}

void clients(ServerState& server, const Statistics&, InfoLines& lines) {
  uint64_t held = 0;
  uint64_t watching = 0;
  uint64_t watched = 0;
  server.clients.for_each([&](const Client& client) {
    held += client.held;
    const size_t keys = client.watched.load(std::memory_order_relaxed);
    watching += keys != 0 ? 1 : 0;
    watched += keys;
  });
  lines.line("connected_clients", uint64_t{server.resp_clients});
  lines.line("connected_memcached_clients", uint64_t{server.memcached_clients});
  lines.zero("cluster_connections");
  lines.line("maxclients", uint64_t{server.live.maxclients});
  lines.line("blocked_clients", held);
  lines.zero("tracking_clients");
  lines.line("watching_clients", watching);
  lines.zero("clients_in_timeout_table");
  lines.line("total_watched_keys", watched);
}

void memory(ServerState& server, const Statistics& statistics, InfoLines& lines) {
  const EngineStats& engine = statistics.engine;
  const uint64_t used = engine.used_memory;
  const uint64_t resident = server.resident.bytes();
  const uint64_t peak = server.rates.raise_peak(used);
  struct sysinfo machine {};
  sysinfo(&machine);
  lines.bytes("used_memory", used);
  lines.bytes("used_memory_rss", resident);
  lines.bytes("used_memory_peak", peak);
  lines.percent("used_memory_peak_perc", used, peak);
  lines.line("used_memory_overhead", used - std::min(used, engine.item_bytes));
  lines.line("used_memory_startup", server.startup_bytes);
  lines.line("used_memory_dataset", engine.item_bytes);
  lines.percent("used_memory_dataset_perc", engine.item_bytes, used);
  lines.line("used_memory_items", engine.item_bytes);
  lines.line("used_memory_index", engine.index_bytes);
  lines.line("used_memory_retired", engine.retired_bytes);
  lines.line("used_memory_hot", engine.hot.bytes);
  lines.line("used_memory_buffers", engine.buffer_bytes);
  lines.line("used_memory_pages_ahead", engine.ahead_bytes);
  lines.bytes("total_system_memory", uint64_t{machine.totalram} * machine.mem_unit);
  lines.bytes("maxmemory", server.engine.maxmemory());
  lines.line("maxmemory_policy", to_string(server.policy()));
  lines.line("mem_fragmentation_ratio", InfoLines::ratio(resident, used));
  lines.line("mem_fragmentation_bytes", std::to_string(static_cast<int64_t>(resident - used)));
  lines.zero("mem_replication_backlog");
  lines.zero("mem_clients_slaves");
  lines.line("mem_clients_normal", engine.buffer_bytes);
  lines.line("mem_aof_buffer", server.journal != nullptr ? server.journal->memory() : uint64_t{0});
}

void persistence(ServerState& server, const Statistics& statistics, InfoLines& lines) {
  const SaveJob& saves = server.saves;
  const int64_t now_s = server.clock.now_ms() / 1000;
  lines.zero("loading");
  lines.zero("async_loading");
  lines.line("rdb_changes_since_last_save", statistics.engine.changes - saves.changes());
  lines.line("rdb_bgsave_in_progress", uint64_t{saves.in_progress()});
  lines.line("rdb_last_save_time", static_cast<uint64_t>(saves.saved_s()));
  lines.line("rdb_last_bgsave_status", saves.failed() ? "err" : "ok");
  lines.line("rdb_last_bgsave_time_sec", std::to_string(saves.last_seconds()));
  lines.line("rdb_current_bgsave_time_sec", std::to_string(saves.seconds(now_s)));
  lines.line("rdb_saves", saves.times());
  lines.line("rdb_last_load_keys_loaded", server.loaded);
  const Journal* const journal = server.journal;
  lines.line("aof_enabled", uint64_t{journal != nullptr});
  const BackgroundJob none;
  const BackgroundJob& job = journal != nullptr ? journal->rewrite_job() : none;
  lines.line("aof_rewrite_in_progress", uint64_t{job.in_progress()});
  lines.zero("aof_rewrite_scheduled");
  lines.line("aof_last_rewrite_time_sec", std::to_string(job.last_seconds()));
  lines.line("aof_current_rewrite_time_sec", std::to_string(job.seconds(now_s)));
  lines.line("aof_last_bgrewrite_status", job.failed() ? "err" : "ok");
  lines.line("aof_rewrites", job.times());
  lines.line("aof_last_write_status", journal == nullptr || journal->error() == 0 ? "ok" : "err");
  if (Tree* const tree = server.engine.tree(); tree != nullptr) {
    const TreeStats stats = tree->stats();
    lines.line("tree_last_write_status", stats.failing ? "err" : "ok");
    lines.line("tree_runs", stats.runs);
    lines.line("tree_run_bytes", stats.run_bytes);
    lines.line("tree_runs_taken_in", stats.ingested);
    lines.line("tree_keys_asked", stats.loads);
    lines.line("tree_memory", stats.memory);
    lines.line("tree_disk_bytes", stats.disk_bytes);
    lines.line("tree_keys_about", stats.keys);
    if (stats.sorted.there) {
      lines.line("gpu_sorted_in_use", uint64_t{stats.sorted.problem.empty()});
      lines.line("gpu_sorted_entries", stats.sorted.stats.entries);
      lines.line("gpu_sorted_bytes", stats.sorted.stats.bytes);
      lines.line("gpu_sorted_reads", stats.sorted.reads);
    }
    if (!stats.lasts) {
      lines.line("gpu_items_lost", uint64_t{stats.lost});
      lines.line("gpu_items_lost_keys", stats.lost_keys);
      lines.line("gpu_items_host_bytes", stats.host_bytes);
    }
  }
  if (journal == nullptr) return;
  lines.line("aof_current_size", journal->live_bytes());
  lines.line("aof_base_size", journal->base_bytes());
  lines.line("aof_buffer_length", journal->unwritten_bytes());
  lines.line("aof_syncs", journal->syncs());
}

// There is no replication: the offset of a master without replicas stays 0 in Redis, too.
void replication(ServerState& server, const Statistics&, InfoLines& lines) {
  lines.line("role", "master");
  lines.zero("connected_slaves");
  lines.line("master_failover_state", "no-failover");
  lines.line("master_replid", server.replication_id);
  lines.line("master_replid2", std::string(40, '0'));
  lines.zero("master_repl_offset");
  lines.line("second_repl_offset", "-1");
  lines.zero("repl_backlog_active");
  lines.zero("repl_backlog_size");
  lines.zero("repl_backlog_first_byte_offset");
  lines.zero("repl_backlog_histlen");
}

void cpu(ServerState&, const Statistics&, InfoLines& lines) {
  rusage own{}, children{};
  getrusage(RUSAGE_SELF, &own);
  getrusage(RUSAGE_CHILDREN, &children);
  lines.line("used_cpu_sys", seconds(own.ru_stime));
  lines.line("used_cpu_user", seconds(own.ru_utime));
  lines.line("used_cpu_sys_children", seconds(children.ru_stime));
  lines.line("used_cpu_user_children", seconds(children.ru_utime));
}

void modules(ServerState&, const Statistics&, InfoLines&) {}

void cluster(ServerState&, const Statistics&, InfoLines& lines) { lines.zero("cluster_enabled"); }

// The index; the router and its table (router/hot_side.h). No request waits for a bin that moves.
void isotherm(ServerState& server, const Statistics& statistics, InfoLines& lines) {
  const EngineStats& engine = statistics.engine;
  const HotStats& hot = engine.hot;
  constexpr std::array<std::string_view, 4> states = {"cold", "warming", "hot", "cooling"};
  lines.line("index", to_string(server.options.store.index));
  lines.line("index_room", engine.index_room);
  lines.line("index_evicted_keys", engine.index_evicted);
  lines.line("index_displaced_cells", engine.index_displaced);
  lines.line("router", to_string(server.options.store.router.choice));
  for (size_t state = 0; state < states.size(); ++state) {
    lines.line("router_bins_" + std::string(states[state]), hot.bins[state]);
  }
  lines.line("router_bins_warmed", hot.warmed);
  lines.line("router_bins_cooled", hot.cooled);
  lines.line("router_trainings", hot.trainings);
  lines.line("router_model_changes", hot.changes);
  lines.line("router_failures", hot.failures);
  lines.line("router_requests_hot_perc", std::to_string(hot.share_hot * 100) + "%");
  lines.line("hot_table_bytes", hot.table_bytes);
  lines.line("hot_table_resizes", hot.resizes);
  lines.line("hot_table_lookups", engine.fast_looks);
  lines.line("hot_table_hits", engine.fast_hits);
  lines.line("hot_table_lookups_skipped", engine.fast_skipped);
}

void keyspace(ServerState& server, const Statistics&, InfoLines& lines) {
  for (uint32_t i = 0; i < server.options.store.databases; ++i) {
    const DatabaseStats database = server.engine.database(i);
    if (database.keys == 0) continue;
    lines.line("db" + std::to_string(i), "keys=" + std::to_string(database.keys) + ",expires=" +
                                             std::to_string(database.expires) + ",avg_ttl=0");
  }
}

}  // namespace isotherm::net::info_sections
