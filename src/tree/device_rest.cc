// The part of DeviceFiles that lies in host memory.
#include <algorithm>
#include <iterator>
#include <mutex>
#include <string>
#include <string_view>
#include <vector>

#include "base/hash.h"
#include "tree/device_files.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

constexpr uint64_t rest_node_bytes = 128;  // of an item of the rest, beside its text

// A cursor, of which the upper 48 bits count (engine/walk.h); an odd one is of the rest.
uint64_t rest_hash(std::string_view key) { return (hash_bytes(key, 1) >> 16 << 16) | 1; }
uint64_t rest_bytes_of(const TreeEntry& entry) {
  return rest_node_bytes + entry.key.size() + entry.value.size();
}

}  // namespace

bool DeviceFiles::fits_device(const TreeEntry& entry) const {
  return entry.key.size() <= gpu::max_item_key_bytes &&
         entry.value.size() <= gpu::max_item_value_bytes;
}

void DeviceFiles::keep_crowding(const TreeEntry& entry) {
  put_rest(entry, true);
  crowded_.store(true, std::memory_order_release);
}

std::string DeviceFiles::crowding() {
  if (!crowded_.load(std::memory_order_acquire)) return {};
  return "gpu-items: the memory of the GPU is full, or there is no host memory for values that are "
         "too long for it";
}

// Of the rest, what is for the device; some, if there is much.
std::vector<DeviceFiles::Rest> DeviceFiles::misplaced() {
  std::vector<Rest> some;
  uint64_t bytes = 0;
  const std::lock_guard guard(mutex_);
  for (auto at = rest_.begin(); at != rest_.end() && some.size() < options_.rows_at_once; ++at) {
    if (bytes > bytes_at_once || !fits_device({at->second->key, at->second->record})) continue;
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

bool DeviceFiles::walk_rest(uint64_t& cursor, uint64_t count, const ShowKey& show) {
  const std::lock_guard guard(mutex_);
  auto at = rest_.lower_bound(cursor);
  uint64_t last = 0;
  for (uint64_t shown = 0; at != rest_.end() && (shown < count || at->first == last); ++at) {
    TreeRecord record;
    last = at->first;
    if (!record.read(at->second->record)) continue;
    show(at->second->key, record.value.size(), record.expiry);
    ++shown;
  }
  cursor = at == rest_.end() ? 0 : at->first;
  return cursor != 0;
}

DeviceFiles::AllRest::iterator DeviceFiles::find_rest(std::string_view key) {
  const auto [first, end] = rest_.equal_range(rest_hash(key));
  const auto at = std::find_if(first, end, [&](const auto& one) { return one.second->key == key; });
  return at == end ? rest_.end() : at;
}

// Whether it had room. The key is not there. Its memory counts until the last who has it lets go.
bool DeviceFiles::put_rest(const TreeEntry& entry, bool over_bound) {
  const uint64_t bytes = rest_bytes_of(entry);
  const std::lock_guard guard(mutex_);
  const bool bounded = options_.most_rest != 0 && !over_bound;
  if (bounded && rest_bytes_.load() + bytes > options_.most_rest) return false;
  const auto let_go = [this, bytes](const HostItem* item) {
    delete item;
    rest_bytes_.fetch_sub(bytes, std::memory_order_relaxed);
  };
  rest_bytes_.fetch_add(bytes, std::memory_order_relaxed);
  rest_.emplace(rest_hash(entry.key),
                Rest(new HostItem{std::string(entry.key), std::string(entry.value)}, let_go));
  return true;
}

// Others go until it has room. How many went; one of them is it, where it has none even so.
uint64_t DeviceFiles::force_rest(const TreeEntry& entry) {
  if (options_.most_rest != 0 && rest_bytes_of(entry) > options_.most_rest) return 1;
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
