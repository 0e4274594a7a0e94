// ModelledItems: a table of device items with a model of it; each batch is checked request by
// request.
//
// The model is a std::map that runs the requests one by one. Replies of reply_retry are taken from
// the table: such a put has no effect. Where the table evicts, a key that it misses counts as
// evicted. Versions are taken from the table as well, where it tells them: those of a key must grow
// for ever, and later replies must tell the same. The clock stands at 10 ms; items that have
// expired may be counted or not. Threads. One.
#pragma once

#include <algorithm>
#include <cstdio>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "gpu/items/device_item_store.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

struct ItemRequest {
  TableOp op = TableOp::get;
  std::string key;
  std::string value;
  int64_t expiry = 0;
  uint32_t flags = 0;
  uint64_t expected = 0;  // version
};
using ItemBatch = std::vector<ItemRequest>;

// `count` puts of keys that were not there before, all of which live until `expiry`.
inline ItemBatch numbered_puts(uint64_t first, uint64_t count, uint64_t value_bytes,
                               int64_t expiry = 0) {
  ItemBatch batch;
  for (uint64_t i = first; i < first + count; ++i) {
    const std::string value(value_bytes, static_cast<char>(i));
    batch.push_back({TableOp::put, std::to_string(1'000'000 + i), value, expiry});
  }
  return batch;
}
inline ItemBatch of_keys(TableOp op, ItemBatch batch) {
  for (ItemRequest& request : batch) request = {op, request.key, {}};
  return batch;
}

template <class Device, class Store = DeviceItemStore<Device>>
class ModelledItems {
 public:
  static constexpr int64_t now = 10;

  ModelledItems(Device& device, const DeviceItemOptions& options)
      : ModelledItems(device, device, options) {}
  // Over some devices; arrays on a device lie on `home`, the first.
  template <class Devices>
  ModelledItems(Device& home, Devices&& devices, const DeviceItemOptions& options)
      : device_(entered(home)),
        memory_(home, 0),
        stream_(home),
        evicts_(options.evicts),
        store_(devices, options) {}

  uint64_t wrong() const { return wrong_; }
  uint64_t refused() const { return refused_; }
  // Keys that were missed.
  uint64_t missed() const { return missed_; }
  // Gets that found their key.
  uint64_t hits() const { return hits_; }
  // Writes with a version that took effect, and that did not.
  uint64_t swapped() const { return swapped_; }
  uint64_t not_swapped() const { return not_swapped_; }
  // Of the key's item; 0: it has none, or it is not known.
  uint64_t version(const std::string& key) const {
    const auto at = model_.find(key);
    return at != model_.end() ? at->second.version : 0;
  }
  // Whether replies tell all of what was there before: values of writes, and the other columns.
  void tell_all(bool all) { all_ = all; }
  gpu::ItemStats stats() { return store_.stats(); }
  Store& store() { return store_; }
  // The share of the bytes that replies need which there is room for.
  void limit_capacity(double share) { share_ = share; }

  void run(const ItemBatch& batch) { run_from(false, batch); }
  void run_host(const ItemBatch& batch) { run_from(true, batch); }
  void run_from(bool host, const ItemBatch& batch) {
    Columns columns(batch);
    call(host, batch, columns.requests(), true);
  }
  void run_uniform(TableOp op, const ItemBatch& batch, bool host, bool replies) {
    Columns columns(batch);
    gpu::ItemRequests requests = columns.requests();
    requests.ops = nullptr;
    requests.op = op;
    requests.expiry = nullptr;
    requests.flags = nullptr;
    if (!puts_item(op)) requests.values = {};
    call(host, batch, requests, replies);
  }

  // Every key of the model, and its neighbours.
  void check_all() {
    ItemBatch batch;
    for (const auto& [key, item] : model_) {
      batch.push_back({TableOp::get, key, {}});
      if (key.size() + 1 > gpu::max_item_key_bytes) continue;
      batch.push_back({TableOp::get, key + '\0', {}});
    }
    if (!batch.empty()) run_uniform(TableOp::get, batch, batch.size() % 4 == 0, true);
    const uint64_t entries = stats().entries;
    if (entries < live() || entries > model_.size()) fail("the count is wrong");
    if constexpr (requires { store_.count(std::string_view(), now); }) check_counts();
  }
  void check_caps(const DeviceItemOptions& options) {
    const gpu::ItemStats now_used = stats();
    if (now_used.bytes + now_used.workspace > options.index.gpu_memory) fail("more than the cap");
    if (now_used.host_bytes > options.host_memory) fail("more than the cap of the host");
  }
  // Keys of the model that begin so and have not expired.
  uint64_t live(std::string_view start = {}) const {
    const auto lives = [&](const auto& entry) {
      return !expired(entry.second) && entry.first.starts_with(start);
    };
    return static_cast<uint64_t>(std::count_if(model_.begin(), model_.end(), lives));
  }
  void fail(const char* what) {
    if (++wrong_ <= 10) std::printf("  %s\n", what);
  }

