#include "tree/device_files.h"

#include <algorithm>
#include <cstring>
#include <new>
#include <utility>
#include <vector>

#include "base/worker_pool.h"
#include "gpu/platform/device_error.h"
#include "gpu/udp/packet_device.h"
#include "isotherm/gpu/common.h"
#include "tree/device_columns.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

constexpr char escape = '\xff';
constexpr uint64_t read_bytes_at_once = 64 << 20;
constexpr size_t ahead = 16;  // entries whose bytes are on their way

}  // namespace

DeviceFiles::DeviceFiles(std::unique_ptr<ItemTier> tier, DeviceFilesOptions options)
    : tier_(std::move(tier)), options_(std::move(options)), gets_(*this, options_.read_columns) {}

std::string_view DeviceFiles::device_key(uint32_t database, std::string_view key, std::string& to) {
  if (is_plain(database, key)) return key;
  TreeRecord::put_key(database, key, to);
  to[0] = escape;
  return to;
}

void DeviceFiles::put_device_key(std::string_view tree_key, std::string& to) {
  const std::string_view key = tree_key.substr(TreeRecord::prefix_bytes);
  const bool plain = is_plain(TreeRecord::database_of(tree_key), key);
  to.assign(plain ? key : tree_key);
  if (!plain) to[0] = escape;
}

bool DeviceFiles::is_plain(uint32_t database, std::string_view key) {
  return database == 0 && !key.starts_with(escape);
}

std::string DeviceFiles::tree_key_of(std::string_view device_key) {
  std::string key;
  if (device_key.starts_with(escape)) {
    key = device_key;
    key[0] = 'i';
  } else {
    TreeRecord::put_key(0, device_key, key);
  }
  return key;
}

std::string_view DeviceFiles::item_key(std::string_view device_key) {
  return device_key.starts_with(escape) ? device_key.substr(TreeRecord::prefix_bytes) : device_key;
}

template <class Work>
bool DeviceFiles::use(Work&& work) {
  if (is_lost()) return false;
  try {
    work(*tier_);
    // Of several devices the others may have answered what is no longer so.
    return !is_lost();
  } catch (const DeviceError& error) {
    lose(error.what());
  } catch (const std::bad_alloc&) {
    // In the middle of a call: the store is of no use any more.
    lose("there is no memory to write to it");
  }
  return false;
}

void DeviceFiles::lose(const std::string& why) {
  if (lost_.exchange(true)) return;
  const auto keys = static_cast<uint64_t>(std::max<int64_t>(items_.load(), 0));
  lost_keys_.fetch_add(keys);
  events().tell("the GPU was given up (" + why + "): of " + std::to_string(keys) +
                " keys on it those that host memory lacks are lost");
}

std::unique_ptr<DirectGets> DeviceFiles::make_direct(const DirectShape& shape) {
  return is_lost() ? nullptr : tier_->make_direct(shape);
}

std::unique_ptr<PacketDevice> DeviceFiles::make_packets(const PacketOptions& options) {
  return is_lost() ? nullptr : tier_->make_packets(options);
}

gpu::ItemStats DeviceFiles::stats() {
  gpu::ItemStats stats;
  use([&](ItemTier& tier) { stats = tier.stats(); });
  return stats;
}

std::optional<uint64_t> DeviceFiles::count(uint32_t database, int64_t now_ms) {
  uint64_t keys = 0;
  const std::lock_guard stays(places_mutex_);
  {
    const std::lock_guard guard(mutex_);
    for (const auto& [hash, item] : rest_) {
      TreeRecord record;
      const bool there = record.read(item->record) && !record.expired(now_ms);
      keys += there && TreeRecord::database_of(item->key) == database ? 1 : 0;
    }
  }
  const bool escaped = has_escaped_.load(std::memory_order_acquire);
  // In one call, since others write between two.
  const bool worked = use([&](ItemTier& tier) {
    if (database != 0 && !escaped) return;
    std::string start;
    TreeRecord::put_key(database, {}, start);
    start[0] = escape;
    const std::string_view but = std::string_view(start).substr(0, database == 0 ? 1 : 0);
    keys += tier.count(start, but, now_ms);
  });
  return worked ? std::optional(keys) : std::nullopt;
}

