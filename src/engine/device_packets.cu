#include <optional>

#include "engine/device_item_table_state.cuh"
#include "engine/device_packets.h"
#include "gpu/udp/packet_engine.h"

namespace isotherm {

struct DevicePackets::State {
  State(DeviceItemTable::State& its_table, const PacketOptions& options) : table(its_table) {
    table.use([&](auto& store) { engine.emplace(table.device(), store, options); });
  }
  ~State() {
    const KeepGpu keep;
    table.device().enter();
    engine.reset();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  DeviceItemTable::State& table;
  std::optional<PacketEngine<CudaDevice>> engine;
};

DevicePackets::DevicePackets(DeviceItemTable& table, const PacketOptions& options)
    : state_(std::make_unique<State>(*table.state_, options)) {}
DevicePackets::~DevicePackets() = default;

const PacketOptions& DevicePackets::options() const { return state_->engine->options(); }

const PacketSlots& DevicePackets::slots(uint32_t channel) const {
  return state_->engine->slots(channel);
}

void DevicePackets::start(uint32_t channel, uint32_t rows, int64_t now_ms) {
  state_->table.use([&](auto&) { state_->engine->start(channel, rows, now_ms); });
}

bool DevicePackets::done(uint32_t channel) { return state_->engine->done(channel); }

void DevicePackets::wait(uint32_t channel) { state_->engine->wait(channel); }

uint64_t DevicePackets::run_host(const DeviceItemRequests& requests) {
  return state_->table.use([&](auto& store) { return store.run_host(requests); });
}

}  // namespace isotherm
