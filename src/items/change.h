// Change: what one request makes of one item, as a pure function.
//
// `plan_change` looks at the item that a key has now, or at none. It says what is to be done
// (nothing, store a new item, erase, or set the expiry in place) and what to reply. It touches no
// shared state, so every executor gives the same answers. An executor calls it before its
// compare-and-swap, and again if that lost.
//
// Before that it asks whether the operation works on what the item has. An object it only sees to
// be there; calls are planned elsewhere (executor/host/object_answers.h).
//
// Limits. Lengths are added in 64 bits and compared with Limits before anything is allocated.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>

#include "isotherm/batch.h"
#include "isotherm/object.h"
#include "items/item.h"

namespace isotherm {

// One row of a batch.
struct Request {
  Op op;
  uint16_t options;
  uint32_t database;
  uint32_t flags;
  std::string_view key;
  std::string_view value;
  int64_t number;
  int64_t expiry;

  bool has(uint16_t option) const { return (options & option) != 0; }
};

// About the memory that a call may take: its arguments, and what an allocator needs beside each.
inline uint64_t bytes_of_arguments(std::span<const std::string_view> arguments) {
  constexpr uint64_t beside = 64;
  uint64_t bytes = 0;
  for (const std::string_view argument : arguments) bytes += argument.size() + beside;
  return bytes;
}

// The function that a call runs.
inline const ObjectFunction& function_of(const Request& request) {
  return *reinterpret_cast<const ObjectFunction*>(request.value.data());
}

struct Plan {
  enum class Action : uint8_t { keep, store, erase, in_place };

  Action action = Action::keep;
  Status status = Status::ok;
  bool keeps_version = false;  // for store: the value is the same
  bool counts_use = false;     // for keep and in_place: as one of the item's, if it has a state
  // About the item's state, if it has one. Both only if the item's token is still as seen.
  bool sends_token = false;    // for in_place
  bool token_decides = false;  // for in_place and store
  bool token_seen = false;
  int64_t number = 0;          // for the reply
  int64_t expiry = no_expiry;  // for in_place: the new one
  // For store: the new item. Its value is `first`, with `second` written over it or behind it from
  // `second_at` on, and `filler` where neither is; then the steps run on it.
  Item::Parts parts;
  std::string_view first;
  std::string_view second;
  uint64_t second_at = 0;
  std::span<BitfieldStep> steps;
  char filler = ' ';

  // Writes the value of the new item.
  void fill(Item* item) const;
  // Whether the value is the old one with some bits or bytes of its own, and perhaps longer:
  // `second` or what the steps write.
  bool patches() const { return action == Action::store && filler == '\0'; }
  // Writes that over the first `before` bytes of the value, which are there and are as in the old
  // one, and behind them; there is room for all of it.
  void patch(char* value, uint64_t before) const;

  char digits[24];  // what `first` or `second` refers to where it is made from numbers
};

// Whether the operation may plan to patch a value (Plan::patches), as a meta request to append may,
// too.
inline bool may_patch(Op op) {
  return op == Op::append || op == Op::set_range || op == Op::set_bit || op == Op::bitfield;
}
// Whether the request may find an object: it looks at no value, or takes any.
bool takes_objects(const Request& request);
// `old` is the live item of the key, or null; expired items count as none. Fills `plan`.
void plan_change(const Request& request, const Item* old, int64_t now_ms, uint64_t max_value_bytes,
                 Plan& plan);

// A decimal integer as Redis reads one: no spaces, no leading zeros or plus sign.
bool parse_integer(std::string_view text, int64_t& value);
// An unsigned decimal as memcached reads one: leading white space and a sign are skipped, and so is
// whatever follows a blank or a zero byte behind it; a negative number counts only where it wraps
// below 2^63.
bool parse_counter(std::string_view text, uint64_t& value);

}  // namespace isotherm