TreeFiles::Glance DeviceFiles::glance(std::string_view key, std::string& value) {
  if (has_rest()) {
    const std::lock_guard guard(mutex_);
    if (const auto at = find_rest(key); at != rest_.end()) {
      value = at->second->record;
      return Glance::found;
    }
  }
  return is_lost() || !any_.load(std::memory_order_acquire) ? Glance::absent : Glance::maybe;
}

void DeviceFiles::read(std::span<const std::string_view> keys, TreeRead* reads) {
  using enum TreeRead::State;
  std::vector<std::string_view> there;
  std::vector<size_t> asked;
  for (size_t i = 0; i < keys.size(); ++i) {
    reads[i].state = absent;
    const Glance glanced = glance(keys[i], reads[i].value);
    if (glanced == Glance::found) reads[i].state = found;
    if (glanced != Glance::maybe || keys[i].size() > gpu::max_item_key_bytes) continue;
    there.push_back(keys[i]);
    asked.push_back(i);
  }
  std::vector<TreeRead> direct(there.size());
  std::vector<size_t> left;
  size_t at = 0;
  const bool worked = use([&](ItemTier&) {
    try {
      at = gets_.read(there, direct.data(), left);
    } catch (const std::bad_alloc&) {
      left.clear();
    }
  });
  if (!worked) return;
  for (size_t i = 0; i < at; ++i) reads[asked[i]] = std::move(direct[i]);
  for (size_t i = at; i < there.size(); ++i) left.push_back(i);
  ByteColumn column;
  std::string device_key;
  for (const size_t i : left) {
    put_device_key(there[i], device_key);
    column.add(device_key);
  }
  for (size_t first = 0; first < left.size();) {
    const size_t some =
        read_records(column, first, read_bytes_at_once, [&](size_t row, std::string&& record) {
          TreeRead& read = reads[asked[left[row]]];
          if (record.empty()) return;
          read.state = found;
          read.value = std::move(record);
        });
    if (some == 0) return;
    first += some;
  }
}

size_t DeviceFiles::read_records(const ByteColumn& device_keys, size_t first, uint64_t most_bytes,
                                 const ShowRecord& show) {
  constexpr uint64_t a_row = 256;
  size_t rows = device_keys.rows() - first;
  if (rows == 0) return 0;
  std::vector<uint8_t> hits(rows);
  std::vector<int64_t> offsets(rows + 1);
  std::vector<uint32_t> flags(rows);
  std::string bytes;
  bytes.resize(std::min(rows * a_row, std::max(most_bytes, a_row)));
  gpu::ItemRequests gets;
  gets.keys = device_keys.view(first);
  const bool worked = use([&](ItemTier& tier) {
    for (;;) {
      gets.rows = rows;
      gets.replies = {.found = hits.data(),
                      .offsets = offsets.data(),
                      .bytes = bytes.data(),
                      .capacity = bytes.size(),
                      .flags = flags.data()};
      const uint64_t needed = tier.run(gets);
      if (needed <= bytes.size()) return;
      if (needed <= most_bytes || rows == 1) {
        bytes.resize(needed);
      } else {
        rows = (rows + 1) / 2;
      }
    }
  });
  if (!worked) return 0;
  for (size_t i = 0; i < rows; ++i) {
    std::string record;
    if (hits[i] == 1) {
      const auto length = static_cast<size_t>(offsets[i + 1] - offsets[i]);
      record.reserve(length + 1);
      record.push_back(static_cast<char>(flags[i]));
      record.append(bytes, static_cast<size_t>(offsets[i]), length);
    }
    show(first + i, std::move(record));
  }
  return rows;
}

// No key comes twice, so pieces may go to the device in any order: each thread packs its own.
std::string DeviceFiles::ingest(std::span<const TreeEntry> entries, const TreeMeta& /*meta*/,
                                uint32_t threads) {
  std::vector<std::span<const TreeEntry>> pieces;
  for (size_t first = 0; first < entries.size();) {
    size_t end = first;
    for (uint64_t bytes = 0; end < entries.size() && end - first < options_.rows_at_once; ++end) {
      bytes += entries[end].key.size() + entries[end].value.size();
      if (bytes > bytes_at_once && end != first) break;
    }
    pieces.push_back(entries.subspan(first, end - first));
    first = end;
  }
  const auto count = static_cast<uint32_t>(pieces.size());
  WorkerPool pool(std::min(threads, count));
  pool.run(count, [&](uint32_t piece, uint32_t) { ingest_some(pieces[piece]); });
  // The device has let some go of which nobody was told: they had expired, or were evicted.
  use([&](ItemTier& tier) { items_.store(static_cast<int64_t>(tier.stats().entries)); });
  return {};
}

