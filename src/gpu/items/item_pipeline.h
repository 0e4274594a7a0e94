// ItemPipeline: calls to a table of device items whose arrays lie in host memory.
//
// Parts go through channels in turn, each with a stream and device memory of its own:
//   copy in → find or change → values gathered into the channel's room → copy out, once
// A value's place in the reply depends on all before it, so the host waits for the sum of each
// part's lengths before it queues the part's copy out. It does so while two later parts are already
// queued, so the bus in both directions and the kernels work at once. Of parts with writes the
// copies overlap, and a part is looked at beside the gathering of the one before; it changes the
// table when that one has released its items. A reply that is larger than the room is gathered and
// copied out in several rounds.
//
// Copies are asynchronous where the caller's memory is pinned; else the driver copies through
// buffers of its own, and little overlaps. Threads. One at a time. When run() returns or throws,
// nothing is under way.
#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/items/item_columns.h"
#include "gpu/items/item_steps.h"
#include "gpu/platform/call_order.h"
#include "gpu/platform/device_stream.h"
#include "gpu/transfer/ring.h"

namespace isotherm {

// A stream with the memory of a part.
template <class Device>
struct ItemChannel {
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  ItemChannel(DeviceMemory<Device>& memory, const DeviceItemOptions& options)
      : device(memory.device()),
        workspace(memory, options.part_rows),
        words(memory, (uint64_t{options.part_rows} + 1) * columns),
        bytes(memory, uint64_t{options.part_rows} * 2),
        keys(memory, std::max(options.key_room, gpu::max_item_key_bytes)),
        values(memory, std::max(options.value_room, gpu::max_item_value_bytes)),
        reply(memory, options.reply_room),
        stream(device),
        counted(device.create_event()) {
    if (!words.empty() && !bytes.empty() && !keys.empty() && !values.empty() && !reply.empty()) {
      return;
    }
    device.destroy_event(counted);
    throw std::bad_alloc();
  }
  ~ItemChannel() { device.destroy_event(counted); }
  ItemChannel(const ItemChannel&) = delete;
  ItemChannel& operator=(const ItemChannel&) = delete;

  // Columns of rows + 1 words: offsets of keys, of values, of the reply; expiry, versions and
  // flags, of the requests first and then of their replies; new versions.
  static constexpr uint32_t columns = 7;
  int64_t* column(uint32_t i) const { return words.data() + words.size() / columns * i; }
  int64_t* expiry() const { return column(3); }
  uint64_t* versions() const { return reinterpret_cast<uint64_t*>(column(4)); }
  uint32_t* flags() const { return reinterpret_cast<uint32_t*>(column(5)); }
  uint64_t* new_versions() const { return reinterpret_cast<uint64_t*>(column(6)); }
  uint8_t* found() const { return bytes.data(); }
  TableOp* ops() const { return reinterpret_cast<TableOp*>(bytes.data() + bytes.size() / 2); }

  Device& device;
  ItemWorkspace<Device> workspace;
  DeviceArray<Device, int64_t> words;
  DeviceArray<Device, uint8_t> bytes;
  DeviceArray<Device, char> keys;
  DeviceArray<Device, char> values;
  DeviceArray<Device, char> reply;
  DeviceStream<Device> stream;
  typename Device::Event counted;
  ItemPart part;
  uint64_t first = 0;  // row of the call
};

template <class Device>
class ItemPipeline {
 public:
  using Channel = ItemChannel<Device>;
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  ItemPipeline(DeviceMemory<Device>& memory, ItemSteps<Device>& steps, CallOrder<Device>& order,
               const DeviceItemOptions& options)
      : device_(memory.device()),
        steps_(steps),
        order_(order),
        part_rows_(options.part_rows),
        key_room_(options.key_room),
        value_room_(options.value_room) {
    for (auto& channel : channels_) channel = std::make_unique<Channel>(memory, options);
  }

  // A workspace for parts whose arrays are on the device.
  const ItemWorkspace<Device>& workspace() const { return channels_[0]->workspace; }

  // The bytes of the reply. All pointers are to host memory. Throws std::invalid_argument where a
  // part cannot be copied, before anything is done, and after all is done where rows were refused
  // that the caller has no `found` for.
  uint64_t run(const gpu::ItemRequests& requests) {
    try {
      total_ = refused_ = 0;
      if (item_columns::has_writes(requests)) {
        change(requests);
      } else {
        find(requests);
      }
      drain();
    } catch (...) {
      for (auto& channel : channels_) device_.synchronize(channel->stream.get());
      throw;
    }
    if (refused_ != 0 && requests.replies.found == nullptr) {
      throw std::invalid_argument(
          std::to_string(refused_) +
          " rows were refused: a key or a value is too long, offsets fall, "
          "or an operation or its version is wrong; the column `found` says which rows");
    }
    return total_;
  }

