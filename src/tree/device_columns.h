// Columns of calls to a device's items (isotherm/gpu/item_table.h), of entries of a tree.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "isotherm/gpu/item_table.h"
#include "tree/tree_record.h"

namespace isotherm {

// Byte strings as a column of the device's.
class ByteColumn {
 public:
  void reserve(size_t rows, uint64_t bytes) {
    bytes_.reserve(bytes);
    offsets_.reserve(rows + 1);
  }
  void add(std::string_view text) {
    bytes_.append(text);
    offsets_.push_back(static_cast<int64_t>(bytes_.size()));
  }
  gpu::Bytes view(size_t first = 0) const { return {offsets_.data() + first, bytes_.data()}; }
  size_t rows() const { return offsets_.size() - 1; }
  std::string_view operator[](size_t row) const {
    const auto begin = static_cast<size_t>(offsets_[row]);
    return std::string_view(bytes_).substr(begin, static_cast<size_t>(offsets_[row + 1]) - begin);
  }
  uint64_t bytes() const { return bytes_.size(); }

 private:
  std::string bytes_;
  std::vector<int64_t> offsets_{0};
};

// Rows of one call that writes.
struct DeviceColumns {
  ByteColumn keys;
  ByteColumn values;
  std::vector<TableOp> ops;
  std::vector<int64_t> expiry;
  std::vector<uint32_t> flags;
  std::vector<uint8_t> found;
  bool any_expiry = false;
  bool any_flags = false;

  void reserve(size_t rows, uint64_t key_bytes, uint64_t record_bytes) {
    keys.reserve(rows, key_bytes);
    values.reserve(rows, record_bytes);
    ops.reserve(rows);
    expiry.reserve(rows);
    flags.reserve(rows);
  }
  void add(std::string_view key, std::string_view record) {
    keys.add(key);
    TreeRecord fields;
    const bool puts = fields.read(record);
    values.add(puts ? record.substr(1) : std::string_view());
    ops.push_back(puts ? TableOp::put : TableOp::erase);
    expiry.push_back(puts ? fields.expiry : no_expiry);
    flags.push_back(puts ? static_cast<uint8_t>(record[0]) : 0);
    any_expiry |= expiry.back() != no_expiry;
    any_flags |= flags.back() != 0;
  }
  gpu::ItemRequests requests(int64_t now_ms) {
    found.resize(ops.size());
    gpu::ItemRequests requests;
    requests.rows = ops.size();
    requests.ops = ops.data();
    requests.keys = keys.view();
    requests.values = values.view();
    requests.expiry = any_expiry ? expiry.data() : nullptr;
    requests.flags = any_flags ? flags.data() : nullptr;
    requests.now_ms = now_ms;
    requests.replies.found = found.data();
    return requests;
  }
};

}  // namespace isotherm
