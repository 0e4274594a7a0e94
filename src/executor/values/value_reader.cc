#include "executor/values/value_reader.h"

#include <algorithm>
#include <bit>
#include <cstdlib>
#include <cstring>
#include <new>

#include "base/broken.h"
#include "base/hash.h"
#include "executor/values/value_fetchers.h"
#include "gpu/platform/device_error.h"

namespace isotherm {
namespace {

// Each takes as long as many batches to pin, so few and large ones; under a small cap smaller ones,
// since there are some readers for each thread.
constexpr uint64_t least_chunk = 64 << 10;
constexpr uint64_t first_chunk = 1 << 20;
constexpr uint64_t largest_chunk = 16 << 20;
constexpr uint64_t chunk_part = 1024;
// Bounds on the pinned memory that a reader keeps, a 64th of the cap and these bytes, and on that
// of all readers together.
constexpr uint64_t pinned_part = 64;
constexpr uint64_t most_pinned = 32 << 20;
constexpr uint64_t pinned_part_of_all = 16;

constexpr size_t most_wanted = 256;

void finish_reply(Reply& reply, Status status) {
  reply.status.store(status, std::memory_order_release);
}

// As if nothing had been found; the version and expiry of what a write made stay.
void blank(Reply& reply, bool wholly) {
  if (wholly) {
    reply.version = 0;
    reply.expiry = no_expiry;
  }
  reply.type = ValueType::none;
  reply.flags = 0;
  reply.data = nullptr;
  reply.size = 0;
}

}  // namespace

ValueReader::ValueReader(DeviceValues& values, MemoryBudget& budget)
    : values_(values),
      budget_(budget),
      transfer_(values.make_transfer()),
      most_pinned_(budget.limit() == 0 ? most_pinned
                                       : std::min(most_pinned, budget.limit() / pinned_part)),
      first_chunk_(budget.limit() == 0
                       ? first_chunk
                       : std::clamp(budget.limit() / chunk_part, least_chunk, first_chunk)),
      transfer_bytes_(static_cast<int64_t>(transfer_->pinned_bytes())) {
  budget_.buffers.fetch_add(transfer_bytes_, std::memory_order_relaxed);
}

ValueReader::~ValueReader() {
  budget_.buffers.fetch_sub(transfer_bytes_, std::memory_order_relaxed);
  give_memory_back();
}

void ValueReader::await(std::vector<AwaitedValue>& awaited) {
  if (awaited.empty()) return;
  if (broken(Rule::readiness)) {
    for (const AwaitedValue& one : awaited) finish_reply(*one.reply, one.status);
  }
  const std::lock_guard guard(mutex_);
  awaited_.insert(awaited_.end(), awaited.begin(), awaited.end());
  awaited.clear();
}

bool ValueReader::reserve(uint64_t bytes) {
  if (reserved_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most_bytes) return true;
  reserved_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

ValueReader::Whole ValueReader::whole(const Item& item, bool later) {
  const std::lock_guard guard(mutex_);
  if (values_.lost()) return {};
  const ValuePlace place = item.value_place();
  const auto fetched = fetched_.find(place);
  if (fetched == fetched_.end() && later) {
    if (!places_.contains(place) && !reserve(item.value_bytes())) return {.no_memory = true};
    places_.emplace(place, item.value_bytes());
    return {.awaited = true};
  }
  if (fetched != fetched_.end() && fetched->second == nullptr) return {.no_memory = true};
  const Item::Parts parts = item.parts(false);
  if (!reserve(parts.bytes())) return {.no_memory = true};
  char* const memory = room(parts.bytes()).at;
  if (memory == nullptr) return {.no_memory = true};
  Item* copy = Item::create(memory, parts);
  copy->set_version(item.version());
  if (fetched != fetched_.end()) {
    std::memcpy(copy->value_data(), fetched->second, item.value_bytes());
    return {.item = copy};
  }
  const ValueTransfer::Fetch fetch{place, item.value_bytes(), copy->value_data(), false};
  try {
    transfer_->fetch({&fetch, 1});
  } catch (const std::bad_alloc&) {
    return {.no_memory = true};
  } catch (const std::exception&) {
    failed_ = true;
    return {};
  }
  values_.fetched.fetch_add(1, std::memory_order_relaxed);
  return {.item = copy};
}

void ValueReader::begin(Waiter& waiter) { fetchers_->fetch(*this, waiter); }

// Rows that wait for a whole value run again and see what became of it.
void ValueReader::finish() {
  if (!awaits()) return;
  bool lost = values_.lost();
  try {
    choose_wanted();
    if (!lost) fetch_all();
  } catch (const std::bad_alloc&) {
    for (const AwaitedValue& one : awaited_) one.reply->data = nullptr;
    for (const auto& [place, bytes] : places_) fetched_[place] = nullptr;
  } catch (const std::exception&) {
    failed_ = lost = true;
  }
  finish_all(lost);
  places_.clear();
}

// Requests for one value share what is fetched.
void ValueReader::fetch_all() {
  std::vector<ValueTransfer::Fetch> fetches;
  fetches.reserve(awaited_.size() + places_.size());
  for (const auto& [place, bytes] : places_) {
    const Room memory = room(bytes);
    fetched_[place] = memory.at;
    if (memory.at != nullptr) fetches.push_back({place, bytes, memory.at, memory.pinned});
  }
  // By place: 1 + the first that awaits its value.
  const size_t slots = std::bit_ceil(2 * awaited_.size());
  first_of_.assign(slots, 0);
  for (uint32_t i = 0; i < awaited_.size(); ++i) {
    const AwaitedValue& one = awaited_[i];
    size_t slot = mix(one.place, 0) & (slots - 1);
    while (first_of_[slot] != 0 && awaited_[first_of_[slot] - 1].place != one.place) {
      slot = (slot + 1) & (slots - 1);
    }
    if (first_of_[slot] != 0) {
      one.reply->data = awaited_[first_of_[slot] - 1].reply->data;
      continue;
    }
    first_of_[slot] = i + 1;
    const Room memory = room(one.reply->size);
    one.reply->data = memory.at;
    if (memory.at == nullptr) continue;
    fetches.push_back({one.place, one.reply->size, memory.at, memory.pinned});
  }
  transfer_->fetch(fetches);
  values_.fetched.fetch_add(fetches.size(), std::memory_order_relaxed);
}

// A value that has no data now found no memory.
void ValueReader::finish_all(bool lost) {
  for (const AwaitedValue& one : awaited_) {
    Reply& reply = *one.reply;
    const bool there = !lost && reply.data != nullptr;
    if (!there) blank(reply, one.if_lost == Status::not_found);
    if (lost && one.get) {
      lost_.push_back(&reply);
      continue;
    }
    finish_reply(reply, there ? one.status : lost ? one.if_lost : Status::out_of_memory);
  }
  awaited_.clear();
}

void ValueReader::choose_wanted() {
  constexpr size_t of_a_batch = 64;
  const size_t step = 1 + awaited_.size() / of_a_batch;
  // Another one each time, so that the same row is not always passed over.
  first_wanted_ = (first_wanted_ + 1) % step;
  DeviceValues::Wanted wanted[of_a_batch];
  size_t count = 0;
  for (size_t i = first_wanted_; i < awaited_.size() && count < of_a_batch; i += step) {
    const AwaitedValue& one = awaited_[i];
    if (one.again) wanted[count++] = {one.reply->location, one.place};
  }
  if (count == 0) return;
  if (fetchers_ != nullptr) return values_.want({wanted, count});
  if (wanted_.size() < most_wanted) wanted_.insert(wanted_.end(), wanted, wanted + count);
}

std::vector<DeviceValues::Wanted> ValueReader::take_wanted() {
  std::vector<DeviceValues::Wanted> all =
      values_.wanted() != 0 ? values_.take_wanted() : std::vector<DeviceValues::Wanted>();
  all.insert(all.end(), wanted_.begin(), wanted_.end());
  wanted_.clear();
  return all;
}

void ValueReader::clear() {
  while (!chunks_.empty() && !chunks_.back().pinned) drop_last_chunk();
  chunk_ = 0;
  chunk_used_ = 0;
  reserved_.store(0, std::memory_order_relaxed);
  if (!fetched_.empty()) fetched_.clear();
}

void ValueReader::give_memory_back() {
  while (!chunks_.empty()) drop_last_chunk();
}

ValueReader::Room ValueReader::room(uint64_t bytes) {
  constexpr uint64_t grain = value_place::unit_bytes;
  const uint64_t taken = (bytes + grain - 1) / grain * grain;
  while (chunk_ < chunks_.size() && chunks_[chunk_].bytes - chunk_used_ < taken) {
    ++chunk_;
    chunk_used_ = 0;
  }
  if (chunk_ == chunks_.size() && !add_chunk(taken)) return {};
  const Chunk& chunk = chunks_[chunk_];
  char* const at = chunk.memory.get() + chunk_used_;
  chunk_used_ += taken;
  return {at, chunk.pinned};
}

// Chunks double, so that a large batch has few.
bool ValueReader::add_chunk(uint64_t bytes) {
  const bool pins =
      held_bytes_ + bytes <= most_pinned_ && (chunks_.empty() || chunks_.back().pinned);
  uint64_t size = std::max({first_chunk_, bytes, std::min(held_bytes_, largest_chunk)});
  if (pins) size = std::min(size, most_pinned_ - held_bytes_);
  Chunk chunk{pins && may_pin(size) ? values_.make_pinned(size) : PinnedValues(), size, true};
  if (chunk.memory == nullptr) {
    chunk.memory = {static_cast<char*>(std::malloc(size)), [](char* at) { std::free(at); }};
    chunk.pinned = false;
  }
  if (chunk.memory == nullptr) return false;
  if (chunk.pinned) values_.pinned.fetch_add(size, std::memory_order_relaxed);
  chunks_.push_back(std::move(chunk));
  held_bytes_ += size;
  budget_.buffers.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  return true;
}

// Whether it and all readers keep within their shares.
bool ValueReader::may_pin(uint64_t bytes) const {
  const uint64_t cap = budget_.limit();
  const uint64_t all = values_.pinned.load(std::memory_order_relaxed) + bytes;
  return held_bytes_ + bytes <= most_pinned_ && (cap == 0 || all <= cap / pinned_part_of_all);
}

void ValueReader::drop_last_chunk() {
  const uint64_t size = chunks_.back().bytes;
  if (chunks_.back().pinned) values_.pinned.fetch_sub(size, std::memory_order_relaxed);
  chunks_.pop_back();
  held_bytes_ -= size;
  budget_.buffers.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
}

}  // namespace isotherm
