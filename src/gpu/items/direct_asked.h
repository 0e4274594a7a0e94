// DirectAsked: gets of several threads as one kernel is asked them. Each thread's are a piece: keys
// behind one another, slots for their replies, and a word of the host's that says when these are
// there. Columns and words lie in pinned memory, which lanes read and write over the bus.
//
//   blocks    those of piece 0 | of piece 1 | …    each block answers rows of one piece
// The last block of a piece that ends writes the word, behind all replies, so each thread learns of
// its own, whatever else the kernel has to do.
#pragma once

#include <cstdint>

#include "base/macros.h"
#include "gpu/items/direct_delivery.h"
#include "gpu/items/item_part.h"

namespace isotherm {

struct DirectPiece {
  const uint32_t* key_ends = nullptr;  // rows + 1; the first is 0
  const char* keys = nullptr;
  DirectDelivery delivery;
  uint64_t* ended = nullptr;  // takes `number` when all replies are there
  uint64_t number = 0;
  uint32_t rows = 0;
  uint32_t key_bytes = 0;
  uint32_t end_block = 0;  // the first block that is not its own
};

struct DirectAsked {
  static constexpr uint32_t threads = 128;  // of a block
  static constexpr uint32_t most_pieces = 16;

  struct Row {
    KeyView key;
    bool mine = false;
  };

  DirectPiece piece[most_pieces];
  uint32_t pieces = 0;
  uint32_t spread = 0;               // a row has 2^spread lanes
  uint32_t* ended_blocks = nullptr;  // of each piece; zeros before and behind a kernel

  // On the host: adds a piece, whose rows are not none.
  void add(DirectPiece its) {
    const uint64_t lanes = uint64_t{its.rows} << spread;
    its.end_block = blocks() + static_cast<uint32_t>((lanes + threads - 1) / threads);
    piece[pieces++] = its;
  }
  uint64_t rows() const {
    uint64_t rows = 0;
    for (uint32_t i = 0; i < pieces; ++i) rows += piece[i].rows;
    return rows;
  }
  uint32_t blocks() const { return pieces == 0 ? 0 : piece[pieces - 1].end_block; }

  // Each lane of a warp calls find(row) for its row, and what it answers is delivered.
  template <class Lane, class Find>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE void answer(const Lane& lane, DirectDelivery::Warp& warp,
                                                   Find&& find) const {
    uint32_t at = 0;
    while (lane.block() >= piece[at].end_block) ++at;
    const DirectPiece& its = piece[at];
    const uint32_t first_block = at == 0 ? 0 : piece[at - 1].end_block;
    const uint32_t number = lane.thread() & 31;
    const uint32_t first =
        ((lane.block() - first_block) * threads + lane.thread() - number) >> spread;
    const Row row = row_of(its, first + (number >> spread), (number & ((1u << spread) - 1)) == 0);
    its.delivery.deliver(lane, warp, first, spread, row.mine, find(row));
    lane.fence_system();
    lane.sync_block();
    if (lane.thread() == 0) end_block(lane, its, ended_blocks[at], its.end_block - first_block);
  }

 private:
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static Row row_of(const DirectPiece& its, uint32_t row,
                                                         bool leads) {
    const ByteRange readable{its.keys, its.keys + its.key_bytes};
    if (!leads || row >= its.rows) return {{its.keys, 0, readable}, false};
    const uint32_t at = its.key_ends[row];
    return {{its.keys + at, its.key_ends[row + 1] - at, readable}, true};
  }

  template <class Lane>
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE static void end_block(const Lane& lane,
                                                             const DirectPiece& its,
                                                             uint32_t& ended, uint32_t all) {
    if (Lane::atomic_add(&ended, 1u) + 1 != all) return;
    Lane::store(&ended, 0u);
    lane.fence_system();
    Lane::store(its.ended, its.number);
  }
};

}  // namespace isotherm
