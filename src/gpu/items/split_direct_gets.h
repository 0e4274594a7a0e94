// SplitDirectGets: direct gets of items that lie on several devices.
//
// Each device has columns of its own, into which the keys of its shard are dealt out. When all have
// answered, the slots are copied into one column in the order of the rows, in host memory. So that
// both together take what was asked for, each is made for fewer rows, and has room for all keys
// though they may lie on one device.
//
// Threads. As gpu/items/direct_gets.h; no device is waited for before `wait`. Errors. Of several
// devices that fail the first is told.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <exception>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "gpu/items/direct_gets.h"
#include "gpu/items/item_hash.h"
#include "gpu/split/shard_kernels.h"

namespace isotherm {

class SplitDirectGets final : public DirectGets {
 public:
  // What each device's columns are made with, and the whole has.
  static DirectShape shape_of_each(const DirectShape& wanted, size_t devices) {
    const auto shares = static_cast<uint32_t>(devices + 1);
    return {std::max<uint32_t>(wanted.rows / shares, 1), wanted.key_room / shares + 1,
            wanted.stride};
  }

  // `parts`: of the devices in their order, all of one shape. Throws std::bad_alloc.
  SplitDirectGets(std::vector<std::unique_ptr<DirectGets>> parts, const ItemHash& hash)
      : hash_(hash),
        shape_(parts.front()->shape()),
        key_ends_(shape_.rows + 1),
        keys_(shape_.key_room),
        slots_(uint64_t{shape_.rows} * shape_.stride),
        columns_{key_ends_.data(), keys_.data(), slots_.data()},
        places_(shape_.rows) {
    for (std::unique_ptr<DirectGets>& part : parts) parts_.push_back({std::move(part), 0});
  }

  const DirectShape& shape() const override { return shape_; }
  const DirectColumns& columns() const override { return columns_; }
  uint64_t pinned_bytes() const override {
    uint64_t bytes = key_ends_.size() * sizeof(uint32_t) + keys_.size() + slots_.size();
    for (const Part& part : parts_) bytes += part.gets->pinned_bytes();
    return bytes;
  }

  void start(uint32_t rows) override {
    deal(rows);
    for (Part& part : parts_) part.gets->start(part.rows);
    rows_ = rows;
  }
  void post(uint32_t rows) override {
    deal(rows);
    for (Part& part : parts_) part.gets->post(part.rows);
    rows_ = rows;
  }
  bool done() override {
    bool all = true;
    for (Part& part : parts_) all = part.gets->done() && all;
    return all;
  }
  void wait() override {
    // Of what has failed, or was not started by all, no slot may be read, also by a later wait.
    const uint32_t rows = std::exchange(rows_, 0);
    std::exception_ptr failure;
    for (Part& part : parts_) {
      try {
        part.gets->wait();
      } catch (...) {
        if (!failure) failure = std::current_exception();
      }
    }
    if (failure) std::rethrow_exception(failure);
    for (uint32_t row = 0; row < rows; ++row) bring(row);
  }

 private:
  struct Part {
    std::unique_ptr<DirectGets> gets;
    uint32_t rows;
  };
  struct Place {
    uint32_t part;
    uint32_t row;
  };

  void deal(uint32_t rows) {
    rows_ = 0;
    for (Part& part : parts_) part.rows = 0;
    for (uint32_t row = 0; row < rows; ++row) {
      const std::string_view key(keys_.data() + key_ends_[row],
                                 key_ends_[row + 1] - key_ends_[row]);
      const uint32_t shard =
          shard_of_hash(hash_.of_host(key), static_cast<uint32_t>(parts_.size()));
      Part& part = parts_[shard];
      const DirectColumns& to = part.gets->columns();
      const uint32_t at = to.key_ends[part.rows];
      std::memcpy(to.keys + at, key.data(), key.size());
      places_[row] = {shard, part.rows};
      to.key_ends[++part.rows] = at + static_cast<uint32_t>(key.size());
    }
  }
  void bring(uint32_t row) {
    const Place place = places_[row];
    const char* const from =
        parts_[place.part].gets->columns().replies + uint64_t{place.row} * shape_.stride;
    DirectHead head;
    std::memcpy(&head, from, sizeof head);
    const uint64_t value = head.bytes < DirectHead::too_long ? head.bytes : 0;
    std::memcpy(slots_.data() + uint64_t{row} * shape_.stride, from, sizeof head + value);
  }

  const ItemHash hash_;
  const DirectShape shape_;
  std::vector<uint32_t> key_ends_;
  std::vector<char> keys_;
  std::vector<char> slots_;
  DirectColumns columns_;
  std::vector<Place> places_;
  std::vector<Part> parts_;
  uint32_t rows_ = 0;  // that the next `wait` brings
};

}  // namespace isotherm
