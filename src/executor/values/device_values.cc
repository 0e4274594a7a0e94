#include "executor/values/device_values.h"

#include <algorithm>
#include <utility>

namespace isotherm {
namespace {

std::vector<ValueLog::Area> areas_of(const std::vector<std::unique_ptr<ValueTier>>& tiers) {
  std::vector<ValueLog::Area> areas;
  areas.reserve(tiers.size());
  for (const auto& tier : tiers) areas.push_back({tier->address(), tier->bytes()});
  return areas;
}

// All segments have the size that suits the smallest device.
uint64_t segment_bytes_of(const std::vector<std::unique_ptr<ValueTier>>& tiers) {
  uint64_t least = ~uint64_t{0};
  for (const auto& tier : tiers) least = std::min(least, tier->bytes());
  return ValueLog::segment_bytes_for(least);
}

}  // namespace

DeviceValues::DeviceValues(std::vector<std::unique_ptr<ValueTier>> tiers, EpochDomain& epochs,
                           MemoryBudget& budget)
    : tiers_(std::move(tiers)), log_(areas_of(tiers_), segment_bytes_of(tiers_), epochs, budget) {}

std::unique_ptr<ValueTransfer> DeviceValues::make_transfer() {
  std::vector<std::unique_ptr<ValueChannel>> channels;
  channels.reserve(tiers_.size());
  for (const auto& tier : tiers_) channels.push_back(tier->make_channel());
  return std::make_unique<ValueTransfer>(log_, std::move(channels));
}

void DeviceValues::settle(const Item& item, const Item* copy, Location copy_location) {
  if (!item.away()) return;
  if (copy != nullptr && same_value(item, *copy)) {
    log_.move(item.value_place(), copy_location);
  } else {
    log_.free(item.value_place(), item.value_bytes());
  }
}

void DeviceValues::note(const SendFound& found, uint64_t entries) {
  constexpr uint64_t rich_part = 8;
  constexpr uint64_t most_looks = 1 << 17;
  const auto count = [&](bool good, std::atomic<uint64_t>& looks) {
    if (good) {
      looks.store(0, std::memory_order_relaxed);
      return uint64_t{0};
    }
    return looks.fetch_add(found.looked, std::memory_order_relaxed) + found.looked;
  };
  // Where all was read lately nothing is known.
  const bool rich = found.cold_bytes == 0 || found.bytes * rich_part > found.cold_bytes;
  vain_.store(count(found.bytes != 0, vain_looks_) > 2 * entries, std::memory_order_relaxed);
  poor_.store(count(rich, poor_looks_) > std::min(2 * entries, most_looks),
              std::memory_order_relaxed);
}

void DeviceValues::want(std::span<const Wanted> more) {
  const std::lock_guard guard(wanted_mutex_);
  const size_t count = std::min(more.size(), most_wanted - wanted_.size());
  wanted_.insert(wanted_.end(), more.begin(), more.begin() + static_cast<ptrdiff_t>(count));
  wanted_count_.store(wanted_.size(), std::memory_order_relaxed);
}

std::vector<DeviceValues::Wanted> DeviceValues::take_wanted() {
  const std::lock_guard guard(wanted_mutex_);
  wanted_count_.store(0, std::memory_order_relaxed);
  return std::exchange(wanted_, {});
}

DeviceValueStats DeviceValues::stats() const {
  const auto read = [](const std::atomic<uint64_t>& count) {
    return count.load(std::memory_order_relaxed);
  };
  return {log_.capacity(), log_.live_bytes(), log_.values(),    read(fetched),
          read(to_device), read(from_device), read(lost_values)};
}

}  // namespace isotherm
