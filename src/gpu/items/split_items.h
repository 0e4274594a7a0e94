// SplitItems: some rows of a call on byte strings, in host memory, dealt out to the shards of a
// table on several devices, and their replies put together again; see gpu/items/split_item_store.h.
//
// Each shard has columns of its own, with its rows in their order. Rows that no shard can be asked
// for, since their offsets fall, leave the column or have a string that is too long, are refused
// here.
//
// Threads. One at a time; shards may be answered by a thread each.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

#include "base/macros.h"
#include "gpu/items/item_columns.h"
#include "gpu/items/item_hash.h"
#include "gpu/split/shard_kernels.h"
#include "isotherm/gpu/item_table.h"

namespace isotherm {

class SplitItems {
 public:
  // Rows [first, first + rows) of a call. `room`: what is left of the reply's bytes.
  SplitItems(const gpu::ItemRequests& call, uint64_t first, uint64_t rows, uint64_t room,
             uint32_t shards, const ItemHash& hash)
      : call_(call), first_(first), rows_(rows), room_(room), shards_(shards), places_(rows) {
    for (uint64_t row = 0; row < rows; ++row) places_[row] = deal(first + row, hash);
    for (Shard& shard : shards_) shard.make_replies(call.replies, room);
  }

  // Shards without rows are not asked.
  bool has_rows(uint32_t shard) const { return shards_[shard].rows != 0; }
  gpu::ItemRequests requests(uint32_t shard) const { return shards_[shard].requests(call_, room_); }

  // Writes the replies of all rows to the call's, values behind the `before` bytes that it has;
  // returns the bytes that these rows' values have.
  uint64_t put_together(uint64_t before) {
    const gpu::ItemReplies& to = call_.replies;
    std::vector<uint64_t> next(shards_.size(), 0);
    uint64_t end = before;
    for (uint64_t i = 0; i < rows_; ++i) {
      const uint64_t row = first_ + i;
      const uint32_t place = places_[i];
      if (place == refused) {
        ++refused_;
        answer(to, row, gpu::reply_refused, 0, 0, 0, 0);
      } else {
        Shard& shard = shards_[place];
        const uint64_t at = next[place]++;
        if (shard.found[at] == gpu::reply_refused) ++refused_;
        answer(to, row, shard.found[at], of(shard.versions_out, at), of(shard.new_versions, at),
               of(shard.expiry_out, at), of(shard.flags_out, at));
        if (to.offsets != nullptr) end += shard.copy_value(at, to, end);
      }
      if (to.offsets != nullptr) to.offsets[row + 1] = static_cast<int64_t>(end);
    }
    return end - before;
  }
  uint64_t refused_rows() const { return refused_; }

 private:
  static constexpr uint32_t refused = ~uint32_t{0};

  template <class T>
  static T of(const std::vector<T>& column, uint64_t at) {
    return column.empty() ? T{0} : column[at];
  }
  static void answer(const gpu::ItemReplies& to, uint64_t row, uint8_t found, uint64_t version,
                     uint64_t new_version, int64_t expiry, uint32_t flags) {
    if (to.found != nullptr) to.found[row] = found;
    if (to.versions != nullptr) to.versions[row] = version;
    if (to.new_versions != nullptr) to.new_versions[row] = new_version;
    if (to.expiry != nullptr) to.expiry[row] = expiry;
    if (to.flags != nullptr) to.flags[row] = flags;
  }

  struct Shard {
    uint64_t rows = 0;
    std::vector<TableOp> ops;
    std::vector<int64_t> key_offsets = {0}, value_offsets = {0};
    std::vector<char> keys, values;
    std::vector<int64_t> expiry;
    std::vector<uint32_t> flags;
    std::vector<uint64_t> versions;
    // Of replies; bytes are not written before they are there.
    std::vector<uint8_t> found;
    std::vector<int64_t> offsets, expiry_out;
    std::unique_ptr<char[]> bytes;
    std::vector<uint64_t> versions_out, new_versions;
    std::vector<uint32_t> flags_out;

