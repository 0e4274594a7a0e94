// LoopControl: what commands and loops ask of a loop that is not their own.
//
// Loops include the protocols, so the protocols cannot include loops; this interface lets their
// commands reach all loops.
//
// Threads. Any, but where it says otherwise.
#pragma once

#include <functional>

namespace isotherm::net {

class LoopControl {
 public:
  // Closes the connections whose clients were killed (client.h).
  virtual void close_killed() = 0;
  // Lets connections go on that CLIENT PAUSE held.
  virtual void release_held() = 0;
  // Bounds its clients' buffers where those of all loops pass their bound (client_limits.h). The
  // loop's thread alone.
  virtual void bound_memory() = 0;
  // Runs `function` on the loop's thread.
  virtual void post(std::function<void()> function) = 0;

 protected:
  ~LoopControl() = default;
};

}  // namespace isotherm::net
