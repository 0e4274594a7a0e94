#include "device/value_reader.h"

#include <algorithm>
#include <new>

#include "device/gpu/device_error.h"

namespace isotherm {
namespace {

constexpr uint64_t first_chunk = 256 << 10;
constexpr uint64_t largest_chunk = 8 << 20;
// Of pinned memory that a reader keeps: a part of the cap, and no more than the second.
constexpr uint64_t pinned_part = 256;
constexpr uint64_t most_pinned = 32 << 20;
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
      transfer_bytes_(static_cast<int64_t>(transfer_->pinned_bytes())) {
  budget_.buffers.fetch_add(transfer_bytes_, std::memory_order_relaxed);
}

ValueReader::~ValueReader() {
  budget_.buffers.fetch_sub(transfer_bytes_, std::memory_order_relaxed);
  while (!chunks_.empty()) drop_last_chunk();
}

void ValueReader::await(std::vector<AwaitedValue>& awaited) {
  if (awaited.empty()) return;
  const std::lock_guard guard(mutex_);
  awaited_.insert(awaited_.end(), awaited.begin(), awaited.end());
  awaited.clear();
}

bool ValueReader::reserve(uint64_t bytes) {
  if (reserved_.fetch_add(bytes, std::memory_order_relaxed) + bytes <= most_bytes) return true;
  reserved_.fetch_sub(bytes, std::memory_order_relaxed);
  return false;
}

ValueReader::Whole ValueReader::whole(const Item& item) {
  const std::lock_guard guard(mutex_);
  const Item::Parts parts = item.parts(false);
  if (!reserve(parts.bytes())) return {.no_memory = true};
  char* const memory = room(parts.bytes()).at;
  if (memory == nullptr) return {.no_memory = true};
  if (values_.lost()) return {};
  Item* copy = Item::create(memory, parts);
  copy->set_version(item.version());
  const ValueTransfer::Fetch fetch{item.value_place(), item.value_bytes(), copy->value_data(),
                                   false};
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

// Requests for one value share what is fetched.
void ValueReader::finish() {
  if (awaited_.empty()) return;
  choose_wanted();
  std::sort(awaited_.begin(), awaited_.end(),
            [](const AwaitedValue& a, const AwaitedValue& b) { return a.place < b.place; });
  bool lost = values_.lost();
  try {
    if (!lost) fetch_all();
  } catch (const std::bad_alloc&) {
    for (const AwaitedValue& one : awaited_) one.reply->data = nullptr;
  } catch (const std::exception&) {
    failed_ = lost = true;
  }
  finish_all(lost);
}

void ValueReader::fetch_all() {
  std::vector<ValueTransfer::Fetch> fetches;
  for (const AwaitedValue& one : awaited_) {
    Reply& reply = *one.reply;
    if (fetches.empty() || fetches.back().place != one.place) {
      const Room memory = room(reply.size);
      if (memory.at != nullptr) {
        fetches.push_back({one.place, reply.size, memory.at, memory.pinned});
      }
    }
    const bool fits = !fetches.empty() && fetches.back().place == one.place;
    reply.data = fits ? fetches.back().to : nullptr;
  }
  transfer_->fetch(fetches);
  values_.fetched.fetch_add(fetches.size(), std::memory_order_relaxed);
}

// What has no data now found no memory.
void ValueReader::finish_all(bool lost) {
  for (const AwaitedValue& one : awaited_) {
    Reply& reply = *one.reply;
    const bool there = !lost && reply.data != nullptr;
    if (!there) blank(reply, one.if_lost == Status::not_found);
    finish_reply(reply, there ? one.status : lost ? one.if_lost : Status::out_of_memory);
  }
  awaited_.clear();
}

void ValueReader::choose_wanted() {
  constexpr size_t of_a_batch = 64;
  const size_t step = 1 + awaited_.size() / of_a_batch;
  // Another one each time, so that the same row is not always passed over.
  first_wanted_ = (first_wanted_ + 1) % step;
  for (size_t i = first_wanted_; i < awaited_.size() && wanted_.size() < most_wanted; i += step) {
    if (awaited_[i].again) wanted_.push_back({awaited_[i].reply->location, awaited_[i].place});
  }
}

void ValueReader::clear() {
  while (!chunks_.empty() && !chunks_.back().pinned) drop_last_chunk();
  chunk_ = 0;
  chunk_used_ = 0;
  reserved_.store(0, std::memory_order_relaxed);
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
  const uint64_t size = std::max({first_chunk, bytes, std::min(held_bytes_, largest_chunk)});
  const bool pins = chunks_.empty() || chunks_.back().pinned;
  Chunk chunk{
      pins && held_bytes_ + size <= most_pinned_ ? values_.make_pinned(size) : PinnedValues(), size,
      true};
  if (chunk.memory == nullptr) {
    chunk.memory = {new (std::nothrow) char[size], [](char* at) { delete[] at; }};
    chunk.pinned = false;
  }
  if (chunk.memory == nullptr) return false;
  chunks_.push_back(std::move(chunk));
  held_bytes_ += size;
  budget_.buffers.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  return true;
}

void ValueReader::drop_last_chunk() {
  const uint64_t size = chunks_.back().bytes;
  chunks_.pop_back();
  held_bytes_ -= size;
  budget_.buffers.fetch_sub(static_cast<int64_t>(size), std::memory_order_relaxed);
}

}  // namespace isotherm
