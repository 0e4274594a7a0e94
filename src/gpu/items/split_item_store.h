// SplitItemStore: byte-string keys to byte-string values on one or more devices; what
// include/isotherm/gpu/item_table.h promises, over any devices.
//
// Each device has a DeviceItemStore with the keys of its shard, by the low half of their hash, as
// those of a SplitTable. A table on one device is that store, and nothing else. With several a call
// goes in parts of at most 2^18 rows: the host deals the rows of a part out to the shards
// (gpu/items/split_items.h), a thread for each device has its shard answered, and the host puts the
// replies together in the order of the rows. Arrays on a device are copied to the host before and
// from there after.
//
// Order. A shard has its rows in their order, and parts come one after another, so calls are
// answered as by one table. Walks go over one shard after another: a place is the shard's number
// and behind it the place that the shard has it at, less its lowest bits. Memory. Of the host:
// twice the strings of a part, and of replies as much for each device as the call has room for, of
// which only what is written is taken. Threads. Any; one mutex. The thread has the same device
// after a call. Calls wait on the host until they are answered. Limits. 32 devices. Errors. Those
// of a DeviceItemStore; after the failure of one device the whole table is lost.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/worker_pool.h"
#include "gpu/items/device_item_store.h"
#include "gpu/items/split_items.h"
#include "gpu/platform/device_loss.h"
#include "gpu/split/split_gpu.h"

namespace isotherm {

template <class Device>
class SplitItemStore {
 public:
  using Stream = typename Device::Stream;
  using Keep = typename Device::Keep;
  using Store = DeviceItemStore<Device>;

  // The devices must outlive the store. The host memory of the options is shared by all. Throws
  // std::invalid_argument for none or too many, std::bad_alloc, DeviceError.
  SplitItemStore(std::span<Device* const> devices, DeviceItemOptions options)
      : hash_{options.index.seed, options.hash_mask},
        place_bits_(devices.empty() ? 0 : std::bit_width(devices.size() - 1)),
        devices_(devices.begin(), devices.end()) {
    if (devices.empty() || devices.size() > ShardLayout::most_shards) {
      throw std::invalid_argument("a table of items lies on 1 to 32 GPUs");
    }
    const Keep keep;
    options.host_memory /= devices.size();
    for (Device* device : devices_) {
      require_device(device->enter(), "choose the GPU");
      stores_.push_back(std::make_unique<Store>(*device, options));
    }
    if (devices.size() > 1) pool_.emplace(static_cast<uint32_t>(devices.size()));
  }
  ~SplitItemStore() {
    const Keep keep;
    for (size_t i = 0; i < stores_.size(); ++i) {
      devices_[i]->enter();
      stores_[i].reset();
    }
  }
  SplitItemStore(const SplitItemStore&) = delete;
  SplitItemStore& operator=(const SplitItemStore&) = delete;

  // The store of a table on one device; null of others.
  Store* alone() { return stores_.size() == 1 ? stores_[0].get() : nullptr; }

  // The arrays lie in the memory of device `home`, and the stream is one of its.
  void run(const gpu::ItemRequests& requests, uint32_t home, Stream stream) {
    if (home >= stores_.size()) throw std::invalid_argument("the table has no such GPU");
    const Keep keep;
    require_device(devices_[home]->enter(), "choose the GPU");
    if (alone() != nullptr) return stores_[0]->run(requests, stream);
    item_columns::check_call(requests);
    guard([&] {
      OnHost there(*devices_[home], stream, requests);  // without memory for it nothing has changed
      all_or_lost([&] {
        answer(there.requests, false);
        there.bring_back(requests);
      });
    });
  }
  void run(const gpu::ItemRequests& requests, Stream stream) { run(requests, 0, stream); }

  // All pointers to host memory; the bytes of the reply.
  uint64_t run_host(const gpu::ItemRequests& requests) {
    const Keep keep;
    if (alone() != nullptr) {
      require_device(devices_[0]->enter(), "choose the GPU");
      return stores_[0]->run_host(requests);
    }
    item_columns::check_call(requests);
    uint64_t bytes = 0;
    use([&] { bytes = answer(requests, requests.replies.found == nullptr); });
    return bytes;
  }

