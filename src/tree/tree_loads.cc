#include "tree/tree_loads.h"

#include <algorithm>
#include <utility>

namespace isotherm {
namespace {

// What `most_loads` is for: who reads more at once has more under way.
constexpr size_t usual_at_once = 64;

}  // namespace

TreeLoads::TreeLoads(TreeFiles& files, uint32_t threads, uint64_t most_bytes, size_t at_once)
    : files_(files), most_bytes_(most_bytes), at_once_(at_once) {
  for (uint32_t i = 0; i < threads; ++i) threads_.emplace_back([this] { work(); });
}

TreeLoads::~TreeLoads() {
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  wanted_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

bool TreeLoads::take(std::string_view key, const Backing::Seen& seen, TreeRead& read) {
  const std::lock_guard guard(mutex_);
  const auto at = loads_.find(key);
  if (at == loads_.end() || !at->second->there) return false;
  Load& load = *at->second;
  const bool usable = load.seen.changes == seen.changes;
  if (usable && load.read.state != TreeRead::State::found) {
    read.state = load.read.state;
    // Nobody is told twice that the files cannot be read: the next one tries again.
    if (read.state == TreeRead::State::failed && load.users == 0) drop(at);
    return true;
  }
  if (usable) read = load.users == 0 ? std::move(load.read) : load.read;
  if (load.users == 0) drop(at);
  return usable;
}

void TreeLoads::drop(Loads::iterator load) {
  bytes_.fetch_sub(load->second->counted, std::memory_order_relaxed);
  loads_.erase(load);
}

void TreeLoads::count_bytes(Load& load) {
  const uint64_t bytes = sizeof(Load) + 2 * load.key.size() + load.read.value.size();
  bytes_.fetch_add(bytes - load.counted, std::memory_order_relaxed);
  load.counted = bytes;
}

// A load that was overtaken, and that others still wait for, is read once more behind them.
Awaited* TreeLoads::want(std::string_view key, const Backing::Seen& seen) {
  const std::lock_guard guard(mutex_);
  if (const auto at = loads_.find(key); at != loads_.end()) {
    Load& load = *at->second;
    const bool fresh = load.seen.changes == seen.changes;
    if (fresh || load.users != 0 || !load.there) {
      ++load.users;
      return &load;
    }
    drop(at);
  }
  if (loads_.size() >= most_loads * at_once_ / usual_at_once) drop_old(0);
  if (loads_.size() >= most_loads * at_once_ / usual_at_once) return nullptr;
  auto load = std::make_unique<Load>(*this);
  load->key = key;
  load->seen = seen;
  load->users = 1;
  Load* const it = load.get();
  count_bytes(*it);
  queue_.push_back(it);
  loads_.emplace(it->key, std::move(load));
  loads_count_.fetch_add(1, std::memory_order_relaxed);
  if (sleeping_ != 0) wanted_.notify_one();
  return it;
}

void TreeLoads::Load::begin(Waiter& waiter) {
  {
    const std::lock_guard guard(loads.mutex_);
    --users;
    if (!there) {
      waiters.push_back(&waiter);
      return;
    }
  }
  waiter.there();
}

void TreeLoads::drop_old(size_t kept) {
  while (there_.size() > kept &&
         (loads_.size() >= most_loads * at_once_ / usual_at_once || bytes() > most_bytes_)) {
    const auto at = loads_.find(there_.front());
    // One that is still to be told comes again behind the others.
    if (at != loads_.end() && at->second->there && at->second->users == 0) drop(at);
    there_.pop_front();
  }
}

void TreeLoads::work() {
  std::vector<Load*> mine;
  std::vector<std::string_view> keys;
  std::vector<TreeRead> reads;
  std::vector<Awaited::Waiter*> told;
  std::unique_lock lock(mutex_);
  for (;;) {
    ++sleeping_;
    wanted_.wait(lock, [this] { return stops_ || !queue_.empty(); });
    --sleeping_;
    if (queue_.empty()) return;
    // As many as leave some for the others.
    const size_t share =
        (queue_.size() + threads_.size() - 1) / std::max<size_t>(threads_.size(), 1);
    const size_t count = std::min(queue_.size(), std::min(at_once_, share));
    mine.assign(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
    queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(count));
    lock.unlock();
    keys.clear();
    for (const Load* load : mine) keys.push_back(load->key);
    reads.assign(count, {});
    files_.read(keys, reads.data());
    lock.lock();
    for (size_t i = 0; i < count; ++i) {
      Load& load = *mine[i];
      load.read = std::move(reads[i]);
      count_bytes(load);
      load.there = true;
      there_.push_back(load.key);
      told.insert(told.end(), load.waiters.begin(), load.waiters.end());
      load.waiters.clear();
    }
    // Rows that are told now find what was read, however much that is.
    drop_old(count);
    lock.unlock();
    for (Awaited::Waiter* waiter : told) waiter->there();
    told.clear();
    lock.lock();
  }
}

}  // namespace isotherm
