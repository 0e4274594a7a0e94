// isotherm-bench: loads key-value stores, in process or over sockets, and compares them.
#include <errno.h>
#include <signal.h>

#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "isotherm_bench/in_process.h"
#include "isotherm_bench/options.h"
#include "isotherm_bench/progress.h"
#include "isotherm_bench/report.h"
#include "isotherm_bench/socket_run.h"
#include "isotherm_bench/systems.h"

namespace isotherm::bench {
namespace {

struct Outcome {
  std::string failure;
  std::vector<SystemResult> results;
  std::optional<Reference> reference;
};

// Whether an earlier system is the same process by another port, so that the records are there.
bool shares_store(const std::vector<std::unique_ptr<System>>& all, const System& system) {
  for (const auto& other : all) {
    if (other.get() == &system) return false;
    if (other->pid != 0 && other->pid == system.pid) return true;
  }
  return false;
}

// Loads every system once, then lets them take turns, each second round in reverse order.
Outcome measure_sockets(const Options& options, Progress& progress) {
  Outcome outcome;
  Systems systems(options, &outcome.failure);
  if (!outcome.failure.empty()) return outcome;
  auto& all = systems.all();
  const auto failed = [&](const System& system, const std::string& failure) {
    if (!failure.empty()) outcome.failure = system.label + ": " + failure;
    return !failure.empty();
  };
  for (auto& system : all) {
    SystemResult result;
    result.label = system->label;
    result.protocol = system->protocol;
    result.peer = system->peer;
    if (options.load && system->stores && !shares_store(all, *system)) {
      result.load = load_records(*system, options.workload, progress);
      if (failed(*system, result.load->failure)) return outcome;
    }
    system->keys.next = options.workload.records;
    system->keys.present = options.workload.records;
    outcome.results.push_back(std::move(result));
  }
  for (uint32_t round = 0; round < options.rounds && !options.load_only; ++round) {
    for (size_t i = 0; i < all.size(); ++i) {
      const size_t at = round % 2 == 0 ? i : all.size() - 1 - i;
      RunResult run = run_sockets(*all[at], options.workload, options.run, progress);
      if (failed(*all[at], run.failure)) return outcome;
      outcome.results[at].rounds.push_back(std::move(run));
    }
  }
  return outcome;
}

Outcome measure_in_process(const Options& options, Progress& progress) {
  InProcessResult result = run_in_process(options, progress);
  Outcome outcome;
  outcome.failure = std::move(result.failure);
  outcome.results.push_back(std::move(result.system));
  // An open loop is not to be held against what the machine could do.
  if (!options.load_only && options.run.rate == 0) outcome.reference = std::move(result.reference);
  return outcome;
}

bool cannot_write(const std::string& path) {
  std::fprintf(stderr, "isotherm-bench: cannot write %s: %s\n", path.c_str(), strerror(errno));
  return false;
}

// Opened before anything is measured: a long run must not end in a wrong file name.
bool open_json(const std::string& path, std::FILE** file) {
  if (path.empty()) return true;
  *file = path == "-" ? stdout : std::fopen(path.c_str(), "w");
  return *file != nullptr || cannot_write(path);
}

bool write_json(const std::string& path, std::FILE* file, const std::string& text) {
  if (file == nullptr) return true;
  const bool written = std::fwrite(text.data(), 1, text.size(), file) == text.size();
  const bool closed = (file == stdout ? std::fflush(file) : std::fclose(file)) == 0;
  return (written && closed) || cannot_write(path);
}

int run(int argc, char** argv) {
  const ParsedOptions parsed = parse_options(argc, argv);
  if (parsed.exit_code) return *parsed.exit_code;
  const Options& options = parsed.options;
  signal(SIGPIPE, SIG_IGN);
  // The table makes room where JSON goes to standard output.
  std::FILE* table = options.json == "-" ? stderr : stdout;
  std::FILE* json = nullptr;
  if (!open_json(options.json, &json)) return 1;
  print_heading(table, options);
  std::fflush(table);

  Progress progress(!options.quiet);
  const Outcome outcome = options.in_process ? measure_in_process(options, progress)
                                             : measure_sockets(options, progress);
  progress.clear();
  if (!outcome.failure.empty()) {
    std::fprintf(stderr, "isotherm-bench: %s\n", outcome.failure.c_str());
    return 1;
  }
  print_results(table, outcome.results, outcome.reference);
  const std::string text = json_report(options, outcome.results, outcome.reference);
  return write_json(options.json, json, text) ? 0 : 1;
}

}  // namespace
}  // namespace isotherm::bench

int main(int argc, char** argv) { return isotherm::bench::run(argc, argv); }