void DeviceFiles::ingest_some(std::span<const TreeEntry> entries) {
  DeviceColumns columns;
  std::string device_key;
  bool escaped = false;
  bool moves = false;
  uint64_t key_bytes = 0;
  uint64_t record_bytes = 0;
  for (const TreeEntry& entry : entries) {
    key_bytes += entry.key.size();
    record_bytes += entry.value.size();
  }
  columns.reserve(entries.size(), key_bytes, std::min(record_bytes, bytes_at_once));
  for (size_t i = 0; i < entries.size(); ++i) {
    const TreeEntry& entry = entries[i];
    if (i + ahead < entries.size()) {
      __builtin_prefetch(entries[i + ahead].key.data());
      __builtin_prefetch(entries[i + ahead].value.data());
      if (entries[i + ahead].value.size() > 64) {
        __builtin_prefetch(entries[i + ahead].value.data() + 64);
      }
    }
    if (entry.key.size() <= gpu::max_item_key_bytes) {
      put_device_key(entry.key, device_key);
      escaped |= device_key.starts_with(escape);
      columns.add(device_key, fits_device(entry) ? entry.value : std::string_view());
    }
    moves = moves || !fits_device(entry) || is_in_rest(entry.key);
  }
  any_.store(true, std::memory_order_release);
  if (escaped) has_escaped_.store(true, std::memory_order_release);
  keep_for_moment(columns);
  // Who looks at both sides meanwhile must not miss what goes from one to the other.
  std::unique_lock stays(places_mutex_, std::defer_lock);
  if (moves) {
    stays.lock();
    change_rest(entries);
  }
  const bool worked = use([&](ItemTier& tier) {
    if (!columns.ops.empty()) tier.run(columns.requests(options_.now_ms()));
  });
  worked ? settle(columns, entries, stays) : take_in_rest(entries);
}

void DeviceFiles::keep_for_moment(const DeviceColumns& columns) {
  if (columns.ops.empty() || is_lost()) return;
  if (const auto its = moment(); its != nullptr) its->keep(columns.keys);
}

void DeviceFiles::write(ItemTier& tier, DeviceColumns& columns, int64_t now_ms) {
  keep_for_moment(columns);
  tier.run(columns.requests(now_ms));
}

// What became of a call's rows, one for each entry whose key is not too long. `stays` is held from
// the first of them on that goes to the rest.
void DeviceFiles::settle(const DeviceColumns& sent, std::span<const TreeEntry> entries,
                         std::unique_lock<std::mutex>& stays) {
  DeviceColumns evicted;
  int64_t more = 0;
  auto entry = entries.begin();
  for (size_t row = 0; row < sent.ops.size(); ++row, ++entry) {
    const bool puts = sent.ops[row] == TableOp::put;
    while (entry->key.size() > gpu::max_item_key_bytes) ++entry;
    if (sent.found[row] == reply_retry) {
      if (!stays.owns_lock()) stays.lock();
      if (!options_.evicts) keep_crowding(*entry);
      const gpu::Bytes keys = sent.keys.view();
      const int64_t at = keys.offsets[row];
      evicted.add({keys.bytes + at, static_cast<size_t>(keys.offsets[row + 1] - at)}, {});
    } else if (sent.found[row] == (puts ? 0 : 1)) {
      more += puts ? 1 : -1;
    }
  }
  items_.fetch_add(more);
  if (evicted.ops.empty()) return;
  // What was there before them must not be shown in their place; a moment has kept it.
  use([&](ItemTier& tier) { tier.run(evicted.requests(0)); });
}

