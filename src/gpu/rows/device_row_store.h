// DeviceRowStore: u64 keys to rows in device memory; what include/isotherm/gpu/row_table.h
// promises, over any device.
//
// An index of keys to row numbers, and the rows. Calls are worked off in parts; a part of a get is
// a lookup and a copy. A part of a put is the same where keys are present. The host learns how many
// are not while their rows are copied, and offers these free rows, by a put_if_absent of their
// numbers, and copies theirs (gpu/rows/row_kernels.h). So rows that are put again, as those of
// embeddings are, never enter the index's order of writers. A get_or_insert goes the same way, but
// rows of present keys are copied out.
//
// Memory. Before rows are offered parts have what they work in, and the index room, as far as there
// will be rows: rows would take all that is left. Where memory ends in a part, requests are offered
// rows in no order of their positions, so all absent keys are looked up once more behind the last
// offer: whoever finds its key present then has a row.
//
// Host memory. Where the device has no room for the index of a part's keys, or for the lists of
// rows, slabs of rows go to the host (gpu/rows/row_slabs.h), as long as that has room.
//
// Eviction. Where rows end they are taken from the lowest scores before more are offered
// (gpu/rows/row_scores.h). Rows that the part has taken before have no score yet, so they stay.
//
// Threads. Any; one mutex.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "gpu/platform/device_context.h"
#include "gpu/platform/device_event.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/rows/device_rows.h"
#include "gpu/rows/row_call.h"
#include "gpu/rows/row_scores.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/table/table_scan.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

struct DeviceRowOptions {
  static constexpr uint64_t least_slab_rows = 64;

  uint32_t row_bytes = 0;
  uint64_t slab_bytes = uint64_t{64} << 20;
  FixedDeviceOptions index;  // its cap is for all
  uint64_t most_rows = 0;    // 0: as many as memory has room for
  uint64_t host_memory = 0;  // bytes of rows behind the device; 0: none
  gpu::RowScores scores = gpu::RowScores::none;
  bool evicts = false;

