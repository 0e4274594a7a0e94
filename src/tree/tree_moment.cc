#include "tree/tree_moment.h"

#include <algorithm>
#include <mutex>
#include <utility>

#include "tree/all_shards.h"
#include "tree/tree.h"

namespace isotherm {
namespace {

// Over one shard of a run, some entries at once: the more, the farther it goes.
class RunCursor final : public TreeCursor {
 public:
  RunCursor(std::shared_ptr<TreeRun> run, uint32_t shard, TreeRun::Lock& lock, uint64_t moment,
            const std::string& first, const std::string& end)
      : run_(std::move(run)),
        shard_(shard),
        lock_(lock),
        moment_(moment),
        first_(first),
        end_(end) {}

  void seek(std::string_view key) override {
    most_ = first_most;
    fill(key);
  }
  void seek_before(std::string_view key) override {
    most_ = first_most;
    fill_back(key);
  }
  void next() override { go_on(true); }
  void prev() override { go_on(false); }
  bool valid() const override { return at_ < entries_.size(); }
  std::string_view key() const override { return entries_[at_].key; }
  std::string_view value() const override { return entries_[at_].value; }

 private:
  static constexpr size_t first_most = 4;
  static constexpr size_t last_most = 256;

  // Only in the direction of the last seek.
  void go_on(bool forward) {
    const std::string_view last = entries_[at_].key;
    if (++at_ < entries_.size() || !more_) return;
    most_ = std::min(most_ * 4, last_most);
    forward ? fill(std::string(last) + '\0') : fill_back(last);
  }
  // Keys stay where they are in the run.
  void fill(std::string_view from) {
    begin();
    const std::lock_guard guard(lock_);
    more_ = run_->copy(shard_, from, end_, most_, entries_, moment_);
  }
  void fill_back(std::string_view before) {
    begin();
    const std::lock_guard guard(lock_);
    more_ = run_->copy_back(shard_, first_, before, most_, entries_, moment_);
  }
  void begin() {
    entries_.clear();
    at_ = 0;
  }

  const std::shared_ptr<TreeRun> run_;
  const uint32_t shard_;
  TreeRun::Lock& lock_;
  const uint64_t moment_;
  const std::string first_;
  const std::string end_;
  std::vector<TreeEntry> entries_;
  size_t at_ = 0;
  size_t most_ = first_most;
  bool more_ = false;
};

}  // namespace

// ---- Moments ----

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
  last_held_.store(moments_.empty() ? 0 : *moments_.rbegin(), std::memory_order_relaxed);
}

bool TreeMoment::hides(std::string_view key_of_item, TreeRead& read) const {
  using enum TreeRead::State;
  std::string key;
  TreeRecord::put_key(database_, key_of_item, key);
  const uint64_t hash = TreeRun::hash_of(key);
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

std::unique_ptr<TreeCursor> TreeMoment::files_cursor(std::string_view first,
                                                     std::string_view end) const {
  return hidden_ || files_ == nullptr ? nullptr : files_->cursor(first, end);
}

const SortedView* TreeMoment::sorted() const {
  return hidden_ || files_ == nullptr ? nullptr : files_->sorted();
}

bool TreeMoment::has_changes() const {
  return std::any_of(runs_.begin(), runs_.end(), [](const auto& run) { return run->bytes() != 0; });
}

bool TreeMoment::is_changed(std::string_view first, std::string_view end) const {
  std::vector<TreeEntry> any;
  for (const auto& run : runs_) {
    for (uint32_t shard = 0; run->bytes() != 0 && shard < TreeRun::shards; ++shard) {
      const std::lock_guard guard(tree_.shard_locks_[shard]);
      run->copy(shard, first, end, 1, any, number_);
      if (!any.empty()) return true;
    }
  }
  return false;
}

TreeIterator TreeMoment::iterator(std::string first, std::string end,
                                  std::unique_ptr<TreeCursor> files) const {
  std::vector<std::unique_ptr<TreeCursor>> sources;
  for (const auto& run : runs_) {
    if (run->bytes() == 0) continue;
    for (uint32_t shard = 0; shard < TreeRun::shards; ++shard) {
      sources.push_back(
          std::make_unique<RunCursor>(run, shard, tree_.shard_locks_[shard], number_, first, end));
    }
  }
  if (files != nullptr) sources.push_back(std::move(files));
  return {std::move(sources), std::move(first), std::move(end)};
}

// ---- Iterators ----

TreeIterator::TreeIterator(std::vector<std::unique_ptr<TreeCursor>> sources, std::string first,
                           std::string end)
    : sources_(std::move(sources)), first_(std::move(first)), end_(std::move(end)) {
  heap_.reserve(sources_.size());
}

// For a heap, whose front is behind no other.
bool TreeIterator::is_behind(uint32_t source, uint32_t other) const {
  const int order = sources_[source]->key().compare(sources_[other]->key());
  if (order == 0) return source > other;
  return forward_ ? order > 0 : order < 0;
}

void TreeIterator::seek(std::string_view key) {
  const std::string_view from = std::clamp<std::string_view>(key, first_, end_);
  for (const auto& source : sources_) source->seek(from);
  start(true);
}

void TreeIterator::seek_before(std::string_view key) {
  const std::string_view before = std::clamp<std::string_view>(key, first_, end_);
  for (const auto& source : sources_) source->seek_before(before);
  start(false);
}

void TreeIterator::start(bool forward) {
  forward_ = forward;
  heap_.clear();
  error_.clear();
  for (uint32_t i = 0; i < sources_.size(); ++i) {
    sources_[i]->valid() ? heap_.push_back(i) : note_end(*sources_[i]);
  }
  std::make_heap(heap_.begin(), heap_.end(),
                 [this](uint32_t a, uint32_t b) { return is_behind(a, b); });
  settle();
}

// What was erased is passed over.
void TreeIterator::settle() {
  while (!heap_.empty() && value().empty()) pass();
  if (!error_.empty()) heap_.clear();
}

// A source that ends may have failed.
void TreeIterator::note_end(const TreeCursor& source) {
  if (std::string problem = source.error(); !problem.empty()) error_ = std::move(problem);
}

// Of the only source that has something.
void TreeIterator::move_front() {
  TreeCursor& source = *sources_[heap_.front()];
  forward_ ? source.next() : source.prev();
  if (source.valid()) return;
  note_end(source);
  heap_.clear();
}

// All that sources have of the key.
void TreeIterator::pass() {
  const auto behind = [this](uint32_t a, uint32_t b) { return is_behind(a, b); };
  if (heap_.size() == 1) return move_front();
  passed_.assign(key());
  while (!heap_.empty() && key() == passed_) {
    std::pop_heap(heap_.begin(), heap_.end(), behind);
    TreeCursor& source = *sources_[heap_.back()];
    forward_ ? source.next() : source.prev();
    if (source.valid()) {
      std::push_heap(heap_.begin(), heap_.end(), behind);
    } else {
      note_end(source);
      heap_.pop_back();
    }
  }
}

void TreeIterator::next() {
  if (!forward_) {
    passed_.assign(key());
    passed_.push_back('\0');
    return seek(std::string(passed_));
  }
  pass();
  settle();
}

void TreeIterator::prev() {
  if (forward_) return seek_before(std::string(key()));
  pass();
  settle();
}

}  // namespace isotherm
