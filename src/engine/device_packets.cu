#include <optional>
#include <stdexcept>

#include "engine/device_packets.h"
#include "engine/gpu_item_table_state.cuh"
#include "gpu/udp/packet_engine.h"

namespace isotherm {

struct DevicePackets::State {
  State(gpu::ItemTable::State& its_table, const PacketOptions& options) : table(its_table) {
    table.use([&](auto& its) {
      if (its.alone() == nullptr) {
        throw std::invalid_argument("packets are answered from a table on one GPU");
      }
      require_device(table.first_device().enter(), "choose the GPU");
      engine.emplace(table.first_device(), *its.alone(), options);
    });
  }
  ~State() {
    const KeepGpu keep;
    table.first_device().enter();
    engine.reset();
  }
  State(const State&) = delete;
  State& operator=(const State&) = delete;

  gpu::ItemTable::State& table;
  std::optional<PacketEngine<CudaDevice>> engine;
};

DevicePackets::DevicePackets(gpu::ItemTable& table, const PacketOptions& options)
    : state_(std::make_unique<State>(*table.state_, options)) {}
DevicePackets::~DevicePackets() = default;

const PacketOptions& DevicePackets::options() const { return state_->engine->options(); }

const PacketSlots& DevicePackets::slots(uint32_t channel) const {
  return state_->engine->slots(channel);
}

void DevicePackets::start(uint32_t channel, uint32_t rows, int64_t now_ms) {
  state_->table.use([&](auto&) {
    require_device(state_->table.first_device().enter(), "choose the GPU");
    state_->engine->start(channel, rows, now_ms);
  });
}

bool DevicePackets::lend(std::span<char> memory) { return state_->engine->lend(memory); }

void DevicePackets::take_back() { state_->engine->take_back(); }

bool DevicePackets::done(uint32_t channel) { return state_->engine->done(channel); }

void DevicePackets::wait(uint32_t channel) { state_->engine->wait(channel); }

uint64_t DevicePackets::run_host(const gpu::ItemRequests& requests) {
  return state_->table.use([&](auto& store) { return store.run_host(requests); });
}

}  // namespace isotherm
