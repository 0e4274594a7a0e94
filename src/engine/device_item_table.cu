#include "engine/device_item_table_state.cuh"
#include "isotherm/device_item_table.h"

namespace isotherm {
namespace {

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
