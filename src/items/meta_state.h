// MetaState: what memcached's meta commands know of an item besides its value, 64 bits at its end.
//
//    0  there        always set, so that the bits of an item that has a state are never 0
//    1  stale        invalidated, but still shown
//    2  token sent   a client was told that it has won: it is to bring a new value
//    3  fetched      a client has asked for it
//    4  active       more than once
//    5  binary key   stored under a key that came in base64
//   32  u32 seconds since the epoch: when it was stored, or asked for a second time if that was
//   over a
//      minute later
//
// Items get a state from the meta commands that store them, and from those that mark them stale or
// win them; the others have none, and cost neither memory nor time. An object never has one.
//
// Threads. `fetched`, `active` and the time change in place, by anybody; a copy that is made
// meanwhile may miss that. `token sent` is set in place under the lock of the key's line, and
// whoever publishes a copy looks for it there. The rest changes with a new item.
#pragma once

#include <cstdint>

namespace isotherm {

struct MetaState {
  static constexpr uint64_t there = 1 << 0;
  static constexpr uint64_t stale = 1 << 1;
  static constexpr uint64_t token_sent = 1 << 2;
  static constexpr uint64_t fetched = 1 << 3;
  static constexpr uint64_t active = 1 << 4;
  static constexpr uint64_t binary_key = 1 << 5;
  // Only in a reply: who asked has won.
  static constexpr uint64_t won = 1 << 6;

  static constexpr bool has_token(uint64_t state) { return (state & token_sent) != 0; }
  // Whether who asks now is the first to see that it is stale.
  static constexpr bool may_be_won(uint64_t state) {
    return (state & (stale | token_sent)) == stale;
  }

  static constexpr uint64_t fresh(int64_t now_ms) { return at(now_ms) | there; }
  // After one more use, as memcached notes it.
  static constexpr uint64_t used(uint64_t state, int64_t now_ms) {
    if ((state & fetched) == 0) return state | fetched;
    if ((state & active) != 0) return state;
    const bool late = seconds(state) + 60 < static_cast<uint64_t>(now_ms / 1000);
    return (late ? (state & UINT32_MAX) | at(now_ms) : state) | active;
  }
  static constexpr uint64_t seconds(uint64_t state) { return state >> 32; }

 private:
  static constexpr uint64_t at(int64_t now_ms) {
    return static_cast<uint64_t>(now_ms / 1000) << 32;
  }
};

}  // namespace isotherm