 private:
  static constexpr uint32_t channels = 4;
  static constexpr uint32_t ahead = 2;  // parts of gets that are queued before one is waited for

  // Rows of each part. Large parts for large calls, as each costs some waiting; the first ones are
  // smaller, so that copies out begin early: nothing happens beside the first copy in. Throws
  // std::invalid_argument where a part cannot be copied.
  std::vector<uint64_t> cut(const gpu::ItemRequests& requests, bool writes) const {
    const uint64_t most = writes ? part_rows_ : part_rows_ / 2;
    const uint64_t few = requests.rows / 8;
    const uint64_t wanted = writes ? std::max(few, std::min(requests.rows / 4, most / 2)) : few;
    const uint64_t largest = std::max<uint64_t>(std::clamp(wanted, most / 4, most), 1);
    uint64_t next = std::max<uint64_t>(largest / 2, 1);
    std::vector<uint64_t> parts;
    for (uint64_t first = 0; first < requests.rows; first += parts.back()) {
      uint64_t rows = std::min(next, requests.rows - first);
      next = std::min(next * 2, largest);
      rows = item_columns::fitting(requests.keys, first, rows, key_room_);
      if (writes) rows = item_columns::fitting(requests.values, first, rows, value_room_);
      item_columns::check_span("keys", requests.keys, first, rows, channels_[0]->keys.size());
      if (writes && requests.values.offsets != nullptr) {
        item_columns::check_span("values", requests.values, first, rows,
                                 channels_[0]->values.size());
      }
      parts.push_back(rows);
    }
    return parts;
  }

  void find(const gpu::ItemRequests& requests) {
    const std::vector<uint64_t> parts = cut(requests, false);
    uint64_t first = 0;
    in_turns(
        parts.size(), channels, ahead + 1,
        [&](uint64_t part, uint64_t at) {
          Channel& channel = *channels_[at];
          stage(channel, requests, first, parts[part], false);
          first += parts[part];
          const Stream stream = channel.stream.get();
          order_.begin_read(stream);
          steps_.find(channel.part, channel.workspace, nullptr, stream);
          channel.workspace.ask_counts(channel.part, stream);
          require_device(device_.record(channel.counted, stream), "record an event");
        },
        [&](uint64_t, uint64_t at) { reply_found(*channels_[at], requests); });
  }

  void reply_found(Channel& channel, const gpu::ItemRequests& requests) {
    require_device(device_.synchronize(channel.counted), "wait for the counts of a part");
    refused_ += channel.workspace.report().refused;
    reply(channel, requests, [] {});
  }

  void change(const gpu::ItemRequests& requests) {
    const std::vector<uint64_t> parts = cut(requests, true);
    uint64_t staged = 0;
    in_turns(
        parts.size(), channels, 2,
        [&](uint64_t part, uint64_t at) {
          stage(*channels_[at], requests, staged, parts[part], true);
          staged += parts[part];
        },
        [&](uint64_t, uint64_t at) { change_part(*channels_[at], requests); });
  }
  void change_part(Channel& channel, const gpu::ItemRequests& requests) {
    const Stream stream = channel.stream.get();
    order_.begin_write(stream);
    steps_.change(channel.part, channel.workspace, nullptr, stream);
    refused_ += channel.workspace.report().refused;
    if (requests.replies.offsets != nullptr) channel.workspace.ask_counts(channel.part, stream);
    require_device(device_.record(channel.counted, stream), "record an event");
    reply(channel, requests, [&] {
      steps_.release(channel.part, stream);
      order_.end_write(stream);
    });
  }

