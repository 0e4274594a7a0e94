#include "engine/gpu_item_table_state.cuh"
#include "engine/span_requests.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm::gpu {
namespace {

ItemRequests requests_of(TableOp op, uint64_t rows, Bytes keys) {
  ItemRequests requests;
  requests.rows = rows;
  requests.op = op;
  requests.keys = keys;
  return requests;
}

ItemRequests item_gets(Bytes keys, const ItemReplies& replies, uint64_t rows) {
  ItemRequests requests = requests_of(TableOp::get, rows, keys);
  requests.replies = replies;
  return requests;
}

ItemRequests item_puts(Bytes keys, Bytes values, uint64_t rows) {
  ItemRequests requests = requests_of(TableOp::put, rows, keys);
  requests.values = values;
  return requests;
}

uint64_t rows_of(ByteSpans column) {
  return column.offsets.empty() ? 0 : column.offsets.size() - 1;
}

Bytes column_of(ByteSpans column) {
  if (rows_of(column) == 0) return {column.offsets.data(), column.bytes.data()};
  const int64_t end = column.offsets.back();
  require_lengths(end >= 0 && static_cast<uint64_t>(end) <= column.bytes.size());
  return {column.offsets.data(), column.bytes.data()};
}

}  // namespace

ItemTable::ItemTable(const ItemTableOptions& options) : state_(std::make_unique<State>(options)) {}
ItemTable::~ItemTable() = default;

void ItemTable::get(Bytes keys, const ItemReplies& replies, uint64_t n, Stream stream) {
  run(item_gets(keys, replies, n), stream);
}

void ItemTable::put(Bytes keys, Bytes values, uint64_t n, Stream stream) {
  run(item_puts(keys, values, n), stream);
}

void ItemTable::erase(Bytes keys, uint64_t n, Stream stream) {
  run(requests_of(TableOp::erase, n, keys), stream);
}

void ItemTable::run(const ItemRequests& requests, Stream stream, uint32_t place) {
  state_->use([&](auto& its) { its.run(requests, place, stream); });
}

uint64_t ItemTable::get(ByteSpans keys, const ItemReplies& replies) {
  return run_host(item_gets(column_of(keys), replies, rows_of(keys)));
}

void ItemTable::put(ByteSpans keys, ByteSpans values) {
  require_lengths(rows_of(keys) == rows_of(values));
  run_host(item_puts(column_of(keys), column_of(values), rows_of(keys)));
}

void ItemTable::erase(ByteSpans keys) {
  run_host(requests_of(TableOp::erase, rows_of(keys), column_of(keys)));
}

uint64_t ItemTable::run_host(const ItemRequests& requests) {
  return state_->use([&](auto& its) { return its.run_host(requests); });
}

ItemStats ItemTable::stats() {
  return state_->use([](auto& its) { return its.stats(); });
}

}  // namespace isotherm::gpu
