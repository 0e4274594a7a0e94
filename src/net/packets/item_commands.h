// ItemCommands: memcached's text commands, run one after the other on a table of device items: what
// a datagram asks for that no kernel answers (gpu/udp).
//
// Requests are parsed, planned (items/change.h) and answered by the code of the server, so they
// mean what they mean there; here is only how a planned change gets into the table: the key's item
// is read, and the new one is put under the condition that the item is still that version, again if
// it is not. So changes by others that use the same table are never lost.
//
// Threads. One at a time. Limits. Slow, two calls to the device for a change: it is for what is
// rare; so a datagram has few requests, and its reply is bounded. Meta commands, flush_all, stats
// and others that look at the whole store are refused by SERVER_ERROR. Errors. DeviceError.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/pair.h"
#include "gpu/udp/packet_device.h"
#include "isotherm/batch.h"
#include "items/change.h"
#include "items/item.h"
#include "net/counters.h"
#include "net/memcached/answer.h"
#include "net/packets/packet_store.h"

namespace isotherm::net {

class ItemCommands final : public PacketStore {
 public:
  explicit ItemCommands(PacketDevice& device) : device_(device) {}

  // Rows that a datagram may have; with more, the rest is not run, and the whole answer is an
  // error.
  static constexpr Batch::Row most_rows = 256;
  static constexpr size_t longest_reply = 2 << 20;

  void run(std::span<PacketAsk> asks, int64_t now_ms) override;
  void lose_device(const std::string& /*why*/) override { throw; }

 private:
  // The item of a key, or what became of a put of it.
  struct Seen {
    uint8_t found = 0;
    uint64_t version = 0;
    uint64_t new_version = 0;
    int64_t expiry = 0;
    uint32_t flags = 0;
    std::string value = {};
  };
  // An item as the host has them, of which changes are planned.
  class Copy {
   public:
    Item* make(const Item::Parts& parts);

   private:
    std::vector<Pair> memory_;
  };

  void run(std::string_view text, int64_t now_ms, std::string& reply);
  static void refuse(std::vector<MemcachedAnswer>& answers, Batch& batch);
  void run_row(Batch& batch, Batch::Row row, int64_t now_ms);
  Seen get(std::string_view key, int64_t now_ms);
  Seen change(const Request& request, const Plan& plan, const Seen& old, int64_t now_ms);

  PacketDevice& device_;
  MemcachedCounters counters_;
  std::deque<std::string> values_;  // that replies show
};

}  // namespace isotherm::net
