#include "tree/tree_iterator.h"

#include <algorithm>
#include <utility>

namespace isotherm {
namespace {

constexpr ptrdiff_t places_ahead = 3;  // whose entries are fetched before they are looked at

}  // namespace

TreeIterator::TreeIterator(std::shared_ptr<const void> sources,
                           std::vector<std::shared_ptr<const RunOrder>> runs, uint64_t moment,
                           std::unique_ptr<TreeCursor> files, std::string first, std::string end,
                           bool shows_erased)
    : held_(std::move(sources)),
      runs_(std::move(runs)),
      moment_(moment),
      files_(std::move(files)),
      first_(std::move(first)),
      end_(std::move(end)),
      first_head_(KeyHead::of(first_)),
      end_head_(KeyHead::of(end_)),
      shows_erased_(shows_erased) {
  for (const auto& run : runs_) {
    for (const auto& piece : run->pieces()) sources_.emplace_back().piece = piece.get();
  }
  if (files_ != nullptr) sources_.emplace_back();
  heap_.reserve(sources_.size());
}

bool TreeIterator::goes_first(uint32_t source, uint32_t other) const {
  const Source& a = sources_[source];
  const Source& b = sources_[other];
  const int order = compare_keys(a.head, a.key, b.head, b.key);
  if (order == 0) return source < other;
  return forward_ ? order < 0 : order > 0;
}

// Each source's move says whether it has something then.
bool TreeIterator::show_files(Source& source) {
  if (!files_->valid()) {
    // It may have failed.
    if (std::string problem = files_->error(); !problem.empty()) error_ = std::move(problem);
    return false;
  }
  source.key = files_->key();
  source.value = files_->value();
  source.head = KeyHead::of(source.key);
  return true;
}

bool TreeIterator::step(Source& source) const {
  if (forward_) return ++source.at != source.piece->end();
  if (source.at == source.piece->begin()) return false;
  --source.at;
  return true;
}

// An entry lies between its key and its value, anywhere in memory.
void TreeIterator::fetch(const Source& source, ptrdiff_t away) const {
  const RunPlace* const at = source.at;
  const ptrdiff_t left = forward_ ? source.piece->end() - at : at - source.piece->begin() + 1;
  if (away >= left) return;
  const RunEntry* const entry = at[forward_ ? away : -away].entry;
  __builtin_prefetch(entry);
  __builtin_prefetch(entry + 1);
}

// The next entry from `at` on that the moment knows. Those that come next are fetched.
bool TreeIterator::show(Source& source) const {
  do {
    const RunPlace& place = *source.at;
    fetch(source, places_ahead);
    const std::string_view key = place.entry->key();
    const bool is_inside = forward_ ? compare_keys(place.head, key, end_head_, end_) < 0
                                    : compare_keys(place.head, key, first_head_, first_) >= 0;
    if (!is_inside) return false;
    const RunEntry::Shown shown = place.entry->at_moment(moment_);
    if (!shown.known) continue;
    source.head = place.head;
    source.key = key;
    source.value = shown.value;
    return true;
  } while (step(source));
  return false;
}

bool TreeIterator::move(Source& source) {
  if (source.piece != nullptr) return step(source) && show(source);
  forward_ ? files_->next() : files_->prev();
  return show_files(source);
}

// Where the source begins; whether it has something there.
bool TreeIterator::find(Source& source, const KeyHead& head, std::string_view key) {
  if (source.piece == nullptr) {
    forward_ ? files_->seek(key) : files_->seek_before(key);
    return true;
  }
  source.at = RunPiece::lower_bound(source.block, head, key);
  const bool any = forward_ ? source.at != source.piece->end() : step(source);
  for (ptrdiff_t i = 0; any && i < places_ahead; ++i) fetch(source, i);
  return any;
}

void TreeIterator::seek(std::string_view key) { start(key, true); }
void TreeIterator::seek_before(std::string_view key) { start(key, false); }

void TreeIterator::start(std::string_view wanted, bool forward) {
  const std::string_view key = std::clamp<std::string_view>(wanted, first_, end_);
  const KeyHead head = KeyHead::of(key);
  forward_ = forward;
  heap_.clear();
  error_.clear();
  // What one step needs of memory is on its way for all when the next step begins.
  for (Source& source : sources_) {
    if (source.piece != nullptr) source.block = source.piece->block_of(head);
  }
  for (uint32_t i = 0; i < sources_.size(); ++i) {
    if (find(sources_[i], head, key)) heap_.push_back(i);
  }
  std::erase_if(heap_, [this](uint32_t i) {
    Source& source = sources_[i];
    return !(source.piece != nullptr ? show(source) : show_files(source));
  });
  for (size_t place = heap_.size() / 2; place-- != 0;) sift_down(place);
  settle();
}

void TreeIterator::sift_down(size_t place) {
  const uint32_t source = heap_[place];
  for (size_t child = 2 * place + 1; child < heap_.size(); child = 2 * place + 1) {
    if (child + 1 < heap_.size() && goes_first(heap_[child + 1], heap_[child])) ++child;
    if (!goes_first(heap_[child], source)) break;
    heap_[place] = heap_[child];
    place = child;
  }
  heap_[place] = source;
}

// What was erased is passed over.
void TreeIterator::settle() {
  while (!shows_erased_ && !heap_.empty() && value().empty()) pass();
  if (!error_.empty()) heap_.clear();
}

void TreeIterator::move_front() {
  if (!move(sources_[heap_.front()])) {
    heap_.front() = heap_.back();
    heap_.pop_back();
    if (heap_.empty()) return;
  }
  if (heap_.size() > 1) sift_down(0);
}

// All that sources have of the key. The files are the last of them, and what they show does not
// stay.
void TreeIterator::pass() {
  const KeyHead passed = front().head;
  const std::string_view key = front().key;
  bool may_be_more = false;
  do {
    may_be_more = front().piece != nullptr;
    move_front();
  } while (may_be_more && !heap_.empty() && front().head == passed && front().key == key);
}

void TreeIterator::next() {
  if (!forward_) return seek(std::string(key()) + '\0');
  pass();
  settle();
}

void TreeIterator::prev() {
  if (forward_) return seek_before(std::string(key()));
  pass();
  settle();
}

}  // namespace isotherm