 private:
  void check_counts() {
    std::set<std::string> starts{"", "no key"};
    for (const auto& [key, item] : model_) {
      for (const size_t bytes : {1, 5, 8}) starts.insert(key.substr(0, bytes));
      if (starts.size() > 8) break;
    }
    for (const std::string& start : starts) {
      if (store_.count(start, now) != live(start)) fail("a count by beginnings is wrong");
    }
  }

  struct Modelled {
    std::string value;
    int64_t expiry;
    uint32_t flags;
    uint64_t version;  // 0: not known yet
  };

  // A batch as columns in host memory. The bytes begin behind some that belong to nobody.
  struct Columns {
    explicit Columns(const ItemBatch& batch)
        : key_offsets{3}, value_offsets{5}, keys(3, 'x'), values(5, 'y') {
      for (const ItemRequest& request : batch) {
        keys += request.key;
        values += request.value;
        key_offsets.push_back(static_cast<int64_t>(keys.size()));
        value_offsets.push_back(static_cast<int64_t>(values.size()));
        ops.push_back(request.op);
        expiry.push_back(request.expiry);
        flags.push_back(request.flags);
        versions.push_back(request.expected);
      }
    }
    gpu::ItemRequests requests() const {
      gpu::ItemRequests requests;
      requests.rows = ops.size();
      requests.ops = ops.data();
      requests.keys = {key_offsets.data(), keys.data()};
      requests.values = {value_offsets.data(), values.data()};
      requests.expiry = expiry.data();
      requests.flags = flags.data();
      requests.versions = versions.data();
      requests.now_ms = now;
      return requests;
    }
    std::vector<int64_t> key_offsets, value_offsets, expiry;
    std::string keys, values;
    std::vector<TableOp> ops;
    std::vector<uint32_t> flags;
    std::vector<uint64_t> versions;
  };

  struct Replies {
    std::vector<uint8_t> found;
    std::vector<int64_t> offsets;
    std::string bytes;
    // Empty where they are not asked for.
    std::vector<uint64_t> versions, new_versions;
    std::vector<int64_t> expiry;
    std::vector<uint32_t> flags;
  };
  static constexpr uint64_t guard = 32;  // bytes behind the capacity that nobody may write

  void call(bool host, const ItemBatch& batch, gpu::ItemRequests requests, bool wanted) {
    requests.now_ms = now;
    Replies replies;
    uint64_t capacity = 0;
    if (wanted) {
      capacity = static_cast<uint64_t>(static_cast<double>(most_bytes(batch)) * share_);
      replies.found.assign(batch.size(), 9);
      replies.offsets.assign(batch.size() + 1, -1);
      replies.bytes.assign(capacity + guard, '#');
    }
    if (wanted && all_) {
      replies.versions.assign(batch.size(), 1);
      replies.new_versions.assign(batch.size(), 1);
      replies.expiry.assign(batch.size(), 1);
      replies.flags.assign(batch.size(), 1);
    }
    if (host) {
      call_host(requests, replies, capacity, wanted);
    } else {
      call_device(requests, replies, capacity, wanted);
    }
    compare(batch, replies, capacity, wanted);
  }

  void call_host(gpu::ItemRequests& requests, Replies& replies, uint64_t capacity, bool wanted) {
    if (wanted) {
      requests.replies = {replies.found.data(), replies.offsets.data(), replies.bytes.data(),
                          capacity};
    }
    if (wanted && all_) {
      requests.replies.previous = true;
      requests.replies.versions = replies.versions.data();
      requests.replies.new_versions = replies.new_versions.data();
      requests.replies.expiry = replies.expiry.data();
      requests.replies.flags = replies.flags.data();
    }
    const uint64_t bytes = store_.run_host(requests);
    if (wanted && bytes != static_cast<uint64_t>(replies.offsets.back())) {
      fail("the bytes of the reply are not its last offset");
    }
  }