// They stay in the rest, too, until the device has them, so that they are found all the time.
void DeviceFiles::tend() {
  if (!crowded_.load(std::memory_order_acquire) || is_lost()) return;
  const std::lock_guard moves(places_mutex_);
  const std::vector<Rest> some = misplaced();
  DeviceColumns columns;
  std::string device_key;
  for (const Rest& one : some) {
    put_device_key(one->key, device_key);
    columns.add(device_key, one->record);
  }
  const bool worked = use([&](ItemTier& tier) {
    if (!some.empty()) write(tier, columns, options_.now_ms());
  });
  if (!worked) return;
  bool crowded = false;
  for (size_t row = 0; row < some.size(); ++row) {
    if (columns.found[row] == reply_retry) {
      crowded = true;
      continue;
    }
    items_.fetch_add(columns.found[row] == 0 ? 1 : 0);
    const std::lock_guard guard(mutex_);
    erase_rest(find_rest(some[row]->key));
  }
  crowded |= most_rest() != 0 && rest_bytes_.load() > most_rest();
  crowded_.store(crowded || !misplaced().empty(), std::memory_order_release);
}

std::string DeviceFiles::erase_range(std::string_view first, std::string_view end) {
  const auto is_its = [&](std::string_view key) { return first <= key && key < end; };
  {
    const std::lock_guard guard(mutex_);
    for (auto at = rest_.begin(); at != rest_.end();) {
      const auto next = std::next(at);
      if (is_its(at->second->key)) erase_rest(at);
      at = next;
    }
  }
  if (!any_.load(std::memory_order_acquire)) return {};
  use([&](ItemTier& tier) {
    uint64_t bound = 0;
    std::vector<WalkedItem> some;
    do {
      some.clear();
      bound = tier.walk(bound, options_.rows_at_once, some);
      DeviceColumns erases;
      for (const WalkedItem& item : some) {
        if (is_its(tree_key_of(item.key))) erases.add(item.key, {});
      }
      if (erases.ops.empty()) continue;
      write(tier, erases, 0);
      items_.fetch_sub(static_cast<int64_t>(erases.ops.size()));
    } while (bound != 0);
  });
  return {};
}

std::string DeviceFiles::walk(std::string_view /*from*/, std::string_view /*end*/,
                              const Visit& /*visit*/) {
  return "gpu-items: there is no order of keys";
}

bool DeviceFiles::walk_items(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to,
                             uint64_t& next) {
  next = 0;
  if (!any_.load(std::memory_order_acquire)) return true;
  return use([&](ItemTier& tier) { next = tier.walk(bound, wanted, to); });
}

// Whoever writes at the end may still hold the moment.
class DeviceFiles::Walk final : public MomentWalk {
 public:
  Walk(DeviceFiles& files, std::shared_ptr<DeviceMoment> moment)
      : files_(files), moment_(std::move(moment)) {}
  ~Walk() override {
    moment_->leave();
    const std::lock_guard guard(files_.mutex_);
    files_.moment_.reset();
  }
  std::string step(const Show& show) override { return moment_->step(show); }
  bool ended() const override { return moment_->ended(); }

 private:
  DeviceFiles& files_;
  const std::shared_ptr<DeviceMoment> moment_;
};

std::unique_ptr<MomentWalk> DeviceFiles::walk_moment() {
  const std::lock_guard guard(mutex_);
  DeviceMoment::HostItems host_items;
  for (const auto& [hash, rest] : rest_) host_items.push_back(rest);
  moment_ = std::make_shared<DeviceMoment>(*this, std::move(host_items), options_.most_kept);
  return std::make_unique<Walk>(*this, moment_);
}

std::shared_ptr<DeviceMoment> DeviceFiles::moment() {
  const std::lock_guard guard(mutex_);
  return moment_;
}

uint64_t DeviceFiles::memory() {
  const auto its = moment();
  return rest_bytes_.load(std::memory_order_relaxed) + gets_.bytes() +
         (its != nullptr ? its->bytes() : 0);
}

std::unique_ptr<TreeView> DeviceFiles::view(bool /*sorted*/) {
  throw TreeError("gpu-items: what is on a GPU is shown by walks alone");
}

std::string DeviceFiles::checkpoint(const std::string& /*folder*/) {
  return "gpu-items: there are no checkpoints of items on a GPU";
}

}  // namespace isotherm
