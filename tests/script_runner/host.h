// Isotherm in this process: a server on free ports with a clock that the test turns.
//
// The server's own threads serve it; start_host returns when both ports listen, the destructor
// stops it and waits for its threads. Flags of a script are parsed by the server's own flag parser.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "isotherm/options.h"

namespace isotherm::scripts {

// Where the index lies; or, of the last, whole items, on two devices, of which memory forgets all
// again and again.
enum class Index : uint8_t { host, fake_device, gpu, fake_items };

struct HostOptions {
  int threads = 1;
  Index index = Index::host;
  bool journal = false;    // with a journal, in a folder of its own
  bool bins_flap = false;  // keys become hot and cold by chance, each millisecond
  bool tree = false;       // with a tree, and memory that forgets all items, again and again
  IndexChoice kind = IndexChoice::line;  // with a cap that no script comes near
  bool values_away = false;  // long values go to the device, as soon as nobody reads them
};

// Whether memory is a cache, which forgets all items again and again.
inline bool forgets(const HostOptions& host) {
  return host.tree || host.index == Index::fake_items;
}

class Host {
 public:
  virtual ~Host() = default;
  virtual uint16_t resp_port() const = 0;
  virtual uint16_t memcached_port() const = 0;
  virtual uint16_t memcached_udp_port() const = 0;
  virtual int64_t now_ms() const = 0;
  virtual void advance(int64_t ms) = 0;
};

// Whether this program was built with RocksDB.
bool has_trees();

std::unique_ptr<Host> start_host(const HostOptions& options, const std::vector<std::string>& flags);

}  // namespace isotherm::scripts
