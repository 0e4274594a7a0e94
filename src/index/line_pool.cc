#include "index/line_pool.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "index/segment.h"

namespace isotherm {
namespace {

// A segment's lines and its own data.
constexpr uint64_t segment_cost = segment_bytes + sizeof(Segment);

}  // namespace

LinePool::~LinePool() {
  for (const auto& [offset, span] : spans_) pages_.give_span(offset, span_bytes);
  budget_.index.fetch_sub(static_cast<int64_t>(spans_.size() * span_bytes),
                          std::memory_order_relaxed);
}

uint64_t LinePool::take_span(uint64_t bytes, uint64_t cost) {
  if (capped_ && !budget_.fits(cost)) return Pages::npos;
  const uint64_t span = pages_.take_span(bytes);
  if (span != Pages::npos) {
    budget_.index.fetch_add(static_cast<int64_t>(cost), std::memory_order_relaxed);
  }
  return span;
}

bool LinePool::refill() {
  const uint64_t offset = take_span(span_bytes, span_bytes);
  if (offset == Pages::npos) return false;
  Span& span = spans_[offset];
  span.free.fill(~uint64_t{0});
  span.count = lines_per_span;
  with_free_.insert(offset);
  free_ += lines_per_span;
  ++whole_;
  return true;
}

// There is a free line.
Bucket* LinePool::take_locked() {
  const uint64_t offset = *with_free_.begin();
  Span& span = spans_[offset];
  if (span.count == lines_per_span) --whole_;
  const auto word =
      std::find_if(span.free.begin(), span.free.end(), [](uint64_t w) { return w != 0; });
  const auto line = 64 * static_cast<uint64_t>(word - span.free.begin()) +
                    static_cast<uint64_t>(std::countr_zero(*word));
  *word &= *word - 1;
  --free_;
  if (--span.count == 0) with_free_.erase(offset);
  return reinterpret_cast<Bucket*>(base() + offset) + line;
}

Bucket* LinePool::take() {
  std::lock_guard guard(mutex_);
  if (free_ == 0 && !refill()) return nullptr;
  return take_locked();
}

bool LinePool::take(uint32_t count, std::vector<Bucket*>& lines) {
  std::lock_guard guard(mutex_);
  while (free_ < count) {
    if (!refill()) return false;
  }
  for (; count > 0; --count) lines.push_back(take_locked());
  return true;
}

void LinePool::give(Bucket* line) {
  std::memset(static_cast<void*>(line), 0, sizeof *line);
  const auto at = static_cast<uint64_t>(reinterpret_cast<char*>(line) - base());
  const uint64_t offset = at / span_bytes * span_bytes;
  const uint64_t number = at % span_bytes / sizeof(Bucket);
  std::lock_guard guard(mutex_);
  Span& span = spans_[offset];
  span.free[number / 64] |= uint64_t{1} << number % 64;
  ++free_;
  if (span.count++ == 0) with_free_.insert(offset);
  if (span.count < lines_per_span || ++whole_ == 1) return;
  spans_.erase(offset);
  with_free_.erase(offset);
  free_ -= lines_per_span;
  --whole_;
  pages_.give_span(offset, span_bytes);
  budget_.index.fetch_sub(int64_t{span_bytes}, std::memory_order_relaxed);
}

Bucket* LinePool::take_segment() {
  const uint64_t span = take_span(segment_bytes, segment_cost);
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
