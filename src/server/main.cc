// isotherm-server: parses the flags, runs a Server until SIGINT or SIGTERM.

#include <pthread.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <string>
#include <thread>

#include "base/clock.h"
#include "net/descriptor_limit.h"
#include "net/log_level.h"
#include "net/version.h"
#include "server/flags.h"
#include "server/server.h"

// What jemalloc reads when it starts: large items that were freed go back to the kernel within a
// second, by a thread of its own, so that resident memory follows maxmemory. Without jemalloc
// nobody reads it.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf = "dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true";
}

namespace {

using isotherm::net::LogLevel;

void set_up_log(LogLevel level) {
  spdlog::set_default_logger(spdlog::stdout_logger_mt("isotherm"));
  spdlog::set_pattern("%Y-%m-%d %H:%M:%S.%e %L %v");
  spdlog::flush_on(spdlog::level::info);
  isotherm::net::use_log_level(level);
}

void lower_maxclients(isotherm::net::ServerOptions& options) {
  const uint32_t loops =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  const uint32_t allowed = isotherm::net::allow_clients(options.maxclients, loops);
  if (allowed >= options.maxclients) return;
  options.maxclients = allowed;
  spdlog::warn("maxclients lowered to {}: no more descriptors allowed", allowed);
}

// Blocks the signals that end the server, in this thread and all that it starts.
sigset_t block_ending_signals() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  std::signal(SIGPIPE, SIG_IGN);
  return ending;
}

int run(const isotherm::net::ServerOptions& options) {
  const sigset_t ending = block_ending_signals();
  const isotherm::SystemClock clock;
  isotherm::Server server(options, clock);
  server.start();
  for (const std::string& line : server.listening()) spdlog::info("listening {}", line);
  const isotherm::Engine& engine = server.engine();
  if (engine.stats().on_device) {
    spdlog::info("the index is on GPU {}", fmt::join(options.store.gpus, ", "));
  } else if (!engine.device_problem().empty()) {
    spdlog::info("no GPU is used, the index is in host memory: {}", engine.device_problem());
  }
  spdlog::info("isotherm {} ready, {} threads", isotherm::net::isotherm_version,
               server.options().threads);
  int signal = 0;
  sigwait(&ending, &signal);
  spdlog::info("ending on signal {}", signal);
  server.stop();
  return EXIT_SUCCESS;
}

}  // namespace

int main(int argc, char** argv) {
  isotherm::net::ServerOptions options;
  if (const auto status = isotherm::parse_flags(argc, argv, options)) return *status;
  set_up_log(options.loglevel);
  try {
    lower_maxclients(options);
    return run(options);
  } catch (const std::exception& error) {
    spdlog::critical("{}", error.what());
    return EXIT_FAILURE;
  }
}