  void call_device(gpu::ItemRequests& requests, Replies& replies, uint64_t capacity, bool wanted) {
    const uint64_t rows = requests.rows;
    const auto ops = upload(requests.ops, rows);
    const auto expiry = upload(requests.expiry, rows);
    const auto flags = upload(requests.flags, rows);
    const auto versions = upload(requests.versions, rows);
    const auto key_offsets = upload(requests.keys.offsets, rows + 1);
    const auto value_offsets = upload(requests.values.offsets, rows + 1);
    const auto keys = upload_bytes(requests.keys, rows);
    const auto values = upload_bytes(requests.values, rows);
    DeviceArray<Device, uint8_t> found;
    DeviceArray<Device, int64_t> offsets;
    DeviceArray<Device, char> bytes;
    requests.ops = ops.data();
    requests.expiry = expiry.data();
    requests.flags = flags.data();
    requests.versions = versions.data();
    requests.keys = {key_offsets.data(), keys.data()};
    requests.values = {value_offsets.data(), values.data()};
    if (wanted) {
      found = upload(replies.found.data(), rows);
      offsets = upload(replies.offsets.data(), rows + 1);
      bytes = upload(replies.bytes.data(), replies.bytes.size());
      requests.replies = {found.data(), offsets.data(), bytes.data(), capacity};
    }
    DeviceArray<Device, uint64_t> versions_out, new_versions;
    DeviceArray<Device, int64_t> expiry_out;
    DeviceArray<Device, uint32_t> flags_out;
    if (wanted && all_) {
      requests.replies.previous = true;
      versions_out = upload(replies.versions.data(), rows);
      new_versions = upload(replies.new_versions.data(), rows);
      expiry_out = upload(replies.expiry.data(), rows);
      flags_out = upload(replies.flags.data(), rows);
      requests.replies.versions = versions_out.data();
      requests.replies.new_versions = new_versions.data();
      requests.replies.expiry = expiry_out.data();
      requests.replies.flags = flags_out.data();
    }
    store_.run(requests, stream_.get());
    if (wanted) {
      download(replies.found.data(), found);
      download(replies.offsets.data(), offsets);
      download(replies.bytes.data(), bytes);
    }
    if (wanted && all_) {
      download(replies.versions.data(), versions_out);
      download(replies.new_versions.data(), new_versions);
      download(replies.expiry.data(), expiry_out);
      download(replies.flags.data(), flags_out);
    }
    require_device(device_.synchronize(stream_.get()), "wait");
  }

  template <class T>
  DeviceArray<Device, T> upload(const T* from, uint64_t count) {
    if (from == nullptr) return {};
    DeviceArray<Device, T> to(memory_, count);
    require_device(device_.to_device(stream_.get(), to.data(), from, to.bytes()) &&
                       device_.synchronize(stream_.get()),
                   "copy");
    return to;
  }
  DeviceArray<Device, char> upload_bytes(const gpu::Bytes& column, uint64_t rows) {
    if (column.offsets == nullptr) return {};
    return upload(column.bytes, static_cast<uint64_t>(column.offsets[rows]));
  }
  template <class T>
  void download(T* to, const DeviceArray<Device, T>& from) {
    require_device(device_.to_host(stream_.get(), to, from.data(), from.bytes()), "copy");
  }

  // A bound of the bytes that the gets of a batch have to reply, whatever is refused.
  uint64_t most_bytes(const ItemBatch& batch) {
    std::map<std::string, uint64_t> longest;
    uint64_t bytes = 0;
    for (const ItemRequest& request : batch) {
      auto [at, first] = longest.try_emplace(request.key, 0);
      if (first) {
        const auto item = model_.find(request.key);
        if (item != model_.end()) at->second = item->second.value.size();
      }
      if (request.op == TableOp::get || all_) bytes += at->second;
      if (puts_item(request.op)) at->second = std::max(at->second, request.value.size());
    }
    return bytes;
  }

