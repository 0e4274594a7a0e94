// PacketDevice: what whoever receives frames (net/packets) asks of a device that answers gets.
//
// Its batches are channels, numbered from 0: the host fills the slots of an idle one, starts it,
// and reads its results when it is done. Batches that are under way together overlap. A batch sees
// all changes of the table by calls that returned before it was started, and none of those that
// begin after: so what was changed between two batches is seen by the second.
//
// Threads. One at a time for each channel. Errors. All throw DeviceError when the device fails,
// after which it is lost.
#pragma once

#include <cstdint>
#include <span>

#include "gpu/udp/packet_slots.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm {

class PacketDevice {
 public:
  virtual ~PacketDevice() = default;

  virtual const PacketOptions& options() const = 0;
  virtual const PacketSlots& slots(uint32_t channel) const = 0;
  // Begins to answer the first `rows` frames, 1 at least, of an idle channel; at `now_ms` items
  // expire.
  virtual void start(uint32_t channel, uint32_t rows, int64_t now_ms) = 0;
  // Memory with frames, begun and ended at pages, where batches may read them until it is taken
  // back: PacketSlots::at then says for each where it is. False: the device cannot read it.
  virtual bool lend(std::span<char> /*memory*/) { return false; }
  // No batch is under way.
  virtual void take_back() {}
  virtual bool done(uint32_t channel) = 0;
  virtual void wait(uint32_t channel) = 0;
  // A call to the same table (isotherm/gpu/item_table.h).
  virtual uint64_t run_host(const gpu::ItemRequests& requests) = 0;
};

}  // namespace isotherm
