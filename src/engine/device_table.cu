#include <stdexcept>

#include "engine/device_table_state.cuh"
#include "isotherm/device_table.h"

namespace isotherm {
namespace {

DeviceRequests gets(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n) {
  DeviceRequests requests;
  requests.rows = n;
  requests.keys = keys;
  requests.values_out = values;
  requests.found = found;
  return requests;
}

void require_lengths(bool equal) {
  if (!equal) throw std::invalid_argument("all columns must have the same length");
}

}  // namespace

DeviceTable::DeviceTable(const DeviceTableOptions& options)
    : state_(std::make_unique<State>(options)) {}
DeviceTable::~DeviceTable() = default;

void DeviceTable::get(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n,
                      Stream stream) {
  state_->run(gets(keys, values, found, n), stream);
}

void DeviceTable::get_pinned(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n,
                             Stream stream) {
  state_->get_pinned(gets(keys, values, found, n), stream);
}

void DeviceTable::put(const uint64_t* keys, const uint64_t* values, uint64_t n, Stream stream) {
  DeviceRequests requests;
  requests.rows = n;
  requests.op = DeviceOp::put;
  requests.keys = keys;
  requests.values = values;
  state_->run(requests, stream);
}

void DeviceTable::erase(const uint64_t* keys, uint64_t n, Stream stream) {
  DeviceRequests requests;
  requests.rows = n;
  requests.op = DeviceOp::erase;
  requests.keys = keys;
  state_->run(requests, stream);
}

void DeviceTable::run(const DeviceRequests& requests, Stream stream) {
  state_->run(requests, stream);
}

void DeviceTable::get(std::span<const uint64_t> keys, std::span<uint64_t> values,
                      std::span<uint8_t> found) {
  require_lengths(keys.size() == values.size() && keys.size() == found.size());
  state_->run_host(gets(keys.data(), values.data(), found.data(), keys.size()));
}

void DeviceTable::put(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
  require_lengths(keys.size() == values.size());
  DeviceRequests requests;
  requests.rows = keys.size();
  requests.op = DeviceOp::put;
  requests.keys = keys.data();
  requests.values = values.data();
  state_->run_host(requests);
}

void DeviceTable::erase(std::span<const uint64_t> keys) {
  DeviceRequests requests;
  requests.rows = keys.size();
  requests.op = DeviceOp::erase;
  requests.keys = keys.data();
  state_->run_host(requests);
}

void DeviceTable::run_host(const DeviceRequests& requests) { state_->run_host(requests); }

DeviceTableStats DeviceTable::stats() { return state_->table.stats(); }

}  // namespace isotherm
