// Systems: the servers under test, found or started as the options say.
//
// A spawned isotherm-server listens on both protocols and becomes one system a protocol asked for,
// so every peer meets it in the peer's own protocol. Spawned servers get settings for a fair race:
// no persistence, no eviction in the way, everything else the program's default.
//
// Threads. One owner. Limits. Spawned servers end with this object.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "isotherm_bench/options.h"
#include "isotherm_bench/socket_run.h"
#include "isotherm_bench/spawned_server.h"

namespace isotherm::bench {

class Systems {
 public:
  // `error` is empty when all are there.
  Systems(const Options& options, std::string* error);

  std::vector<std::unique_ptr<System>>& all() { return systems_; }

 private:
  bool spawn_isotherm(const Options& options, std::string* error);
  bool spawn_redis(const Options& options, std::string* error);
  bool spawn_memcached(const Options& options, std::string* error);
  bool start_floor(const Options& options, std::string* error);
  // Starts what `arguments` gives for fresh ports, a few times if need be.
  template <typename Arguments>
  pid_t spawn(size_t ports, Arguments arguments, std::vector<uint16_t>* chosen, std::string* error);
  void add(const Address& address, const std::string& label, bool peer, pid_t pid);

  std::vector<std::unique_ptr<SpawnedServer>> servers_;
  std::vector<std::unique_ptr<System>> systems_;
};

}  // namespace isotherm::bench
