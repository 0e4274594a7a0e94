// ArrivingItem: the item that a large value becomes, while its bytes still come from a client.
//
//   header of a large item │ item header, expiry, flags and database │ key │ value
//                            written when the request runs ──────────────────┘ received into its
//                            place
//
// A value is received where it will stay, so it is never copied and exists only once. What a client
// only announces costs nothing: the memory is not touched before bytes come. The budget counts the
// bytes as they come, among the items, so eviction makes room while the value arrives, and the
// request itself needs no more. Where the expiry and the flags are not known yet, there is room for
// both (Item::Parts::all_fields).
//
// If a value cannot be stored whatever is evicted, its bytes are dropped as they come.
//
// A put with option::in_place takes the item over if it stores anything, and this object is told of
// it: the item is the store's from then on, and may be gone soon. An item that was not taken is
// freed with this object, which must outlive the put.
//
// Threads. One at a time; the store that took the item uses it from then on.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>

#include "base/give_back.h"
#include "items/item.h"
#include "items/item_store.h"

namespace isotherm {

class ArrivingItem {
 public:
  // Without memory, and with `drop`, it is not `usable`: the bytes are dropped.
  ArrivingItem(ItemStore& items, uint64_t key_bytes, uint64_t value_bytes, bool drop)
      : large_(items.large_items()),
        location_(drop ? location::none
                       : LargeItems::prepare(value_offset(key_bytes) + value_bytes)),
        value_(usable() ? items.address(location_) + value_offset(key_bytes) : nullptr),
        value_bytes_(value_bytes) {
    if (!usable()) return;
    LargeItems::header(location_).taken = &taken_;
    large_.announced().fetch_add(value_bytes_, std::memory_order_relaxed);
  }
  ~ArrivingItem() {
    if (!usable()) return;
    large_.announced().fetch_sub(value_bytes_, std::memory_order_relaxed);
    if (!taken_) large_.discard(location_);
  }
  ArrivingItem(const ArrivingItem&) = delete;
  ArrivingItem& operator=(const ArrivingItem&) = delete;

  // Before anything comes: pages of the value that the allocator had from others go to the system.
  void give_back_pages() const {
    if (usable()) give_back(value_, value_ + value_bytes_);
  }

  bool usable() const { return location_ != location::none; }
  // `room` is where the next bytes go; `commit` says how many went there.
  std::span<char> room() const {
    const uint64_t rest = value_bytes_ - received_;
    if (usable()) return {value_ + received_, rest};
    static thread_local char dropped[64 << 10];
    return {dropped, std::min<uint64_t>(rest, sizeof dropped)};
  }
  void commit(uint64_t bytes) {
    received_ += bytes;
    if (usable()) large_.arrive(location_, bytes);
  }
  // Takes bytes that the caller has already.
  void append(std::string_view bytes) {
    while (!bytes.empty()) {
      const std::span<char> to = room();
      const size_t now = std::min(bytes.size(), to.size());
      std::memcpy(to.data(), bytes.data(), now);
      commit(now);
      bytes.remove_prefix(now);
    }
  }
  bool complete() const { return received_ == value_bytes_; }
  uint64_t received() const { return received_; }
  uint64_t bytes() const { return value_bytes_; }
  // Only of one that is usable.
  std::string_view value() const { return {value_, value_bytes_}; }
  static constexpr uint64_t value_offset(uint64_t key_bytes) {
    return Item::bytes(key_bytes, 0, true, true);
  }
  // The location of the item whose value lies there.
  static Location location_of(std::string_view key, std::string_view value) {
    const auto place = reinterpret_cast<uint64_t>(value.data()) - value_offset(key.size());
    return location::make(location::Kind::large, 0, place);
  }

 private:
  LargeItems& large_;
  Location location_;
  char* const value_;
  const uint64_t value_bytes_;
  uint64_t received_ = 0;
  bool taken_ = false;
};

}  // namespace isotherm
