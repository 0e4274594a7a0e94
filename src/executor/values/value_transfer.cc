#include "executor/values/value_transfer.h"

#include <algorithm>
#include <cstring>

namespace isotherm {
namespace {

// Enough for a tile's lanes, and short enough that the tiles of a device share one long value.
constexpr uint64_t piece_bytes = 4 << 10;

uint64_t whole_units(uint64_t bytes) {
  return value_place::units_of(bytes) * value_place::unit_bytes;
}

}  // namespace

// What is in a channel's window so far.
class ValueTransfer::Window {
 public:
  explicit Window(ValueChannel& channel) : channel_(channel) {}

  // The next piece of so many bytes; 0: full. `beside`: it needs no window.
  uint64_t room(uint64_t bytes, bool beside) const {
    if (copies_ == channel_.most_copies()) return 0;
    return std::min({bytes, piece_bytes, beside ? bytes : channel_.window_bytes() - used_});
  }
  void add_beside(uint64_t device_address, char* to, uint64_t bytes) {
    channel_.copies()[copies_++] = {device_address, reinterpret_cast<uint64_t>(to), bytes};
  }
  char* add(uint64_t device_address, uint64_t bytes, bool to_device) {
    char* const at = channel_.window() + used_;
    const auto here = reinterpret_cast<uint64_t>(at);
    channel_.copies()[copies_++] =
        to_device ? ValueCopy{here, device_address, bytes} : ValueCopy{device_address, here, bytes};
    used_ += whole_units(bytes);
    return at;
  }
  void run() {
    channel_.run(copies_);
    copies_ = 0;
    used_ = 0;
  }

 private:
  ValueChannel& channel_;
  uint64_t used_ = 0;
  uint32_t copies_ = 0;
};

uint64_t ValueTransfer::pinned_bytes() const {
  uint64_t bytes = 0;
  for (const auto& channel : channels_) {
    bytes += channel->window_bytes() + channel->most_copies() * sizeof(ValueCopy);
  }
  return bytes;
}

// Cuts the values of a device into pieces: add(value, done, bytes) puts the next one into the
// window, and run() makes room there, and works off the rest.
template <class Value, class Add, class Run>
void ValueTransfer::each_piece(std::span<const Value> values, uint32_t device, const Window& window,
                               Add&& add, Run&& run) {
  for (const Value& value : values) {
    if (value_place::device(value.place) != device) continue;
    for (uint64_t done = 0; done < value.bytes;) {
      const uint64_t bytes = window.room(value.bytes - done, value.pinned);
      if (bytes == 0) {
        run();
        continue;
      }
      add(value, done, bytes);
      done += bytes;
    }
  }
  run();
}

void ValueTransfer::fetch(std::span<const Fetch> values) {
  struct Piece {
    char* to;
    const char* from;
    uint64_t bytes;
  };
  std::vector<Piece> pieces;  // of the window
  for (uint32_t device = 0; device < channels_.size(); ++device) {
    Window window(*channels_[device]);
    const auto add = [&](const Fetch& value, uint64_t done, uint64_t bytes) {
      const uint64_t from = log_.address(value.place) + done;
      if (value.pinned) {
        window.add_beside(from, value.to + done, bytes);
      } else {
        pieces.push_back({value.to + done, window.add(from, bytes, false), bytes});
      }
    };
    each_piece(values, device, window, add, [&] {
      window.run();
      for (const Piece& piece : pieces) std::memcpy(piece.to, piece.from, piece.bytes);
      pieces.clear();
    });
  }
}

void ValueTransfer::bring(std::span<const Bring> values) {
  for (uint32_t device = 0; device < channels_.size(); ++device) {
    Window window(*channels_[device]);
    const auto add = [&](const Bring& value, uint64_t done, uint64_t bytes) {
      std::memcpy(window.add(log_.address(value.place) + done, bytes, true), value.from + done,
                  bytes);
    };
    each_piece(values, device, window, add, [&] { window.run(); });
  }
}

}  // namespace isotherm
