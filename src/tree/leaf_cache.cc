#include "tree/leaf_cache.h"

#include <algorithm>
#include <iterator>
#include <mutex>
#include <new>
#include <utility>

namespace isotherm {

class LeafCache::Leaf {
 public:
  struct Pair {
    uint32_t at;
    uint32_t key_bytes;
    uint32_t value_bytes;
  };

  Leaf(uint64_t number, std::string_view from, std::string_view upto, std::string_view text,
       const std::vector<Pair>& pairs)
      : number_(number), from_(from), upto_(upto), text_(text), pairs_(pairs) {}

  // Views from this number on have it so.
  uint64_t number() const { return number_; }
  const std::string& from() const { return from_; }
  const std::string& upto() const { return upto_; }
  size_t pairs() const { return pairs_.size(); }
  std::string_view key(size_t pair) const {
    return {text_.data() + pairs_[pair].at, pairs_[pair].key_bytes};
  }
  std::string_view value(size_t pair) const {
    const Pair& its = pairs_[pair];
    return {text_.data() + its.at + its.key_bytes, its.value_bytes};
  }
  // The first that is not before the key.
  size_t find(std::string_view wanted) const {
    size_t first = 0;
    for (size_t left = pairs(); left != 0;) {
      const size_t half = left / 2;
      if (key(first + half) < wanted) {
        first += half + 1;
        left -= half + 1;
      } else {
        left = half;
      }
    }
    return first;
  }
  uint64_t bytes() const {
    constexpr uint64_t of_a_node = 96;
    return of_a_node + sizeof *this + from_.size() + upto_.size() + text_.size() +
           pairs_.size() * sizeof(Pair);
  }

  void note_read() const {
    if (!was_read_.load(std::memory_order_relaxed)) {
      was_read_.store(true, std::memory_order_relaxed);
    }
  }
  bool take_read() const {
    const bool was_read = was_read_.exchange(false, std::memory_order_relaxed);
    was_ever_read_ |= was_read;
    return was_read;
  }
  // By `take_read`.
  bool was_ever_read() const { return was_ever_read_; }

 private:
  const uint64_t number_;
  const std::string from_;
  const std::string upto_;
  const std::string text_;
  const std::vector<Pair> pairs_;
  mutable std::atomic<bool> was_read_{false};
  mutable bool was_ever_read_ = false;
};

// What becomes a leaf. Its memory is used again.
class LeafCache::Sheet {
 public:
  void begin(std::string_view from) {
    from_ = from;
    text_.clear();
    pairs_.clear();
  }
  void add(std::string_view key, std::string_view value) {
    const auto at = static_cast<uint32_t>(text_.size());
    text_.append(key).append(value);
    pairs_.push_back({at, static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())});
  }
  bool is_full() const { return pairs_.size() >= most_pairs || text_.size() >= most_bytes; }
  const std::string& from() const { return from_; }
  // None: empty.
  std::string_view last_key() const {
    return pairs_.empty()
               ? std::string_view()
               : std::string_view(text_).substr(pairs_.back().at, pairs_.back().key_bytes);
  }
  std::shared_ptr<const Leaf> leaf(uint64_t number, std::string_view upto) const {
    return std::make_shared<const Leaf>(number, from_, upto, text_, pairs_);
  }

 private:
  static constexpr size_t most_pairs = 256;
  static constexpr size_t most_bytes = 64 << 10;  // of them, unless there is one alone

  std::string from_;
  std::string text_;
  std::vector<Leaf::Pair> pairs_;
};

class LeafCache::Cursor final : public TreeCursor {
 public:
  Cursor(LeafCache& cache, uint64_t number, TreeView& view, std::string_view first,
         std::string_view end)
      : cache_(cache), number_(number), view_(view), first_(first), end_(end) {}
  ~Cursor() override {
    try {
      keep_what_was_read();
    } catch (const std::bad_alloc&) {  // it is read again
    }
  }
  Cursor(const Cursor&) = delete;
  Cursor& operator=(const Cursor&) = delete;

