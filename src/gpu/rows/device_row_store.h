// DeviceRowStore: u64 keys to rows in device memory; what include/isotherm/device_row_table.h
// promises, over any device.
//
// An index of keys to row numbers, and the rows. Calls are worked off in parts; a part of a get is
// a lookup and a copy, a part of a put or of what inserts absent keys is an offer of free rows, a
// put_if_absent of their numbers, and a copy (gpu/rows/row_kernels.h).
//
// Threads. Any; one mutex.
#pragma once

#include <algorithm>
#include <cstdint>

#include "gpu/platform/device_context.h"
#include "gpu/rows/device_rows.h"
#include "gpu/table/fixed_device_table.h"

namespace isotherm {

struct DeviceRowOptions {
  uint32_t row_bytes = 0;
  uint64_t slab_bytes = uint64_t{64} << 20;
  FixedDeviceOptions index;  // its cap is for all
};

template <class Device>
class DeviceRowStore {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc, DeviceError.
  DeviceRowStore(Device& device, const DeviceRowOptions& options)
      : device_(device),
        part_rows_(options.index.max_part_rows),
        context_(device, options.index.gpu_memory),
        index_(context_.memory(), options.index),
        rows_(context_.memory(), options.row_bytes, slab_rows(options), context_.stream()),
        row_units_(options.row_bytes / sizeof(Pair)),
        numbers_(context_.memory(), part_rows_),
        present_(context_.memory(), part_rows_),
        found_(context_.memory(), part_rows_) {
    if (numbers_.empty() || present_.empty() || found_.empty()) throw std::bad_alloc();
  }

  ~DeviceRowStore() { context_.settle(); }
  DeviceRowStore(const DeviceRowStore&) = delete;
  DeviceRowStore& operator=(const DeviceRowStore&) = delete;

