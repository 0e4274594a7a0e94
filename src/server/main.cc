// isotherm-server: parses the flags, runs a Server until SIGINT or SIGTERM.

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <new>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "net/descriptor_limit.h"
#include "net/log.h"
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

using isotherm::net::log;
using isotherm::net::LogLevel;

void lower_maxclients(isotherm::net::ServerOptions& options) {
  const uint32_t loops =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  const uint32_t allowed = isotherm::net::allow_clients(options.maxclients, loops);
  if (allowed >= options.maxclients) return;
  options.maxclients = allowed;
  log(LogLevel::warning,
      "maxclients lowered to " + std::to_string(allowed) + ": no more descriptors allowed");
}

// Blocks the signals that end the server, in this thread and all that it starts. A client that
// hangs up, a file at its limit of size (ulimit -f) and a terminal that goes away end no server:
// the first two are errors of the call that met them.
sigset_t block_ending_signals() {
  sigset_t ending;
  sigemptyset(&ending);
  sigaddset(&ending, SIGINT);
  sigaddset(&ending, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ending, nullptr);
  for (const int harmless : {SIGPIPE, SIGXFSZ, SIGHUP}) std::signal(harmless, SIG_IGN);
  return ending;
}

// From the first signal on, until it turns out that the server goes on: as in Redis, one more
// SIGINT ends the process whatever it waits for, be it a disk that never answers. In this thread
// alone.
class InsistentEnd {
 public:
  InsistentEnd() {
    std::signal(SIGINT, [](int) {
      constexpr std::string_view text =
          "ends at once on a second SIGINT: what was not saved is lost\n";
      [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text.data(), text.size());
      ::_exit(EXIT_FAILURE);
    });
    mask(SIG_UNBLOCK);
  }
  void forget() { mask(SIG_BLOCK); }

 private:
  static void mask(int how) {
    sigset_t interrupt;
    sigemptyset(&interrupt);
    sigaddset(&interrupt, SIGINT);
    pthread_sigmask(how, &interrupt, nullptr);
  }
};

// Tells the log what the server listens on and where the index is.
void log_start(isotherm::Server& server, const isotherm::net::ServerOptions& options) {
  for (const std::string& line : server.listening()) {
    log(LogLevel::notice, "listening " + line);
  }
  const isotherm::Engine& engine = server.engine();
  if (engine.stats().on_device) {
    std::string gpus;
    for (const uint32_t gpu : options.store.gpus)
      gpus += (gpus.empty() ? "" : ", ") + std::to_string(gpu);
    log(LogLevel::notice, "the index is on GPU " + gpus);
  } else if (engine.tree() != nullptr && options.store.gpu_items != 0) {
    log(LogLevel::notice, "items live on GPU " + std::to_string(options.store.gpus.front()));
  } else if (options.store.gpu_sorted != 0) {
    log(LogLevel::notice,
        "a copy of the tree's files is on GPU " + std::to_string(options.store.gpus.front()));
  } else if (!engine.device_problem().empty()) {
    log(LogLevel::notice, "no GPU is used, all is in host memory: " + engine.device_problem());
  }
  log(LogLevel::notice, "isotherm " + std::string(isotherm::net::isotherm_version) + " ready, " +
                            std::to_string(server.options().threads) + " threads");
}

int run(const isotherm::net::ServerOptions& options) {
  const sigset_t ending = block_ending_signals();
  const isotherm::SystemClock clock;
  isotherm::Server server(options, clock);
  server.state().shutdown.owner = [] { ::kill(::getpid(), SIGTERM); };
  server.start();
  log_start(server, options);
  for (;;) {
    int signal = 0;
    sigwait(&ending, &signal);
    log(LogLevel::notice, "ending on signal " + std::to_string(signal));
    InsistentEnd insistent;
    if (server.prepare_end()) break;
    insistent.forget();
  }
  server.stop();
  return server.save_rest() ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace

int main(int argc, char** argv) {
  isotherm::net::ServerOptions options;
  if (const auto status = isotherm::parse_flags(argc, argv, options)) return *status;
  isotherm::net::open_log(options.loglevel);
  try {
    lower_maxclients(options);
    return run(options);
  } catch (const std::bad_alloc&) {
    log(LogLevel::warning,
        "there is no memory, or no addresses, for what a server begins with: look at ulimit -v, "
        "the limit of the container, and --gpu-memory");
    return EXIT_FAILURE;
  } catch (const std::exception& error) {
    log(LogLevel::warning, error.what());
    return EXIT_FAILURE;
  }
}
