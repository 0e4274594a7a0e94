// ProvenAddresses: hosts that have a TCP connection to the server now.
//
// Anybody can write the address of another host on a datagram, but nobody can open a TCP connection
// in the name of another. So a host with a connection has asked for its replies itself, and large
// replies to it by UDP hurt nobody else (net/udp/port.h).
//
// Threads. Any.
#pragma once

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <string>
#include <string_view>

namespace isotherm::net {

class ProvenAddresses {
 public:
  // "127.0.0.1:6379", "[::1]:6379": an address with the port of a connection, which does not count.
  void add(const std::string& address) {
    const std::lock_guard guard(mutex_);
    ++connections_[std::string(host_of(address))];
  }
  void remove(const std::string& address) {
    const std::lock_guard guard(mutex_);
    const auto found = connections_.find(host_of(address));
    if (found != connections_.end() && --found->second == 0) connections_.erase(found);
  }
  bool has(const std::string& address) const {
    const std::lock_guard guard(mutex_);
    return connections_.contains(host_of(address));
  }

 private:
  static std::string_view host_of(std::string_view address) {
    return address.substr(0, address.rfind(':'));
  }

  mutable std::mutex mutex_;
  std::map<std::string, size_t, std::less<>> connections_;  // by host
};

}  // namespace isotherm::net
