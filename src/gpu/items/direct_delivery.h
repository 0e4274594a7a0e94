// DirectDelivery: how a kernel answers gets into slots of one size (gpu/items/direct_gets.h).
//
//   slot    bytes of the value, or `absent`, or `too_long` for the slot | flags | the value
//           (4)                                                          (4)
// Each lane has found its reply; then the 16-byte units of the warp's slots are dealt to its lanes
// one after the other, so slots are written in whole lines, over the bus or not.
#pragma once

#include <cstdint>

#include "gpu/items/byte_units.h"
#include "gpu/items/direct_gets.h"
#include "gpu/kernel/warp_deal.h"

namespace isotherm {

// What a lane has found: a value in whole words, which nobody writes while the kernel runs.
struct DirectReply {
  const uint64_t* value = nullptr;  // null: the key is absent
  uint32_t bytes = 0;
  uint32_t flags = 0;
};

struct DirectDelivery {
  static constexpr uint32_t at_a_time = 4;

  struct Warp {
    WarpDeal deal;
    DirectHead head[32];  // of a lane's reply
    const uint64_t* value[32];
  };

  char* replies = nullptr;
  uint32_t stride = 0;

  // The replies of a warp's lanes, where `mine`; `first`: the row of lane 0. Each row has 2^spread
  // lanes. All lanes call.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void deliver(const Lane& lane, Warp& warp, uint32_t first,
                                                    uint32_t spread, bool mine,
                                                    const DirectReply& reply) const {
    const uint32_t number = lane.thread() & 31;
    const uint32_t units = mine ? keep(warp, number, reply) : 0;
    const uint32_t all = warp.deal.deal(lane, units);
    for (uint32_t begin = number; begin < all; begin += 32 * at_a_time) {
      Pair data[at_a_time] = {};
      Pair* to[at_a_time] = {};
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t at = begin + 32 * k;
        if (at >= all) continue;
        const uint32_t of = warp.deal.owner_of(at);
        const uint32_t unit = at - warp.deal.begin[of];
        data[k] = unit_of(warp, of, unit);
        char* const slot = replies + uint64_t{first + (of >> spread)} * stride;
        to[k] = reinterpret_cast<Pair*>(slot) + unit;
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        if (to[k] != nullptr) *to[k] = data[k];
      }
    }
    lane.sync_warp(whole_warp);
  }

 private:
  // The units of the reply.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t keep(Warp& warp, uint32_t number,
                                                     const DirectReply& reply) const {
    DirectHead head{DirectHead::absent, reply.flags};
    uint64_t bytes = 0;
    if (reply.value != nullptr) {
      const bool fits = sizeof head + uint64_t{reply.bytes} <= stride;
      if (fits) bytes = reply.bytes;
      head.bytes = fits ? reply.bytes : DirectHead::too_long;
    }
    warp.head[number] = head;
    warp.value[number] = reply.value;
    return static_cast<uint32_t>(units_of(sizeof head + bytes));
  }

  // The head with the first word of the value, or two words of it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Pair unit_of(const Warp& warp, uint32_t of,
                                                           uint32_t unit) {
    const DirectHead head = warp.head[of];
    const uint64_t words = head.bytes >= DirectHead::too_long ? 0 : words_of(head.bytes);
    const uint64_t* const value = warp.value[of];
    const auto word = [&](uint64_t i) { return i < words ? load_steady_word(value + i) : 0; };
    if (unit == 0) return {uint64_t{head.flags} << 32 | head.bytes, word(0)};
    return {word(2 * unit - 1), word(2 * unit)};
  }
};

}  // namespace isotherm
