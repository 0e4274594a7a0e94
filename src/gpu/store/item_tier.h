// ItemTier: whole items in the memory of devices, as the host uses them: byte-string keys to
// byte-string values, in bulk. tree/device_files.h makes the canonical store of them, of which host
// memory is a cache.
//
// Errors. All functions throw DeviceError when a device fails, after which every call does; what
// was there is gone. std::bad_alloc.
// Threads. Any; calls take turns.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string_view>
#include <vector>

#include "gpu/items/direct_gets.h"
#include "gpu/items/walked_item.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm {

class PacketDevice;    // gpu/udp/packet_device.h
struct PacketOptions;  // gpu/udp/packet_slots.h

struct ItemTierOptions {
  uint64_t bytes = 0;       // of each device's memory
  bool evicts = false;      // by CLOCK where memory ends; else puts are answered reply_retry
  uint64_t seed = 0;        // of the hash
  uint64_t host_bytes = 0;  // of pinned host memory, for what devices have no room for
};

class ItemTier {
 public:
  virtual ~ItemTier() = default;
  // Arrays of the host, as gpu::ItemTable::run_host.
  virtual uint64_t run(const gpu::ItemRequests& requests) = 0;
  // As SplitItemStore::walk; a cursor that is none of it ends the walk.
  virtual uint64_t walk(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to) = 0;
  // As DeviceItemStore::count, of all devices.
  virtual uint64_t count(std::string_view start, std::string_view but, int64_t now_ms) = 0;
  // As SplitItemStore::place_of.
  virtual uint64_t place_of(std::string_view key) const = 0;
  // For one thread; the tier must outlive it.
  virtual std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) = 0;
  // Answers gets in frames from these items; the tier must outlive it. Throws std::invalid_argument
  // where they lie on several devices.
  virtual std::unique_ptr<PacketDevice> make_packets(const PacketOptions& options) = 0;
  // Waits for all calls made so far.
  virtual gpu::ItemStats stats() = 0;
};

// DeviceError or std::bad_alloc without one, std::invalid_argument for too little memory.
using ItemTierMaker = std::function<std::unique_ptr<ItemTier>(const ItemTierOptions& options)>;

}  // namespace isotherm
