// DeviceRowStore: u64 keys to rows in device memory; what include/isotherm/device_row_table.h
// promises, over any device.
//
// An index of keys to row numbers, and the rows. Calls are worked off in parts; a part of a get is
// a lookup and a copy. A part of a put is the same where keys are present. The host learns how many
// are not while their rows are copied, and offers these free rows, by a put_if_absent of their
// numbers, and copies theirs (gpu/row_kernels.h). So rows that are put again, as those of embeddings
// are, never enter the index's order of writers.
//
// Threads. Any; one mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <mutex>

#include "gpu/device_event.h"
#include "gpu/device_rows.h"
#include "gpu/fixed_device_table.h"
#include "gpu/pinned_block.h"

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
        absent_(memory_, part_rows_),
        absent_keys_(memory_, part_rows_),
        absent_count_(memory_, 1),
        report_(device, sizeof(uint32_t)),
        counted_(device),
        order_(device) {
    if (numbers_.empty() || present_.empty() || found_.empty() || absent_.empty() ||
        absent_keys_.empty() || absent_count_.empty()) {
      throw std::bad_alloc();
    }
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

  // A part of a put.
  struct Put {
    const Pair* rows;
    uint8_t* stored;  // or null
    uint32_t stamp;
    Stream stream;
  };

  void put_part(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t count,
                Stream stream) {
    const Put put{rows, stored, rows_.next_stamps(static_cast<uint32_t>(count), stream), stream};
    require_device(device_.clear(stream, absent_count_.data(), sizeof(uint32_t)), "clear a count");
    claim_present(put, keys, nullptr, count, absent_.data());
    require_device(device_.to_host(stream, report_.data(), absent_count_.data(), sizeof(uint32_t)),
                   "count absent keys");
    require_device(device_.record(counted_.get(), stream), "record an event");
    copy_in(put, nullptr, count);
    require_device(device_.synchronize(counted_.get()), "count absent keys");
    uint32_t absent = 0;
    std::memcpy(&absent, report_.data(), sizeof absent);
    if (absent != 0) put_absent(put, keys, absent);
  }

  void claim_present(const Put& put, const uint64_t* keys, const uint32_t* positions,
                     uint64_t count, uint32_t* absent) {
    DeviceRequests requests;
    requests.rows = count;
    requests.keys = keys;
    requests.values_out = numbers_.data();
    requests.found = found_.data();
    index_.run(requests, put.stream);
    launch(put.stream, count,
           ClaimPresentKernel{rows_.view(), put.stamp, positions, numbers_.data(), found_.data(),
                              put.stored, absent, absent_count_.data(), count});
  }

  void copy_in(const Put& put, const uint32_t* positions, uint64_t count) {
    launch(put.stream, count,
           CopyRowsKernel<true>{rows_.view(), numbers_.data(), found_.data(),
                                const_cast<Pair*>(put.rows), count, positions, put.stamp});
  }

  // Where memory ends, in parts that the free rows suffice for. Without any, a key may still have
  // got a row from a part before.
  void put_absent(const Put& put, const uint64_t* keys, uint32_t absent) {
    launch(put.stream, absent, GatherKeysKernel{keys, absent_.data(), absent_keys_.data(), absent});
    for (uint64_t first = 0; first < absent;) {
      const uint64_t some = rows_.reserve(absent - first, put.stream);
      const uint32_t* positions = absent_.data() + first;
      if (some == 0) {
        claim_present(put, absent_keys_.data() + first, positions, absent - first, nullptr);
        copy_in(put, positions, absent - first);
        return;
      }
      offer(put, absent_keys_.data() + first, positions, some);
      first += some;
    }
  }

  void offer(const Put& put, const uint64_t* keys, const uint32_t* positions, uint64_t count) {
    rows_.taken(count);
    const RowsView view = rows_.view();
    launch(put.stream, count, OfferRowsKernel{view, numbers_.data(), count});
    launch(put.stream, 1, TakeRowsKernel{view, count});
    DeviceRequests requests;
    requests.rows = count;
    requests.op = DeviceOp::put_if_absent;
    requests.keys = keys;
    requests.values = numbers_.data();
    requests.values_out = present_.data();
    requests.found = found_.data();
    index_.run(requests, put.stream);
    launch(put.stream, count,
           ClaimOffersKernel{view, put.stamp, positions, numbers_.data(), present_.data(),
                             found_.data(), put.stored, count});
    copy_in(put, positions, count);
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
  DeviceArray<Device, uint32_t> absent_;  // positions in the part
  DeviceArray<Device, uint64_t> absent_keys_;
  DeviceArray<Device, uint32_t> absent_count_;
  const PinnedBlock<Device> report_;  // of absent_count_
  const DeviceEvent<Device> counted_;
  CallOrder<Device> order_;
};

}  // namespace isotherm
