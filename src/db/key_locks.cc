#include "db/key_locks.h"

#include <chrono>

namespace isotherm {

bool KeyLocks::closes_circle(const Owner& owner, const Lock& wanted) {
  const Lock* lock = &wanted;
  while (lock != nullptr && lock->owner != nullptr) {
    if (lock->owner == &owner) return true;
    lock = lock->owner->waits_for_;
  }
  return false;
}

KeyLocks::Outcome KeyLocks::take(Owner& owner, std::string_view key, int64_t timeout_ms) {
  // Longer than a machine runs; the clock's own numbers end after some hundred years.
  constexpr int64_t longest_ms = int64_t{1000} * 60 * 60 * 24 * 365 * 100;
  if (timeout_ms < 0 || timeout_ms > longest_ms) timeout_ms = -1;
  const auto end = std::chrono::steady_clock::now() + std::chrono::milliseconds(timeout_ms);
  std::unique_lock guard(mutex_);
  const auto place = locks_.try_emplace(std::string(key)).first;
  Lock& lock = place->second;
  if (lock.owner == &owner) return Outcome::taken;
  // Before it waits, so that nothing can fail when it has the key.
  owner.keys_.push_back(&place->first);
  Outcome outcome = Outcome::taken;
  ++lock.waiting;
  while (lock.owner != nullptr && outcome == Outcome::taken) {
    if (closes_circle(owner, lock)) {
      outcome = Outcome::deadlock;
      break;
    }
    owner.waits_for_ = &lock;
    if (timeout_ms < 0) {
      lock.free.wait(guard);
    } else if (lock.free.wait_until(guard, end) == std::cv_status::timeout) {
      if (lock.owner != nullptr) outcome = Outcome::timed_out;
    }
    owner.waits_for_ = nullptr;
  }
  --lock.waiting;
  if (outcome == Outcome::taken) {
    lock.owner = &owner;
    return outcome;
  }
  owner.keys_.pop_back();
  if (lock.owner == nullptr && lock.waiting == 0) locks_.erase(place);
  return outcome;
}

void KeyLocks::give_back(Owner& owner) {
  const std::lock_guard guard(mutex_);
  for (const std::string* key : owner.keys_) {
    const auto place = locks_.find(*key);
    Lock& lock = place->second;
    lock.owner = nullptr;
    lock.waiting != 0 ? lock.free.notify_one() : void(locks_.erase(place));
  }
  owner.keys_.clear();
}

size_t KeyLocks::size() {
  const std::lock_guard guard(mutex_);
  return locks_.size();
}

}  // namespace isotherm