  void seek(std::string_view key) override {
    leave();
    seek_leaf(std::max<std::string_view>(key, first_));
  }
  void next() override {
    if (leaf_ != nullptr) return ++pair_ < pairs_ ? show_pair() : seek_behind();
    files_->next();
    note_files();
  }
  // Not by leaves.
  void seek_before(std::string_view key) override {
    leave();
    files().seek_before(key);
    show_files();
  }
  void prev() override {
    files_->prev();
    show_files();
  }
  std::string error() const override {
    return leaf_ == nullptr && files_ != nullptr ? files_->error() : std::string();
  }

 private:
  TreeCursor& files() {
    if (files_ == nullptr) files_ = view_.cursor(first_, end_, false);
    return *files_;
  }
  void show_files() { files_->valid() ? show(files_->key(), files_->value()) : show_end(); }
  void show_pair() { show(leaf_->key(pair_), leaf_->value(pair_)); }
  void leave() {
    keep_what_was_read();
    leaf_.reset();
    behind_.reset();
  }
  void show_leaf(std::shared_ptr<const Leaf> leaf, std::string_view key) {
    leaf->note_read();
    pair_ = leaf->find(key);
    pairs_ = leaf->upto() <= end_ ? leaf->pairs() : leaf->find(end_);
    leaf_ = std::move(leaf);
    behind_.reset();
    pair_ < pairs_ ? show_pair() : seek_behind();
  }
  void seek_behind() {
    if (leaf_->upto() >= end_) return show_end();
    const std::shared_ptr<const Leaf> last = std::move(leaf_);
    leaf_.reset();
    seek_leaf(last->upto());
  }
  void seek_leaf(std::string_view key) {
    Found found = cache_.find(number_, key);
    if (found.leaf != nullptr) return show_leaf(std::move(found.leaf), key);
    behind_ = std::move(found.behind);
    makes_ = cache_.wants_leaf();
    if (makes_) sheet_.begin(key);
    files().seek(key);
    note_files();
  }
  // What the files show now is shown, and goes to the leaf that is made.
  void note_files() {
    if (!files_->valid()) {
      if (files_->error().empty()) keep(end_);
      makes_ = false;
      return show_end();
    }
    const std::string_view key = files_->key();
    if (behind_ != nullptr && key >= behind_->from()) {
      keep(behind_->from());
      makes_ = false;
      return show_leaf(std::exchange(behind_, nullptr), key);
    }
    if (makes_ && sheet_.is_full()) {
      keep(key);
      sheet_.begin(key);
    }
    if (makes_) sheet_.add(key, files_->value());
    show_files();
  }
  void keep(std::string_view upto) {
    if (makes_ && sheet_.from() < upto) cache_.put(number_, sheet_.leaf(number_, upto));
  }
  // Up to the last pair.
  void keep_what_was_read() {
    if (!std::exchange(makes_, false) || sheet_.last_key().empty()) return;
    cache_.put(number_, sheet_.leaf(number_, std::string(sheet_.last_key()) + '\0'));
  }

  LeafCache& cache_;
  const uint64_t number_;
  TreeView& view_;
  const std::string first_;
  const std::string end_;
  std::unique_ptr<TreeCursor> files_;  // when they are first asked
  // What is shown is of this leaf; null: of the files.
  std::shared_ptr<const Leaf> leaf_;
  size_t pair_ = 0;
  size_t pairs_ = 0;                    // before the end
  std::shared_ptr<const Leaf> behind_;  // where the files need not be read any more
  Sheet sheet_;
  bool makes_ = false;  // a leaf
};

class LeafCache::View final : public TreeView {
 public:
  View(LeafCache& cache, uint64_t number, std::unique_ptr<TreeView> files)
      : cache_(cache), number_(number), files_(std::move(files)) {}
  void read(std::string_view key, TreeRead& read) override { files_->read(key, read); }
  std::unique_ptr<TreeCursor> cursor(std::string_view first, std::string_view end,
                                     bool once) override {
    if (once) return files_->cursor(first, end, once);
    return std::make_unique<Cursor>(cache_, number_, *files_, first, end);
  }

 private:
  LeafCache& cache_;
  const uint64_t number_;
  const std::unique_ptr<TreeView> files_;
};

