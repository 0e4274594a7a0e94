#include <algorithm>
#include <stdexcept>

#include "gpu/items/device_item_store.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "isotherm/device_item_table.h"

namespace isotherm {
namespace {

// Under a cap the work space takes a quarter at most.
DeviceItemOptions checked(const DeviceItemTableOptions& options) {
  constexpr uint64_t least = uint64_t{256} << 20;
  constexpr uint64_t ample = uint64_t{4} << 30;
  if (options.gpu_memory != 0 && options.gpu_memory < least) {
    throw std::invalid_argument("gpu_memory of a table of items must be 256 MiB or more");
  }
  DeviceItemOptions checked;
  for (uint64_t cap = options.gpu_memory; cap != 0 && cap < ample; cap *= 2) {
    checked.part_rows /= 2;
    checked.slab_bytes /= 2;
    checked.key_room /= 2;
    checked.value_room /= 2;
    checked.reply_room /= 2;
  }
  // More than any host has, and sums with it do not overflow.
  checked.host_memory = std::min(options.host_memory, uint64_t{1} << 60);
  checked.host_items_from = options.host_items_from;
  checked.evicts = options.evict;
  checked.index.gpu_memory = options.gpu_memory;
  checked.index.seed = seed_or_random(options.hash_seed);
  checked.index.max_part_rows = checked.part_rows;
  return checked;
}

DeviceItemRequests requests_of(DeviceOp op, uint64_t rows, DeviceBytes keys) {
  DeviceItemRequests requests;
  requests.rows = rows;
  requests.op = op;
  requests.keys = keys;
  return requests;
}

DeviceItemRequests gets(uint64_t rows, DeviceBytes keys, const DeviceItemReplies& replies) {
  DeviceItemRequests requests = requests_of(DeviceOp::get, rows, keys);
  requests.replies = replies;
  return requests;
}

DeviceItemRequests puts(uint64_t rows, DeviceBytes keys, DeviceBytes values, uint8_t* found) {
  DeviceItemRequests requests = requests_of(DeviceOp::put, rows, keys);
  requests.values = values;
  requests.replies.found = found;
  return requests;
}

DeviceItemRequests erases(uint64_t rows, DeviceBytes keys, uint8_t* found) {
  DeviceItemRequests requests = requests_of(DeviceOp::erase, rows, keys);
  requests.replies.found = found;
  return requests;
}

}  // namespace

struct DeviceItemTable::State : StoreOnGpu<DeviceItemStore<CudaDevice>> {
  explicit State(const DeviceItemTableOptions& options)
      : StoreOnGpu(options.device, checked(options), options.expected_entries) {}
};

DeviceItemTable::DeviceItemTable(const DeviceItemTableOptions& options)
    : state_(std::make_unique<State>(options)) {}
DeviceItemTable::~DeviceItemTable() = default;

void DeviceItemTable::get(uint64_t rows, DeviceBytes keys, const DeviceItemReplies& replies,
                          Stream stream) {
  run(gets(rows, keys, replies), stream);
}

void DeviceItemTable::put(uint64_t rows, DeviceBytes keys, DeviceBytes values, uint8_t* found,
                          Stream stream) {
  run(puts(rows, keys, values, found), stream);
}

void DeviceItemTable::erase(uint64_t rows, DeviceBytes keys, uint8_t* found, Stream stream) {
  run(erases(rows, keys, found), stream);
}

void DeviceItemTable::run(const DeviceItemRequests& requests, Stream stream) {
  state_->use([&](auto& its) { its.run(requests, stream); });
}

uint64_t DeviceItemTable::get_host(uint64_t rows, DeviceBytes keys,
                                   const DeviceItemReplies& replies) {
  return run_host(gets(rows, keys, replies));
}

void DeviceItemTable::put_host(uint64_t rows, DeviceBytes keys, DeviceBytes values,
                               uint8_t* found) {
  run_host(puts(rows, keys, values, found));
}

void DeviceItemTable::erase_host(uint64_t rows, DeviceBytes keys, uint8_t* found) {
  run_host(erases(rows, keys, found));
}

uint64_t DeviceItemTable::run_host(const DeviceItemRequests& requests) {
  return state_->use([&](auto& its) { return its.run_host(requests); });
}

DeviceItemStats DeviceItemTable::stats() {
  return state_->use([](auto& its) { return its.stats(); });
}

}  // namespace isotherm