  // Runs the batch on the model and compares the replies.
  void compare(const ItemBatch& batch, const Replies& replies, uint64_t capacity, bool wanted) {
    const bool fits = wanted && static_cast<uint64_t>(replies.offsets.back()) <= capacity;
    if (wanted && share_ == 1 && !fits) fail("a reply is longer than it can be");
    if (wanted && replies.bytes.compare(capacity, guard, std::string(guard, '#')) != 0) {
      fail("wrote behind the capacity");
    }
    int64_t offset = 0;
    for (size_t i = 0; i < batch.size(); ++i) {
      const ItemRequest& request = batch[i];
      auto at = model_.find(request.key);
      bool present = at != model_.end() && !expired(at->second);
      if (present && evicts_ && wanted && replies.found[i] == 0) {
        model_.erase(at);
        present = false;
        ++missed_;
      }
      const bool retry = wanted && replies.found[i] == reply_retry;
      std::string value;
      if (present && (request.op == TableOp::get || (all_ && wanted)) && !retry) {
        value = at->second.value;
      }
      const bool effective = !retry && holds(request, present ? &at->second : nullptr);
      if (wanted) {
        if (!retry && replies.found[i] != found_of(request, present, effective)) {
          fail("found or missed");
        }
        if (replies.offsets[i] != offset) fail("an offset is wrong");
        offset += static_cast<int64_t>(value.size());
        if (replies.offsets[i + 1] != offset) {
          fail("a length is wrong");
          return;
        }
        if (fits && replies.bytes.compare(static_cast<size_t>(offset) - value.size(), value.size(),
                                          value) != 0) {
          fail("a value is wrong");
        }
      }
      refused_ += retry;
      hits_ += present && request.op == TableOp::get && !retry;
      if (wanted && all_ && !retry) {
        compare_columns(request, replies, i, present ? &at->second : nullptr, effective);
      }
      if (effective) apply(request, wanted && all_ ? replies.new_versions[i] : 0);
    }
  }

  // Whether the request changes something, or would if its key were there; of a version that is not
  // known none may hold.
  bool holds(const ItemRequest& request, const Modelled* item) {
    if (request.op == TableOp::put_if_absent) return item == nullptr;
    if (request.op == TableOp::put_if_present) return item != nullptr;
    if (!names_version(request.op)) return request.op != TableOp::get;
    if (item != nullptr && item->version == 0) fail("a version was to be known");
    const bool same = item != nullptr && item->version == request.expected;
    if (item != nullptr) ++(same ? swapped_ : not_swapped_);
    return same;
  }
  static uint8_t found_of(const ItemRequest& request, bool present, bool effective) {
    if (present && names_version(request.op) && !effective) return gpu::reply_other_version;
    return present ? 1 : 0;
  }

  void compare_columns(const ItemRequest& request, const Replies& replies, size_t i, Modelled* item,
                       bool effective) {
    uint64_t& highest = highest_[request.key];
    if (item != nullptr && item->version == 0) {
      item->version = replies.versions[i];
      if (item->version <= highest) fail("a version is not higher than those before it");
      highest = std::max(highest, item->version);
    }
    if (replies.versions[i] != (item != nullptr ? item->version : 0)) fail("a version is wrong");
    if (replies.expiry[i] != (item != nullptr ? item->expiry : 0)) fail("an expiry is wrong");
    if (replies.flags[i] != (item != nullptr ? item->flags : 0)) fail("flags are wrong");
    const bool changes = effective && (!erases_item(request.op) || item != nullptr);
    const uint64_t given = replies.new_versions[i];
    if ((given != 0) != changes) fail("a version was given, or none");
    if (changes && given <= highest) fail("a new version is not higher than those before it");
    highest = std::max(highest, given);
  }

  void apply(const ItemRequest& request, uint64_t version) {
    if (puts_item(request.op)) {
      model_[request.key] = {request.value, request.expiry, request.flags, version};
    }
    if (erases_item(request.op)) model_.erase(request.key);
  }
  static Device& entered(Device& device) {
    require_device(device.enter(), "choose the GPU");
    return device;
  }
  static bool expired(const Modelled& item) { return item.expiry != 0 && item.expiry <= now; }

  Device& device_;
  DeviceMemory<Device> memory_;
  DeviceStream<Device> stream_;
  const bool evicts_;
  Store store_;
  std::map<std::string, Modelled> model_;
  std::map<std::string, uint64_t> highest_;  // version ever seen of a key
  bool all_ = false;
  double share_ = 1;
  uint64_t wrong_ = 0;
  uint64_t refused_ = 0;
  uint64_t missed_ = 0;
  uint64_t hits_ = 0;
  uint64_t swapped_ = 0;
  uint64_t not_swapped_ = 0;
};

}  // namespace isotherm
