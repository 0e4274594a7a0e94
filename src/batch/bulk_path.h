// BulkPath: batches through streams to a table in the memory of a device.
//
// Kernels read and answer small batches in pinned memory directly, since each copy would cost as
// much as a small batch. The copy engine copies large batches in. Of a large batch of reads the
// kernel writes the values straight to the host, and the found bytes are copied out. Kernels of
// writes read their columns several times, so of a large batch of writes everything is copied out.
// Each channel has a stream and columns of its own, so copying in, kernels and copying out of
// successive batches overlap.
//
// A word in pinned memory tells the end of a batch (gpu/kernel/end_mark.h). In a small batch of
// reads the lookup itself sets it, so such a batch is one launch. From time to time the driver is
// asked as well, because a device that has failed writes no word.
//
// Threads. One at a time. Memory. Device: channels × rows × 34 bytes. Sources. Mega-KV,
// sections 4.3 and 6.1 (streams, and buffers that are handed round).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "batch/batch_path.h"
#include "gpu/kernel/end_mark.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/table/fixed_device_table.h"

namespace isotherm {

template <class Device, class Table = FixedDeviceTable<Device>>
class BulkPath final : public BatchPath {
 public:
  // `device` and `table` must outlive it. Throws std::bad_alloc.
  BulkPath(Device& device, Table& table, uint32_t channels, uint32_t rows)
      : device_(device),
        table_(table),
        memory_(device, 0),
        rows_(rows),
        words_(device, uint64_t{channels} * word_bytes),
        counters_(memory_, channels) {
    if (counters_.empty()) throw std::bad_alloc();
    for (uint32_t i = 0; i < channels; ++i) {
      channels_.push_back(std::make_unique<Channel>(device, memory_, rows));
      if (channels_.back()->memory.empty()) throw std::bad_alloc();
      channels_.back()->word = reinterpret_cast<uint64_t*>(words_.data() + i * word_bytes);
      *channels_.back()->word = 0;
    }
    const auto stream = channels_.front()->stream.get();
    require_device(
        device.clear(stream, counters_.data(), counters_.bytes()) && device.synchronize(stream),
        "clear counters");
  }

  void enter() override { require_device(device_.enter(), "choose the GPU"); }
  uint64_t most_rows() const override { return rows_; }

  void send(uint32_t number, const TableRequests& requests, int64_t now) override {
    Channel& channel = *channels_[number];
    const bool reads = is_gets(requests);
    const EndMark mark{channel.word, ++channel.batch};
    if (reads && requests.rows <= most_direct_reads) {
      table_.get_marked(requests, mark, counters_.data() + number, channel.stream.get());
    } else {
      if (reads) {
        run_reads(channel, requests);
      } else {
        run_writes(channel, requests);
      }
      require_device(
          device_.launch(channel.stream.get(), 1, EndMarkKernel::threads, EndMarkKernel{mark}),
          "end a batch");
    }
    require_device(device_.record(channel.end, channel.stream.get()), "record an event");
    channel.sent = channel.asked = now;
  }

  bool done(uint32_t number, int64_t now) override {
    Channel& channel = *channels_[number];
    if (__atomic_load_n(channel.word, __ATOMIC_ACQUIRE) == channel.batch) return true;
    if (now - channel.asked < ask_every_ns) return false;
    channel.asked = now;
    if (device_.done(channel.end)) return true;
    if (now - channel.sent < patience_ns) return false;
    // Asking cannot tell a slow device from one that has failed; waiting can.
    require_device(device_.synchronize(channel.end), "wait for a batch");
    return true;
  }

 private:
  static constexpr uint64_t most_direct_reads = 1 << 14;
  static constexpr uint64_t most_direct_writes = 1 << 12;
  static constexpr uint64_t word_bytes = 128;  // nobody else's cache line
  static constexpr uint64_t row_bytes = 4 * sizeof(uint64_t) + 2;
  static constexpr int64_t ask_every_ns = 20'000;
  static constexpr int64_t patience_ns = 50'000'000;

  struct Channel {
    Channel(Device& its_device, DeviceMemory<Device>& its_memory, uint64_t rows)
        : device(its_device),
          stream(its_device),
          end(its_device.create_event()),
          memory(its_memory, rows * row_bytes) {}
    // The batch under way ends before its memory does.
    ~Channel() {
      device.synchronize(stream.get());
      device.destroy_event(end);
    }
    Channel(const Channel&) = delete;
    Channel& operator=(const Channel&) = delete;

    uint64_t* words(uint32_t column, uint64_t rows) const {
      return reinterpret_cast<uint64_t*>(memory.data()) + column * rows;
    }
    uint8_t* bytes(uint32_t column, uint64_t rows) const {
      return reinterpret_cast<uint8_t*>(words(4, rows)) + column * rows;
    }

    Device& device;
    DeviceStream<Device> stream;
    typename Device::Event end;
    DeviceArray<Device, char> memory;  // columns, as wide as each batch needs
    uint64_t* word = nullptr;          // pinned: the number of the last batch that has ended
    uint64_t batch = 0;
    int64_t sent = 0;
    int64_t asked = 0;
  };

  template <class T>
  const T* copied_in(const Channel& channel, T* to, const T* from, uint64_t rows) {
    require_device(device_.to_device(channel.stream.get(), to, from, rows * sizeof(T)),
                   "copy a batch to the device");
    return to;
  }
  template <class T>
  void copy_out(const Channel& channel, T* to, const T* from, uint64_t rows) {
    require_device(device_.to_host(channel.stream.get(), to, from, rows * sizeof(T)),
                   "copy replies to the host");
  }

  void run_reads(const Channel& channel, const TableRequests& requests) {
    const uint64_t rows = requests.rows;
    TableRequests call = requests;
    call.keys = copied_in(channel, channel.words(0, rows), requests.keys, rows);
    call.found = channel.bytes(0, rows);
    table_.run(call, channel.stream.get());
    copy_out(channel, requests.found, call.found, rows);
  }

  void run_writes(const Channel& channel, const TableRequests& requests) {
    const uint64_t rows = requests.rows;
    if (rows <= most_direct_writes) {
      return table_.run(with_promise(requests, distinct_), channel.stream.get());
    }
    TableRequests call = requests;
    call.keys = copied_in(channel, channel.words(0, rows), requests.keys, rows);
    call.values = copied_in(channel, channel.words(1, rows), requests.values, rows);
    call.expected = copied_in(channel, channel.words(2, rows), requests.expected, rows);
    if (requests.ops != nullptr) {
      auto* ops = reinterpret_cast<TableOp*>(channel.bytes(1, rows));
      call.ops = copied_in(channel, ops, requests.ops, rows);
    }
    call.values_out = channel.words(3, rows);
    call.found = channel.bytes(0, rows);
    table_.run(call, channel.stream.get());
    copy_out(channel, requests.values_out, call.values_out, rows);
    copy_out(channel, requests.found, call.found, rows);
  }

  Device& device_;
  Table& table_;
  DeviceMemory<Device> memory_;
  const uint64_t rows_;
  PinnedBlock<Device> words_;
  DeviceArray<Device, uint32_t> counters_;  // of each channel's blocks
  std::vector<std::unique_ptr<Channel>> channels_;
  std::vector<uint32_t> distinct_;
};

}  // namespace isotherm
