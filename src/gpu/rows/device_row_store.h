// DeviceRowStore: u64 keys to rows in device memory; what include/isotherm/device_row_table.h
// promises, over any device.
//
// An index of keys to row numbers, and the rows. Calls are worked off in parts; a part of a get is
// a lookup and a copy, a part of a put is an offer of free rows, a put_if_absent of their numbers,
// and a copy (gpu/rows/row_kernels.h).
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
             CopyRowsKernel<false>{rows_.view(), numbers_.data(), found + first,
                                   rows + first * row_units_, count});
    });
  }

  void put(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t n, Stream stream) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      put_part(keys + first, rows + first * row_units_,
               stored != nullptr ? stored + first : nullptr, count, stream);
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

  // Where memory has ended keys that are present are put all the same; requests behind the rows
  // that are left are offered none.
  void put_part(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t count,
                Stream stream) {
    const uint64_t free = rows_.reserve(count, stream);
    if (free < count) {
      put_few(keys, rows, stored, count, free, stream);
      return;
    }
    rows_.taken(count);
    const RowsView view = rows_.view();
    launch(stream, count, OfferRowsKernel{view, numbers_.data(), count});
    launch(stream, 1, TakeRowsKernel{view, count});
    DeviceRequests requests;
    requests.rows = count;
    requests.op = DeviceOp::put_if_absent;
    requests.keys = keys;
    requests.values = numbers_.data();
    requests.values_out = present_.data();
    requests.found = found_.data();
    index_.run(requests, stream);
    launch(stream, count,
           ClaimRowsKernel{view, numbers_.data(), present_.data(), found_.data(), stored, count});
    launch(
        stream, count,
        CopyRowsKernel<true>{view, numbers_.data(), found_.data(), const_cast<Pair*>(rows), count});
  }

  // In parts that the free rows suffice for; without any, only rows of present keys.
  void put_few(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t count,
               uint64_t free, Stream stream) {
    for (uint64_t first = 0; first < count;) {
      const uint64_t some = std::min(count - first, std::max<uint64_t>(free, 1));
      uint8_t* to = stored != nullptr ? stored + first : nullptr;
      if (free == 0) {
        replace_part(keys + first, rows + first * row_units_, to, count - first, stream);
        return;
      }
      put_part(keys + first, rows + first * row_units_, to, some, stream);
      first += some;
      free = rows_.reserve(count - first, stream);
    }
  }

  void replace_part(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t count,
                    Stream stream) {
    look_up(keys, found_.data(), count, DeviceOp::get, stream);
    const RowsView view = rows_.view();
    launch(stream, count, KeepRowsKernel{view, numbers_.data(), found_.data(), stored, count});
    launch(
        stream, count,
        CopyRowsKernel<true>{view, numbers_.data(), found_.data(), const_cast<Pair*>(rows), count});
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
