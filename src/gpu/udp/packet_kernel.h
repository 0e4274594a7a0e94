// PacketKernel: answers a batch of raw frames: checks and parses them, looks the keys of gets up in
// a table of device items, and writes the reply frames.
//
// A lane has a frame; a warp works on 32 of them in phases of two kinds. What concerns one frame
// (parsing, the key's item, the reply's front) its lane does alone, in the frame's slot in shared
// memory. What moves bytes all lanes do together: the units of 16 bytes of the warp's frames are
// dealt to its lanes one after the other, so frames come over the bus, and replies go, in whole
// lines, whatever their lengths; and only bytes that somebody needs cross it. The index is asked by
// tiles (gpu/kernel/warp_find.h). So each lane helps with what its neighbours look up, and no warp
// is kept for it.
//
// Of a small batch a warp has fewer frames (`spread_of`), and its lanes have no less to do
// together.
//
// A slot in shared memory is 16 bytes longer than a frame, or all lanes would meet in one bank.
// Values in host memory are read over the bus where they lie, like those of the device.
//
// Of a store's items (`stored`) the fields before the value say what clients see. What they say
// that a get changes is left to the host, and so are keys that begin with byte 255, which stand for
// others there (tree/device_files.h).
//
// Threads. Nobody writes to the table meanwhile. Sources. MemcachedGPU, section 3.2: parsing,
// lookups and headers by one kernel; there, helper threads of the block load frames and fill
// headers.
#pragma once

#include <cstdint>

#include "gpu/items/item_part.h"
#include "gpu/items/item_steps.h"
#include "gpu/items/stored_fields.h"
#include "gpu/kernel/bits.h"
#include "gpu/kernel/line_kind.h"
#include "gpu/udp/packet_slots.h"

namespace isotherm {

// A key in a slot, whose units may be read whole.
struct SlotKey {
  const char* data = nullptr;
  uint32_t bytes = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE Pair load(uint64_t at, uint32_t some) const {
    using namespace byte_units_internal;
    const char* const from = data + at;
    const auto skip = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(from) % unit_bytes);
    const auto* const units = reinterpret_cast<const Pair*>(from - skip);
    const Pair next = skip + some > unit_bytes ? units[1] : Pair{0, 0};
    return cut(window(units[0], next, skip), some);
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE bool is_key_of(const ItemHead& item) const {
    if (item.key_bytes != bytes) return false;
    const uint64_t* const its = item.key();
    for (uint32_t at = 0; at < bytes; at += unit_bytes) {
      const uint32_t some = bytes - at < unit_bytes ? bytes - at : unit_bytes;
      const Pair unit = load(at, some);
      if (load_steady_word(its + at / word_bytes) != unit.first) return false;
      if (some > word_bytes && load_steady_word(its + at / word_bytes + 1) != unit.second) {
        return false;
      }
    }
    return true;
  }
};

// What a client sees of an item.
struct ShownItem {
  const char* value = nullptr;
  uint32_t bytes = 0;
  uint32_t flags = 0;
  uint64_t version = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ShownItem of(const ItemHead& item) {
    return {item.value(), item.value_bytes, item.flags(), item.version()};
  }
  // Of a store's item with these fields.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static ShownItem of_stored(const ItemHead& item,
                                                                  StoredFields fields) {
    const auto* const words = reinterpret_cast<const uint64_t*>(item.value());
    ShownItem shown{item.value() + fields.bytes(), item.value_bytes - fields.bytes()};
    shown.version = load_steady_word(words);
    if (fields.has(StoredFields::has_flags)) {
      shown.flags = static_cast<uint32_t>(load_steady_word(words + fields.flags_at() / word_bytes));
    }
    return shown;
  }
};

struct PacketKernel {
  static constexpr uint32_t warps = 2;  // as many as have room for their slots in 48 KiB
  static constexpr uint32_t threads = warps * 32;
  static constexpr uint32_t at_a_time = 4;

  struct alignas(16) Slot {
    char bytes[ReplyFrame::slot_bytes + unit_bytes];
  };
  struct Warp {
    Slot slot[32];
    const char* frame[32];
    uint32_t begin[32];  // the number of a lane's first unit among the warp's
    ReplyFrame reply[32];
    const char* value[32];
  };
  struct Shared {
    LineKind::FindShared find;
    Warp warp[warps];
  };

