// DeviceRowStore: u64 keys to rows in device memory; what include/isotherm/device_row_table.h
// promises, over any device.
//
// An index of keys to row numbers, and the rows. Calls are worked off in parts; a part of a get is
// a lookup and a copy, a part of a put is an offer of free rows, a put_if_absent of their numbers,
// and a copy (gpu/row_kernels.h).
//
// Threads. Any; one mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <mutex>

#include "gpu/device_rows.h"
#include "gpu/fixed_device_table.h"

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
        stream_(device),
        memory_(device, options.index.gpu_memory),
        index_(memory_, options.index),
        rows_(memory_, options.row_bytes, slab_rows(options), stream_.get()),
        row_units_(options.row_bytes / sizeof(Pair)),
        numbers_(memory_, part_rows_),
        present_(memory_, part_rows_),
        found_(memory_, part_rows_),
        order_(device) {
    if (numbers_.empty() || present_.empty() || found_.empty()) throw std::bad_alloc();
  }
  ~DeviceRowStore() {
    try {
      order_.drain();
    } catch (const DeviceError&) {
    }
  }

  void get(const uint64_t* keys, Pair* rows, uint8_t* found, uint64_t n, Stream stream) {
    const std::lock_guard guard(mutex_);
    // The list of numbers is one, so parts of gets take turns like those of puts.
    order_.begin_write(stream);
    parts(n, [&](uint64_t first, uint64_t count) {
      DeviceRequests requests;
      requests.rows = count;
      requests.keys = keys + first;
      requests.values_out = numbers_.data();
      requests.found = found + first;
      index_.run(requests, stream);
      launch(stream, count,
             CopyRowsKernel<false>{rows_.view(), numbers_.data(), found + first,
                                   rows + first * row_units_, count});
    });
    order_.end_write(stream);
  }

  void put(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t n, Stream stream) {
    const std::lock_guard guard(mutex_);
    order_.begin_write(stream);
    parts(n, [&](uint64_t first, uint64_t count) {
      put_part(keys + first, rows + first * row_units_,
               stored != nullptr ? stored + first : nullptr, count, stream);
    });
    order_.end_write(stream);
  }

  void erase(const uint64_t* keys, uint64_t n, Stream stream) {
    const std::lock_guard guard(mutex_);
    order_.begin_write(stream);
    parts(n, [&](uint64_t first, uint64_t count) {
      DeviceRequests requests;
      requests.rows = count;
      requests.op = DeviceOp::erase;
      requests.keys = keys + first;
      requests.values_out = numbers_.data();
      requests.found = found_.data();
      index_.run(requests, stream);
      launch(stream, count, FreeRowsKernel{rows_.view(), numbers_.data(), found_.data(), count});
    });
    order_.end_write(stream);
  }

  DeviceTableStats stats() {
    const std::lock_guard guard(mutex_);
    order_.drain();
    return index_.stats();
  }

 private:
  static uint64_t slab_rows(const DeviceRowOptions& options) {
    return std::bit_floor(std::max<uint64_t>(options.slab_bytes / options.row_bytes, 64));
  }

  template <class Work>
  void parts(uint64_t n, Work&& work) const {
    for (uint64_t first = 0; first < n; first += part_rows_) {
      work(first, std::min(part_rows_, n - first));
    }
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
    DeviceRequests requests;
    requests.rows = count;
    requests.keys = keys;
    requests.values_out = numbers_.data();
    requests.found = found_.data();
    index_.run(requests, stream);
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
  std::mutex mutex_;  // all below
  DeviceStream<Device> stream_;
  DeviceMemory<Device> memory_;
  FixedDeviceTable<Device> index_;
  DeviceRows<Device> rows_;
  const uint64_t row_units_;
  DeviceArray<Device, uint64_t> numbers_;  // of a part's requests
  DeviceArray<Device, uint64_t> present_;
  DeviceArray<Device, uint8_t> found_;
  CallOrder<Device> order_;
};

}  // namespace isotherm
