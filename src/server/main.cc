// isotherm-server: parses the flags, runs a Server until SIGINT or SIGTERM.

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <exception>
#include <iterator>
#include <new>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "base/clock.h"
#include "base/reason_of.h"
#include "net/descriptor_limit.h"
#include "net/log.h"
#include "net/version.h"
#include "server/flags.h"
#include "server/server.h"

// What jemalloc reads when it starts: large items that were freed go back to the kernel within a
// second, by a thread of its own, so that resident memory follows maxmemory. That goes for the
// largest, too, which would go back at once: each change of such a value takes as much again, and
// pages that come from the kernel cost four times the copy. Without jemalloc nobody reads it.
extern "C" {
extern const char* malloc_conf;
const char* malloc_conf =
    "dirty_decay_ms:1000,muzzy_decay_ms:0,background_thread:true,oversize_threshold:0";
}

namespace {

using isotherm::net::log;
using isotherm::net::LogLevel;

void lower_maxclients(isotherm::net::ServerOptions& options) {
  const uint32_t loops =
      options.threads != 0 ? options.threads : std::max(1u, std::thread::hardware_concurrency());
  const uint32_t allowed =
      isotherm::net::allow_clients(options.maxclients, loops, !options.store.tree.empty());
  if (allowed >= options.maxclients) return;
  const auto [needed, limit] =
      isotherm::net::descriptors_of(options.maxclients, loops, !options.store.tree.empty());
  log(LogLevel::warning, "maxclients lowered from " + std::to_string(options.maxclients) + " to " +
                             std::to_string(allowed) + ": that many clients need " +
                             std::to_string(needed) + " open files, and the limit is " +
                             std::to_string(limit) + "; raise it (ulimit -n), or lower maxclients");
  options.maxclients = allowed;
}

// One that is closed would be the number of the next file that is opened, of the store's perhaps,
// and whoever logs would write into that.
void fill_standard_descriptors() {
  int file = 0;
  while (file >= 0 && file <= STDERR_FILENO) file = ::open("/dev/null", O_RDWR);
  if (file >= 0) ::close(file);
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

// While the store is filled, which may take minutes: as in Redis a signal ends the process at once,
// whatever it waits for. To the files that is as a kill. The signals that come when this is gone
// are left for who waits for them next.
class EndWhileFilling {
 public:
  explicit EndWhileFilling(const sigset_t& ending)
      : signals_(::signalfd(-1, &ending, SFD_CLOEXEC)), filled_(::eventfd(0, EFD_CLOEXEC)) {
    if (signals_ >= 0 && filled_ >= 0) thread_ = std::thread([this] { run(); });
  }
  ~EndWhileFilling() {
    if (thread_.joinable()) {
      ::eventfd_write(filled_, 1);
      thread_.join();
    }
    for (const int file : {signals_, filled_}) {
      if (file >= 0) ::close(file);
    }
  }
  EndWhileFilling(const EndWhileFilling&) = delete;
  EndWhileFilling& operator=(const EndWhileFilling&) = delete;

 private:
  void run() const {
    pollfd awaited[] = {{filled_, POLLIN, 0}, {signals_, POLLIN, 0}};
    while (::poll(awaited, std::size(awaited), -1) < 0) {
    }
    signalfd_siginfo its{};
    if (awaited[0].revents != 0 || ::read(signals_, &its, sizeof its) != sizeof its) return;
    log(LogLevel::notice,
        "ending on signal " + std::to_string(its.ssi_signo) + " before the store is filled");
    ::_exit(EXIT_SUCCESS);
  }

  const int signals_;
  const int filled_;
  std::thread thread_;
};

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
  if (!options.requirepass.empty() && options.serves_memcached()) {
    log(LogLevel::warning,
        "requirepass is for Redis clients: memcached's are asked for no password and reach "
        "database 0; --memcached-port off keeps them out");
  }
  const isotherm::Engine& engine = server.engine();
  std::string gpus;
  for (const uint32_t gpu : options.store.gpus) {
    gpus += (gpus.empty() ? "" : ", ") + std::to_string(gpu);
  }
  if (engine.stats().on_device) {
    log(LogLevel::notice, "the index is on GPU " + gpus);
  } else if (engine.tree() != nullptr && options.store.gpu_items != 0) {
    log(LogLevel::notice, "items live on GPU " + gpus);
  } else if (options.store.gpu_sorted != 0) {
    log(LogLevel::notice, "a copy of the tree's files is on GPU " + gpus);
  } else if (!engine.device_problem().empty()) {
    log(LogLevel::notice, "no GPU is used, all is in host memory: " + engine.device_problem());
  }
  log(LogLevel::notice, "isotherm " + std::string(isotherm::net::isotherm_version) + " ready, " +
                            std::to_string(server.options().threads) + " threads");
}

int run(const isotherm::net::ServerOptions& options) {
  const sigset_t ending = block_ending_signals();
  const isotherm::SystemClock clock;
  std::optional<EndWhileFilling> end_while_filling(ending);
  isotherm::Server server(options, clock);
  server.state().shutdown.owner = [] { ::kill(::getpid(), SIGTERM); };
  server.fill();
  end_while_filling.reset();
  server.serve();
  log_start(server, options);
  for (;;) {
    siginfo_t its{};
    while (::sigwaitinfo(&ending, &its) < 0) {  // the server was stopped, and goes on
    }
    // A client's wish comes as a signal, too; its own process sends nothing else.
    log(LogLevel::notice, its.si_pid == ::getpid()
                              ? "ending, as a client has asked: SHUTDOWN"
                              : "ending on signal " + std::to_string(its.si_signo));
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
  fill_standard_descriptors();
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
    log(LogLevel::warning, isotherm::reason_of(error));
    return EXIT_FAILURE;
  }
}
