// The part of DeviceFiles that lies in host memory, and walks over both parts.
#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "tree/device_files.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

constexpr uint64_t rest_node_bytes = 128;  // of an item of the rest, beside its text

// Of cursors the upper 48 bits count (engine/walk.h).
constexpr int lowest_place_bit = 16;

uint64_t rest_bytes_of(const TreeEntry& entry) {
  return rest_node_bytes + entry.key.size() + entry.value.size();
}

}  // namespace

bool DeviceFiles::fits_device(uint64_t key_bytes, uint64_t record_bytes) {
  return key_bytes <= gpu::max_item_key_bytes && record_bytes <= gpu::max_item_value_bytes;
}

// The cursor at which walks come to the key, made odd.
uint64_t DeviceFiles::rest_place(std::string_view key) const {
  std::string device_key;
  put_device_key(key, device_key);
  return (place_of(device_key) >> lowest_place_bit << lowest_place_bit) | 1;
}

bool DeviceFiles::is_in_rest(std::string_view key) {
  if (!has_rest()) return false;
  const std::lock_guard guard(mutex_);
  return find_rest(key) != rest_.end();
}

// What the key has now goes for it.
bool DeviceFiles::takes(std::string_view key, uint64_t value_bytes) {
  constexpr uint64_t most_head = 64;  // of a record
  const uint64_t most = most_rest();
  const bool is_for_device = fits_device(key.size(), value_bytes + most_head);
  if (is_for_device || options_.evicts || most == 0 || is_lost()) return true;
  const std::lock_guard guard(mutex_);
  const auto old = find_rest(key);
  const uint64_t goes = old != rest_.end() ? rest_bytes_of({key, old->second->record}) : 0;
  const uint64_t needed = rest_node_bytes + key.size() + value_bytes + most_head;
  return rest_bytes_.load() + needed <= most + goes;
}

// As the run has it: what is for the device goes.
void DeviceFiles::change_rest(std::span<const TreeEntry> entries) {
  for (const TreeEntry& entry : entries) {
    if (has_rest()) {
      const std::lock_guard guard(mutex_);
      erase_rest(find_rest(entry.key));
    }
    if (entry.value.empty() || fits_device(entry) || is_lost()) continue;
    if (options_.evicts) {
      force_rest(entry);
    } else if (!put_rest(entry)) {
      keep_crowding(entry);
    }
  }
}

void DeviceFiles::keep_crowding(const TreeEntry& entry) {
  put_rest(entry, true);
  crowded_.store(true, std::memory_order_release);
}

std::string DeviceFiles::crowding() {
  if (!crowded_.load(std::memory_order_acquire)) return {};
  const auto is_for_device = [this](const auto& one) { return is_misplaced(*one.second); };
  const std::lock_guard guard(mutex_);
  if (std::any_of(rest_.begin(), rest_.end(), is_for_device)) {
    return "gpu-items: the memory of the GPU is full";
  }
  constexpr uint64_t mib = 1 << 20;
  return "gpu-items: what is too long for the GPU takes " +
         std::to_string(rest_bytes_.load() / mib + 1) +
         "mb of host memory, and its part of maxmemory, an eighth, is " +
         std::to_string(most_rest() / mib) + "mb";
}

bool DeviceFiles::is_misplaced(const HostItem& item) const {
  return fits_device({item.key, item.record});
}

// Of the rest, what is for the device; some, if there is much.
std::vector<DeviceFiles::Rest> DeviceFiles::misplaced() {
  std::vector<Rest> some;
  uint64_t bytes = 0;
  const std::lock_guard guard(mutex_);
  for (auto at = rest_.begin(); at != rest_.end() && some.size() < options_.rows_at_once; ++at) {
    if (bytes > bytes_at_once || !is_misplaced(*at->second)) continue;
    some.push_back(at->second);
    bytes += at->second->record.size();
  }
  return some;
}

