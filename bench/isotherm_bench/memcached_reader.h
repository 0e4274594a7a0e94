// MemcachedReader: one client of memcached that reads keys by UDP or TCP, for measurements.
//
// It has a socket of its own, and a slot for each request without a reply. By UDP the id of a
// request tells its slot, and how often the slot was used before:
//
//   id  [ uses, upper bits | slot, lower bits ]
//
// Each reply is compared with the one text that its key has, and a value says of which key it is.
// What got no reply for as long as the caller says is sent again, with the same id; the reply that
// then comes twice is counted as late.
//
// Threads. One. Limits. A reply is one datagram; keys are below 10^12. Errors. std::runtime_error
// for any other reply, std::system_error where the socket fails.
#pragma once

#include <sys/socket.h>

#include <array>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "isotherm_bench/histogram.h"

namespace isotherm::bench {

// A socket of 127.0.0.1 that is connected to a port of it. Kind: SOCK_STREAM or SOCK_DGRAM.
int connect_to(uint16_t port, int kind);
// Stores keys 0 to `keys` - 1 by TCP, with the values that readers expect.
void store_keys(uint16_t port, uint64_t keys, size_t value_bytes);

// What readers of one thread have seen.
struct ReaderCounts {
  uint64_t answered = 0;
  uint64_t lost = 0;  // times that a request was sent again
  uint64_t late = 0;  // replies that came twice for that
  Histogram ns;       // from the first sending of a request to its reply
};

class MemcachedReader {
 public:
  static constexpr uint32_t most_window = 4096;
  static constexpr size_t most_value_bytes = 1024;

  struct Load {
    bool tcp = false;
    bool mg = false;      // `mg … v` in the place of get
    uint32_t window = 1;  // requests without a reply
    uint32_t burst = 1;   // requests that are sent together
    size_t value_bytes = 32;
  };

  MemcachedReader(uint16_t port, const Load& load, std::function<uint64_t()> next_key,
                  ReaderCounts& counts);
  ~MemcachedReader();
  MemcachedReader(const MemcachedReader&) = delete;
  MemcachedReader& operator=(const MemcachedReader&) = delete;

  int descriptor() const { return socket_; }
  bool waits_for_replies() const { return idle_.size() < slots_.size(); }
  // Sends requests from all slots that are free, if these are a burst.
  void send(int64_t now_ns);
  // Takes the replies that are there.
  void receive(int64_t now_ns);
  // Sends again what was sent before `before_ns` and has no reply. By UDP only.
  void send_lost_again(int64_t before_ns, int64_t now_ns);

 private:
  static constexpr size_t most_at_once = 64;
  struct Slot {
    int64_t began_ns = 0;
    int64_t sent_ns = 0;
    uint64_t key = 0;
    uint16_t id = 0;
    bool waits = false;
  };

  void send_requests(const std::vector<uint16_t>& slots);
  void receive_stream(int64_t now_ns);
  void receive_datagrams(int64_t now_ns);
  void take_datagram(std::string_view datagram, int64_t now_ns);
  void take_reply(uint16_t slot, std::string_view reply, int64_t now_ns);

  const Load load_;
  const std::function<uint64_t()> next_key_;
  ReaderCounts& counts_;
  const int socket_;
  std::vector<Slot> slots_;
  std::vector<uint16_t> idle_;  // slots, in the order in which they were answered
  const uint32_t id_step_;      // between two ids of a slot
  uint16_t oldest_ = 0;         // by TCP, the slot whose reply is the next one
  std::string rest_;            // by TCP, bytes of a reply that is not complete
  std::string expected_;
  std::array<std::string, most_at_once> requests_;
  std::array<std::array<char, 2048>, most_at_once> replies_;
  std::array<mmsghdr, most_at_once> messages_;
  std::array<iovec, most_at_once> pieces_;
};

}  // namespace isotherm::bench