  PacketSlots slots;
  ItemLookup items;
  uint32_t rows = 0;
  uint16_t port = 0;
  uint32_t amplification = 0;
  int64_t now = 0;
  bool stored = false;
  uint32_t spread = 0;  // as warp_rows

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    auto* const shared = lane.template shared<Shared>();
    Warp& warp = shared->warp[lane.thread() / 32];
    const uint32_t number = lane.thread() & 31;
    const SteadyTile<Lane> tile(lane);
    warp_rows(lane, rows, spread, [&](uint32_t row, bool mine) {
      const uint32_t bytes = mine ? slots.bytes[row] : 0;
      const bool there = bytes <= slots.frame_stride;
      if (mine) warp.frame[number] = slots.frame(row);
      fetch(lane, warp, there ? bytes : 0);
      char* const slot = warp.slot[number].bytes;
      RequestFrame request;
      request.kind = FrameKind::too_long;
      if (mine && there) request = RequestFrame::read(slot, bytes, port);
      const bool is_get = mine && request.kind == FrameKind::get;
      const SlotKey key{slot + request.key_at, request.key_bytes};
      Home home;
      if (is_get) home = items.index.home(items.index.hash(hash(key)));
      const Found first = LineKind::find<tile_lanes>(tile, shared->find, home);
      PacketResult result;
      result.kind = request.kind;
      if (is_get) answer(warp, number, request, key, first.found ? first.word : 0, result);
      if (mine) slots.results[row] = result;
      deliver(lane, warp, row - (number >> spread), result.bytes);
    });
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint64_t hash(const SlotKey& key) const {
    return items.hash.of_units(key.bytes,
                               [&](uint64_t at, uint32_t some) { return key.load(at, some); });
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void answer(Warp& warp, uint32_t number,
                                                   const RequestFrame& request, const SlotKey& key,
                                                   uint64_t first, PacketResult& result) const {
    constexpr uint8_t stands_for_others = 255;
    if (stored && frame_bytes::byte_at(key.data) == stands_for_others) return;
    const ItemPlace place = find_item(first, key);
    const ItemHead& item = place.head;
    const bool hit = place.item != 0 && !(now != 0 && item.expired(now));
    const StoredFields fields{hit && stored ? item.flags() : 0};
    if (fields.has(StoredFields::has_state)) return;
    ShownItem shown;
    if (hit) shown = stored ? ShownItem::of_stored(item, fields) : ShownItem::of(item);
    const ReplyFrame reply = hit ? ReplyFrame::hit(request, shown.bytes, shown.flags, shown.version)
                                 : ReplyFrame::miss(request);
    if (!reply.fits(request) || reply.bytes() > slots.reply_stride) return;
    const uint64_t most = uint64_t{request.datagram_bytes} * amplification;
    if (amplification != 0 && reply.datagram_bytes(request) > most) return;
    if (hit && items.evicts) item.mark_read();
    reply.write_front(warp.slot[number].bytes, request, shown.value);
    warp.reply[number] = reply;
    warp.value[number] = shown.value;
    result.bytes = static_cast<uint16_t>(reply.bytes());
    result.fate = hit ? PacketFate::hit : PacketFate::miss;
  }

  // The frames of the warp's lanes into their slots.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void fetch(const Lane& lane, Warp& warp,
                                                         uint32_t bytes) {
    each_unit(
        lane, warp, bytes,
        [&](uint32_t of, uint32_t unit) {
          return load_steady_pair(reinterpret_cast<const Pair*>(warp.frame[of]) + unit);
        },
        [&](uint32_t of, uint32_t unit, Pair data) { *unit_of(warp.slot[of].bytes, unit) = data; });
  }
  // Their replies into those of the batch; `first`: the row of lane 0.
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void deliver(const Lane& lane, Warp& warp, uint32_t first,
                                                    uint32_t bytes) const {
    each_unit(
        lane, warp, bytes,
        [&](uint32_t of, uint32_t unit) {
          return warp.reply[of].unit(warp.slot[of].bytes, warp.value[of], unit);
        },
        [&](uint32_t of, uint32_t unit, Pair data) {
          *unit_of(slots.reply(first + (of >> spread)), unit) = data;
        });
  }

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Pair* unit_of(char* from, uint32_t unit) {
    return reinterpret_cast<Pair*>(from) + unit;
  }

  // Deals the units that `bytes` of each lane take to the lanes of the warp, a few at a time:
  // store(of, unit, load(of, unit)), `of` being the lane that they are of.
  template <class Lane, class Load, class Store>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void each_unit(const Lane& lane, Warp& warp,
                                                             uint32_t bytes, Load&& load,
                                                             Store&& store) {
    const uint32_t number = lane.thread() & 31;
    const auto units = static_cast<uint32_t>(units_of(bytes));
    uint32_t upto = units;
    for (uint32_t step = 1; step < 32; step *= 2) {
      const uint32_t other = lane.shuffle(whole_warp, upto, number >= step ? number - step : 0);
      if (number >= step) upto += other;
    }
    const uint32_t all = lane.shuffle(whole_warp, upto, 31);
    warp.begin[number] = upto - units;
    lane.sync_warp(whole_warp);
    for (uint32_t first = number; first < all; first += 32 * at_a_time) {
      Pair data[at_a_time] = {};
      uint32_t of[at_a_time] = {};
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t at = first + 32 * k;
        if (at >= all) continue;
        of[k] = owner_of(warp, at);
        data[k] = load(of[k], at - warp.begin[of[k]]);
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t at = first + 32 * k;
        if (at < all) store(of[k], at - warp.begin[of[k]], data[k]);
      }
    }
    lane.sync_warp(whole_warp);
  }

  // The last lane that begins at or before the unit: those without units come before it.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static uint32_t owner_of(const Warp& warp, uint32_t unit) {
    uint32_t of = 0;
    for (uint32_t step = 16; step != 0; step /= 2) {
      if (warp.begin[of + step] <= unit) of += step;
    }
    return of;
  }
};

}  // namespace isotherm
