// KeySieve: finds which of some keys in host memory a table on GPUs lacks, puts these into the
// table, and returns each of them once.
//
// A part of the keys is copied into pinned memory, from there to the GPU, and put if absent by a
// call on device pointers; then its mask comes back, a byte a key, and the keys that it names are
// written behind those of the parts before. Parts take turns in channels, so that the copies, the
// GPU and the host overlap. A few threads share the host's work on each key, since one thread would
// be slower than the bus.
//
// Memory. Each channel takes 9 bytes a row, once in pinned memory and once on the GPU, beside the
// table's cap. Threads. One at a time.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <deque>
#include <new>
#include <span>
#include <thread>

#include "base/worker_pool.h"
#include "engine/gpu_part.h"
#include "gpu/platform/device_error.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/transfer/ring.h"

namespace isotherm {

template <class Gpu>
class KeySieve {
 public:
  using Device = typename Gpu::Device;
  static constexpr uint64_t part_rows = Gpu::most_slab_bytes / 64;

  // The device has been entered. Throws std::bad_alloc.
  explicit KeySieve(Device& device)
      : device_(device), pool_(std::min(most_threads, std::thread::hardware_concurrency())) {
    for (uint32_t i = 0; i < channels; ++i) channels_.emplace_back(device);
  }
  KeySieve(const KeySieve&) = delete;
  KeySieve& operator=(const KeySieve&) = delete;

  // `table` is of words, and the device its first one. When it throws, nothing is under way.
  GpuTable::New run(GpuTable& table, std::span<const uint64_t> keys, uint64_t* to) {
    GpuTable::New all;
    const auto part = [&](uint64_t number) {
      const uint64_t first = number * part_rows;
      return keys.subspan(first, std::min(part_rows, keys.size() - first));
    };
    try {
      in_turns(
          parts_of(keys.size(), part_rows), channels, channels,
          [&](uint64_t number, uint64_t at) {
            all.refused += start(table, channels_[at], part(number));
          },
          [&](uint64_t number, uint64_t at) {
            all.keys += finish(channels_[at], part(number), to + all.keys);
          });
    } catch (...) {
      device_.enter();
      for (const Channel& channel : channels_) device_.synchronize(channel.stream.get());
      throw;
    }
    return all;
  }

 private:
  static constexpr uint32_t channels = 3;
  static constexpr uint32_t most_threads = 4;
  static constexpr uint64_t piece_rows = uint64_t{1} << 16;  // which are worth a thread
  static constexpr uint64_t most_pieces = part_rows / piece_rows + 1;

  struct Channel {
    explicit Channel(Device& device)
        : host(device, part_rows * row_bytes),
          memory(device, 0),
          there(memory, part_rows * row_bytes),
          stream(device) {
      if (there.empty()) throw std::bad_alloc();
    }
    static constexpr uint64_t row_bytes = sizeof(uint64_t) + 1;
    static uint8_t* mask(char* columns) {
      return reinterpret_cast<uint8_t*>(columns + part_rows * sizeof(uint64_t));
    }

    const PinnedBlock<Device> host;
    DeviceMemory<Device> memory;
    const DeviceArray<Device, char> there;
    const DeviceStream<Device> stream;
  };

  // work(first, rows, piece)
  template <class Work>
  void in_pieces(uint64_t rows, const Work& work) {
    const uint64_t pieces = parts_of(rows, piece_rows);
    const auto one = [&](uint32_t piece, uint32_t /*worker*/) {
      const uint64_t first = piece * piece_rows;
      work(first, std::min(piece_rows, rows - first), piece);
    };
    if (pieces == 1) return one(0, 0);
    pool_.run(static_cast<uint32_t>(pieces), one);
  }

  uint64_t start(GpuTable& table, const Channel& channel, std::span<const uint64_t> keys) {
    in_pieces(keys.size(), [&](uint64_t first, uint64_t rows, uint32_t /*piece*/) {
      std::memcpy(channel.host.data() + first * sizeof(uint64_t), keys.data() + first,
                  rows * sizeof(uint64_t));
    });
    const auto stream = channel.stream.get();
    require_device(device_.enter(), "choose the GPU");
    require_device(device_.to_device(stream, channel.there.data(), channel.host.data(),
                                     keys.size() * sizeof(uint64_t)),
                   "copy keys");
    GpuCall call;
    call.stream = Gpu::number_of(stream);
    call.mask = GpuMask::absent;
    call.count_refused = true;
    call.requests.op = TableOp::put_if_absent;
    call.requests.keys = {reinterpret_cast<const uint64_t*>(channel.there.data()), keys.size()};
    call.requests.found = Channel::mask(channel.there.data());
    const uint64_t refused = table.run(call);
    require_device(device_.enter(), "choose the GPU");
    require_device(device_.to_host(stream, Channel::mask(channel.host.data()),
                                   Channel::mask(channel.there.data()), keys.size()),
                   "read the mask");
    return refused;
  }

  // How many keys are new.
  uint64_t finish(const Channel& channel, std::span<const uint64_t> keys, uint64_t* to) {
    require_device(device_.enter(), "choose the GPU");
    require_device(device_.synchronize(channel.stream.get()), "wait for a part");
    const uint8_t* const mask = Channel::mask(channel.host.data());
    std::array<uint64_t, most_pieces + 1> ends{};
    in_pieces(keys.size(), [&](uint64_t first, uint64_t rows, uint32_t piece) {
      ends[piece + 1] = static_cast<uint64_t>(std::count(mask + first, mask + first + rows, 1));
    });
    for (uint64_t piece = 1; piece < ends.size(); ++piece) ends[piece] += ends[piece - 1];
    in_pieces(keys.size(), [&](uint64_t first, uint64_t /*rows*/, uint32_t piece) {
      // It ends with the last of them, so it does not write where the next piece begins.
      for (uint64_t at = ends[piece], i = first; at < ends[piece + 1]; ++i) {
        to[at] = keys[i];
        at += mask[i];
      }
    });
    return ends.back();
  }

  Device& device_;
  WorkerPool pool_;
  std::deque<Channel> channels_;
};

}  // namespace isotherm
