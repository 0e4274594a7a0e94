// StagedWriter: bytes of the host on their way to consecutive memory of a device, by two pieces of
// pinned memory: one is filled while the other is copied.
//
// Threads. One at a time. What was written is there when the stream has come so far behind `end`.
// Errors. DeviceError; std::bad_alloc.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>

#include "gpu/platform/device_error.h"
#include "gpu/platform/device_event.h"
#include "gpu/platform/pinned_block.h"

namespace isotherm {

template <class Device>
class StagedWriter {
 public:
  using Stream = typename Device::Stream;

  StagedWriter(Device& device, uint64_t piece_bytes)
      : device_(device),
        piece_bytes_(piece_bytes),
        pieces_{Piece{device, piece_bytes}, {device, piece_bytes}} {}

  void begin(Stream stream, void* to) {
    stream_ = stream;
    to_ = static_cast<char*>(to);
    used_ = 0;
  }
  // Room for the next bytes, no more than a piece has, which the caller fills before the next call.
  char* take(uint64_t bytes) {
    if (piece_bytes_ - used_ < bytes) send();
    char* const room = pieces_[turn_].block.data() + used_;
    used_ += bytes;
    return room;
  }
  void write(const char* from, uint64_t bytes) {
    for (uint64_t some = 0; bytes != 0; from += some, bytes -= some) {
      some = std::min(bytes, piece_bytes_ - used_);
      if (some != 0) std::memcpy(take(some), from, some);
      if (used_ == piece_bytes_) send();
    }
  }
  void end() {
    if (used_ != 0) send();
  }

 private:
  struct Piece {
    Piece(Device& device, uint64_t bytes) : block(device, bytes), copied(device) {}
    PinnedBlock<Device> block;
    DeviceEvent<Device> copied;
    bool sent = false;
  };

  void send() {
    Piece& piece = pieces_[turn_];
    require_device(device_.to_device(stream_, to_, piece.block.data(), used_), "copy a run");
    require_device(device_.record(piece.copied.get(), stream_), "record an event");
    piece.sent = true;
    to_ += used_;
    used_ = 0;
    turn_ ^= 1;
    Piece& next = pieces_[turn_];
    if (next.sent) require_device(device_.synchronize(next.copied.get()), "copy a run");
  }

  Device& device_;
  const uint64_t piece_bytes_;
  std::array<Piece, 2> pieces_;
  uint32_t turn_ = 0;
  Stream stream_{};
  char* to_ = nullptr;
  uint64_t used_ = 0;  // of the piece whose turn it is
};

}  // namespace isotherm
