#include "executor/key_gate.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <new>
#include <stdexcept>
#include <thread>
#include <utility>

#include "base/worker_pool.h"

namespace isotherm {
namespace {

// What is waited for mostly takes microseconds, but a round of a device, or a thread that the
// system has stopped, takes longer.
class Patience {
 public:
  void wait() {
    constexpr uint32_t looks = 500;
    constexpr uint32_t yields = 50;
    constexpr std::chrono::microseconds nap{20};
    ++waits_;
    if (waits_ < looks) return __builtin_ia32_pause();
    if (waits_ < looks + yields) return std::this_thread::yield();
    std::this_thread::sleep_for(nap);
  }

 private:
  uint32_t waits_ = 0;
};

}  // namespace

KeyGate::KeyGate(EpochDomain& epochs)
    : epochs_(epochs), owners_(new std::atomic<uint16_t>[size_t{1} << slot_bits]()) {}

KeyGate::Holder& KeyGate::join() {
  const std::lock_guard lock(mutex_);
  const uint32_t count = holder_count_.load(std::memory_order_relaxed);
  for (uint32_t i = 0; i < count; ++i) {
    if (holders_[i]->in_use_) continue;
    holders_[i]->in_use_ = true;
    return *holders_[i];
  }
  if (count == most_holders) throw std::runtime_error("too many threads run batches");
  holders_[count].reset(new Holder(*this, static_cast<uint16_t>(count + 1)));
  holding_.reserve(count + 1);
  waiting_.reserve(count + 1);
  holder_count_.store(count + 1, std::memory_order_release);
  return *holders_[count];
}

KeyGate::Holder* KeyGate::join_if_possible() {
  try {
    return &join();
  } catch (const std::exception&) {
    return nullptr;
  }
}

void KeyGate::leave(Holder& holder) {
  const std::lock_guard lock(mutex_);
  holder.in_use_ = false;
}

void KeyGate::Holder::begin(Waiter& waiter) {
  {
    const std::lock_guard lock(gate_.mutex_);
    if (granted_.load(std::memory_order_relaxed)) return waiters_.push_back(&waiter);
  }
  waiter.there();
}

// ---- Who takes ----

void KeyGate::take(Holder& holder, const Batch& batch) {
  constexpr int looks = 1000;
  want(holder, batch);
  if (!queue(holder, nullptr)) {
    for (int i = 0; i < looks && !holder.granted_.load(std::memory_order_acquire); ++i) {
      __builtin_ia32_pause();
    }
    std::unique_lock lock(mutex_);
    holder.told_.wait(lock, [&] { return holder.granted_.load(std::memory_order_relaxed); });
  }
  drain(holder);
}

bool KeyGate::take_now(Holder& holder, const Batch& batch, WorkerPool* pool) {
  want(holder, batch);
  {
    const std::lock_guard lock(mutex_);
    armed_.store(true, std::memory_order_seq_cst);
    if (!waiting_.empty() || !grant(holder, pool)) {
      holder.has_all_rows_ = false;
      return false;
    }
  }
  drain(holder);
  return true;
}

bool KeyGate::take_or_tell(Holder& holder, const Batch& batch, Awaited::Waiter& waiter) {
  want(holder, batch);
  return queue(holder, &waiter);
}

void KeyGate::want(Holder& holder, const Batch& batch) {
  holder.batch_ = &batch;
  holder.flush_first_ = std::numeric_limits<uint32_t>::max();
  holder.flush_end_ = 0;
  uint64_t rows = 0;
  for (const Batch::Span& group : batch.groups()) rows += group.end - group.first;
  for (const Batch::Guard& guard : batch.guards()) {
    const Batch::Columns& columns = batch.columns();
    if (guard.check != nullptr || columns.op[guard.row] != Op::flush) continue;
    holder.flush_first_ = std::min(holder.flush_first_, columns.database[guard.row]);
    holder.flush_end_ =
        std::max(holder.flush_end_, static_cast<uint32_t>(columns.number[guard.row]));
  }
  holder.rows_ = rows;
  holder.has_all_rows_ = rows == batch.size();
}

// Whether it has what it wants at once. Nobody who waits can have more than before.
bool KeyGate::queue(Holder& holder, Awaited::Waiter* waiter) {
  const std::lock_guard lock(mutex_);
  armed_.store(true, std::memory_order_seq_cst);
  if (waiting_.empty() && grant(holder)) return true;
  waiting_.push_back(&holder);
  static_cast<void>(grant_waiting());
  if (holder.granted_.load(std::memory_order_relaxed)) return true;
  holder.to_tell_ = waiter;
  return false;
}

bool KeyGate::flushes_some(const Holder& one, const Holder& other) {
  if (one.flush_end_ == 0) return false;
  if (other.flush_end_ != 0 && flushes(one, other.flush_first_, other.flush_end_ - 1)) return true;
  // Its hashes may be written once more, with what they are, by whoever runs it.
  const uint32_t* const databases = other.batch_->columns().database;
  for (const Batch::Span& group : other.batch_->groups()) {
    const auto flushed = [&](uint32_t database) { return flushes(one, database, database); };
    if (std::any_of(databases + group.first, databases + group.end, flushed)) return true;
  }
  return false;
}

// All or nothing. Whoever sees a slot that is given back at once waits for nothing.
bool KeyGate::grant(Holder& holder, WorkerPool* pool) {
  const bool to_flush = holder.flush_end_ != 0;
  const uint16_t flusher = flusher_.load(std::memory_order_relaxed);
  if (to_flush && flusher != 0) return false;
  if (flusher != 0 && flushes_some(*holders_[flusher - 1], holder)) return false;
  const auto in_the_way = [&](const Holder* other) { return flushes_some(holder, *other); };
  if (to_flush && std::any_of(holding_.begin(), holding_.end(), in_the_way)) return false;
  const bool many = holder.rows_ >= many_rows && !to_flush && make_filter();
  const uint16_t has_many = filter_owner_.load(std::memory_order_relaxed);
  if (many && has_many != 0) return false;
  bool free = true;
  const auto look = [&](uint64_t hash, uint32_t database) {
    std::atomic<uint16_t>& owner = owners_[slot_of(hash, database)];
    const uint16_t before = owner.load(std::memory_order_relaxed);
    free = (before == 0 || before == holder.number_) &&
           (has_many == 0 || !is_in_filter(hash, database));
    if (free && before == 0 && !many) owner.store(holder.number_, std::memory_order_release);
    return free;
  };
  // Where nobody has keys a filter of them needs no look at each.
  if (!many || !holding_.empty()) each_row(*holder.batch_, look);
  if (free && many) {
    fill_filter(*holder.batch_, pool);
    filter_owner_.store(holder.number_, std::memory_order_release);
  }
  if (!free) {
    release(holder);
    return false;
  }
  if (to_flush) {
    flush_first_.store(holder.flush_first_, std::memory_order_relaxed);
    flush_end_.store(holder.flush_end_, std::memory_order_relaxed);
    flusher_.store(holder.number_, std::memory_order_release);
  }
  holding_.push_back(&holder);
  holder.granted_.store(true, std::memory_order_release);
  // From here on it is seen by whoever has not shown his rows.
  having_.fetch_add(1, std::memory_order_seq_cst);
  takes_.fetch_add(1, std::memory_order_seq_cst);
  return true;
}

// False: there is no memory for it. It is never given back, since others may be looking into it.
bool KeyGate::make_filter() {
  if (filter_ == nullptr)
    filter_.reset(new (std::nothrow) std::atomic<uint64_t>[filter_bits / 64]());
  return filter_ != nullptr;
}

// While nobody has it. Whoever looks into it for the one before finds either that one's keys or
// these: he has shown his rows before, so this one waits for him.
void KeyGate::fill_filter(const Batch& batch, WorkerPool* pool) {
  constexpr Batch::Row at_once = 1 << 14;
  for (uint64_t i = 0; i < filter_bits / 64; ++i) filter_[i].store(0, std::memory_order_relaxed);
  const Batch::Columns& columns = batch.columns();
  for (const Batch::Span& group : batch.groups()) {
    run_pieces(pool, group.end - group.first, at_once, [&](Batch::Row first, Batch::Row end) {
      for (Batch::Row row = group.first + first; row < group.first + end; ++row) {
        const uint64_t bits = mixed(columns.hash[row], columns.database[row]);
        set_bit(bits, pool != nullptr);
        set_bit(bits >> 32, pool != nullptr);
      }
    });
  }
}

// `shared`: with other threads, which set others.
void KeyGate::set_bit(uint64_t bit, bool shared) {
  std::atomic<uint64_t>& word = filter_[bit % filter_bits / 64];
  const uint64_t mask = uint64_t{1} << (bit % 64);
  if (shared) {
    word.fetch_or(mask, std::memory_order_relaxed);
  } else {
    word.store(word.load(std::memory_order_relaxed) | mask, std::memory_order_relaxed);
  }
}

// Gives back the slots, or the filter, that it has.
void KeyGate::release(const Holder& holder) {
  if (filter_owner_.load(std::memory_order_relaxed) == holder.number_) {
    return filter_owner_.store(0, std::memory_order_release);
  }
  each_row(*holder.batch_, [&](uint64_t hash, uint32_t database) {
    std::atomic<uint16_t>& owner = owners_[slot_of(hash, database)];
    if (owner.load(std::memory_order_relaxed) == holder.number_) {
      owner.store(0, std::memory_order_release);
    }
    return true;
  });
}

void KeyGate::give_back(Holder& holder) {
  std::vector<Awaited::Waiter*> waiters;
  Holder* granted = nullptr;
  {
    const std::lock_guard lock(mutex_);
    release(holder);
    if (holder.flush_end_ != 0) flusher_.store(0, std::memory_order_release);
    holder.granted_.store(false, std::memory_order_relaxed);
    holder.has_all_rows_ = false;
    holding_.erase(std::find(holding_.begin(), holding_.end(), &holder));
    having_.fetch_sub(1, std::memory_order_seq_cst);
    waiters.swap(holder.waiters_);
    if (!waiting_.empty()) granted = grant_waiting();
  }
  for (Awaited::Waiter* waiter : waiters) waiter->there();
  // Whoever is told may give it back, and it may wait anew.
  while (granted != nullptr) {
    Holder& its = *std::exchange(granted, granted->next_told_);
    std::exchange(its.to_tell_, nullptr)->there();
  }
}

// In order: nobody passes one who waits for the same. Returns those that are to be told.
KeyGate::Holder* KeyGate::grant_waiting() {
  if (wanted_ == nullptr) wanted_.reset(new (std::nothrow) uint32_t[size_t{1} << slot_bits]());
  Holder* told = nullptr;
  Holder** last = &told;
  ++look_;
  size_t left = 0;
  for (size_t i = 0; i < waiting_.size(); ++i) {
    Holder& holder = *waiting_[i];
    const auto flush = [&](const Holder* before) {
      return flushes_some(*before, holder) || flushes_some(holder, *before);
    };
    const bool behind = (wanted_ == nullptr ? left != 0 : waits_behind(holder)) ||
                        std::any_of(waiting_.begin(), waiting_.begin() + left, flush);
    if (!behind && grant(holder)) {
      holder.told_.notify_one();
      if (holder.to_tell_ != nullptr) last = &(*last = &holder)->next_told_;
      continue;
    }
    waiting_[left++] = &holder;
    if (wanted_ == nullptr) continue;
    each_row(*holder.batch_, [&](uint64_t hash, uint32_t database) {
      wanted_[slot_of(hash, database)] = look_;
      return true;
    });
  }
  waiting_.resize(left);
  *last = nullptr;
  return told;
}

bool KeyGate::waits_behind(const Holder& holder) const {
  bool behind = false;
  each_row(*holder.batch_, [&](uint64_t hash, uint32_t database) {
    behind = wanted_[slot_of(hash, database)] == look_;
    return !behind;
  });
  return behind;
}

// ---- Who runs rows meanwhile ----

void KeyGate::drain(const Holder& holder) const {
  if (!waits()) return;
  Patience for_work;
  epochs_.wait_for_work([&] { for_work.wait(); });
  const uint32_t count = holder_count_.load(std::memory_order_acquire);
  for (uint32_t i = 0; i < count; ++i) {
    const Holder& other = *holders_[i];
    const uint64_t runs = other.runs_.load(std::memory_order_seq_cst);
    if (runs % 2 == 0 || !meets(holder, other)) continue;
    Patience patience;
    while (other.runs_.load(std::memory_order_acquire) == runs) patience.wait();
  }
}

// If `other` shows new rows meanwhile, its rows of before have ended.
bool KeyGate::meets(const Holder& holder, const Holder& other) {
  if (holder.flush_end_ != 0 &&
      flushes(holder, other.first_database_.load(std::memory_order_acquire),
              other.last_database_.load(std::memory_order_acquire))) {
    return true;
  }
  bool met = false;
  each_row(*holder.batch_, [&](uint64_t hash, uint32_t database) {
    const uint32_t bit = slot_of(hash, database) % Holder::shown_bits;
    met = (other.shown_[bit / 64].load(std::memory_order_acquire) >> (bit % 64) & 1) != 0;
    return !met;
  });
  return met;
}

void KeyGate::begin(Holder& holder, const Batch::Columns& columns, Batch::Row first,
                    Batch::Row end) {
  for (std::atomic<uint64_t>& word : holder.shown_) word.store(0, std::memory_order_release);
  uint32_t first_database = std::numeric_limits<uint32_t>::max();
  uint32_t last_database = 0;
  for (Batch::Row row = first; row < end; ++row) {
    const uint32_t database = columns.database[row];
    const uint32_t bit = slot_of(columns.hash[row], database) % Holder::shown_bits;
    std::atomic<uint64_t>& word = holder.shown_[bit / 64];
    word.store(word.load(std::memory_order_relaxed) | uint64_t{1} << (bit % 64),
               std::memory_order_release);
    first_database = std::min(first_database, database);
    last_database = std::max(last_database, database);
  }
  holder.first_database_.store(first_database, std::memory_order_release);
  holder.last_database_.store(last_database, std::memory_order_release);
  holder.runs_.store(holder.runs_.load(std::memory_order_relaxed) + 1, std::memory_order_seq_cst);
  disarm_if_quiet(holder);
}

// A thread that finds the gate disarmed has shown before that it works.
void KeyGate::disarm_if_quiet(Holder& holder) {
  const uint64_t takes = takes_.load(std::memory_order_relaxed);
  if (holder.takes_seen_ != takes) {
    holder.takes_seen_ = takes;
    holder.quiet_ = 0;
  } else if (++holder.quiet_ >= quiet_spans) {
    holder.quiet_ = 0;
    const std::lock_guard lock(mutex_);
    if (holding_.empty() && waiting_.empty()) armed_.store(false, std::memory_order_seq_cst);
  }
}

}  // namespace isotherm