  // A step of a walk; see DeviceItemStore::walk. Throws std::invalid_argument for a cursor of
  // another table.
  uint64_t walk(uint64_t cursor, uint64_t wanted, std::vector<WalkedItem>& to) {
    const uint64_t number = shard_at(cursor);
    if (number >= stores_.size()) throw std::invalid_argument("the cursor is none of this table");
    loss_.require_usable();
    const Keep keep;
    require_device(devices_[number]->enter(), "choose the GPU");
    const uint64_t next = stores_[number]->walk(cursor << place_bits_, wanted, to);
    if (next != 0) return place_in(number, next);
    return number + 1 < stores_.size() ? place_in(number + 1, 0) : 0;
  }
  // As DeviceItemStore::place_of.
  uint64_t place_of(std::string_view key) const {
    const uint32_t number = shard_of(key);
    return place_in(number, stores_[number]->place_of(key));
  }
  // Whether walks may go on there.
  bool has_place(uint64_t cursor) const { return shard_at(cursor) < stores_.size(); }

  // As DeviceItemStore::count.
  uint64_t count(std::string_view start, std::string_view but, int64_t now_ms) {
    uint64_t keys = 0;
    each([&](Store& store) { keys += store.count(start, but, now_ms); });
    return keys;
  }

  const ItemHash& hash() const { return hash_; }
  const std::vector<std::unique_ptr<Store>>& stores() const { return stores_; }

  void reserve(uint64_t entries) {
    each([&](Store& store) { store.reserve(entries / stores_.size() + 1); });
  }
  gpu::ItemStats stats() {
    gpu::ItemStats sum;
    each([&](Store& store) {
      const gpu::ItemStats its = store.stats();
      add_stats(sum, its);
      sum.evicted += its.evicted;
      sum.expired += its.expired;
      sum.host_item_bytes += its.host_item_bytes;
    });
    return sum;
  }

 private:
  static constexpr uint64_t part_rows = uint64_t{1} << 18;
  static constexpr uint64_t part_bytes = uint64_t{64} << 20;  // of keys, and of values

  uint32_t shard_of(std::string_view key) const {
    return shard_of_hash(hash_.of_host(key), static_cast<uint32_t>(stores_.size()));
  }
  uint64_t shard_at(uint64_t place) const {
    return place_bits_ != 0 ? place >> (64 - place_bits_) : 0;
  }
  uint64_t place_in(uint64_t shard, uint64_t place) const {
    return place_bits_ != 0 ? shard << (64 - place_bits_) | place >> place_bits_ : place;
  }

  // The columns of a call with arrays on a device.
  struct OnHost {
    OnHost(Device& its_device, Stream its_stream, const gpu::ItemRequests& call)
        : device(its_device), stream(its_stream), requests(call) {
      const uint64_t rows = call.rows;
      requests.keys = bytes_in(call.keys, rows, key_offsets, keys);
      requests.values = bytes_in(call.values, rows, value_offsets, values);
      requests.ops = column_in(call.ops, rows, ops);
      requests.expiry = column_in(call.expiry, rows, expiry);
      requests.flags = column_in(call.flags, rows, flags);
      requests.versions = column_in(call.versions, rows, versions);
      require_device(device.synchronize(stream), "wait for requests");
      const gpu::ItemReplies& to = call.replies;
      requests.replies.found = room_for(to.found, rows, found);
      requests.replies.offsets = room_for(to.offsets, rows + 1, offsets);
      requests.replies.versions = room_for(to.versions, rows, versions_out);
      requests.replies.new_versions = room_for(to.new_versions, rows, new_versions);
      requests.replies.expiry = room_for(to.expiry, rows, expiry_out);
      requests.replies.flags = room_for(to.flags, rows, flags_out);
      if (to.capacity != 0) bytes.reset(new char[to.capacity]);
      requests.replies.bytes = bytes.get();
    }
    void bring_back(const gpu::ItemRequests& call) {
      const gpu::ItemReplies& to = call.replies;
      require_device(device.enter(), "choose the GPU");
      column_out(to.found, found);
      column_out(to.offsets, offsets);
      column_out(to.versions, versions_out);
      column_out(to.new_versions, new_versions);
      column_out(to.expiry, expiry_out);
      column_out(to.flags, flags_out);
      const uint64_t used =
          offsets.empty() ? 0 : std::min(to.capacity, static_cast<uint64_t>(offsets.back()));
      if (used != 0 && static_cast<uint64_t>(offsets.back()) <= to.capacity) {
        require_device(device.to_device(stream, to.bytes, bytes.get(), used), "copy values back");
      }
      require_device(device.synchronize(stream), "copy replies back");
    }