  // With host memory, or where rows go for others, the index takes what it needs in small steps, so
  // that slabs may fill the rest. Rows that a part has written stay until its end, so where they go
  // a part's rows take an eighth of the cap at most. Throws std::invalid_argument where rows go for
  // others and the cap has no room for two slabs of the fewest rows.
  DeviceRowOptions fitted() const {
    constexpr uint64_t request_bytes = 128;  // of a part, about
    DeviceRowOptions its = *this;
    const uint64_t cap = its.index.gpu_memory;
    if ((its.host_memory == 0 && !evicts) || cap == 0) return its;
    constexpr uint64_t fewest = 2 * least_slab_rows;
    if (evicts && cap / row_bytes < fewest) {
      throw std::invalid_argument("memory must have room for " + std::to_string(fewest) +
                                  " rows or more where rows are evicted");
    }
    its.index.line_bits = std::min(its.index.line_bits, shared_line_bits(cap));
    const uint64_t least_rows = evicts ? 64 : 1 << 14;
    const uint64_t bytes = request_bytes + (evicts ? row_bytes : 0);
    uint32_t& rows = its.index.max_part_rows;
    while (rows > least_rows && rows * bytes > cap / 8) rows /= 2;
    if (evicts) its.slab_bytes = std::min(slab_bytes, cap / 32);
    return its;
  }
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
        rows_(context_.memory(),
              {options.row_bytes, slab_rows(options), options.most_rows,
               options.scores != gpu::RowScores::none, options.host_memory},
              context_.stream()),
        scoring_(context_.memory(), rows_, options.scores, options.evicts, part_rows_),
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
    // Rows would leave none to the parts of the calls that let rows go.
    if (options.evicts && options.index.gpu_memory != 0) {
      index_.reserve_workspace(static_cast<uint32_t>(part_rows_));
    }
  }

  ~DeviceRowStore() { context_.settle(); }
  DeviceRowStore(const DeviceRowStore&) = delete;
  DeviceRowStore& operator=(const DeviceRowStore&) = delete;

  void run(const gpu::RowRequests& call, Stream stream) {
    context_.write(stream, [&] {
      for (uint64_t first = 0; first < call.n; first += part_rows_) {
        begin_part(part_of(call, first, std::min(part_rows_, call.n - first), row_bytes()), stream);
        end_part(stream);
      }
    });
  }
  // A call of one part in two halves, so that those of several devices overlap: end() may wait for
  // what begin() has queued. Nothing else is asked in between.
  void begin(const gpu::RowRequests& part, Stream stream) {
    context_.write(stream, [&] { begin_part(part, stream); });
  }
  void end(Stream stream) {
    if (begun_) context_.write(stream, [&] { end_part(stream); });
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

  // A chunk of an export, to columns on the device. Cursors, whose five lowest bits are zeros, are
  // 32 times the number of a row, or, where rows have no scores, those of scan().
  uint64_t export_rows(uint64_t cursor, gpu::RowExport& chunk, Stream stream) {
    uint64_t next = 0;
    context_.write(stream, [&] {
      next = scoring_.kept() ? export_scored(cursor / 32, chunk, stream)
                             : export_keys(cursor, chunk, stream);
    });
    return next;
  }

  gpu::TableStats stats() {
    gpu::TableStats stats;
    context_.call(context_.stream(), [&] {
      context_.order().drain();
      stats = index_.stats();
      stats.evictions = scoring_.evictions();
      stats.host_bytes = rows_.host_bytes();
      stats.host_entries = rows_.used_on_host(context_.stream());
    });
    return stats;
  }

 private:
  // Slabs are smaller where the host's memory is, so that they fill it.
  static uint64_t slab_rows(const DeviceRowOptions& options) {
    constexpr uint64_t least_bytes = uint64_t{4} << 20, slabs = 16;
    uint64_t bytes = options.slab_bytes;
    if (options.host_memory != 0) {
      bytes = std::min(bytes, std::max(options.host_memory / slabs, least_bytes));
    }
    return std::bit_floor(std::max(bytes / options.row_bytes, DeviceRowOptions::least_slab_rows));
  }

  uint64_t row_bytes() const { return row_units_ * sizeof(Pair); }

  // The list of numbers is one, so parts of gets take turns like those of puts.
  void begin_part(const gpu::RowRequests& part, Stream stream) {
    scoring_.tick();
    begun_.reset();
    switch (part.op) {
      case gpu::RowOp::get:
        return get(part, stream);
      case gpu::RowOp::accumulate:
        return accumulate(part, stream);
      case gpu::RowOp::erase:
        return erase(part, stream);
      case gpu::RowOp::put:
      case gpu::RowOp::get_or_insert:
        return write(part, stream);
    }
  }
  void end_part(Stream /*stream*/) {
    if (!begun_) return;
    const Part part = *begun_;
    begun_.reset();
    require_device(device_.synchronize(counted_.get()), "count absent keys");
    uint32_t absent = 0;
    std::memcpy(&absent, report_.data(), sizeof absent);
    if (absent != 0) write_absent(part, absent);
  }

  void get(const gpu::RowRequests& part, Stream stream) {
    look_up(part.keys, part.found, part.n, TableOp::get, stream);
    const RowWriters found{numbers_.data(), part.found, part.n, nullptr, {}};
    scoring_.template score<RowCopy::out>(found, part.keys, part.scores, stream);
    if (part.rows == nullptr) return;
    launch(stream, part.n,
           CopyRowsKernel<RowCopy::out>{rows_.view(), found, static_cast<Pair*>(part.rows)});
  }

  void accumulate(const gpu::RowRequests& part, Stream stream) {
    const uint64_t floats = row_bytes() / sizeof(float);
    uint8_t* const replies = replies_of(part);
    look_up(part.keys, replies, part.n, TableOp::get, stream);
    scoring_.template score<RowCopy::out>({numbers_.data(), replies, part.n, nullptr, {}},
                                          part.keys, nullptr, stream);
    launch(stream, part.n * floats,
           AccumulateRowsKernel{rows_.view(), numbers_.data(), replies,
                                static_cast<const float*>(part.rows), part.n});
  }

  void erase(const gpu::RowRequests& part, Stream stream) {
    uint8_t* const replies = replies_of(part);
    look_up(part.keys, replies, part.n, TableOp::erase, stream);
    launch(stream, part.n, FreeRowsKernel{rows_.view(), numbers_.data(), replies, part.n});
  }
  uint8_t* replies_of(const gpu::RowRequests& part) {
    return part.found != nullptr ? part.found : found_.data();
  }

  // The numbers of the keys' rows; erases leave none.
  void look_up(const uint64_t* keys, uint8_t* found, uint64_t count, TableOp op, Stream stream) {
    TableRequests requests;
    requests.rows = count;
    requests.op = op;
    requests.keys = keys;
    requests.values_out = numbers_.data();
    requests.found = found;
    index_.run(requests, stream);
  }

  // A part of a put, or of a get_or_insert.
  struct Part {
    const uint64_t* keys;
    Pair* rows;
    uint8_t* replies;  // or null
    uint64_t* scores;  // or null
    uint64_t count;
    bool inserts;
    RowStamps stamps;
    Stream stream;
  };

  // The first half of a part that writes: what is present.
  void write(const gpu::RowRequests& call, Stream stream) {
    const auto requests = static_cast<uint32_t>(call.n);
    const uint32_t stamp = rows_.next_stamps(requests, stream);
    const RowStamps grow{stamp, 1};
    const RowStamps fall{stamp + requests - 1, ~uint32_t{0}};
    const bool inserts = call.op == gpu::RowOp::get_or_insert;
    const Part part{call.keys, static_cast<Pair*>(call.rows), call.found, call.scores, call.n,
                    inserts,   inserts ? fall : grow,         stream};
    require_device(device_.clear(stream, absent_count_.data(), sizeof(uint32_t)), "clear a count");
    claim_present(part, part.keys, nullptr, part.count, absent_.data(), !inserts);
    require_device(
        device_.to_host(stream, report_.data(), absent_count_.data(), sizeof(uint32_t)) &&
            device_.record(counted_.get(), stream),
        "count absent keys");
    inserts ? copy<RowCopy::out>(part, nullptr, part.count)
            : copy<RowCopy::put>(part, nullptr, part.count);
    begun_ = part;
  }

  void claim_present(const Part& part, const uint64_t* keys, const uint32_t* positions,
                     uint64_t count, uint32_t* absent, bool claims) {
    look_up(keys, found_.data(), count, TableOp::get, part.stream);
    launch(part.stream, count,
           ClaimPresentKernel{rows_.view(), part.stamps, positions, numbers_.data(), found_.data(),
                              part.replies, absent, absent_count_.data(), count, claims});
  }

  template <RowCopy which>
  void copy(const Part& part, const uint32_t* positions, uint64_t count) {
    const RowWriters writers{numbers_.data(), found_.data(), count, positions, part.stamps};
    launch(part.stream, count, CopyRowsKernel<which>{rows_.view(), writers, part.rows});
    scoring_.template score<which>(writers, part.keys,
                                   which == RowCopy::out ? nullptr : part.scores, part.stream);
  }

  // Requests whose keys were absent when the part began.
  void write_absent(const Part& part, uint32_t absent) {
    const uint32_t* positions = absent_.data();
    launch(part.stream, absent,
           GatherKeysKernel{part.keys, positions, absent_keys_.data(), absent});
    if (!offer_rows(part, absent)) {
      claim_present(part, absent_keys_.data(), positions, absent, nullptr, true);
    }
    if (!part.inserts) {
      copy<RowCopy::put>(part, positions, absent);
      return;
    }
    launch(part.stream, absent,
           InsertRepliesKernel{rows_.view(), part.stamps, positions, numbers_.data(), found_.data(),
                               part.replies, absent});
    copy<RowCopy::insert>(part, positions, absent);
    copy<RowCopy::out>(part, positions, absent);
  }

  // Offers rows to all of them, or as many as memory allows. Whether the index has answered all at
  // once, and a key's requests alike. Throws std::bad_alloc before anything is taken.
  bool offer_rows(const Part& part, uint32_t absent) {
    const uint32_t at_once = index_.reserve_workspace(absent);
    uint64_t first = 0;
    uint64_t some = 0;
    for (; first < absent; first += some) {
      some = make_room(absent - first, part.stream);
      if (some == 0) break;
      offer(absent_keys_.data() + first, some, part.stream);
      launch(part.stream, some,
             ClaimOffersKernel{rows_.view(), part.stamps, absent_.data() + first, numbers_.data(),
                               present_.data(), found_.data(), part.replies, some});
    }
    return some == absent && at_once >= absent;
  }

  // For so many keys, or fewer where memory may end; how many. There it goes slab by slab, since
  // the index grows by doubling, and would take what the rows need.
  uint64_t make_room(uint64_t keys, Stream stream) {
    constexpr uint64_t bytes_of_index = 36;  // a key, about
    const uint64_t possible = rows_.possible(keys, bytes_of_index, stream);
    const uint64_t wanted = possible < 2 * keys ? std::min(keys, rows_.with_a_slab()) : keys;
    if (rows_.host_has_room()) {
      make_room_to_find(wanted, stream);
    } else if (possible != 0) {
      index_.has_room(std::min(wanted, possible));
    }
    uint64_t some = rows_.reserve(wanted, stream);
    if (scoring_.evicts() && (some < wanted || rows_.complete())) {
      scoring_.evict(index_, keys, some, stream);
      some = rows_.reserve(keys, stream);
    }
    if (scoring_.evicts() ? some == 0 : some < keys) ++shortages_;
    return some;
  }

  // Rows of the device are in the way of what finds rows. The index comes last, since it takes more
  // than it needs.
  void make_room_to_find(uint64_t keys, Stream stream) {
    rows_.reserve_lists(keys, stream);
    while (!index_.has_room(keys) && rows_.move_to_host(stream)) {
    }
  }

  uint64_t export_scored(uint64_t row, gpu::RowExport& chunk, Stream stream) {
    const uint64_t rows = rows_.count();
    const uint64_t room = std::min(chunk.capacity, part_rows_);
    uint32_t count = 0;
    // What may be left of the room is not worth another step.
    while (row < rows && count <= room - room / 8) {
      const uint64_t some = std::min(rows - row, room - count);
      if (some == 0) break;
      count = scoring_.select(row, some, chunk, numbers_.data(), found_.data(), count, stream);
      row += some;
    }
    if (count != 0 && chunk.rows != nullptr) {
      launch(stream, count,
             CopyRowsKernel<RowCopy::out>{rows_.view(),
                                          {numbers_.data(), found_.data(), count, nullptr, {}},
                                          static_cast<Pair*>(chunk.rows)});
    }
    chunk.count = count;
    return row < rows ? row * 32 : 0;
  }

  // Keys by a walk over the index. It shows whole lines, so a chunk is filled to the half, and
  // where that is too much, by one line.
  uint64_t export_keys(uint64_t bound, gpu::RowExport& chunk, Stream stream) {
    std::vector<uint64_t> keys;
    TableScan<Device> scan(device_);
    uint64_t wanted = std::max<uint64_t>(chunk.capacity / 2, 1);
    uint64_t next = 0;
    for (;; wanted = 1) {
      keys.clear();
      next = scan.run(index_, seed_, bound, wanted, wanted, stream,
                      [&](uint64_t key, uint64_t /*row*/) { keys.push_back(key); });
      if (keys.size() <= chunk.capacity) break;
      if (wanted == 1) throw std::invalid_argument("the chunks of an export are too small");
    }
    chunk.count = keys.size();
    for (uint64_t first = 0; first < keys.size(); first += part_rows_) {
      export_part(std::span(keys).subspan(first, std::min(part_rows_, keys.size() - first)), first,
                  chunk, stream);
    }
    return next;
  }

  // To the chunk's places from `first` on.
  void export_part(std::span<const uint64_t> keys, uint64_t first, const gpu::RowExport& chunk,
                   Stream stream) {
    uint64_t* const to = chunk.keys != nullptr ? chunk.keys + first : absent_keys_.data();
    require_device(device_.to_device(stream, to, keys.data(), keys.size_bytes()) &&
                       device_.synchronize(stream),
                   "copy keys");
    if (chunk.rows == nullptr) return;
    char* const rows = static_cast<char*>(chunk.rows) + first * row_bytes();
    get({gpu::RowOp::get, keys.size(), to, rows, found_.data()}, stream);
  }

  // To keys that are expected to be absent, so many free rows as there are.
  void offer(const uint64_t* keys, uint64_t count, Stream stream) {
    rows_.taken(count);
    launch(stream, count, OfferRowsKernel{rows_.view(), numbers_.data(), count});
    launch(stream, 1, TakeRowsKernel{rows_.view(), count});
    TableRequests requests;
    requests.rows = count;
    requests.op = TableOp::put_if_absent;
    requests.keys = keys;
    requests.values = numbers_.data();
    requests.values_out = present_.data();
    requests.found = found_.data();
    index_.run(requests, stream);
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
  RowScoring<Device> scoring_;
  const uint64_t row_units_;
  DeviceArray<Device, uint64_t> numbers_;  // of a part's requests
  DeviceArray<Device, uint64_t> present_;
  DeviceArray<Device, uint8_t> found_;
  DeviceArray<Device, uint32_t> absent_;  // positions in the part
  DeviceArray<Device, uint64_t> absent_keys_;
  DeviceArray<Device, uint32_t> absent_count_;
  const PinnedBlock<Device> report_;  // of absent_count_
  const DeviceEvent<Device> counted_;
  std::optional<Part> begun_;  // a part whose second half is missing
  uint64_t shortages_ = 0;
};

}  // namespace isotherm
