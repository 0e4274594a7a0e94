#include "server/idle_flags.h"

#include <algorithm>
#include <vector>

namespace isotherm {
namespace {

struct Needs {
  std::vector<const char*> flags;
  bool met;
  const char* what;
};

std::vector<Needs> needs_of(const net::ServerOptions& options) {
  const Options& store = options.store;
  const bool index_on_gpu = store.device != DeviceChoice::cpu && store.gpu_items == 0;
  return {
      {{"--gpu-schedule", "--gpu-batch", "--gpu-wait-usec", "--gpu-write-cycles", "--gpu-threads",
        "--gpu-queue"},
       index_on_gpu,
       "needs --device cuda or auto, without --gpu-items"},
      {{"--gpu-values-from"}, store.gpu_values != 0, "needs --gpu-values"},
      {{"--router-bins", "--router-memory", "--router-threshold", "--router-interval"},
       store.router.choice != RouterChoice::off,
       "needs --router"},
      {{"--router-threshold"},
       store.router.choice == RouterChoice::histogram,
       "needs --router histogram"},
      {{"--index-item-bytes"}, store.index != IndexChoice::line, "needs --index cuckoo or set"},
      {{"--requirepass"},
       options.port >= 0 || !options.unixsocket.empty(),
       "needs a port for Redis clients"},
      {{"--unixsocketperm"}, !options.unixsocket.empty(), "needs --unixsocket"},
      {{"--memcached-unixsocket-mask"},
       !options.memcached_unixsocket.empty(),
       "needs --memcached-unixsocket"},
      {{"--memcached-udp-amplification", "--memcached-udp-trusted"},
       options.memcached_udp_port >= 0 || options.has_packets(),
       "needs --memcached-udp-port or --memcached-packets"},
      {{"--memcached-packets-port"},
       options.has_packets(),
       "needs --memcached-packets or --memcached-packets-address"},
      {{"--memcached-max-connections", "--memcached-idle-timeout", "--memcached-item-size-max",
        "--memcached-reqs-per-event", "--memcached-disable-flush-all",
        "--memcached-disable-dumping"},
       options.serves_memcached(),
       "needs a port for memcached clients"},
  };
}

}  // namespace

void check_for_idle(const CLI::App& app, const net::ServerOptions& options) {
  for (const Needs& one : needs_of(options)) {
    if (one.met) continue;
    const auto given = std::find_if(one.flags.begin(), one.flags.end(),
                                    [&](const char* flag) { return app.count(flag) != 0; });
    if (given != one.flags.end()) throw CLI::ValidationError(*given, one.what);
  }
}

}  // namespace isotherm
