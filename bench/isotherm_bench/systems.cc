#include "isotherm_bench/systems.h"

#include <unistd.h>

#include <algorithm>

#include "isotherm_bench/floor_server.h"

namespace isotherm::bench {
namespace {

constexpr int spawn_attempts = 3;
const std::string loopback = "127.0.0.1";

std::vector<std::string> joined(std::vector<std::string> arguments,
                                const std::vector<std::string>& more) {
  arguments.insert(arguments.end(), more.begin(), more.end());
  return arguments;
}

bool is_local(const std::string& host) {
  return host.starts_with("127.") || host == "localhost" || host == "::1";
}

}  // namespace

Systems::Systems(const Options& options, std::string* error) {
  error->clear();
  const auto pid_of = [&](const Address& address) -> pid_t {
    for (const auto& [port, pid] : options.pids) {
      if (port == address.port) return pid;
    }
    return is_local(address.host) ? listening_process(address.port).value_or(0) : 0;
  };
  const auto label = [](const Address& address) {
    return std::string(to_string(address.protocol)) + "://" + address.host + ":" +
           std::to_string(address.port);
  };
  for (const Address& address : options.targets) {
    add(address, label(address), false, pid_of(address));
  }
  if (!options.spawn_isotherm.empty() && !spawn_isotherm(options, error)) return;
  for (const Address& address : options.peers) add(address, label(address), true, pid_of(address));
  if (options.spawn_redis && !spawn_redis(options, error)) return;
  if (options.spawn_memcached && !spawn_memcached(options, error)) return;
  if (options.floor) start_floor(options, error);
}

void Systems::add(const Address& address, const std::string& label, bool peer, pid_t pid) {
  auto system = std::make_unique<System>();
  system->label = label;
  system->protocol = address.protocol;
  system->host = address.host;
  system->port = address.port;
  system->pid = pid;
  system->peer = peer;
  systems_.push_back(std::move(system));
}

template <typename Arguments>
pid_t Systems::spawn(size_t ports, Arguments arguments, std::vector<uint16_t>* chosen,
                     std::string* error) {
  for (int attempt = 0; attempt < spawn_attempts; ++attempt) {
    chosen->clear();
    for (size_t i = 0; i < ports; ++i) chosen->push_back(free_port());
    auto server = std::make_unique<SpawnedServer>(arguments(), *chosen, error);
    if (error->empty()) {
      servers_.push_back(std::move(server));
      return servers_.back()->pid();
    }
  }
  return -1;
}

bool Systems::spawn_isotherm(const Options& options, std::string* error) {
  std::vector<uint16_t> ports;
  const auto arguments = [&] {
    return joined({options.spawn_isotherm, "--bind", loopback, "--port", std::to_string(ports[0]),
                   "--memcached-port", std::to_string(ports[1])},
                  options.isotherm_arguments);
  };
  const pid_t pid = spawn(2, arguments, &ports, error);
  if (pid < 0) return false;
  const auto speaks = [](WireProtocol protocol) {
    return [protocol](const Address& peer) { return peer.protocol == protocol; };
  };
  const auto& peers = options.peers;
  const bool redis = options.spawn_redis || options.protocol == WireProtocol::redis ||
                     std::any_of(peers.begin(), peers.end(), speaks(WireProtocol::redis));
  const bool memcached = options.spawn_memcached || options.protocol == WireProtocol::memcached ||
                         std::any_of(peers.begin(), peers.end(), speaks(WireProtocol::memcached));
  if (redis || !memcached) {
    add({WireProtocol::redis, loopback, ports[0]}, "isotherm (redis)", false, pid);
  }
  if (memcached) {
    add({WireProtocol::memcached, loopback, ports[1]}, "isotherm (memcached)", false, pid);
  }
  return true;
}

bool Systems::spawn_redis(const Options& options, std::string* error) {
  std::vector<uint16_t> ports;
  const auto arguments = [&] {
    return joined({"redis-server", "--bind", loopback, "--port", std::to_string(ports[0]), "--save",
                   "", "--appendonly", "no", "--daemonize", "no"},
                  options.redis_arguments);
  };
  const pid_t pid = spawn(1, arguments, &ports, error);
  if (pid > 0) add({WireProtocol::redis, loopback, ports[0]}, "redis", true, pid);
  return pid > 0;
}

bool Systems::spawn_memcached(const Options& options, std::string* error) {
  std::vector<uint16_t> ports;
  const auto arguments = [&] {
    // It holds 64 MB by default and would evict.
    std::vector<std::string> words = {"memcached", "-l", loopback, "-p",   std::to_string(ports[0]),
                                      "-U",        "0",  "-m",     "65536"};
    // It refuses to run as root unless told so.
    if (geteuid() == 0) words.insert(words.end(), {"-u", "root"});
    return joined(std::move(words), options.memcached_arguments);
  };
  const pid_t pid = spawn(1, arguments, &ports, error);
  if (pid > 0) add({WireProtocol::memcached, loopback, ports[0]}, "memcached", true, pid);
  return pid > 0;
}

bool Systems::start_floor(const Options& options, std::string* error) {
  for (WireProtocol protocol : {WireProtocol::redis, WireProtocol::memcached}) {
    const bool used = std::any_of(systems_.begin(), systems_.end(),
                                  [&](const auto& system) { return system->protocol == protocol; });
    // Alone, the floor is measured in Redis's protocol.
    if (!used && !(systems_.empty() && protocol == WireProtocol::redis)) continue;
    auto server = std::make_unique<SpawnedServer>(
        [&](uint16_t* port) { return fork_floor_server(protocol, options.workload, port); });
    if (server->pid() <= 0) {
      *error = "cannot start the floor server";
      return false;
    }
    add({protocol, loopback, server->port()}, "floor (" + std::string(to_string(protocol)) + ")",
        true, server->pid());
    systems_.back()->stores = false;
    servers_.push_back(std::move(server));
  }
  return true;
}

}  // namespace isotherm::bench