  // The list of numbers is one, so parts of gets take turns like those of puts.
  void get(const uint64_t* keys, Pair* rows, uint8_t* found, uint64_t n, Stream stream) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      look_up(keys + first, found + first, count, DeviceOp::get, stream);
      launch(stream, count,
             CopyRowsKernel<RowCopy::out>{rows_.view(), numbers_.data(), found + first,
                                          rows + first * row_units_, count});
    });
  }

  // Where memory has ended keys that are present are put all the same.
  void put(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t n, Stream stream) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      put_part(keys + first, const_cast<Pair*>(rows) + first * row_units_,
               stored != nullptr ? stored + first : nullptr, count, stream);
    });
  }

  // Rows of keys that are present are read, those of others inserted; of several requests for an
  // absent key the first inserts its row, and the others read that.
  void get_or_insert(const uint64_t* keys, Pair* rows, uint8_t* found, uint64_t n, Stream stream) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      get_or_insert_part(keys + first, rows + first * row_units_, found + first, count, stream);
    });
  }

  // Adds floats to the rows of keys that are present.
  void accumulate(const uint64_t* keys, const float* deltas, uint8_t* found, uint64_t n,
                  Stream stream) {
    const uint64_t floats = row_units_ * (sizeof(Pair) / sizeof(float));
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      uint8_t* replies = found != nullptr ? found + first : found_.data();
      look_up(keys + first, replies, count, DeviceOp::get, stream);
      launch(stream, count * floats,
             AccumulateRowsKernel{rows_.view(), numbers_.data(), replies, deltas + first * floats,
                                  count});
    });
  }

  void erase(const uint64_t* keys, uint64_t n, Stream stream) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      look_up(keys + first, found_.data(), count, DeviceOp::erase, stream);
      launch(stream, count, FreeRowsKernel{rows_.view(), numbers_.data(), found_.data(), count});
    });
  }

  // Grows for `entries` keys, and takes their rows, as far as there is memory.
  void reserve(uint64_t entries) {
    context_.write(context_.stream(), [&] {
      index_.reserve(entries);
      rows_.reserve(entries, context_.stream());
    });
  }

  DeviceTableStats stats() {
    DeviceTableStats stats;
    context_.call(context_.stream(), [&] {
      context_.order().drain();
      stats = index_.stats();
    });
    return stats;
  }

 private:
  static uint64_t slab_rows(const DeviceRowOptions& options) {
    return std::bit_floor(std::max<uint64_t>(options.slab_bytes / options.row_bytes, 64));
  }

  // A call, in parts.
  template <class Work>
  void parts(uint64_t n, Stream stream, Work&& work) {
    context_.write(stream, [&] {
      for (uint64_t first = 0; first < n; first += part_rows_) {
        work(first, std::min(part_rows_, n - first));
      }
    });
  }

  // The numbers of the keys' rows; erases leave none.
  void look_up(const uint64_t* keys, uint8_t* found, uint64_t count, DeviceOp op, Stream stream) {
    DeviceRequests requests;
    requests.rows = count;
    requests.op = op;
    requests.keys = keys;
    requests.values_out = numbers_.data();
    requests.found = found;
    index_.run(requests, stream);
  }

  // Calls with(first, rows) for parts whose rows may each take one, which were offered to the index
  // then, and without(first, rows) behind those that rows were left for.
  template <class With, class Without>
  void offer(const uint64_t* keys, uint8_t* found, uint64_t count, Stream stream, With&& with,
             Without&& without) {
    for (uint64_t first = 0; first < count;) {
      const uint64_t some = rows_.reserve(count - first, stream);
      if (some == 0) return without(first, count - first);
      rows_.taken(some);
      launch(stream, some, OfferRowsKernel{rows_.view(), numbers_.data(), some});
      launch(stream, 1, TakeRowsKernel{rows_.view(), some});
      DeviceRequests requests;
      requests.rows = some;
      requests.op = DeviceOp::put_if_absent;
      requests.keys = keys + first;
      requests.values = numbers_.data();
      requests.values_out = present_.data();
      requests.found = found + first;
      index_.run(requests, stream);
      with(first, some);
      first += some;
    }
  }

  void put_part(const uint64_t* keys, Pair* rows, uint8_t* stored, uint64_t count, Stream stream) {
    uint8_t* found = found_.data();
    const auto copy_in = [&](uint64_t first, uint64_t some) {
      launch(stream, some,
             CopyRowsKernel<RowCopy::put>{rows_.view(), numbers_.data(), found + first,
                                          rows + first * row_units_, some});
    };
    const auto from = [&](uint64_t first) { return stored != nullptr ? stored + first : nullptr; };
    offer(
        keys, found, count, stream,
        [&](uint64_t first, uint64_t some) {
          launch(stream, some,
                 ClaimRowsKernel<true>{rows_.view(), numbers_.data(), present_.data(),
                                       found + first, from(first), some});
          copy_in(first, some);
        },
        [&](uint64_t first, uint64_t some) {
          look_up(keys + first, found + first, some, DeviceOp::get, stream);
          launch(stream, some,
                 KeepRowsKernel{rows_.view(), numbers_.data(), found + first, from(first), some});
          copy_in(first, some);
        });
  }

  void get_or_insert_part(const uint64_t* keys, Pair* rows, uint8_t* found, uint64_t count,
                          Stream stream) {
    const auto copy_out = [&](uint64_t first, uint64_t some) {
      launch(stream, some,
             CopyRowsKernel<RowCopy::out>{rows_.view(), numbers_.data(), found + first,
                                          rows + first * row_units_, some});
    };
    offer(
        keys, found, count, stream,
        [&](uint64_t first, uint64_t some) {
          launch(stream, some,
                 ClaimRowsKernel<false>{rows_.view(), numbers_.data(), present_.data(),
                                        found + first, nullptr, some});
          launch(stream, some,
                 CopyRowsKernel<RowCopy::insert>{rows_.view(), numbers_.data(), found + first,
                                                 rows + first * row_units_, some});
          copy_out(first, some);
        },
        [&](uint64_t first, uint64_t some) {
          look_up(keys + first, found + first, some, DeviceOp::get, stream);
          launch(stream, some, RefuseRowsKernel{found + first, some});
          copy_out(first, some);
        });
  }

  template <class Kernel>
  void launch(Stream stream, uint64_t count, const Kernel& kernel) {
    constexpr uint32_t threads = 256;
    require_device(device_.launch(stream, grid_for(device_, count, threads), threads, kernel),
                   "launch a kernel of rows");
  }

  Device& device_;
  const uint64_t part_rows_;
  DeviceContext<Device> context_;
  FixedDeviceTable<Device> index_;
  DeviceRows<Device> rows_;
  const uint64_t row_units_;
  DeviceArray<Device, uint64_t> numbers_;  // of a part's requests
  DeviceArray<Device, uint64_t> present_;
  DeviceArray<Device, uint8_t> found_;
};

}  // namespace isotherm
