#include "index/line_pool.h"

#include <atomic>
#include <bit>
#include <cstring>
#include <new>

#include "base/wait_for_memory.h"
#include "index/segment.h"

namespace isotherm {
namespace {

// A segment's lines and its own data.
constexpr uint64_t segment_cost = segment_bytes + sizeof(Segment);
constexpr uint64_t segments_to_keep_one = 8;

}  // namespace

LinePool::~LinePool() {
  for (const auto& [offset, span] : spans_) pages_.give_span(offset, span_bytes);
  budget_.index.fetch_sub(static_cast<int64_t>(spans_.size() * span_bytes),
                          std::memory_order_relaxed);
}

uint64_t LinePool::kept_for_joins() const {
  const bool keeps = capped_ && budget_.limit() >= segments_to_keep_one * segment_cost;
  return keeps ? segment_cost + span_bytes : 0;
}

bool LinePool::has_room_to_split() const {
  return !capped_ || budget_.fits(2 * segment_cost + kept_);
}

bool LinePool::claim(uint64_t cost, LineUse use) {
  const std::lock_guard guard(claim_mutex_);
  const uint64_t kept = use == LineUse::join ? 0 : kept_;
  if (capped_ && !budget_.fits(cost + kept)) return false;
  budget_.index.fetch_add(static_cast<int64_t>(cost), std::memory_order_relaxed);
  return true;
}

uint64_t LinePool::take_span(uint64_t bytes, uint64_t cost, LineUse use) {
  if (!claim(cost, use)) return Pages::npos;
  const uint64_t span = pages_.take_span(bytes);
  if (span == Pages::npos) {
    budget_.index.fetch_sub(static_cast<int64_t>(cost), std::memory_order_relaxed);
  }
  return span;
}

bool LinePool::refill(LineUse use) {
  const uint64_t offset = take_span(span_bytes, span_bytes, use);
  if (offset == Pages::npos) return false;
  try {
    Span& span = spans_[offset];
    span.free.fill(~uint64_t{0});
    span.count = lines_per_span;
    with_free_.insert(offset);
  } catch (const std::bad_alloc&) {  // for the notes: as where the cap ends
    spans_.erase(offset);
    pages_.give_span(offset, span_bytes);
    budget_.index.fetch_sub(int64_t{span_bytes}, std::memory_order_relaxed);
    return false;
  }
  free_ += lines_per_span;
  ++whole_;
  return true;
}

// Takes at most `count` lines of the lowest span that has some, and returns how many.
uint32_t LinePool::take_locked(uint32_t count, Bucket** lines) {
  if (count == 0 || with_free_.empty()) return 0;
  const uint64_t offset = *with_free_.begin();
  Span& span = spans_[offset];
  if (span.count == lines_per_span) --whole_;
  uint32_t taken = 0;
  for (uint32_t word = 0; word < span.free.size() && taken < count; ++word) {
    for (uint64_t& free = span.free[word]; free != 0 && taken < count; free &= free - 1) {
      const uint32_t line = 64 * word + static_cast<uint32_t>(std::countr_zero(free));
      lines[taken++] = reinterpret_cast<Bucket*>(base() + offset) + line;
    }
  }
  free_ -= taken;
  span.count -= taken;
  if (span.count == 0) with_free_.erase(offset);
  return taken;
}

Bucket* LinePool::Stock::take() {
  const std::lock_guard guard(mutex);
  return count != 0 ? lines[--count] : nullptr;
}

// Threads get a stock in turn, in the order in which they first ask.
LinePool::Stock& LinePool::own_stock() {
  static std::atomic<uint32_t> next{0};
  thread_local const uint32_t mine = next.fetch_add(1, std::memory_order_relaxed) % stocks;
  return stocks_[mine];
}

// The caller holds the mutex.
void LinePool::fill(Stock& stock) {
  const std::lock_guard guard(stock.mutex);
  stock.count += take_locked(stock_lines - stock.count, stock.lines.data() + stock.count);
}

Bucket* LinePool::take_from_stocks() {
  for (Stock& stock : stocks_) {
    if (Bucket* line = stock.take()) return line;
  }
  return nullptr;
}

Bucket* LinePool::take(LineUse use) {
  Stock& stock = own_stock();
  if (Bucket* line = stock.take()) return line;
  std::unique_lock guard(mutex_, std::try_to_lock);
  const bool others = !guard.owns_lock();
  if (others) guard.lock();
  if (free_ == 0 && !refill(use)) {
    guard.unlock();
    return take_from_stocks();
  }
  Bucket* line = nullptr;
  take_locked(1, &line);
  if (others) fill(stock);
  return line;
}

bool LinePool::take(uint32_t count, std::vector<Bucket*>& lines, LineUse use) {
  const size_t before = lines.size();
  for (; count > 0; --count) {
    Bucket* line = take(use);
    if (line == nullptr) {
      give(std::span(lines).subspan(before));
      lines.resize(before);
      return false;
    }
    lines.push_back(line);
  }
  return true;
}

void LinePool::give(std::span<Bucket* const> lines) {
  if (lines.empty()) return;
  for (Bucket* line : lines) std::memset(static_cast<void*>(line), 0, sizeof *line);
  const std::lock_guard guard(mutex_);
  for (Bucket* line : lines) give_locked(line);
}

void LinePool::give_locked(Bucket* line) {
  const auto at = static_cast<uint64_t>(reinterpret_cast<char*>(line) - base());
  const uint64_t offset = at / span_bytes * span_bytes;
  const uint64_t number = at % span_bytes / sizeof(Bucket);
  Span& span = spans_[offset];
  span.free[number / 64] |= uint64_t{1} << number % 64;
  ++free_;
  if (span.count++ == 0) wait_for_memory([&] { with_free_.insert(offset); });
  if (span.count < lines_per_span || ++whole_ == 1) return;
  spans_.erase(offset);
  with_free_.erase(offset);
  free_ -= lines_per_span;
  --whole_;
  pages_.give_span(offset, span_bytes);
  budget_.index.fetch_sub(int64_t{span_bytes}, std::memory_order_relaxed);
}

Bucket* LinePool::take_segment(LineUse use) {
  const uint64_t span = take_span(segment_bytes, segment_cost, use);
  if (span == Pages::npos) return nullptr;
  return reinterpret_cast<Bucket*>(static_cast<char*>(pages_.base()) + span);
}

void LinePool::give_segment(Bucket* lines) {
  const auto offset =
      static_cast<uint64_t>(reinterpret_cast<char*>(lines) - static_cast<char*>(pages_.base()));
  pages_.give_span(offset, segment_bytes);
  budget_.index.fetch_sub(static_cast<int64_t>(segment_cost), std::memory_order_relaxed);
}

}  // namespace isotherm
