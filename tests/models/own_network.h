// Networks of their own for threads of a test, and a pair of interfaces between two of them.
//
// Threads. Each call is about the calling thread, and those that it starts later. Errors. Missing,
// for what the system forbids or lacks: the test is to be skipped.
#pragma once

#include <sched.h>
#include <sys/types.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>
#include <stdexcept>
#include <string>
#include <system_error>

namespace isotherm::own_network {

class Missing : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

// What a system says that has, or allows, no such sockets.
inline bool is_forbidden(const std::system_error& error) {
  const int why = error.code().value();
  return why == EPERM || why == EAFNOSUPPORT || why == EOPNOTSUPP;
}

inline void leave() {
  if (::unshare(CLONE_NEWNET) != 0) {
    throw Missing(std::string("no network namespace: ") + std::strerror(errno));
  }
}
inline void run(const std::string& command) {
  if (std::system((command + " 2>/dev/null").c_str()) != 0) throw Missing("failed: " + command);
}
// And tells which thread it is, or what is missing; false: that.
inline bool leave(std::promise<pid_t>& left) {
  try {
    leave();
    left.set_value(static_cast<pid_t>(::gettid()));
    return true;
  } catch (const Missing&) {
    left.set_exception(std::current_exception());
    return false;
  }
}
// "client", here, and "server", where the other thread is.
inline void join_with(pid_t server_thread, uint32_t queues = 1) {
  const std::string each = std::to_string(queues);
  const std::string both = " numtxqueues " + each + " numrxqueues " + each;
  run("ip link add name client" + both + " type veth peer name server" + both + " netns " +
      std::to_string(server_thread));
}
// With 10.77.0.`number` and fd77::`number`.
inline void bring_up(const std::string& interface, const std::string& number) {
  run("ip address add 10.77.0." + number + "/24 dev " + interface);
  run("ip -6 address add fd77::" + number + "/64 dev " + interface + " nodad || true");
  run("ip link set " + interface + " up");
}

}  // namespace isotherm::own_network
