// DeviceRowStore: u64 keys to rows in device memory; what include/isotherm/device_row_table.h
// promises, over any device.
//
// An index of keys to row numbers, and the rows. Calls are worked off in parts; a part of a get is
// a lookup and a copy. A part of a put is the same where keys are present. The host learns how many
// are not while their rows are copied, and offers these free rows, by a put_if_absent of their
// numbers, and copies theirs (gpu/rows/row_kernels.h). So rows that are put again, as those of
// embeddings are, never enter the index's order of writers. A part of a get_or_insert whose keys
// are all present is a get.
//
// Memory. Before rows are offered parts have what they work in, and the index room, as far as there
// will be rows: rows would take all that is left.
//
// Threads. Any; one mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>

#include "gpu/platform/device_context.h"
#include "gpu/platform/device_event.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/device_rows.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/table/table_scan.h"
#include "gpu/transfer/count_misses_kernel.h"

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
        seed_(options.index.seed),
        context_(device, options.index.gpu_memory),
        index_(context_.memory(), options.index),
        rows_(context_.memory(), options.row_bytes, slab_rows(options), context_.stream()),
        row_units_(options.row_bytes / sizeof(Pair)),
        numbers_(context_.memory(), part_rows_),
        present_(context_.memory(), part_rows_),
        found_(context_.memory(), part_rows_),
        absent_(context_.memory(), part_rows_),
        absent_keys_(context_.memory(), part_rows_),
        absent_count_(context_.memory(), 1),
        report_(device, sizeof(uint64_t)),
        counted_(device) {
    if (numbers_.empty() || present_.empty() || found_.empty() || absent_.empty() ||
        absent_keys_.empty() || absent_count_.empty()) {
      throw std::bad_alloc();
    }
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

  // Which keys are there.
  void contains(const uint64_t* keys, uint8_t* found, uint64_t n, Stream stream) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      look_up(keys + first, found + first, count, DeviceOp::get, stream);
    });
  }

  void put(const uint64_t* keys, const Pair* rows, uint8_t* stored, uint64_t n, Stream stream) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      put_part(keys + first, rows + first * row_units_,
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

  void erase(const uint64_t* keys, uint64_t n, Stream stream, uint8_t* found = nullptr) {
    parts(n, stream, [&](uint64_t first, uint64_t count) {
      uint8_t* replies = found != nullptr ? found + first : found_.data();
      look_up(keys + first, replies, count, DeviceOp::erase, stream);
      launch(stream, count, FreeRowsKernel{rows_.view(), numbers_.data(), replies, count});
    });
  }

  // Grows for `entries` keys, and takes their rows, as far as there is memory.
  void reserve(uint64_t entries) {
    context_.write(context_.stream(), [&] {
      index_.reserve(entries);
      rows_.reserve(entries, context_.stream());
    });
  }

  // As that of a FixedDeviceTable.
  uint64_t shortages() {
    uint64_t sum = 0;
    context_.call(context_.stream(), [&] { sum = shortages_ + index_.shortages(); });
    return sum;
  }

  // A step of a walk over all keys: visit(key) for about `wanted` of them from `cursor` on. Returns
  // the cursor to go on from, 0 at the end.
  template <class Visit>
  uint64_t scan(uint64_t cursor, uint64_t wanted, Visit&& visit) {
    uint64_t next = 0;
    context_.call(context_.stream(), [&] {
      TableScan<Device> scan(device_);
      context_.order().drain();
      next = scan.run(index_, seed_, cursor, wanted, wanted, context_.stream(),
                      [&](uint64_t key, uint64_t /*row*/) { visit(key); });
    });
    return next;
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
    look_up(keys, found_.data(), count, DeviceOp::get, put.stream);
    launch(put.stream, count,
           ClaimPresentKernel{rows_.view(), put.stamp, positions, numbers_.data(), found_.data(),
                              put.stored, absent, absent_count_.data(), count});
  }

  void copy_in(const Put& put, const uint32_t* positions, uint64_t count) {
    launch(put.stream, count,
           CopyRowsKernel<RowCopy::put>{rows_.view(), numbers_.data(), found_.data(),
                                        const_cast<Pair*>(put.rows), count, positions, put.stamp});
  }

  // Where memory ends, in parts that the free rows suffice for. Without any, a key may still have
  // got a row from a part before.
  void put_absent(const Put& put, const uint64_t* keys, uint32_t absent) {
    launch(put.stream, absent, GatherKeysKernel{keys, absent_.data(), absent_keys_.data(), absent});
    for (uint64_t first = 0; first < absent;) {
      const uint64_t some = make_room(absent - first, put.stream);
      const uint32_t* positions = absent_.data() + first;
      if (some == 0) {
        claim_present(put, absent_keys_.data() + first, positions, absent - first, nullptr);
        copy_in(put, positions, absent - first);
        return;
      }
      offer(absent_keys_.data() + first, found_.data(), some, put.stream);
      launch(put.stream, some,
             ClaimOffersKernel<true>{rows_.view(), numbers_.data(), present_.data(), found_.data(),
                                     some, positions, put.stamp, put.stored});
      copy_in(put, positions, some);
      first += some;
    }
  }

  // For so many keys, or as many as memory has room for; how many. Throws std::bad_alloc, and no
  // later step of the part does.
  uint64_t make_room(uint64_t keys, Stream stream) {
    constexpr uint64_t bytes_of_index = 36;  // a key, about
    index_.reserve_workspace(static_cast<uint32_t>(keys));
    const uint64_t possible = rows_.possible(keys, bytes_of_index, stream);
    if (possible != 0) index_.has_room(std::min(keys, possible));
    const uint64_t some = rows_.reserve(keys, stream);
    if (some < keys) ++shortages_;
    return some;
  }

  // To keys that are expected to be absent, so many free rows as there are.
  void offer(const uint64_t* keys, uint8_t* found, uint64_t count, Stream stream) {
    rows_.taken(count);
    launch(stream, count, OfferRowsKernel{rows_.view(), numbers_.data(), count});
    launch(stream, 1, TakeRowsKernel{rows_.view(), count});
    DeviceRequests requests;
    requests.rows = count;
    requests.op = DeviceOp::put_if_absent;
    requests.keys = keys;
    requests.values = numbers_.data();
    requests.values_out = present_.data();
    requests.found = found;
    index_.run(requests, stream);
  }

  void get_or_insert_part(const uint64_t* keys, Pair* rows, uint8_t* found, uint64_t count,
                          Stream stream) {
    if (get_if_all_present(keys, rows, found, count, stream)) return;
    for (uint64_t first = 0; first < count;) {
      const uint64_t reserved = make_room(count - first, stream);
      const uint64_t some = reserved != 0 ? reserved : count - first;
      uint8_t* replies = found + first;
      Pair* own = rows + first * row_units_;
      if (reserved != 0) {
        offer(keys + first, replies, some, stream);
        launch(stream, some,
               ClaimOffersKernel<false>{rows_.view(), numbers_.data(), present_.data(), replies,
                                        some});
        launch(stream, some,
               CopyRowsKernel<RowCopy::insert>{rows_.view(), numbers_.data(), replies, own, some});
      } else {
        look_up(keys + first, replies, some, DeviceOp::get, stream);
        launch(stream, some, RefuseRowsKernel{replies, some});
      }
      launch(stream, some,
             CopyRowsKernel<RowCopy::out>{rows_.view(), numbers_.data(), replies, own, some});
      first += some;
    }
  }

  // Then neither rows nor room in the index are taken for them.
  bool get_if_all_present(const uint64_t* keys, Pair* rows, uint8_t* found, uint64_t count,
                          Stream stream) {
    look_up(keys, found_.data(), count, DeviceOp::get, stream);
    auto* const misses = reinterpret_cast<uint64_t*>(report_.data());
    const CountMissesKernel kernel{found_.data(), count, misses};
    require_device(device_.launch(stream, 1, CountMissesKernel::threads, kernel) &&
                       device_.record(counted_.get(), stream) &&
                       device_.synchronize(counted_.get()),
                   "count absent keys");
    if (*misses != 0) return false;
    require_device(device_.copy(stream, found, found_.data(), count), "copy replies");
    launch(stream, count,
           CopyRowsKernel<RowCopy::out>{rows_.view(), numbers_.data(), found, rows, count});
    return true;
  }

  template <class Kernel>
  void launch(Stream stream, uint64_t count, const Kernel& kernel) {
    constexpr uint32_t threads = 256;
    require_device(device_.launch(stream, grid_for(device_, count, threads), threads, kernel),
                   "launch a kernel of rows");
  }

  Device& device_;
  const uint64_t part_rows_;
  const uint64_t seed_;
  DeviceContext<Device> context_;
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
  uint64_t shortages_ = 0;
};

}  // namespace isotherm
