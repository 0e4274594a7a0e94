// warp_copy: byte strings copied by the lanes of a warp, a string a lane to begin with.
//
// The strings of a warp are cut at the multiples of 16 of where they go to; the lanes then take
// these units in turn, whosoever string they are of, so short and long strings keep all lanes busy,
// and neighbouring units are stored together. A unit inside a string is one store of 16 bytes; the
// bytes at its ends, where they fill no unit, are stored one by one, since the rest of their unit
// is another string's. Each lane has four units on their way.
//
// Strings above `long_copy` bytes are left to a kernel in which all blocks share them.
//
// A job of a kernel has
//   Copy copy(part, row)        of no bytes where there is nothing to do
//   ByteRange readable(part)    what may be read around the strings
//   pads                        strings go to words of their own, which are filled with zeros
#pragma once

#include <cstdint>

#include "gpu/items/item_part.h"
#include "gpu/kernel/warp_deal.h"

namespace isotherm {

inline constexpr uint32_t long_copy = 32 << 10;

struct Copy {
  char* to = nullptr;
  const char* from = nullptr;
  uint32_t bytes = 0;

  // Units of the destination that it touches.
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE uint32_t units() const {
    if (bytes == 0) return 0;
    const auto skip = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(to) % unit_bytes);
    return (skip + bytes + unit_bytes - 1) / unit_bytes;
  }
};

// A unit of a copy: at most 16 bytes, within a unit of the destination.
struct CopyUnit {
  char* to = nullptr;
  uint32_t bytes = 0;  // 0: none
  Pair data{};

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void load(const Copy& copy, uint32_t number,
                                                 ByteRange readable) {
    char* const end = copy.to + copy.bytes;
    char* const unit =
        copy.to - reinterpret_cast<uintptr_t>(copy.to) % unit_bytes + uint64_t{number} * unit_bytes;
    to = unit < copy.to ? copy.to : unit;
    char* const upto = unit + unit_bytes < end ? unit + unit_bytes : end;
    bytes = static_cast<uint32_t>(upto - to);
    data = load_unit(copy.from + (to - copy.to), bytes, readable);
  }
  template <bool pads>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void store() const {
    if (bytes == unit_bytes || (pads && bytes > word_bytes)) {
      *reinterpret_cast<Pair*>(to) = data;
    } else if constexpr (pads) {
      *reinterpret_cast<uint64_t*>(to) = data.first;
    } else {
      store_bytes(to, data, bytes);
    }
  }
};

template <class Job>
struct CopyItemsKernel {
  static constexpr uint32_t threads = 256;
  static constexpr uint32_t at_a_time = 4;

  struct Warp {
    Copy copy[32];
    WarpDeal deal;
  };
  struct Shared {
    Warp warp[threads / 32];
  };

  ItemPart part;
  Job job;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    Warp& warp = lane.template shared<Shared>()->warp[lane.thread() / 32];
    warp_rows(lane, part.rows, [&](uint32_t row, bool mine) {
      Copy copy;
      if (mine) copy = job.copy(part, row);
      if (copy.bytes > long_copy) {
        part.long_copies[Lane::atomic_add(&part.counts->long_copies, 1u)] = row;
        copy.bytes = 0;
      }
      copy_all(lane, warp, copy);
    });
  }

 private:
  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void copy_all(const Lane& lane, Warp& warp,
                                                     const Copy& mine) const {
    const uint32_t number = lane.thread() & 31;
    warp.copy[number] = mine;
    const uint32_t all = warp.deal.deal(lane, mine.units());
    const ByteRange readable = job.readable(part);
    for (uint32_t first = number; first < all; first += 32 * at_a_time) {
      CopyUnit unit[at_a_time];
      for (uint32_t k = 0; k < at_a_time; ++k) {
        const uint32_t at = first + 32 * k;
        if (at >= all) continue;
        const uint32_t of = warp.deal.owner_of(at);
        unit[k].load(warp.copy[of], at - warp.deal.begin[of], readable);
      }
      for (uint32_t k = 0; k < at_a_time; ++k) {
        if (unit[k].bytes != 0) unit[k].template store<Job::pads>();
      }
    }
    lane.sync_warp(whole_warp);
  }
};

// The long strings: pieces of them are dealt to the blocks in turn.
template <class Job>
struct CopyLongItemsKernel {
  static constexpr uint32_t threads = 256;
  static constexpr uint32_t at_a_time = 4;
  static constexpr uint32_t piece_units = threads * at_a_time;

  ItemPart part;
  Job job;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    const uint32_t count = part.counts->long_copies;
    const ByteRange readable = job.readable(part);
    uint32_t ahead = lane.block();  // pieces until the block's next
    for (uint32_t i = 0; i < count; ++i) {
      const Copy copy = job.copy(part, part.long_copies[i]);
      const uint32_t units = copy.units();
      const uint32_t pieces = (units + piece_units - 1) / piece_units;
      for (; ahead < pieces; ahead += lane.blocks()) {
        copy_piece(copy, ahead * piece_units + lane.thread(), units, readable);
      }
      ahead -= pieces;
    }
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void copy_piece(const Copy& copy, uint32_t first,
                                                              uint32_t units, ByteRange readable) {
    CopyUnit unit[at_a_time];
    for (uint32_t k = 0; k < at_a_time; ++k) {
      const uint32_t at = first + k * threads;
      if (at < units) unit[k].load(copy, at, readable);
    }
    for (uint32_t k = 0; k < at_a_time; ++k) {
      if (unit[k].bytes != 0) unit[k].template store<Job::pads>();
    }
  }
};

}  // namespace isotherm
