#include "tree/device_moment.h"

#include <algorithm>
#include <utility>

#include "tree/device_files.h"

namespace isotherm {

bool DeviceMoment::is_known(uint64_t place, std::string_view device_key) const {
  const auto [first, end] = kept_.equal_range(place);
  return std::any_of(first, end,
                     [&](const auto& one) { return one.second.device_key == device_key; });
}

void DeviceMoment::keep(const ByteColumn& device_keys) {
  for (size_t row = 0; row < device_keys.rows();) {
    std::unique_lock lock(mutex_);
    room_.wait(lock, [this] { return passed_ || (bytes() <= most_kept_ && !steps_.load()); });
    if (passed_ || !keep_some(device_keys, row)) return;
  }
}

// Some rows from `row` on, which becomes the next one; false: they cannot be read.
bool DeviceMoment::keep_some(const ByteColumn& device_keys, size_t& row) {
  constexpr size_t most_rows = 1024;
  ByteColumn asked;
  std::vector<size_t> rows;
  std::vector<uint64_t> places;
  const size_t end = std::min(device_keys.rows(), row + most_rows);
  for (size_t i = row; i < end; ++i) {
    const uint64_t place = files_.place_of(device_keys[i]);
    if (place < walked_ || is_known(place, device_keys[i])) continue;
    asked.add(device_keys[i]);
    rows.push_back(i);
    places.push_back(place);
  }
  std::vector<std::string> records(rows.size());
  const size_t read = files_.read_records(
      asked, 0, piece_bytes,
      [&](size_t at, std::string&& record) { records[at] = std::move(record); });
  uint64_t more = 0;
  for (size_t at = 0; at < read; ++at) {
    const std::string_view key = asked[at];
    const auto kept = kept_.emplace(places[at], Kept{std::string(key), std::move(records[at])});
    more += bytes_of(kept->second) + kept->second.record.size();
    if (!kept->second.record.empty()) records_.push_back(kept);
  }
  bytes_.fetch_add(more, std::memory_order_relaxed);
  row = read == rows.size() ? end : rows[read];
  return read != 0 || rows.empty();
}

std::string DeviceMoment::step(const MomentWalk::Show& show) {
  Records shown;
  bool worked = true;
  steps_.store(true);
  {
    const std::lock_guard guard(mutex_);
    worked = !files_.is_lost() && walk(shown);
    take_kept(shown);
    steps_.store(false);
  }
  room_.notify_all();
  if (!worked) return "gpu-items: the GPU has failed, and what it had cannot be shown any more";
  for (const auto& [key, record] : shown) show(key, record);
  if (passed_) show_host_item(show);
  return {};
}

// With the mutex, so nothing is written between the walk and the reads that is not known.
bool DeviceMoment::walk(Records& shown) {
  if (passed_) return true;
  std::vector<WalkedItem> some;
  uint64_t next = 0;
  if (!files_.walk_items(walked_, wanted_, some, next)) return false;
  std::erase_if(
      some, [&](const WalkedItem& item) { return is_known(files_.place_of(item.key), item.key); });
  if (!read_walked(some, shown)) return false;
  walked_ = next;
  passed_ = next == 0;
  return true;
}

bool DeviceMoment::read_walked(const std::vector<WalkedItem>& some, Records& shown) {
  constexpr uint64_t most_wanted = 4096;
  uint64_t bytes = 0;
  ByteColumn asked;
  for (const WalkedItem& item : some) {
    asked.add(item.key);
    bytes += item.value_bytes;
  }
  if (bytes < piece_bytes) wanted_ = std::min(wanted_ * 2, most_wanted);
  if (bytes > 2 * piece_bytes) wanted_ = std::max(wanted_ / 2, uint64_t{1});
  for (size_t first = 0; first < some.size();) {
    const size_t read =
        files_.read_records(asked, first, 2 * piece_bytes, [&](size_t at, std::string&& record) {
          // It has gone by itself since the walk.
          if (record.empty()) return;
          shown.emplace_back(DeviceFiles::tree_key_of(some[at].key), std::move(record));
        });
    if (read == 0) return false;
    first += read;
  }
  return true;
}

// Records go; keys stay as long as the walk may come to them.
void DeviceMoment::take_kept(Records& shown) {
  uint64_t gone = 0;
  for (const auto at : records_) {
    gone += at->second.record.size();
    shown.emplace_back(DeviceFiles::tree_key_of(at->second.device_key),
                       std::exchange(at->second.record, std::string()));
  }
  records_.clear();
  const auto end = passed_ ? kept_.end() : kept_.lower_bound(walked_);
  for (auto at = kept_.begin(); at != end; at = kept_.erase(at)) gone += bytes_of(at->second);
  bytes_.fetch_sub(gone, std::memory_order_relaxed);
}

// Each is let go of when it was shown.
void DeviceMoment::show_host_item(const MomentWalk::Show& show) {
  if (!host_items_.empty()) {
    show(host_items_.back()->key, host_items_.back()->record);
    host_items_.pop_back();
  }
  ended_ = host_items_.empty();
}

void DeviceMoment::leave() {
  {
    const std::lock_guard guard(mutex_);
    passed_ = true;
    records_.clear();
    kept_.clear();
    bytes_.store(0, std::memory_order_relaxed);
  }
  room_.notify_all();
}

}  // namespace isotherm