void DeviceFiles::take_in_rest(std::span<const TreeEntry> entries) {
  for (const TreeEntry& entry : entries) {
    {
      const std::lock_guard guard(mutex_);
      erase_rest(find_rest(entry.key));
    }
    if (!entry.value.empty()) lost_keys_.fetch_add(force_rest(entry));
  }
}

// Some of the rest from the cursor on, which becomes where the next ones begin, 0 at the end: at
// least `count`, if there are as many before `end`, where that is not 0.
std::vector<DeviceFiles::Rest> DeviceFiles::step_of_rest(uint64_t& cursor, uint64_t count,
                                                         uint64_t end) {
  std::vector<Rest> some;
  const std::lock_guard guard(mutex_);
  auto at = rest_.lower_bound(cursor);
  const auto is_before_end = [&] { return at != rest_.end() && (end == 0 || at->first < end); };
  for (uint64_t last = 0; is_before_end() && (some.size() < count || at->first == last); ++at) {
    last = at->first;
    some.push_back(at->second);
  }
  cursor = is_before_end() ? at->first : end;
  return some;
}

// The rest has the order of the device, so what goes from one to the other meanwhile keeps its
// place, and a step looks at both while nothing does. Cursors are even. When the device is lost,
// odd ones go over the rest alone.
std::string DeviceFiles::walk_by_hash(uint64_t& cursor, uint64_t count, const ShowKey& show) {
  std::vector<WalkedItem> items;
  std::vector<Rest> rest;
  const uint64_t begin = cursor;
  {
    const std::lock_guard stays(places_mutex_);
    uint64_t next = 0;
    const bool worked = begin % 2 == 0 && walk_items(begin, count, items, next);
    if (!worked) items.clear();
    cursor = worked ? begin : begin | 1;
    rest = step_of_rest(cursor, count, next);
    if (worked) cursor &= ~uint64_t{1};
  }
  for (const WalkedItem& item : items) {
    const uint64_t place = place_of(item.key);
    if (place < begin || (cursor != 0 && place >= cursor)) continue;
    show(tree_key_of(item.key),
         TreeRecord::value_bytes(static_cast<uint8_t>(item.flags), item.value_bytes + 1),
         item.expiry);
  }
  for (const Rest& one : rest) {
    TreeRecord record;
    if (record.read(one->record)) show(one->key, record.value.size(), record.expiry);
  }
  return {};
}

DeviceFiles::AllRest::iterator DeviceFiles::find_rest(std::string_view key) {
  const auto [first, end] = rest_.equal_range(rest_place(key));
  const auto at = std::find_if(first, end, [&](const auto& one) { return one.second->key == key; });
  return at == end ? rest_.end() : at;
}

// Whether it had room. The key is not there. Its memory counts until the last who has it lets go.
bool DeviceFiles::put_rest(const TreeEntry& entry, bool over_bound) {
  const uint64_t bytes = rest_bytes_of(entry);
  const std::lock_guard guard(mutex_);
  const uint64_t most = over_bound ? 0 : most_rest();
  if (most != 0 && rest_bytes_.load() + bytes > most) return false;
  const auto let_go = [this, bytes](const HostItem* item) {
    delete item;
    rest_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  };
  rest_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  rest_.emplace(rest_place(entry.key),
                Rest(new HostItem{std::string(entry.key), std::string(entry.value)}, let_go));
  return true;
}

// Others go until it has room. How many went; one of them is it, where it has none even so.
uint64_t DeviceFiles::force_rest(const TreeEntry& entry) {
  if (most_rest() != 0 && rest_bytes_of(entry) > most_rest()) return 1;
  uint64_t gone = 0;
  while (!put_rest(entry)) {
    ++gone;
    const std::lock_guard guard(mutex_);
    if (rest_.empty()) break;
    erase_rest(rest_.begin());
  }
  return gone;
}

void DeviceFiles::erase_rest(AllRest::iterator at) {
  if (at != rest_.end()) rest_.erase(at);
}

}  // namespace isotherm