  // Copies in `rows` rows.
  void stage(Channel& channel, const gpu::ItemRequests& requests, uint64_t first, uint64_t rows,
             bool writes) {
    channel.first = first;
    ItemPart& part = channel.part = {};
    part.rows = static_cast<uint32_t>(rows);
    part.op = requests.op;
    part.now = requests.now_ms;
    part.keys = copy_in(channel, requests.keys, channel.column(0), channel.keys.data());
    if (writes) {
      part.ops = copy_in(channel, requests.ops, channel.ops());
      part.values = copy_in(channel, requests.values, channel.column(1), channel.values.data());
      part.expiry = copy_in(channel, requests.expiry, channel.expiry());
      part.expected = copy_in(channel, requests.versions, channel.versions());
      part.flags = copy_in(channel, requests.flags, channel.flags());
    }
    const gpu::ItemReplies& to = requests.replies;
    part.previous = to.previous;
    if (to.found != nullptr) part.found = channel.found();
    if (to.offsets != nullptr) part.offsets = channel.column(2);
    if (to.expiry != nullptr) part.expiry_out = channel.expiry();
    if (to.versions != nullptr) part.versions = channel.versions();
    if (to.flags != nullptr) part.flags_out = channel.flags();
    if (to.new_versions != nullptr) part.new_versions = channel.new_versions();
  }

  template <class T>
  const T* copy_in(Channel& channel, const T* column, T* to) {
    if (column == nullptr) return nullptr;
    copy_in(channel, to, column + channel.first, channel.part.rows * sizeof(T));
    return to;
  }
  BytesView copy_in(Channel& channel, const gpu::Bytes& column, int64_t* offsets, char* bytes) {
    if (column.offsets == nullptr) return {};
    const uint64_t rows = channel.part.rows;
    const int64_t* from = column.offsets + channel.first;
    copy_in(channel, offsets, from, (rows + 1) * sizeof(int64_t));
    copy_in(channel, bytes, column.bytes + from[0], static_cast<uint64_t>(from[rows] - from[0]));
    return {offsets, offsets, offsets + rows, bytes, from[0]};
  }
  void copy_in(Channel& channel, void* to, const void* from, uint64_t bytes) {
    if (bytes == 0) return;
    require_device(device_.to_device(channel.stream.get(), to, from, bytes), "copy requests");
  }

  // Gathers the reply of a part and queues its copy out; calls gathered() when all values have been
  // read that the part needs.
  template <class Gathered>
  void reply(Channel& channel, const gpu::ItemRequests& requests, Gathered&& gathered) {
    const gpu::ItemReplies& to = requests.replies;
    const Stream stream = channel.stream.get();
    uint64_t begin = total_;  // of the bytes that are gathered but not yet copied out
    uint64_t end = total_;
    if (to.offsets != nullptr) {
      require_device(device_.synchronize(channel.counted), "wait for the counts of a part");
      steps_.place(channel.part, total_, stream);
      const uint64_t upto = total_ + channel.workspace.report().total;
      total_ = upto;
      while (upto <= to.capacity && end < upto) {
        copy_out(channel, to, begin, end);
        begin = end;
        end = std::min(begin + channel.reply.size(), upto);
        steps_.copy(channel.part, {channel.reply.data(), begin, end, to.capacity}, stream);
      }
    }
    gathered();
    copy_out(channel, to, begin, end);
    const uint64_t rows = channel.part.rows;
    copy_out(channel, to.found, channel.found(), rows);
    copy_out(channel, to.offsets, channel.part.offsets, rows + 1);
    copy_out(channel, to.expiry, channel.expiry(), rows);
    copy_out(channel, to.versions, channel.versions(), rows);
    copy_out(channel, to.flags, channel.flags(), rows);
    copy_out(channel, to.new_versions, channel.new_versions(), rows);
  }
  // A column, if it is wanted.
  template <class T>
  void copy_out(Channel& channel, T* to, const T* from, uint64_t count) {
    if (to == nullptr) return;
    const uint64_t bytes = count * sizeof(T);
    require_device(device_.to_host(channel.stream.get(), to + channel.first, from, bytes),
                   "copy replies");
  }
  void copy_out(Channel& channel, const gpu::ItemReplies& to, uint64_t begin, uint64_t end) {
    if (begin == end) return;
    require_device(
        device_.to_host(channel.stream.get(), to.bytes + begin, channel.reply.data(), end - begin),
        "copy values");
  }

  void drain() {
    for (auto& channel : channels_) {
      require_device(device_.synchronize(channel->stream.get()), "wait for replies");
    }
  }

  Device& device_;
  ItemSteps<Device>& steps_;
  CallOrder<Device>& order_;
  const uint64_t part_rows_;
  const uint64_t key_room_;
  const uint64_t value_room_;
  std::unique_ptr<Channel> channels_[channels];
  uint64_t total_ = 0;    // bytes of the reply so far
  uint64_t refused_ = 0;  // rows of the call
};

}  // namespace isotherm
