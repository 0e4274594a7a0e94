// The part of Tree that seals runs and takes them into the files.
#include <algorithm>
#include <chrono>
#include <new>
#include <utility>

#include "base/broken.h"
#include "base/reason_of.h"
#include "base/wait_for_memory.h"
#include "durability/journal.h"
#include "tree/all_shards.h"
#include "tree/tree.h"
#include "tree/tree_moment.h"

namespace isotherm {
namespace {

std::string journal_error(int result) {
  return "tree: the journal cannot be synced: " + reason_of(-result);
}

}  // namespace

Tree::~Tree() {
  {
    const std::lock_guard guard(mutex_);
    stops_ = true;
  }
  wake_.notify_one();
  writer_.join();
  if (options_.count) options_.count(-counted_);
}

// Throws std::bad_alloc, and then nothing has changed.
void Tree::seal(Seals when, std::optional<uint32_t> flushed_database) {
  {
    const AllShards guard(shard_locks_);
    if (when == Seals::if_wanted && !seals_.load(std::memory_order_relaxed)) return;
    // A run with flushes alone can begin with one more of them.
    if (flushed_database ? active_->bytes() != 0 : !active_->empty()) {
      auto next = is_full(*active_) && spare_ != nullptr ? std::exchange(spare_, nullptr)
                                                         : std::make_shared<TreeRun>();
      sealed_.push_back(active_);
      active_->seal();
      active_ = std::move(next);
      ++active_number_;
      active_->begins_with = segment_;
      waiting_runs_.store(sealed_.size(), std::memory_order_release);
    }
    seals_.store(false, std::memory_order_relaxed);
    if (flushed_database) {
      note_held();
      active_->flushed.insert(*flushed_database);
      flushed_run_.store(active_number_, std::memory_order_release);
    }
  }
  count_memory(false);
  wake_.notify_one();
}

// Where there is no memory it is for another time.
void Tree::seal_if_possible(Seals when) {
  try {
    seal(when);
  } catch (const std::bad_alloc&) {
    seals_.store(true, std::memory_order_relaxed);
  }
}

// The run that comes next, where runs become full; where they do not, the last one goes.
void Tree::make_spare(const TreeRun& before) {
  std::shared_ptr<TreeRun> spare;
  if (is_full(before)) {
    bool lists = false;
    {
      const std::lock_guard guard(shard_locks_.front());
      if (spare_ != nullptr) return;
      lists = before.lists();
    }
    try {
      spare = std::make_shared<TreeRun>(before, lists, options_.writers);
    } catch (const std::bad_alloc&) {
      return;
    }
  }
  const AllShards guard(shard_locks_);  // gone before what it takes out
  spare_.swap(spare);
}

uint64_t Tree::last_sealed() const {
  const std::lock_guard guard(shard_locks_.front());
  return active_number_ - 1;
}

std::shared_ptr<TreeRun> Tree::oldest() {
  const std::lock_guard guard(shard_locks_.front());
  return sealed_.empty() ? nullptr : sealed_.front();
}

void Tree::work() {
  const std::chrono::milliseconds pause(options_.pause_ms);
  std::unique_lock lock(mutex_);
  uint64_t flushes = 0;  // that are under way
  for (;;) {
    const auto wanted = [&] {
      return stops_ || wanted_flushes_ != flushes || waiting_runs_.load() != 0 ||
             !checkpoints_.empty();
    };
    const bool idle = !wake_.wait_for(lock, pause, wanted) && options_.seals_idle;
    const bool stops = stops_;
    const bool seals = idle || stops || wanted_flushes_ != flushes;
    flushes = wanted_flushes_;
    const bool flushing = flushes != done_flushes_;
    lock.unlock();
    if (seals) seal_if_possible();
    const uint64_t last = last_sealed();
    bool worked = true;
    wait_for_memory([this] {
      files_->tend();
      note_crowding();
    });
    while (worked) {
      auto run = oldest();
      wait_for_memory([this] { end_checkpoints_behind(nullptr); });
      if (run == nullptr) break;
      worked = work_on(run);
      run.reset();
      count_memory(true);
      tell_room();
      // Who waits for a flush does not wait for what others seal meanwhile.
      const bool is_flushed = taken_in_.load(std::memory_order_relaxed) >= last;
      if (!stops && (!flushing || is_flushed)) break;
    }
    count_memory(true);
    lock.lock();
    if (done_flushes_ != flushes) {
      done_flushes_ = flushes;
      if (!worked || overfull_.load(std::memory_order_relaxed)) failed_flushes_ = flushes;
      if (!worked) failed_run_ = last;
      done_.notify_all();
      while (Waiter* const waiter = flush_.take(flushes)) {
        lock.unlock();
        waiter->there();
        lock.lock();
      }
    }
    if (stops) return;
    // Before it is tried again.
    if (!worked) wake_.wait_for(lock, pause, [&] { return stops_; });
  }
}

// Whether the run is in the files. The writer waits for what little memory it needs beside them:
// who waits for it would wait for ever.
bool Tree::work_on(const std::shared_ptr<TreeRun>& run) {
  std::string problem;
  make_spare(*run);
  wait_for_memory([&] { problem = try_to_take_in(run); });
  wait_for_memory([&] {
    note_error(problem);
    note_crowding();
  });
  if (!problem.empty()) {
    wait_for_memory([&] { give_up_checkpoints(problem); });
    return false;
  }
  wait_for_memory([&] { take_away(*run); });
  wait_for_memory([&] { end_checkpoints_behind(run.get()); });
  note_copy();
  return true;
}

// Between two runs the files are as they were when the later one began. `run`: what was just taken
// in; null: there was no run when the checkpoint was wanted, and none that came since was taken in.
void Tree::end_checkpoints_behind(const TreeRun* run) {
  const auto is_mine = [run](const Checkpoint* one) { return one->behind.get() == run; };
  while (Checkpoint* const one = checkpoint_of(is_mine)) {
    end_checkpoint(*one, files_->checkpoint(one->folder));
  }
}

// Those that are wanted from now on wait for the next try.
void Tree::give_up_checkpoints(const std::string& problem) {
  size_t left;
  {
    const std::lock_guard guard(mutex_);
    left = checkpoints_.size();
  }
  for (; left != 0; --left) {
    Checkpoint* const one = checkpoint_of([](const Checkpoint*) { return true; });
    end_checkpoint(*one, problem);
  }
}

// The first of those that wait; null: none.
template <class Is>
Tree::Checkpoint* Tree::checkpoint_of(const Is& is) {
  const std::lock_guard guard(mutex_);
  const auto found = std::find_if(checkpoints_.begin(), checkpoints_.end(), is);
  return found == checkpoints_.end() ? nullptr : *found;
}

void Tree::end_checkpoint(Checkpoint& one, std::string problem) {
  const std::lock_guard guard(mutex_);
  std::erase(checkpoints_, &one);
  one.problem = std::move(problem);
  one.done = true;
  done_.notify_all();
}

std::string Tree::checkpoint(const std::string& folder, const StandStill& stand_still) {
  Checkpoint mine;
  mine.folder = folder;
  const bool stood = stand_still([&] {
    seal();
    const std::lock_guard guard(mutex_);
    const std::lock_guard runs(shard_locks_.front());
    checkpoints_.push_back(&mine);
    if (!sealed_.empty()) mine.behind = sealed_.back();
  });
  if (!stood) return "tree: there is no memory for a checkpoint";
  wake_.notify_one();
  std::unique_lock lock(mutex_);
  done_.wait(lock, [&] { return mine.done; });
  return mine.problem;
}

// A batch that has begun before is in the sum until it has ended: what is missed of others
// meanwhile is that they have ended.
void Tree::wait_for_older_batches() {
  const uint64_t before = generation_.fetch_add(1, std::memory_order_seq_cst);
  const auto running = [&] {
    int64_t sum = 0;
    for (const Running& one : running_) sum += one.count[before & 1].load();
    return sum;
  };
  while (running() != 0) {
    std::this_thread::sleep_for(std::chrono::microseconds(100));
  }
}

std::string Tree::try_to_take_in(const std::shared_ptr<TreeRun>& run) {
  try {
    return take_in(run);
  } catch (const std::bad_alloc&) {
    return "tree: there is no memory to write what was changed to its files";
  }
}

// Databases that lie side by side are one range: each is a file and a sync.
std::string Tree::erase_flushed(const std::set<uint32_t>& databases) {
  for (auto at = databases.begin(); at != databases.end();) {
    std::string first;
    std::string end;
    TreeRecord::put_key(*at, {}, first);
    uint32_t next = *at;
    while (at != databases.end() && *at == next) ++at, ++next;
    TreeRecord::put_key(next, {}, end);
    if (std::string problem = files_->erase_range(first, end); !problem.empty()) return problem;
  }
  return {};
}

// Empty: it is in the files, for good. Throws std::bad_alloc.
std::string Tree::take_in(const std::shared_ptr<TreeRun>& run) {
  if (files_->lasts()) wait_for_older_batches();
  const std::lock_guard uses_journal(journal_mutex_);
  Journal* const journal = files_->lasts() ? journal_ : nullptr;
  TreeMeta meta;
  {
    const std::lock_guard guard(mutex_);
    meta = meta_;
  }
  // Once for each run, however often its files fail.
  if (journal != nullptr && !run->in_journal) {
    JournalSegment begun;
    if (const int result = journal->begin_segment(begun); result < 0) return journal_error(result);
    run->in_journal = true;
    const AllShards guard(shard_locks_);
    segment_ = begun;
  }
  JournalSegment needed;
  {
    const AllShards guard(shard_locks_);
    needed = (sealed_.size() > 1 ? sealed_[1] : active_)->begins_with;
  }
  if (broken(Rule::ingesting)) needed = segment_;
  if (needed.number != 0) meta.lsn = needed.lsn;
  meta.last_version = last_version();
  if (std::string problem = erase_flushed(run->flushed); !problem.empty()) return problem;
  if (std::string problem = take_in_all(*run, meta); !problem.empty()) return problem;
  {
    const std::lock_guard guard(mutex_);
    meta_ = meta;
    new_ = false;
  }
  ingested_.fetch_add(1, std::memory_order_relaxed);
  // What cannot be dropped now is the next time.
  if (journal != nullptr && needed.number != 0) static_cast<void>(journal->cut_before(needed.lsn));
  return {};
}

// By pieces where moments inside the run would keep too much.
std::string Tree::take_in_all(TreeRun& run, const TreeMeta& meta) {
  const std::vector<uint64_t> inside = moments_inside(run);
  if (!inside.empty()) return take_in_by_moments(run, inside, meta);
  run.in_files_upto = RunEntry::latest;
  return files_->ingest(run.all(files_->lasts(), options_.writers), meta, options_.writers);
}

// Whoever holds a moment that shows a part of the run may go on reading it, and who reads now.
void Tree::take_away(const TreeRun& run) {
  const std::shared_ptr<TreeView> view = files_->lasts() ? files_->view() : nullptr;
  std::vector<std::shared_ptr<const MomentSources>> gone;
  const AllShards guard(shard_locks_);
  if (view != nullptr) let_runs_go(run, 0, view, gone);
  std::erase_if(held_runs_, [](const auto& held) { return held.expired(); });
  if (!sealed_.empty() && sealed_.front().get() == &run) {
    held_runs_.push_back(sealed_.front());
    sealed_.pop_front();
    taken_in_.fetch_add(1, std::memory_order_release);
  }
  count_held();
  waiting_runs_.store(sealed_.size(), std::memory_order_release);
  note_quiet();
}

// All that have waited: who finds it crowded again will wait again.
void Tree::tell_room() {
  std::vector<Waiter*> told;
  {
    const std::lock_guard guard(mutex_);
    if (is_crowded() && !failing_.load(std::memory_order_relaxed)) return;
    told.swap(waiters_);
  }
  Awaited* const inner = inner_.load(std::memory_order_acquire);
  for (Waiter* waiter : told) inner != nullptr ? inner->begin(*waiter) : waiter->there();
}

// Where it throws, nobody is told, or nothing has changed.
void Tree::note_error(const std::string& problem) {
  std::string line;
  std::string now = problem;
  std::string last = problem;
  {
    const std::lock_guard guard(mutex_);
    const bool is_news = problem.empty() != error_.empty();
    if (is_news) line = problem.empty() ? "the tree can be written again" : problem;
    error_.swap(now);
    if (!problem.empty()) last_error_.swap(last);
    failing_.store(!problem.empty(), std::memory_order_relaxed);
  }
  if (!line.empty()) events().tell(line);
}

// Files that have too much can take runs all the same, so nobody waits for them.
void Tree::note_crowding() {
  const std::string problem = files_->crowding();
  const bool before = overfull_.exchange(!problem.empty(), std::memory_order_relaxed);
  if (!problem.empty()) {
    const std::lock_guard guard(mutex_);
    last_error_ = problem;
  }
  if (before == !problem.empty()) return;
  if (before) return events().tell("gpu-items: there is room again");
  events().tell(problem + ": writes are refused, but those that erase");
}

void Tree::note_copy() {
  if (has_released_copy_ || files_->sorted_copy().problem.empty()) return;
  has_released_copy_ = true;
  direct_.release();
  ranges_.release();
}

std::string Tree::error() const {
  const std::lock_guard guard(mutex_);
  return error_;
}

std::string Tree::last_error() const {
  const std::lock_guard guard(mutex_);
  return last_error_;
}

bool Tree::holds_runs() {
  const AllShards guard(shard_locks_);
  return !sealed_.empty() || !active_->empty();
}

bool Tree::flush() {
  std::unique_lock lock(mutex_);
  const uint64_t mine = ++wanted_flushes_;
  wake_.notify_one();
  done_.wait(lock, [&] { return done_flushes_ >= mine; });
  return failed_flushes_ < mine;
}

void Tree::Flush::begin(Waiter& waiter) {
  const std::lock_guard guard(tree_.mutex_);
  waiters_.emplace_back(tree_.wanted_flushes_ + 1, &waiter);
  ++tree_.wanted_flushes_;
  tree_.wake_.notify_one();
}

Awaited::Waiter* Tree::Flush::take(uint64_t ended) {
  if (waiters_.empty() || waiters_.front().first > ended) return nullptr;
  Waiter* const waiter = waiters_.front().second;
  waiters_.pop_front();
  return waiter;
}

TreeStats Tree::stats() {
  TreeStats stats;
  {
    const AllShards guard(shard_locks_);
    stats.runs = sealed_.size();
    stats.run_bytes = active_->bytes();
    for (const auto& run : sealed_) stats.run_bytes += run->bytes();
  }
  stats.ingested = ingested_.load(std::memory_order_relaxed);
  stats.loads = loads_.loads();
  stats.memory = stats.run_bytes + other_memory();
  stats.disk_bytes = files_->disk_bytes();
  stats.host_bytes = files_->host_bytes();
  stats.keys = files_->keys();
  stats.failing = failing_.load(std::memory_order_relaxed) || overfull_.load();
  stats.lasts = files_->lasts();
  stats.lost = files_->is_lost();
  stats.lost_keys = files_->lost_keys();
  stats.sorted = files_->sorted_copy();
  return stats;
}

// Without runs.
uint64_t Tree::other_memory() const {
  return files_memory_.load(std::memory_order_relaxed) + loads_.bytes() + direct_.bytes() +
         ranges_.bytes() + held_bytes_.load(std::memory_order_relaxed);
}

namespace {

uint64_t bytes_of(const std::vector<std::weak_ptr<TreeRun>>& held) {
  uint64_t sum = 0;
  for (const auto& one : held) {
    if (const auto run = one.lock(); run != nullptr) sum += run->bytes();
  }
  return sum;
}

}  // namespace

uint64_t Tree::held_by_moments() const {
  const AllShards guard(shard_locks_);
  return count_held();
}

// With the locks of all shards. Each run may still get an order of its keys, which take more.
uint64_t Tree::count_held() const {
  const uint64_t bytes = bytes_of(held_runs_);
  most_held_.store(bytes + bytes / 2, std::memory_order_relaxed);
  return bytes;
}

// Who seals a run does not ask the files, which may take long.
void Tree::count_memory(bool asks_files) {
  if (asks_files) files_memory_.store(files_->memory(), std::memory_order_relaxed);
  if (!options_.count) return;
  uint64_t sum = other_memory();
  {
    const AllShards guard(shard_locks_);
    sum += count_held() + active_->bytes() + (spare_ != nullptr ? spare_->first_bytes() : 0);
    for (const auto& run : sealed_) sum += run->bytes();
  }
  const auto bytes = static_cast<int64_t>(sum);
  const std::lock_guard guard(mutex_);
  options_.count(bytes - std::exchange(counted_, bytes));
}

}  // namespace isotherm
