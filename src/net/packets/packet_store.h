// PacketStore: what a server of packets (net/packets/packet_server.h) answers from, beside the
// device: it runs the requests that no device answers, and says which answers of the device count.
//
//   begin_batch ─▶ the batch goes to the device ─▶ is_newest, for each answer ─▶ run, for the rest
//
// Threads. One at a time.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm::net {

struct PacketCounts;

// A datagram of a client, and its replies.
struct PacketAsk {
  std::string_view datagram;  // with memcached's header
  std::string_view address;   // 4 or 16 bytes, in network order
  uint16_t port = 0;
  std::string reply = {};
  std::vector<size_t> ends = {};  // of the replies in it, each of which is numbered by itself
};

class PacketStore {
 public:
  // What the device has, as a number, when a batch is about to go to it.
  virtual uint64_t begin_batch() { return 0; }
  // Whether the answer of a batch that has begun with this number is what the store has now.
  virtual bool is_newest(uint64_t /*begun*/, std::string_view /*key*/, bool /*found*/) {
    return true;
  }
  // Runs the requests, those of a client in order, and sets their replies.
  virtual void run(std::span<PacketAsk> asks, int64_t now_ms) = 0;
  // Whether a client may get replies of any length.
  virtual bool is_trusted(const PacketAsk& /*ask*/) const { return false; }
  // What became of the frames so far; told before replies are sent.
  virtual void note(const PacketCounts& /*counts*/) {}
  // The device has failed: why. Throws the DeviceError that is being handled where nothing can be
  // answered without the device.
  virtual void lose_device(const std::string& why) = 0;

 protected:
  ~PacketStore() = default;
};

}  // namespace isotherm::net
