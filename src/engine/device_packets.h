// DevicePackets: raw frames of memcached's UDP clients, whose gets a GPU answers from a table of
// items (gpu/udp/packet_device.h says how it is used).
//
// Threads. One at a time for each channel. Limits. The table must outlive it. Errors. DeviceError;
// std::bad_alloc without pinned memory.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "gpu/udp/packet_device.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm {

class DevicePackets final : public PacketDevice {
 public:
  explicit DevicePackets(gpu::ItemTable& table, const PacketOptions& options = {});
  ~DevicePackets() override;
  DevicePackets(const DevicePackets&) = delete;
  DevicePackets& operator=(const DevicePackets&) = delete;

  const PacketOptions& options() const override;
  const PacketSlots& slots(uint32_t channel) const override;
  bool lend(std::span<char> memory) override;
  void take_back() override;
  void start(uint32_t channel, uint32_t rows, int64_t now_ms) override;
  bool done(uint32_t channel) override;
  void wait(uint32_t channel) override;
  uint64_t run_host(const gpu::ItemRequests& requests) override;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
