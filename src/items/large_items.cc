#include "items/large_items.h"

#include <malloc.h>

#include <algorithm>
#include <cstdlib>
#include <new>
#include <utility>

#include "items/poison.h"

namespace isotherm {
namespace {

// Beyond it the sum of item and header could wrap.
constexpr uint64_t longest_item = uint64_t{1} << 40;

}  // namespace

LargeItems::~LargeItems() {
  for (Header* header : table_) {
    if (header == nullptr) continue;
    budget_.items.fetch_sub(static_cast<int64_t>(header->charged), std::memory_order_relaxed);
    std::free(header);
  }
}

Location LargeItems::location_of(Header* header) {
  return location::make(location::Kind::large, 0, reinterpret_cast<uint64_t>(header + 1));
}

Location LargeItems::allocate(uint64_t bytes, bool force) {
  const uint64_t cost = bytes + sizeof(Header) + allocator_bytes;
  if (!reserve(cost, force)) return location::none;
  const Location location = prepare(bytes);
  if (location == location::none) {
    budget_.items.fetch_sub(static_cast<int64_t>(cost), std::memory_order_relaxed);
    return location;
  }
  header(location).arrived = cost;
  try {
    enter(&header(location));
    return location;
  } catch (const std::bad_alloc&) {
    discard(location);
    return location::none;
  }
}

// Counts so many bytes if they fit; with `force`, beyond the cap as far as a write may go. Of
// several threads that all see the same room one alone gets it.
bool LargeItems::reserve(uint64_t cost, bool force) {
  const std::lock_guard guard(mutex_);
  if (!(force ? budget_.fits_over(cost) : budget_.fits(cost))) return false;
  budget_.items.fetch_add(static_cast<int64_t>(cost), std::memory_order_relaxed);
  return true;
}

Location LargeItems::prepare(uint64_t bytes) {
  if (bytes > longest_item) return location::none;
  void* memory = std::malloc(bytes + sizeof(Header));
  if (memory == nullptr) return location::none;
  auto* header = new (memory) Header;
  header->charged = malloc_usable_size(memory) + allocator_bytes;
  return location_of(header);
}

void LargeItems::arrive(Location location, uint64_t bytes) {
  header(location).arrived += bytes;
  came_.fetch_add(bytes, std::memory_order_relaxed);
  budget_.items.fetch_add(static_cast<int64_t>(bytes), std::memory_order_relaxed);
}

bool LargeItems::take_in(Location location, bool force) {
  Header& header = LargeItems::header(location);
  const uint64_t more = header.charged - std::min(header.charged, header.arrived);
  if (!(force ? budget_.fits_over(more) : budget_.fits(more))) return false;
  enter(&header);
  if (header.taken != nullptr) *header.taken = true;
  return true;
}

void LargeItems::take_out(Location location) {
  Header& header = LargeItems::header(location);
  leave(&header);
  if (header.taken != nullptr) *header.taken = false;
  arrive(location, header.charged);
}

void LargeItems::discard(Location location) {
  Header& header = LargeItems::header(location);
  budget_.items.fetch_sub(static_cast<int64_t>(header.arrived), std::memory_order_relaxed);
  std::free(&header);
}

// Throws std::bad_alloc, and then nothing is counted.
void LargeItems::enter(Header* header) {
  give_number(header);
  const uint64_t arrived = std::exchange(header->arrived, 0);
  budget_.items.fetch_add(static_cast<int64_t>(header->charged) - static_cast<int64_t>(arrived),
                          std::memory_order_relaxed);
  bytes_.fetch_add(header->charged, std::memory_order_relaxed);
  count_.fetch_add(1, std::memory_order_relaxed);
}

void LargeItems::give_number(Header* header) {
  std::lock_guard guard(mutex_);
  if (free_numbers_.empty()) {
    // Whoever gives a number back needs no memory.
    if (free_numbers_.capacity() == table_.size()) free_numbers_.reserve(2 * table_.size() + 1);
    header->number = static_cast<uint32_t>(table_.size());
    table_.push_back(header);
    limit_.store(static_cast<uint32_t>(table_.size()), std::memory_order_relaxed);
    return;
  }
  header->number = free_numbers_.back();
  free_numbers_.pop_back();
  table_[header->number] = header;
}

void LargeItems::leave(Header* header) {
  {
    std::lock_guard guard(mutex_);
    table_[header->number] = nullptr;
    free_numbers_.push_back(header->number);
    if (free_numbers_.size() == table_.size()) {
      table_.clear();
      free_numbers_.clear();
      limit_.store(0, std::memory_order_relaxed);
    }
  }
  budget_.items.fetch_sub(static_cast<int64_t>(header->charged), std::memory_order_relaxed);
  bytes_.fetch_sub(header->charged, std::memory_order_relaxed);
  count_.fetch_sub(1, std::memory_order_relaxed);
}

void LargeItems::publish(Location location) {
  Header& header = LargeItems::header(location);
  std::lock_guard guard(mutex_);
  if ((header.state.fetch_or(Header::live) & Header::live) != 0) return;
  order_of(header).append(&header);
  newest_ = &header;
}

bool LargeItems::withdraw(Location location) {
  Header& header = LargeItems::header(location);
  std::lock_guard guard(mutex_);
  if ((header.state.load() & Header::live) == 0) return false;
  order_of(header).unlink(&header);
  if (newest_ == &header) newest_ = nullptr;
  const uint32_t before = header.state.fetch_and(~(Header::live | Header::proven));
  if ((before & Header::proven) != 0) proven_bytes_.fetch_sub(header.charged);
  return true;
}

void LargeItems::prove(Location location) {
  Header& header = LargeItems::header(location);
  std::lock_guard guard(mutex_);
  if ((header.state.load() & (Header::live | Header::proven)) != Header::live) return;
  order_of(header).unlink(&header);
  header.state.fetch_or(Header::proven);
  order_of(header).append(&header);
  proven_bytes_.fetch_add(header.charged);
}

void LargeItems::Order::append(Header* header) {
  header->stamp = hand.load(std::memory_order_relaxed);
  header->older = newest;
  header->newer = nullptr;
  (newest != nullptr ? newest->newer : oldest) = header;
  newest = header;
  front_stamp.store(oldest->stamp, std::memory_order_relaxed);
}

void LargeItems::Order::unlink(Header* header) {
  (header->older != nullptr ? header->older->newer : oldest) = header->newer;
  (header->newer != nullptr ? header->newer->older : newest) = header->older;
  front_stamp.store(oldest != nullptr ? oldest->stamp : no_stamp, std::memory_order_relaxed);
}

bool LargeItems::take_due(bool proven, uint64_t most_bytes, Location& location, bool& used) {
  std::lock_guard guard(mutex_);
  Order& order = orders_[proven];
  Header* item = order.oldest;
  for (uint32_t passed = 0; item != nullptr && item->charged > most_bytes; ++passed) {
    if (passed == most_passed_over) return false;
    item = item->newer;
  }
  if (item == nullptr || !order.is_due(item->stamp)) return false;
  order.unlink(item);
  order.append(item);
  const uint32_t state = item->state.fetch_and(~Header::used, std::memory_order_relaxed);
  location = location_of(item);
  used = (state & Header::used) != 0;
  return true;
}

bool LargeItems::is_newest(const Header& item) {
  std::lock_guard guard(mutex_);
  return newest_ == &item;
}

uint64_t LargeItems::newest_on_probation() {
  if (count() == 0) return 0;
  std::lock_guard guard(mutex_);
  const bool any = newest_ != nullptr && (newest_->state.load() & Header::proven) == 0;
  return any ? newest_->charged : 0;
}

uint32_t LargeItems::due_above(bool proven, uint64_t most_bytes, PassedOver& found) {
  std::lock_guard guard(mutex_);
  const Order& order = orders_[proven];
  uint32_t count = 0;
  for (Header* item = order.oldest; item != nullptr && order.is_due(item->stamp) &&
                                    item->charged > most_bytes && count < found.size();
       item = item->newer) {
    const bool used = (item->state.load(std::memory_order_relaxed) & Header::used) != 0;
    found[count++] = used ? location::none : location_of(item);
  }
  return count;
}

void LargeItems::free(Location location) {
  Header& header = LargeItems::header(location);
  leave(&header);
  const auto charged = static_cast<int64_t>(header.charged);
  // No connection can begin to keep it any more.
  if (header.state.load(std::memory_order_acquire) < Header::one_keep) return give_back(&header);
  budget_.clients.fetch_add(charged, std::memory_order_relaxed);
  const uint32_t before = header.state.fetch_or(Header::freed, std::memory_order_acq_rel);
  if (before >= Header::one_keep) return;
  budget_.clients.fetch_sub(charged, std::memory_order_relaxed);
  give_back(&header);
}

void LargeItems::let_go(Location location) {
  Header& header = LargeItems::header(location);
  const uint32_t before = header.state.fetch_sub(Header::one_keep, std::memory_order_acq_rel);
  if ((before & Header::freed) == 0 || before >= 2 * Header::one_keep) return;
  budget_.clients.fetch_sub(static_cast<int64_t>(header.charged), std::memory_order_relaxed);
  give_back(&header);
}

void LargeItems::give_back(Header* header) {
  if constexpr (poison::enabled) {
    std::memset(reinterpret_cast<void*>(header + 1), poison::pattern, capacity(*header));
  }
  std::free(header);
}

uint32_t LargeItems::find(uint32_t& number, uint32_t& looks, Location* found, uint32_t room) {
  std::lock_guard guard(mutex_);
  uint32_t count = 0;
  for (; number < table_.size() && looks > 0 && count < room; ++number) {
    --looks;
    Header* header = table_[number];
    if (header == nullptr) continue;
    const uint32_t state = header->state.load(std::memory_order_acquire);
    if ((state & Header::live) == 0) continue;
    found[count++] = location_of(header);
  }
  if (number >= table_.size()) number = 0;
  return count;
}

}  // namespace isotherm
