// ArrivalWait: how long a connection waits with a long value until there is room for it beside
// those that others are sending (Engine::arriving). Its bytes stay in the socket meanwhile.
//
// Who sends a value may stop in the middle, and many may send them all the time. So it is waited
// for as long as bytes of some come, and not for ever; then the value goes into the connection's
// input, which all clients' memory bounds (net/client_limits.h).
//
// Threads. One.
#pragma once

#include <cstdint>

namespace isotherm::net {

class ArrivalWait {
 public:
  // `came`: bytes of such values, of all connections, ever.
  bool goes_on(int64_t now_ms, uint64_t came) {
    if (!waits_) {
      waits_ = true;
      since_ms_ = now_ms;
    }
    if (since_ms_ == now_ms || came != came_) {
      came_ = came;
      came_ms_ = now_ms;
    }
    return now_ms - came_ms_ < patience_ms && now_ms - since_ms_ < longest_ms;
  }
  void end() { waits_ = false; }

 private:
  static constexpr int64_t patience_ms = 2'000;
  static constexpr int64_t longest_ms = 20'000;

  bool waits_ = false;
  int64_t since_ms_ = 0;
  int64_t came_ms_ = 0;  // when bytes came last
  uint64_t came_ = 0;
};

}  // namespace isotherm::net
