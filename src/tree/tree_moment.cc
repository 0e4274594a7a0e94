#include "tree/tree_moment.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "tree/all_shards.h"
#include "tree/tree.h"

namespace isotherm {

// The view comes first, so that no run is missed that is taken in meanwhile: where one was, another
// view is taken. What both the view and a run have the run shows.
std::shared_ptr<const TreeMoment> Tree::take_moment(uint32_t database, bool sorted) {
  const std::shared_ptr<TreeMoment> moment(new TreeMoment(*this, database));
  for (;;) {
    const uint64_t taken_in = taken_in_.load(std::memory_order_acquire);
    const std::shared_ptr<MomentSources> sources(new MomentSources(*this, database));
    if (files_->lasts()) sources->files_ = files_->view(sorted);
    const AllShards guard(shard_locks_);
    if (taken_in_.load(std::memory_order_acquire) != taken_in) continue;
    const auto take = [&](const std::shared_ptr<TreeRun>& run) {
      if (sources->hidden_) return;
      sources->runs_.push_back(run);
      sources->hidden_ = run->flushed.contains(database);
    };
    take(active_);
    for (auto run = sealed_.rbegin(); run != sealed_.rend(); ++run) take(*run);
    sources->number_ = next_moment_;
    moment->sources_ = sources;
    const std::lock_guard moments(moments_mutex_);
    moments_.emplace(next_moment_, moment.get());
    last_held_.store(next_moment_, std::memory_order_relaxed);
    moment->number_ = next_moment_++;
    return moment;
  }
}

TreeMoment::~TreeMoment() { tree_.let_go(number_); }

void Tree::let_go(uint64_t moment) {
  const std::lock_guard guard(moments_mutex_);
  moments_.erase(moment);
  last_held_.store(moments_.empty() ? 0 : moments_.rbegin()->first, std::memory_order_release);
}

// Those that show a part of the run, since it was active when they were taken, in their order. None
// where moments keep little; where they are more than 16, since a piece for each would cost too
// much; before the files have a meta record, which a start would take for all of the journal's.
// None of those that an iterator goes over, which keeps the run anyway; none that was taken before
// the run's database was flushed, which the files do by the whole run; and none of which the files
// may have more than it shows, since to take the run in was tried.
std::vector<uint64_t> Tree::moments_inside(const TreeRun& run) const {
  constexpr size_t most_pieces = 16;
  std::vector<uint64_t> inside;
  if (!files_->lasts() || !holds_moments()) return inside;
  {
    const std::lock_guard guard(mutex_);
    if (new_) return inside;
  }
  if (held_by_moments() + run.bytes() <= most_kept_runs * options_.run_bytes) return inside;
  const std::lock_guard its_sources(shard_locks_.front());
  const std::lock_guard guard(moments_mutex_);
  for (const auto& [number, moment] : moments_) {
    const MomentSources& sources = *moment->sources_;
    if (sources.runs_.empty() || sources.runs_.front().get() != &run) continue;
    const bool flushed_later = !sources.hidden_ && run.flushed.contains(moment->database_);
    const bool shows_all = number >= run.in_files_upto;
    if (moment->sources_.use_count() == 1 && !flushed_later && shows_all) inside.push_back(number);
  }
  if (inside.size() > most_pieces) inside.clear();
  return inside;
}

// The view shows what moments have of the run, and of those before it: these are let go. `inside`:
// what this moment has, which shows a part of the run; 0: what all have that show the run whole.
// With the locks of all shards. Throws std::bad_alloc, and then some may have let go. `gone`: what
// is to be destroyed behind these locks.
void Tree::let_runs_go(const TreeRun& run, uint64_t inside, const std::shared_ptr<TreeView>& view,
                       std::vector<std::shared_ptr<const MomentSources>>& gone) {
  const std::lock_guard guard(moments_mutex_);
  for (const auto& [number, moment] : moments_) {
    const auto& runs = moment->sources_->runs_;
    const auto at =
        std::find_if(runs.begin(), runs.end(), [&](const auto& its) { return its.get() == &run; });
    if (at == runs.end()) continue;
    const bool shows_a_part = at == runs.begin();
    if (inside == 0 ? shows_a_part : number != inside) continue;
    const std::shared_ptr<MomentSources> next(new MomentSources(*this, moment->database_));
    next->number_ = number;
    next->runs_.assign(runs.begin(), at);
    next->files_ = view;
    gone.push_back(next);
    gone.back().swap(moment->sources_);
  }
}

// What the files have of the run is what the moment shows of it.
void Tree::show_from_files(const TreeRun& run, uint64_t inside) {
  const std::shared_ptr<TreeView> view = files_->view();
  std::vector<std::shared_ptr<const MomentSources>> gone;
  const AllShards guard(shard_locks_);
  let_runs_go(run, inside, view, gone);
}

// First what the run had when each of the moments was taken, which is shown from the files then,
// and last the rest. The journal has all of it until then, so a start after a crash in between
// makes the run again. Where a piece fails, the moments before it are shown already, and are not
// inside any more when it is tried again.
std::string Tree::take_in_by_moments(TreeRun& run, const std::vector<uint64_t>& inside,
                                     const TreeMeta& meta) {
  TreeMeta before;
  {
    const std::lock_guard guard(mutex_);
    before = meta_;
  }
  before.last_version = meta.last_version;
  const std::shared_ptr<const RunOrder> order = run.in_order(shard_locks_, options_.writers);
  uint64_t behind = 0;  // what moment the files have the run's changes of
  for (const uint64_t moment : inside) {
    const std::vector<TreeEntry> changes = order->changes(moment, behind);
    run.in_files_upto = moment;
    std::string problem;
    if (!changes.empty()) problem = files_->ingest(changes, before, options_.writers);
    if (!problem.empty()) return problem;
    show_from_files(run, moment);
    behind = moment;
  }
  const std::vector<TreeEntry> rest = order->changes(RunEntry::latest, behind);
  run.in_files_upto = RunEntry::latest;
  return files_->ingest(rest, meta, options_.writers);
}

// As `hides`; else `files` are what is to be asked.
bool TreeMoment::look(std::string_view key_of_item, TreeRead& read,
                      std::shared_ptr<TreeView>& files) const {
  using enum TreeRead::State;
  std::string key;
  TreeRecord::put_key(database_, key_of_item, key);
  const uint64_t hash = tree_.hash_of(database_, key_of_item);
  read.state = absent;
  const std::lock_guard guard(tree_.shard_locks_[TreeRun::shard_of(hash)]);
  for (const auto& run : sources_->runs_) {
    const TreeRun::Found found = run->find(hash, key, number_);
    if (!found.known) continue;
    read.state = found.erased ? absent : TreeRead::State::found;
    read.value.assign(found.value);
    return true;
  }
  files = sources_->files_;
  return sources_->hidden_;
}

bool TreeMoment::hides(std::string_view key, TreeRead& read) const {
  std::shared_ptr<TreeView> files;
  return look(key, read, files);
}

void TreeMoment::read(std::string_view key_of_item, TreeRead& read) const {
  std::shared_ptr<TreeView> files;
  if (look(key_of_item, read, files) || files == nullptr) return;
  std::string key;
  TreeRecord::put_key(database_, key_of_item, key);
  files->read(key, read);
}

std::shared_ptr<const MomentSources> TreeMoment::sources() const {
  const std::lock_guard guard(tree_.shard_locks_.front());
  return sources_;
}

TreeIterator TreeMoment::iterator(std::string first, std::string end, bool once) const {
  return sources()->iterator(std::move(first), std::move(end), once);
}

const SortedView* MomentSources::sorted() const {
  return hidden_ || files_ == nullptr ? nullptr : files_->sorted();
}

std::vector<std::shared_ptr<const RunOrder>> MomentSources::in_order() const {
  std::vector<std::shared_ptr<const RunOrder>> runs;
  for (const auto& run : runs_) {
    if (run->bytes() == 0) continue;
    runs.push_back(run->in_order(tree_.shard_locks_, tree_.options_.writers));
  }
  return runs;
}

TreeIterator MomentSources::iterator(std::string first, std::string end, bool once) const {
  std::unique_ptr<TreeCursor> files;
  if (!hidden_ && files_ != nullptr) files = files_->cursor(first, end, once);
  return {shared_from_this(), in_order(),       number_,
          std::move(files),   std::move(first), std::move(end)};
}

TreeIterator MomentSources::changes(std::string first, std::string end) const {
  return {shared_from_this(), in_order(), number_, nullptr, std::move(first), std::move(end), true};
}

}  // namespace isotherm