std::unique_ptr<TreeView> LeafCache::view(const std::function<std::unique_ptr<TreeView>()>& make) {
  const uint64_t number = number_.load(std::memory_order_acquire);
  std::unique_ptr<TreeView> files = make();
  const bool changes = number % 2 != 0 || number_.load(std::memory_order_acquire) != number;
  if (changes) return files;
  return std::make_unique<View>(*this, number, std::move(files));
}

LeafCache::Found LeafCache::find(uint64_t number, std::string_view key) const {
  const std::shared_lock guard(mutex_);
  Found found;
  auto at = leaves_.upper_bound(key);
  if (at != leaves_.begin()) {
    const auto& before = std::prev(at)->second;
    if (before->number() <= number && key < before->upto()) found.leaf = before;
  }
  const bool is_older = at != leaves_.end() && at->second->number() <= number;
  if (found.leaf == nullptr && is_older) found.behind = at->second;
  return found;
}

// Others may have read the same keys meanwhile.
void LeafCache::put(uint64_t number, const std::shared_ptr<const Leaf>& leaf) {
  const std::lock_guard guard(mutex_);
  if (number_.load(std::memory_order_relaxed) != number || leaf->bytes() > most_bytes_ / 2) return;
  const auto at = leaves_.lower_bound(leaf->from());
  if (at != leaves_.end() && at->second->from() < leaf->upto()) return;
  if (at != leaves_.begin() && std::prev(at)->second->upto() > leaf->from()) return;
  leaves_.emplace_hint(at, leaf->from(), leaf);
  bytes_.fetch_add(leaf->bytes(), std::memory_order_relaxed);
  make_room();
}

LeafCache::Leaves::iterator LeafCache::drop(Leaves::iterator at) {
  bytes_.fetch_sub(at->second->bytes(), std::memory_order_relaxed);
  return leaves_.erase(at);
}

void LeafCache::make_room() {
  auto at = leaves_.lower_bound(hand_);
  while (bytes() > most_bytes_) {
    if (at == leaves_.end()) at = leaves_.begin();
    if (at->second->take_read()) {
      ++at;
      continue;
    }
    note_gone(at->second->was_ever_read());
    at = drop(at);
  }
  hand_ = at == leaves_.end() ? std::string() : std::string(at->first);
}

// Where few leaves are read before they go, most are not worth the work of making them.
void LeafCache::note_gone(bool was_read) {
  constexpr uint32_t looks = 256;
  ++gone_;
  gone_read_ += was_read ? 1 : 0;
  if (gone_ < looks) return;
  each_.store(gone_read_ >= looks / 4 ? 1 : 8, std::memory_order_relaxed);
  gone_ = gone_read_ = 0;
}

bool LeafCache::wants_leaf() {
  const uint32_t each = each_.load(std::memory_order_relaxed);
  thread_local uint32_t misses = 0;
  return each == 1 || ++misses % each == 0;
}

LeafCache::Change::Change(LeafCache& cache, std::span<const TreeEntry> entries,
                          std::string_view first, std::string_view end)
    : cache_(cache), entries_(entries), first_(first), end_(end) {
  cache_.number_.fetch_add(1, std::memory_order_acq_rel);
}

LeafCache::Change::~Change() {
  Leaves gone;
  const std::lock_guard guard(cache_.mutex_);
  if (!entries_.empty() && entries_.size() >= cache_.leaves_.size()) {
    gone.swap(cache_.leaves_);
    cache_.bytes_.store(0, std::memory_order_relaxed);
  }
  cache_.drop_all(entries_);
  cache_.drop_all(first_, end_);
  cache_.number_.fetch_add(1, std::memory_order_acq_rel);
}

// That have one of the keys.
void LeafCache::drop_all(std::span<const TreeEntry> entries) {
  for (const TreeEntry& entry : entries) {
    if (leaves_.empty()) return;
    const auto behind = leaves_.upper_bound(entry.key);
    if (behind == leaves_.begin()) continue;
    const auto at = std::prev(behind);
    if (entry.key < at->second->upto()) drop(at);
  }
}

void LeafCache::drop_all(std::string_view first, std::string_view end) {
  auto at = leaves_.upper_bound(first);
  if (at != leaves_.begin() && std::prev(at)->second->upto() > first) --at;
  while (at != leaves_.end() && at->second->from() < end) at = drop(at);
}

}  // namespace isotherm
