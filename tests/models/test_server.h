// A server for tests in its process: one thread, ports that the system chooses, and the index on
// the device, or on the host where there is none. It is not started.
#pragma once

#include <memory>

#include "base/clock.h"
#include "fake_device/fake_root_table.h"
#include "server/server.h"

namespace isotherm {

inline std::unique_ptr<Server> make_test_server(const Clock& clock, FakeDevice* device) {
  net::ServerOptions options;
  options.port = options.memcached_port = 0;
  options.threads = 1;
  if (device == nullptr) return std::make_unique<Server>(options, clock);
  return std::make_unique<Server>(options, clock, fake_root_tiers_maker(*device));
}

}  // namespace isotherm