    template <class T>
    const T* column_in(const T* from, uint64_t count, std::vector<T>& to) {
      if (from == nullptr || count == 0) return nullptr;
      to.resize(count);
      require_device(device.to_host(stream, to.data(), from, count * sizeof(T)), "copy requests");
      return to.data();
    }
    gpu::Bytes bytes_in(const gpu::Bytes& from, uint64_t rows, std::vector<int64_t>& column,
                        std::vector<char>& to) {
      if (from.offsets == nullptr) return {};
      column.resize(rows + 1);
      require_device(
          device.to_host(stream, column.data(), from.offsets, column.size() * sizeof(int64_t)) &&
              device.synchronize(stream),
          "copy offsets");
      const int64_t begin = column.front(), end = column.back();
      if (begin >= end) return {column.data(), nullptr};
      to.resize(static_cast<uint64_t>(end - begin));
      require_device(device.to_host(stream, to.data(), from.bytes + begin, to.size()),
                     "copy strings");
      for (int64_t& offset : column) offset -= begin;
      return {column.data(), to.data()};
    }
    template <class T>
    static T* room_for(const T* wanted, uint64_t count, std::vector<T>& to) {
      if (wanted != nullptr) to.resize(count);
      return wanted != nullptr ? to.data() : nullptr;
    }
    template <class T>
    void column_out(T* to, const std::vector<T>& from) {
      if (to == nullptr || from.empty()) return;
      require_device(device.to_device(stream, to, from.data(), from.size() * sizeof(T)),
                     "copy replies back");
    }

    Device& device;
    const Stream stream;
    gpu::ItemRequests requests;
    std::vector<int64_t> key_offsets, value_offsets, expiry, offsets, expiry_out;
    std::vector<char> keys, values;
    std::vector<TableOp> ops;
    std::vector<uint32_t> flags, flags_out;
    std::vector<uint64_t> versions, versions_out, new_versions;
    std::vector<uint8_t> found;
    std::unique_ptr<char[]> bytes;
  };

  template <class Work>
  void guard(Work&& work) {
    const Keep keep;
    const std::lock_guard lock(mutex_);
    loss_.guard(work, [] {});
  }
  template <class Work>
  void all_or_lost(Work&& work) {
    try {
      work();
    } catch (const std::bad_alloc&) {
      loss_.lose();  // some rows may have taken effect
      throw;
    }
  }
  template <class Work>
  void use(Work&& work) {
    guard([&] { all_or_lost(work); });
  }
  template <class Work>
  void each(Work&& work) {
    use([&] {
      for (size_t i = 0; i < stores_.size(); ++i) {
        require_device(devices_[i]->enter(), "choose the GPU");
        work(*stores_[i]);
      }
    });
  }

  uint64_t answer(const gpu::ItemRequests& call, bool tells_refused) {
    const gpu::ItemReplies& to = call.replies;
    if (to.offsets != nullptr) to.offsets[0] = 0;
    uint64_t end = 0, refused = 0;
    for (uint64_t first = 0; first < call.rows;) {
      uint64_t rows = std::min(part_rows, call.rows - first);
      rows = item_columns::fitting(call.keys, first, rows, part_bytes);
      rows = item_columns::fitting(call.values, first, rows, part_bytes);
      SplitItems part(call, first, rows, to.capacity - std::min(to.capacity, end),
                      static_cast<uint32_t>(stores_.size()), hash_);
      answer(part);
      end += part.put_together(end);
      refused += part.refused_rows();
      first += rows;
    }
    if (tells_refused && refused != 0) {
      throw std::invalid_argument("rows were refused, and the call has no column that says which");
    }
    return end;
  }

  // A thread for each device; of what they throw the first is told.
  void answer(const SplitItems& part) {
    std::vector<std::exception_ptr> failures(stores_.size());
    pool_->run(static_cast<uint32_t>(stores_.size()), [&](uint32_t i, uint32_t) {
      if (!part.has_rows(i)) return;
      const Keep keep;
      try {
        require_device(devices_[i]->enter(), "choose the GPU");
        stores_[i]->run_host(part.requests(i));
      } catch (...) {
        failures[i] = std::current_exception();
      }
    });
    for (const std::exception_ptr& failure : failures) {
      if (failure) std::rethrow_exception(failure);
    }
  }

  const ItemHash hash_;
  const int place_bits_;  // of a shard's number
  const std::vector<Device*> devices_;
  std::mutex mutex_;  // all below; not of a single device
  std::vector<std::unique_ptr<Store>> stores_;
  std::optional<WorkerPool> pool_;
  DeviceLoss loss_{"the table was lost when a device failed"};
};

}  // namespace isotherm