    void make_replies(const gpu::ItemReplies& wanted, uint64_t room) {
      found.resize(rows);
      if (wanted.offsets != nullptr) offsets.resize(rows + 1);
      if (wanted.offsets != nullptr && room != 0 && rows != 0) bytes.reset(new char[room]);
      if (wanted.versions != nullptr) versions_out.resize(rows);
      if (wanted.new_versions != nullptr) new_versions.resize(rows);
      if (wanted.expiry != nullptr) expiry_out.resize(rows);
      if (wanted.flags != nullptr) flags_out.resize(rows);
    }
    gpu::ItemRequests requests(const gpu::ItemRequests& call, uint64_t room) const {
      const auto column = [](const auto& its) { return its.empty() ? nullptr : its.data(); };
      const auto reply = [](const auto& its) {
        using T = typename std::decay_t<decltype(its)>::value_type;
        return its.empty() ? nullptr : const_cast<T*>(its.data());
      };
      gpu::ItemRequests mine = call;
      mine.rows = rows;
      mine.ops = column(ops);
      mine.keys = {key_offsets.data(), keys.data()};
      if (call.values.offsets != nullptr) mine.values = {value_offsets.data(), values.data()};
      mine.expiry = column(expiry);
      mine.flags = column(flags);
      mine.versions = column(versions);
      mine.replies.found = reply(found);
      mine.replies.offsets = reply(offsets);
      mine.replies.bytes = bytes.get();
      mine.replies.capacity = bytes != nullptr ? room : 0;
      mine.replies.versions = reply(versions_out);
      mine.replies.new_versions = reply(new_versions);
      mine.replies.expiry = reply(expiry_out);
      mine.replies.flags = reply(flags_out);
      return mine;
    }
    // Its length. Beyond the capacity nothing is written.
    uint64_t copy_value(uint64_t at, const gpu::ItemReplies& to, uint64_t end) const {
      const auto length = static_cast<uint64_t>(offsets[at + 1] - offsets[at]);
      if (length != 0 && end + length <= to.capacity && bytes != nullptr) {
        std::memcpy(to.bytes + end, bytes.get() + offsets[at], length);
      }
      return length;
    }
  };

  // The string of a row, or nothing where it is none that can be taken.
  // `taken`: bytes of the column so far, which are not more than it has unless offsets fall.
  bool take(const gpu::Bytes& column, uint64_t row, uint64_t most, uint64_t& taken, const char*& at,
            uint64_t& bytes) const {
    const int64_t begin = column.offsets[row], end = column.offsets[row + 1];
    const int64_t first = column.offsets[first_], last = column.offsets[first_ + rows_];
    if (begin > end || begin < first || end > last) return false;
    at = column.bytes + begin;
    bytes = static_cast<uint64_t>(end - begin);
    if (bytes > most || taken + bytes > static_cast<uint64_t>(last - first)) return false;
    taken += bytes;
    return true;
  }

  uint32_t deal(uint64_t row, const ItemHash& hash) {
    const char* key = nullptr;
    const char* value = nullptr;
    uint64_t key_bytes = 0, value_bytes = 0;
    const TableOp op = call_.ops != nullptr ? call_.ops[row] : call_.op;
    const bool puts = puts_item(op) && call_.values.offsets != nullptr;
    if (!take(call_.keys, row, gpu::max_item_key_bytes, keys_taken_, key, key_bytes) ||
        (puts &&
         !take(call_.values, row, gpu::max_item_value_bytes, values_taken_, value, value_bytes))) {
      return refused;
    }
    const uint32_t place =
        shard_of_hash(hash.of_host({key, key_bytes}), static_cast<uint32_t>(shards_.size()));
    Shard& shard = shards_[place];
    ++shard.rows;
    if (call_.ops != nullptr) shard.ops.push_back(op);
    shard.keys.insert(shard.keys.end(), key, key + key_bytes);
    shard.key_offsets.push_back(static_cast<int64_t>(shard.keys.size()));
    if (puts) shard.values.insert(shard.values.end(), value, value + value_bytes);
    shard.value_offsets.push_back(static_cast<int64_t>(shard.values.size()));
    if (call_.expiry != nullptr) shard.expiry.push_back(call_.expiry[row]);
    if (call_.flags != nullptr) shard.flags.push_back(call_.flags[row]);
    if (call_.versions != nullptr) shard.versions.push_back(call_.versions[row]);
    return place;
  }
  const gpu::ItemRequests& call_;
  const uint64_t first_;
  const uint64_t rows_;
  const uint64_t room_;
  std::vector<Shard> shards_;
  std::vector<uint32_t> places_;  // the shard of each row
  uint64_t keys_taken_ = 0, values_taken_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace isotherm
