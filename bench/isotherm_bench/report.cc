#include "isotherm_bench/report.h"

#include <algorithm>
#include <cmath>

#include "isotherm_bench/environment.h"

namespace isotherm::bench {
namespace {

std::vector<Figures> figures_by_round(const SystemResult& result) {
  std::vector<Figures> rounds;
  for (const RunResult& run : result.rounds) rounds.push_back(figures_of(run));
  return rounds;
}

// The peers a subject is compared with: those of its protocol. Without any subject nothing is.
template <typename Visit>
void for_each_pair(const std::vector<SystemResult>& results, Visit visit) {
  for (const SystemResult& subject : results) {
    if (subject.peer) continue;
    for (const SystemResult& peer : results) {
      if (peer.peer && peer.protocol == subject.protocol) visit(subject, peer);
    }
  }
}

std::string pair_label(const SystemResult& subject, const SystemResult& peer) {
  return subject.label + " / " + peer.label;
}

std::string sizes(const Workload& workload) {
  std::string text =
      std::to_string(workload.key_size) + "+" + std::to_string(workload.value_size_min);
  if (workload.value_size_max != workload.value_size_min) {
    text += "-" + std::to_string(workload.value_size_max);
  }
  return text + " B";
}

std::string skew(const Workload& workload) {
  std::string text(to_string(workload.distribution));
  if (workload.distribution == Distribution::uniform) return text;
  char number[32];
  std::snprintf(number, sizeof number, " %g", workload.theta);
  return text + number;
}

void print_row(std::FILE* out, int width, const std::string& label, const Figures& figures,
               bool ratio) {
  std::fprintf(out, "%-*s", width, label.c_str());
  for (const FigureName& name : figure_names()) {
    const double value = figures.*name.member;
    if (std::isnan(value)) {
      std::fprintf(out, " %13s", "-");
    } else if (ratio || value < 10) {
      std::fprintf(out, " %13.3f", value);
    } else {
      std::fprintf(out, " %13.1f", value);
    }
  }
  std::fprintf(out, "\n");
}

void print_load(std::FILE* out, const SystemResult& result) {
  const LoadResult& load = *result.load;
  std::fprintf(out, "%-28s %llu records in %.2f s", ("load " + result.label).c_str(),
               static_cast<unsigned long long>(load.records), load.seconds);
  const auto records = static_cast<double>(load.records);
  if (load.server_cpu) {
    std::fprintf(out, ", %.3f us server CPU a record", load.server_cpu->total() * 1e6 / records);
  }
  if (load.resident_after) {
    std::fprintf(out, ", resident %.1f MB = %.1f bytes a record (worst while doubling %.1f)",
                 static_cast<double>(*load.resident_after) / 1e6,
                 static_cast<double>(*load.resident_after) / records, load.worst_bytes_per_record);
  }
  std::fprintf(out, "\n");
}

void add_workload(Json& json, const Options& options) {
  const Workload& workload = options.workload;
  const RunOptions& run = options.run;
  json.begin_object("parameters")
      .field("workload", workload.name)
      .field("mix", to_string(workload.mix))
      .field("distribution", to_string(workload.distribution))
      .field("theta", workload.theta)
      .field("records", workload.records)
      .field("key_bytes", workload.key_size)
      .field("value_bytes_min", workload.value_size_min)
      .field("value_bytes_max", workload.value_size_max)
      .field("uniform_updates", !workload.hot_updates)
      .field("seed", workload.seed)
      .field("in_process", options.in_process)
      .field("batch", options.in_process ? options.batch : workload.keys_per_read)
      .field("threads", run.threads)
      .field("rounds", options.rounds)
      .field("rate", run.rate)
      .field("poisson", run.poisson)
      .field("seconds", run.seconds)
      .field("requests", run.requests)
      .field("verify", run.verify);
  if (!options.in_process) {
    json.field("connections", run.connections).field("pipeline", run.pipeline);
  }
  json.end();
}

void add_figures(Json& json, std::string_view name, const Figures& figures) {
  json.begin_object(name);
  for (const FigureName& figure : figure_names()) json.field(figure.name, figures.*figure.member);
  json.end();
}

void add_load(Json& json, const LoadResult& load) {
  json.begin_object("load").field("records", load.records).field("seconds", load.seconds);
  if (load.server_cpu) json.field("server_cpu_seconds", load.server_cpu->total());
  json.field("resident_bytes_before", load.resident_before)
      .field("resident_bytes_after", load.resident_after);
  if (load.resident_after) {
    json.field("bytes_per_record",
               static_cast<double>(*load.resident_after) / static_cast<double>(load.records))
        .field("worst_bytes_per_record", load.worst_bytes_per_record);
  }
  json.end();
}

void add_round(Json& json, const RunResult& run) {
  const Counts& counts = run.counts;
  json.begin_object()
      .field("seconds", run.seconds)
      .field("requests", counts.requests)
      .field("commands", counts.commands)
      .field("hits", counts.hits)
      .field("misses", counts.misses)
      .field("scanned", counts.scanned)
      .field("retries", counts.retries)
      .field("backlog", counts.backlog)
      .field("latency_mean_us", counts.latency.mean() / 1e3)
      .field("latency_min_us", static_cast<double>(counts.latency.min()) / 1e3);
  if (run.server_cpu) {
    json.field("server_user_seconds", run.server_cpu->user)
        .field("server_system_seconds", run.server_cpu->system);
  }
  json.field("server_resident_bytes", run.server_resident);
  add_figures(json, "figures", figures_of(run));
  json.end();
}

}  // namespace

void print_heading(std::FILE* out, const Options& options) {
  for (const auto& [name, value] : environment()) {
    std::fprintf(out, "%-24s %s\n", name.c_str(), value.c_str());
  }
  const Workload& workload = options.workload;
  const RunOptions& run = options.run;
  std::fprintf(out, "%-24s %s (%s), %s, %llu records of %s, seed %llu\n", "load",
               workload.name.c_str(), to_string(workload.mix).c_str(), skew(workload).c_str(),
               static_cast<unsigned long long>(workload.records), sizes(workload).c_str(),
               static_cast<unsigned long long>(workload.seed));
  if (options.load_only) {
    std::fprintf(out, "\n");
    return;
  }
  std::fprintf(out, "%-24s ", "run");
  if (options.in_process) {
    std::fprintf(out, "in process, batches of %u, ", options.batch);
  } else {
    std::fprintf(out, "%u connections, pipeline %u, %u key%s a read, ", run.connections,
                 run.pipeline, workload.keys_per_read, workload.keys_per_read == 1 ? "" : "s");
  }
  std::fprintf(out, "%u thread%s, ", run.threads, run.threads == 1 ? "" : "s");
  if (run.rate > 0) {
    std::fprintf(out, "open loop at %.0f/s (%s), ", run.rate, run.poisson ? "poisson" : "fixed");
  } else {
    std::fprintf(out, "closed loop, ");
  }
  std::fprintf(out, "%u round%s of ", options.rounds, options.rounds == 1 ? "" : "s");
  if (run.requests > 0) {
    std::fprintf(out, "%llu requests\n\n", static_cast<unsigned long long>(run.requests));
  } else {
    std::fprintf(out, "%g s\n\n", run.seconds);
  }
}

void print_results(std::FILE* out, const std::vector<SystemResult>& results,
                   const std::optional<Reference>& reference) {
  for (const SystemResult& result : results) {
    if (result.load) print_load(out, result);
  }
  if (results.empty() || results.front().rounds.empty()) return;
  int width = 28;
  for_each_pair(results, [&](const SystemResult& subject, const SystemResult& peer) {
    width = std::max(width, static_cast<int>(pair_label(subject, peer).size()));
  });
  std::fprintf(out, "%-*s", width, "");
  for (const FigureName& name : figure_names()) {
    std::fprintf(out, " %13s", std::string(name.heading).c_str());
  }
  std::fprintf(out, "\n");
  for (const SystemResult& result : results) {
    print_row(out, width, result.label, median(figures_by_round(result)), false);
    uint64_t commands = 0, backlog = 0, retries = 0;
    for (const RunResult& run : result.rounds) {
      commands += run.counts.commands;
      backlog += run.counts.backlog;
      retries += run.counts.retries;
    }
    // A few are always on their way when a run ends.
    if (backlog > commands / 100) {
      std::fprintf(out, "  %llu commands were due and not answered: the rate was too high\n",
                   static_cast<unsigned long long>(backlog));
    }
    if (retries > 0) {
      std::fprintf(out, "  %llu requests were answered `retry`\n",
                   static_cast<unsigned long long>(retries));
    }
  }
  for_each_pair(results, [&](const SystemResult& subject, const SystemResult& peer) {
    print_row(out, width, pair_label(subject, peer),
              median_ratio(figures_by_round(subject), figures_by_round(peer)), true);
  });
  if (reference) {
    const double rate = median(figures_by_round(results.front())).rate;
    std::fprintf(out, "%-*s %13.1f; ratio %.3f\n", width, reference->what.c_str(), reference->rate,
                 rate / reference->rate);
  }
}

std::string json_report(const Options& options, const std::vector<SystemResult>& results,
                        const std::optional<Reference>& reference) {
  Json json;
  json.begin_object();
  json.begin_object("environment");
  for (const auto& [name, value] : environment()) json.field(name, value);
  json.end();
  add_workload(json, options);
  json.begin_array("systems");
  for (const SystemResult& result : results) {
    json.begin_object()
        .field("label", result.label)
        .field("protocol", options.in_process ? "none" : to_string(result.protocol))
        .field("peer", result.peer);
    if (result.load) add_load(json, *result.load);
    if (!result.rounds.empty()) {
      add_figures(json, "median", median(figures_by_round(result)));
      json.begin_array("rounds");
      for (const RunResult& run : result.rounds) add_round(json, run);
      json.end();
    }
    json.end();
  }
  json.end().begin_array("ratios");
  for_each_pair(results, [&](const SystemResult& subject, const SystemResult& peer) {
    if (subject.rounds.empty()) return;
    json.begin_object().field("subject", subject.label).field("peer", peer.label);
    add_figures(json, "median", median_ratio(figures_by_round(subject), figures_by_round(peer)));
    json.end();
  });
  json.end();
  if (reference) {
    json.begin_object("reference").field("what", reference->what).field("rate", reference->rate);
    if (!results.empty()) {
      json.field("ratio", median(figures_by_round(results.front())).rate / reference->rate);
    }
    json.end();
  }
  return json.end().text();
}

}  // namespace isotherm::bench
