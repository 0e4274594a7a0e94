#include "executor/values/value_log.h"

#include <algorithm>

#include "base/broken.h"

namespace isotherm {
namespace {

constexpr uint64_t usual_segment = 4 << 20;
constexpr uint64_t smallest_segment = 64 << 10;
constexpr uint64_t least_segments = 16;  // worth sharing the memory into
constexpr uint64_t most_value = 1 << 20;

}  // namespace

uint64_t ValueLog::segment_bytes_for(uint64_t bytes) {
  uint64_t segment = usual_segment;
  while (segment > smallest_segment && bytes / segment < least_segments) segment /= 2;
  return segment;
}

ValueLog::ValueLog(const std::vector<Area>& areas, uint64_t bytes_a_segment, EpochDomain& epochs,
                   MemoryBudget& budget)
    : areas_(areas),
      segment_bytes_(bytes_a_segment),
      segment_units_(static_cast<uint32_t>(bytes_a_segment / value_place::unit_bytes)),
      epochs_(epochs),
      budget_(budget),
      devices_(areas.size()) {
  for (size_t device = 0; device < areas.size(); ++device) {
    const auto segments = static_cast<uint32_t>(
        std::min<uint64_t>(areas[device].bytes / bytes_a_segment, value_place::most_segments));
    devices_[device].segments.resize(segments);
    for (uint32_t i = segments; i > 0; --i) devices_[device].free.push_back(i - 1);
    all_segments_ += segments;
  }
  free_segments_ = all_segments_;
  capacity_ = all_segments_ * segment_bytes_ / 8 * 7;
}

ValueLog::~ValueLog() {
  for (const Device& device : devices_) {
    for (const Segment& segment : device.segments) count_index(segment, -1);
  }
}

uint64_t ValueLog::largest_value() const { return std::min(most_value, segment_bytes_ / 4); }

bool ValueLog::has_room(uint64_t bytes) {
  const std::lock_guard guard(mutex_);
  const bool room =
      live_bytes() + bytes <= capacity_ && has_place(value_place::units_of(bytes), For::new_value);
  full_.store(!room, std::memory_order_relaxed);
  return room;
}

std::optional<ValuePlace> ValueLog::add(uint64_t bytes, Location location, For purpose) {
  const uint32_t units = value_place::units_of(bytes);
  const uint64_t taken = units * value_place::unit_bytes;
  if (bytes > largest_value()) return std::nullopt;
  const std::lock_guard guard(mutex_);
  const bool fits = purpose == For::cleaning || live_bytes() + taken <= capacity_;
  if (!fits || !has_place(units, purpose)) {
    full_.store(true, std::memory_order_relaxed);
    return std::nullopt;
  }
  if (head_ && at(*head_).used + units > segment_units_) seal(*head_);
  if (!head_) open_head();
  Segment& segment = at(*head_);
  const auto number = static_cast<uint32_t>(segment.items.size());
  const uint32_t unit = segment.used;
  count_index(segment, -1);
  segment.items.push_back(location);
  segment.units.push_back(unit);
  count_index(segment, 1);
  segment.used += units;
  segment.live += units;
  live_bytes_.fetch_add(taken, std::memory_order_relaxed);
  values_.fetch_add(1, std::memory_order_relaxed);
  return value_place::make(head_->device, head_->segment, unit, number);
}

void ValueLog::move(ValuePlace place, Location to) {
  const std::lock_guard guard(mutex_);
  Location& item = at(name_of(place)).items[value_place::number(place)];
  if (item != location::none) item = to;
}

void ValueLog::free(ValuePlace place, uint64_t bytes) {
  const uint32_t units = value_place::units_of(bytes);
  live_bytes_.fetch_sub(units * value_place::unit_bytes, std::memory_order_relaxed);
  values_.fetch_sub(1, std::memory_order_relaxed);
  const std::lock_guard guard(mutex_);
  const Name name = name_of(place);
  Segment& segment = at(name);
  segment.items[value_place::number(place)] = location::none;
  segment.live -= units;
  if (!segment.sealed) return;
  freed_units_ += units;
  retire_if_empty(name);
}

// For a new value a segment stays free, whether it fits into the head or not: the head may be one
// that cleaning opened.
bool ValueLog::has_place(uint32_t units, For purpose) {
  const bool in_head = head_ && at(*head_).used + units <= segment_units_;
  const uint32_t needed = (in_head ? 0 : 1) + (purpose == For::cleaning ? 0 : 1);
  if (free_segments_ < needed) collect();
  return free_segments_ >= needed;
}

void ValueLog::open_head() {
  const auto emptiest = std::max_element(
      devices_.begin(), devices_.end(),
      [](const Device& a, const Device& b) { return a.free.size() < b.free.size(); });
  head_ = Name{static_cast<uint32_t>(emptiest - devices_.begin()), emptiest->free.back()};
  emptiest->free.pop_back();
  --free_segments_;
}

void ValueLog::seal(Name name) {
  Segment& segment = at(name);
  segment.sealed = true;
  freed_units_ += segment.used - segment.live;
  head_.reset();
  retire_if_empty(name);
}

// The epoch is read behind the unlinking of all that had values there.
void ValueLog::retire_if_empty(Name name) {
  Segment& segment = at(name);
  if (segment.live != 0) return;
  freed_units_ -= segment.used;
  count_index(segment, -1);
  segment = {};
  waiting_.push_back({name, epochs_.current()});
}

// Takes back the segments that nobody can read any more.
void ValueLog::collect() {
  if (waiting_.empty()) return;
  const uint64_t oldest = epochs_.advance();
  while (!waiting_.empty() && (waiting_.front().epoch < oldest || broken(Rule::epochs))) {
    const Name name = waiting_.front().name;
    waiting_.pop_front();
    devices_[name.device].free.push_back(name.segment);
    ++free_segments_;
  }
}

void ValueLog::count_index(const Segment& segment, int sign) {
  const uint64_t bytes =
      segment.items.capacity() * sizeof(Location) + segment.units.capacity() * sizeof(uint32_t);
  budget_.index.fetch_add(sign * static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

// The sealed segment of which most was freed, if free ones are few and it is worth the work.
bool ValueLog::choose_victim() {
  constexpr uint32_t few_part = 16;
  constexpr uint32_t few_at_least = 4;
  const uint32_t few = std::max(few_at_least, all_segments_ / few_part);
  if (free_segments_ + waiting_.size() > few || freed_units_ < segment_units_) return false;
  // Where the last walk found none, the next has to wait until as much as a segment was freed.
  next_walk_units_ = std::min(next_walk_units_, freed_units_ + segment_units_);
  if (freed_units_ < next_walk_units_) return false;
  // By what was freed: the end that no value fitted into would be lost again.
  uint32_t most = segment_units_ / 8;
  victim_.reset();
  for (uint32_t device = 0; device < devices_.size(); ++device) {
    const std::vector<Segment>& segments = devices_[device].segments;
    for (uint32_t i = 0; i < segments.size(); ++i) {
      const uint32_t freed = segments[i].used - segments[i].live;
      if (!segments[i].sealed || freed <= most) continue;
      most = freed;
      victim_ = Name{device, i};
    }
  }
  victim_number_ = 0;
  next_walk_units_ = victim_ ? 0 : freed_units_ + segment_units_;
  return victim_.has_value();
}

size_t ValueLog::to_clean(std::span<Value> values) {
  const std::lock_guard guard(mutex_);
  if (!victim_ && !choose_victim()) return 0;
  const Segment& segment = at(*victim_);
  size_t count = 0;
  // It may have come free since, and be another one by now.
  for (; segment.sealed && victim_number_ < segment.items.size() && count < values.size();
       ++victim_number_) {
    const Location item = segment.items[victim_number_];
    if (item == location::none) continue;
    values[count++] = {value_place::make(victim_->device, victim_->segment,
                                         segment.units[victim_number_], victim_number_),
                       item};
  }
  if (!segment.sealed || victim_number_ >= segment.items.size()) victim_.reset();
  return count;
}

}  // namespace isotherm
