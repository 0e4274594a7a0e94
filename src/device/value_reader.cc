#include "device/value_reader.h"

#include <algorithm>
#include <new>

#include "device/gpu/device_error.h"

namespace isotherm {
namespace {

constexpr uint64_t chunk_bytes = 64 << 10;
constexpr size_t most_wanted = 256;

void finish_reply(Reply& reply, Status status) {
  reply.status.store(status, std::memory_order_release);
}

// As if nothing had been found.
void blank(Reply& reply) {
  reply.type = ValueType::none;
  reply.flags = 0;
  reply.data = nullptr;
  reply.size = 0;
}

}  // namespace

ValueReader::ValueReader(DeviceValues& values, MemoryBudget& budget)
    : values_(values), budget_(budget), transfer_(values.make_transfer()) {}

ValueReader::~ValueReader() { free_chunks(0); }

void ValueReader::await(std::vector<AwaitedValue>& awaited) {
  if (awaited.empty()) return;
  const std::lock_guard guard(mutex_);
  awaited_.insert(awaited_.end(), awaited.begin(), awaited.end());
  awaited.clear();
}

void ValueReader::want(Location location) {
  const std::lock_guard guard(mutex_);
  if (wanted_.size() < most_wanted) wanted_.push_back(location);
}

Item* ValueReader::whole(const Item& item) {
  const std::lock_guard guard(mutex_);
  const Item::Parts parts = item.parts(false);
  char* const memory = room(parts.bytes());
  if (memory == nullptr || values_.lost()) return nullptr;
  Item* copy = Item::create(memory, parts);
  copy->set_version(item.version());
  try {
    const ValueTransfer::Fetch fetch{item.value_place(), item.value_bytes(), copy->value_data()};
    transfer_->fetch({&fetch, 1});
  } catch (const std::exception&) {
    failed_ = true;
    return nullptr;
  }
  values_.fetched.fetch_add(1, std::memory_order_relaxed);
  return copy;
}

// Requests for one value share what is fetched.
void ValueReader::finish() {
  if (awaited_.empty()) return;
  if (values_.lost()) return lose_all();
  std::sort(awaited_.begin(), awaited_.end(),
            [](const AwaitedValue& a, const AwaitedValue& b) { return a.place < b.place; });
  std::vector<ValueTransfer::Fetch> fetches;
  for (const AwaitedValue& one : awaited_) {
    Reply& reply = *one.reply;
    if (fetches.empty() || fetches.back().place != one.place) {
      char* const memory = room(reply.size);
      if (memory != nullptr) fetches.push_back({one.place, reply.size, memory});
    }
    const bool fits = !fetches.empty() && fetches.back().place == one.place;
    reply.data = fits ? fetches.back().to : nullptr;
  }
  try {
    transfer_->fetch(fetches);
  } catch (const std::exception&) {
    failed_ = true;
    return lose_all();
  }
  values_.fetched.fetch_add(fetches.size(), std::memory_order_relaxed);
  for (const AwaitedValue& one : awaited_) {
    const bool there = one.reply->data != nullptr;
    if (!there) blank(*one.reply);
    finish_reply(*one.reply, there ? one.status : Status::out_of_memory);
  }
  awaited_.clear();
}

// A get finds nothing then; a write has done what it did.
void ValueReader::lose_all() {
  for (const AwaitedValue& one : awaited_) {
    blank(*one.reply);
    finish_reply(*one.reply, one.found_only ? Status::not_found : one.status);
  }
  awaited_.clear();
}

void ValueReader::clear() {
  constexpr size_t kept = 1;
  free_chunks(kept);
  chunk_used_ = 0;
}

char* ValueReader::room(uint64_t bytes) {
  constexpr uint64_t grain = 16;
  const uint64_t taken = (bytes + grain - 1) / grain * grain;
  if (chunks_.empty() || chunks_.back().bytes - chunk_used_ < taken) {
    const uint64_t size = std::max(chunk_bytes, taken);
    if (held_bytes_ + size > most_bytes) return nullptr;
    Chunk chunk{std::unique_ptr<char[]>(new (std::nothrow) char[size]), size};
    if (chunk.memory == nullptr) return nullptr;
    chunks_.push_back(std::move(chunk));
    chunk_used_ = 0;
    held_bytes_ += size;
    budget_.buffers.fetch_add(static_cast<int64_t>(size), std::memory_order_relaxed);
  }
  char* const at = chunks_.back().memory.get() + chunk_used_;
  chunk_used_ += taken;
  return at;
}

// Frees all but the first `kept`, and that, too, if it is large.
void ValueReader::free_chunks(size_t kept) {
  if (!chunks_.empty() && chunks_.front().bytes > chunk_bytes) kept = 0;
  while (chunks_.size() > kept) {
    held_bytes_ -= chunks_.back().bytes;
    budget_.buffers.fetch_sub(static_cast<int64_t>(chunks_.back().bytes),
                              std::memory_order_relaxed);
    chunks_.pop_back();
  }
}

}  // namespace isotherm
