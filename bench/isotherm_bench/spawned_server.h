// SpawnedServer: a server that the benchmark starts on free ports of 127.0.0.1 and ends again.
//
// The port is found by binding port 0 and letting it go, so somebody may take it in between; a
// start that fails is tried again on another port. The child dies with the benchmark, whatever
// happens to it, and is ended by its process id alone. What it prints is kept and shown when it
// does not start.
//
// Threads. One owner.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace isotherm::bench {

uint16_t free_port();

class SpawnedServer {
 public:
  // Starts `arguments` (the first is the program, looked up in PATH) and waits until all of `ports`
  // accept connections. `error` is empty when it worked.
  SpawnedServer(const std::vector<std::string>& arguments, const std::vector<uint16_t>& ports,
                std::string* error);
  // Takes over a child that `start` forks and that listens already; `start` sets its port.
  explicit SpawnedServer(const std::function<pid_t(uint16_t* port)>& start) {
    pid_ = start(&port_);
  }
  ~SpawnedServer();
  SpawnedServer(const SpawnedServer&) = delete;
  SpawnedServer& operator=(const SpawnedServer&) = delete;

  pid_t pid() const { return pid_; }
  uint16_t port() const { return port_; }  // of a child taken over

 private:
  bool wait_until_ready(const std::vector<uint16_t>& ports);
  std::string output() const;
  void end();

  pid_t pid_ = -1;
  int output_ = -1;
  uint16_t port_ = 0;
};

}  // namespace isotherm::bench
