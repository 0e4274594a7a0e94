#include "tree/tree_moment.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "tree/all_shards.h"
#include "tree/tree.h"

namespace isotherm {
std::shared_ptr<const TreeMoment> Tree::take_moment(uint32_t database, bool sorted) {
  const std::shared_ptr<TreeMoment> moment(new TreeMoment(*this, database));
  {
    const AllShards guard(shard_locks_);
    {
      const std::lock_guard moments(moments_mutex_);
      moments_.insert(next_moment_);
      last_held_.store(next_moment_, std::memory_order_relaxed);
    }
    moment->number_ = next_moment_++;
    const auto take = [&](const std::shared_ptr<TreeRun>& run) {
      if (moment->hidden_) return;
      moment->runs_.push_back(run);
      moment->hidden_ = run->flushed.contains(database);
    };
    take(active_);
    for (auto run = sealed_.rbegin(); run != sealed_.rend(); ++run) take(*run);
  }
  // It may have runs that were taken in since, which the moment has, too.
  if (files_->lasts()) moment->files_ = files_->view(sorted);
  return moment;
}

TreeMoment::~TreeMoment() {
  files_.reset();
  tree_.let_go(number_);
}

void Tree::let_go(uint64_t moment) {
  const std::lock_guard guard(moments_mutex_);
  moments_.erase(moment);
  last_held_.store(moments_.empty() ? 0 : *moments_.rbegin(), std::memory_order_release);
}

bool TreeMoment::hides(std::string_view key_of_item, TreeRead& read) const {
  using enum TreeRead::State;
  std::string key;
  TreeRecord::put_key(database_, key_of_item, key);
  const uint64_t hash = tree_.hash_of(database_, key_of_item);
  read.state = absent;
  const std::lock_guard guard(tree_.shard_locks_[TreeRun::shard_of(hash)]);
  for (const auto& run : runs_) {
    const TreeRun::Found found = run->find(hash, key, number_);
    if (!found.known) continue;
    read.state = found.erased ? absent : TreeRead::State::found;
    read.value.assign(found.value);
    return true;
  }
  return hidden_;
}

void TreeMoment::read(std::string_view key_of_item, TreeRead& read) const {
  if (hides(key_of_item, read) || files_ == nullptr) return;
  std::string key;
  TreeRecord::put_key(database_, key_of_item, key);
  files_->read(key, read);
}

const SortedView* TreeMoment::sorted() const {
  return hidden_ || files_ == nullptr ? nullptr : files_->sorted();
}

std::vector<std::shared_ptr<const RunOrder>> TreeMoment::in_order() const {
  std::vector<std::shared_ptr<const RunOrder>> runs;
  for (const auto& run : runs_) {
    if (run->bytes() == 0) continue;
    runs.push_back(run->in_order(tree_.shard_locks_, tree_.options_.writers));
  }
  return runs;
}

TreeIterator TreeMoment::iterator(std::string first, std::string end, bool once) const {
  std::unique_ptr<TreeCursor> files;
  if (!hidden_ && files_ != nullptr) files = files_->cursor(first, end, once);
  return {in_order(), number_, std::move(files), std::move(first), std::move(end)};
}

TreeIterator TreeMoment::changes(std::string first, std::string end) const {
  return {in_order(), number_, nullptr, std::move(first), std::move(end), true};
}

}  // namespace isotherm
