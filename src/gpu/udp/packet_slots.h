// PacketSlots: a batch of raw frames in pinned memory of the host, and the slots of their replies,
// as both sides see them; with what the device is told of the server.
//
//   frames    rows × frame_stride bytes, each frame from the beginning of its slot on
//   at        instead, where each frame lies, in its slot or in memory that was lent; at a multiple
//             of 16, in a piece of memory that ends no earlier than the 16 bytes with its last one
//   bytes     the length of each; one that is longer than a slot is the CPU's, and is not in a slot
//   replies   rows × reply_stride bytes
//   results   of each frame, whether the device answered it; else its kind says why not
//
// Threads. The host writes before a batch starts and reads after its end; kernels in between.
// Limits. Strides are multiples of 16, and frames' slots take the longest get at most.
#pragma once

#include <cstdint>

#include "gpu/udp/reply_frame.h"
#include "gpu/udp/request_frame.h"

namespace isotherm {

struct PacketOptions {
  uint32_t rows = 512;    // of a batch
  uint32_t channels = 4;  // batches that are under way at once, each on a stream of its own
  uint32_t frame_stride = ReplyFrame::slot_bytes;
  uint32_t reply_stride = 512;
  uint16_t port = 11211;
  // A datagram of a reply has at most so many times the bytes of its request's, as replies of
  // net/udp/port.h; 0: any. Anybody can send requests in the name of others.
  uint32_t amplification = 3;
  // The items are a store's, with fields before their values (gpu/items/stored_fields.h).
  bool stored = false;
  // Blocks of its kernels go before those of other work on the GPU that wait for room.
  bool urgent = false;

  // Of the slots of all channels.
  constexpr uint64_t bytes() const { return uint64_t{channels} * channel_bytes(); }
  constexpr uint64_t channel_bytes() const;

  // The sizes within their limits.
  constexpr PacketOptions bounded() const {
    const auto within = [](uint32_t value, uint32_t least, uint32_t most) {
      return value < least ? least : value < most ? value : most;
    };
    PacketOptions in = *this;
    in.rows = within(rows, 1, 1u << 20);
    in.channels = within(channels, 1, 64);
    in.frame_stride = within(frame_stride / 16 * 16, 64, ReplyFrame::slot_bytes);
    in.reply_stride =
        within((reply_stride + 15) / 16 * 16, 96, ReplyFrame::most_bytes / 16 * 16 + 16);
    return in;
  }
};

enum class PacketFate : uint8_t { left, hit, miss };

// Of one frame.
struct alignas(4) PacketResult {
  uint16_t bytes = 0;  // of the reply
  PacketFate fate = PacketFate::left;
  FrameKind kind =
      FrameKind::foreign;  // a get that was left is too long for its slot or its client
};

constexpr uint64_t PacketOptions::channel_bytes() const {
  return rows * (uint64_t{frame_stride} + reply_stride + sizeof(char*) + sizeof(uint32_t) +
                 sizeof(PacketResult));
}

struct PacketSlots {
  char* frames = nullptr;
  const char** at = nullptr;  // nothing: each in its slot
  uint32_t* bytes = nullptr;
  char* replies = nullptr;
  PacketResult* results = nullptr;
  uint32_t frame_stride = 0;
  uint32_t reply_stride = 0;

  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE char* slot(uint32_t row) const {
    return frames + uint64_t{row} * frame_stride;
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE const char* frame(uint32_t row) const {
    return at == nullptr ? slot(row) : at[row];
  }
  ISOTHERM_HOST_DEVICE ISOTHERM_INLINE char* reply(uint32_t row) const {
    return replies + uint64_t{row} * reply_stride;
  }
};

}  // namespace isotherm
