// CacheModel: what a table that may evict must answer: a key that it finds has the value that the
// model knows; one that it does not find was never there, or was evicted, which happens no more
// often than the table says.
#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "models/table_model.h"

namespace isotherm {

class CacheModel {
 public:
  const std::unordered_map<uint64_t, uint64_t>& entries() const { return entries_; }
  uint64_t wrong() const { return wrong_; }
  uint64_t forgotten() const { return forgotten_; }  // by the table, as far as it was asked

  void compare(const std::vector<DeviceRequest>& requests, const std::vector<uint64_t>& values,
               const std::vector<uint8_t>& found) {
    for (uint64_t i = 0; i < requests.size(); ++i) {
      const DeviceRequest& its = requests[i];
      const auto known = entries_.find(its.key);
      KeyState before;
      if (known != entries_.end()) before = {known->second, 1};
      if (before.found != 0 && found[i] == 0) {
        ++forgotten_;
        before = {};
      }
      const uint64_t value = before.found != 0 ? before.value : TableModel::untouched;
      if (found[i] != before.found || values[i] != value) ++wrong_;
      const KeyState after = apply(its.op, its.value, its.expected, before);
      if (after.found != 0) {
        entries_[its.key] = after.value;
      } else {
        entries_.erase(its.key);
      }
    }
  }

  // For all keys that the table should still have.
  std::vector<DeviceRequest> gets() const {
    std::vector<DeviceRequest> all;
    for (const auto& [key, value] : entries_) all.push_back({TableOp::get, key, 0, 0});
    return all;
  }

 private:
  std::unordered_map<uint64_t, uint64_t> entries_;
  uint64_t wrong_ = 0;
  uint64_t forgotten_ = 0;
};

}  // namespace isotherm
