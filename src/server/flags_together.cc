#include "server/flags_together.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "batch/round_policy.h"
#include "engine/option_clash.h"

namespace isotherm {
namespace {

std::string with_dashes(std::string_view names) {
  std::string its(names);
  std::replace(its.begin(), its.end(), '_', '-');
  return its;
}

}  // namespace

void check_together(const net::ServerOptions& options) {
  const bool by_port =
      options.port >= 0 || options.memcached_port >= 0 || options.memcached_udp_port >= 0;
  const bool by_path = !options.unixsocket.empty() || !options.memcached_unixsocket.empty();
  if (!by_port && !by_path && !options.has_packets()) {
    throw CLI::ValidationError(
        "--port", "no client can reach the server; give a port, or a path to --unixsocket");
  }
  if ((options.dbfilename + ".").starts_with(options.appendfilename + ".")) {
    throw CLI::ValidationError("--dbfilename: '" + options.dbfilename +
                               "' is a name that files of the journal have; give another one");
  }
  if (options.store.gpu_values != 0 && options.store.device == DeviceChoice::cpu) {
    throw CLI::ValidationError("--gpu-values", "needs --device cuda or auto");
  }
  if (const std::optional<OptionClash> clash = clash_in(options.store)) {
    throw CLI::ValidationError("--" + with_dashes(clash->option), with_dashes(clash->needs));
  }
  if (options.has_packets() && options.store.gpu_items == 0) {
    throw CLI::ValidationError("--memcached-packets", "needs --gpu-items");
  }
  if (options.has_packets() && options.store.gpus.size() > 1) {
    throw CLI::ValidationError("--memcached-packets", "needs items on one GPU alone (--gpus)");
  }
  if (!options.memcached_packets.empty() && !options.memcached_packets_address.empty()) {
    throw CLI::ValidationError("--memcached-packets",
                               "cannot be used with --memcached-packets-address");
  }
  if (options.memcached_packets.empty() &&
      options.memcached_packets_source != net::PacketSource::ring) {
    throw CLI::ValidationError("--memcached-packets-source", "needs --memcached-packets");
  }
  if (!options.memcached_packets.empty() && options.memcached_packets_port == 0) {
    throw CLI::ValidationError("--memcached-packets-port", "must be a port of the interface");
  }
  const bool index_on_gpu =
      options.store.device != DeviceChoice::cpu && options.store.gpu_items == 0;
  if (options.appendonly && index_on_gpu) {
    throw CLI::ValidationError("--appendonly", "needs --device cpu, or --gpu-items");
  }
  if (!options.save.empty() && index_on_gpu) {
    throw CLI::ValidationError("--save", "needs --device cpu, or --gpu-items");
  }
  try {
    static_cast<void>(completed(options.store.rounds));
  } catch (const std::invalid_argument&) {
    throw CLI::ValidationError("--gpu-schedule",
                               "--gpu-batch and --gpu-wait-usec are for fixed or periodic, "
                               "--gpu-write-cycles for periodic");
  }
}

}  // namespace isotherm
