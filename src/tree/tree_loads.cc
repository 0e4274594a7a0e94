#include "tree/tree_loads.h"

#include <algorithm>
#include <iterator>
#include <new>
#include <utility>

#include "base/start_threads.h"

namespace isotherm {
namespace {

// What `most_loads` is for: who reads more at once has more under way.
constexpr size_t usual_at_once = 64;

}  // namespace

TreeLoads::TreeLoads(TreeFiles& files, uint32_t threads, uint64_t most_bytes, size_t at_once)
    : files_(files), most_bytes_(most_bytes), at_once_(at_once) {
  start_threads(threads_, threads, [this](uint32_t) { work(); });
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
  if (at == loads_.end() || !at->second->there()) return false;
  Load& load = *at->second;
  const bool usable = load.seen.changes == seen.changes || load.seen.taken_in == seen.taken_in;
  // Who takes it alone needs no copy.
  const bool gives = load.users <= 1 && load.read.state == TreeRead::State::found;
  if (usable) read = gives ? std::move(load.read) : load.read;
  // Nobody is told twice that the files cannot be read: the next one tries again.
  if (!usable || gives || read.state == TreeRead::State::failed) forget(load);
  return usable;
}

void TreeLoads::move(Load& load, List& to) {
  to.splice(to.end(), *load.list, load.place);
  load.list = &to;
}

// It goes when nobody holds it.
void TreeLoads::forget(Load& load) {
  bytes_.fetch_sub(std::exchange(load.counted, 0), std::memory_order_relaxed);
  loads_.erase(load.key);
  move(load, forgotten_);
  load.users == 0 ? forgotten_.pop_back() : std::string().swap(load.read.value);
}

void TreeLoads::let_go(Load& load) {
  const std::lock_guard guard(mutex_);
  if (--load.users != 0) return;
  if (load.list == &forgotten_) {
    forgotten_.erase(load.place);
  } else if (load.list == &left_) {
    forget(load);
  }
}

// Another thread may take what was read.
uint64_t TreeLoads::Load::bytes_to_bring() const {
  const std::lock_guard guard(loads.mutex_);
  return read.value.size() + key.size();
}

void TreeLoads::Load::ran_again() { loads.let_go(*this); }

void TreeLoads::count_bytes(Load& load) {
  const uint64_t bytes = sizeof(Load) + load.key.size() + load.read.value.size();
  bytes_.fetch_add(bytes - load.counted, std::memory_order_relaxed);
  load.counted = bytes;
}

Awaited* TreeLoads::want(std::string_view key, const Backing::Seen& seen) {
  const std::lock_guard guard(mutex_);
  if (const auto at = loads_.find(key); at != loads_.end()) {
    Load& load = *at->second;
    if (load.seen.changes == seen.changes || !load.there()) {
      ++load.users;
      return &load;
    }
    forget(load);
  }
  if (loads_.size() >= most_loads * at_once_ / usual_at_once) drop_old();
  if (loads_.size() >= most_loads * at_once_ / usual_at_once || threads_.empty()) return nullptr;
  List made;
  Load& load = made.emplace_back(*this);
  load.place = made.begin();
  load.key = key;
  load.seen = seen;
  load.users = 1;
  loads_.emplace(load.key, &load);
  queue_.splice(queue_.end(), made);
  count_bytes(load);
  loads_count_.fetch_add(1, std::memory_order_relaxed);
  if (sleeping_ != 0) wanted_.notify_one();
  return &load;
}

void TreeLoads::Load::begin(Waiter& waiter) {
  {
    const std::lock_guard guard(loads.mutex_);
    if (!there()) {
      waiters.push_back(&waiter);
      return;
    }
  }
  waiter.there();
}

void TreeLoads::drop_old() {
  const size_t most = most_loads * at_once_ / usual_at_once;
  while (!there_.empty() && (loads_.size() >= most || bytes() > most_bytes_)) {
    Load& load = there_.front();
    load.users == 0 ? forget(load) : move(load, left_);
  }
}

void TreeLoads::work() {
  std::unique_lock lock(mutex_);
  for (;;) {
    ++sleeping_;
    wanted_.wait(lock, [this] { return stops_ || !queue_.empty() || !jobs_.empty(); });
    --sleeping_;
    if (!queue_.empty()) {
      read_queued(lock);
    } else if (!jobs_.empty()) {
      read_some(*jobs_.front(), lock);
    } else {
      return;
    }
  }
}

void TreeLoads::read_queued(std::unique_lock<std::mutex>& lock) {
  // As many as leave some for the others.
  const size_t share = (queue_.size() + threads_.size() - 1) / std::max<size_t>(threads_.size(), 1);
  const size_t count = std::min(queue_.size(), std::min(at_once_, share));
  List mine;
  mine.splice(mine.end(), queue_, queue_.begin(), std::next(queue_.begin(), ptrdiff_t(count)));
  lock.unlock();
  try {
    std::vector<std::string_view> keys;
    keys.reserve(count);
    for (const Load& load : mine) keys.push_back(load.key);
    std::vector<TreeRead> reads(count);
    files_.read(keys, reads.data());
    auto read = reads.begin();
    for (Load& load : mine) load.read = std::move(*read++);
  } catch (const std::bad_alloc&) {
    for (Load& load : mine) load.read.state = TreeRead::State::failed;
  }
  lock.lock();
  std::list<Awaited::Waiter*> told;
  for (Load& load : mine) {
    count_bytes(load);
    load.list = &there_;
    told.splice(told.end(), load.waiters);
  }
  there_.splice(there_.end(), mine);
  drop_old();
  lock.unlock();
  for (Awaited::Waiter* waiter : told) waiter->there();
  lock.lock();
}

// The next keys of a job, which is gone when its last ones are read. What there is no memory for
// has failed: others may still be at work on the rest, so whoever brought the job may not leave it.
void TreeLoads::read_some(Job& job, std::unique_lock<std::mutex>& lock) {
  const size_t first = job.next;
  const size_t count = std::min(at_once_, job.keys.size() - first);
  job.next += count;
  if (job.next == job.keys.size()) std::erase(jobs_, &job);
  lock.unlock();
  try {
    files_.read(job.keys.subspan(first, count), job.reads + first);
  } catch (const std::bad_alloc&) {
    for (size_t i = first; i < first + count; ++i) job.reads[i].state = TreeRead::State::failed;
  }
  lock.lock();
  job.read += count;
  if (job.read == job.keys.size()) job.ended.notify_one();
}

void TreeLoads::read(std::span<const std::string_view> keys, TreeRead* reads) {
  loads_count_.fetch_add(keys.size(), std::memory_order_relaxed);
  if (keys.size() <= at_once_) return files_.read(keys, reads);
  Job job{keys, reads};
  std::unique_lock lock(mutex_);
  jobs_.push_back(&job);
  if (sleeping_ != 0) wanted_.notify_all();
  while (job.next != job.keys.size()) read_some(job, lock);
  job.ended.wait(lock, [&] { return job.read == job.keys.size(); });
}

}  // namespace isotherm
