// The part of Tree that shows all keys of a database, in their order.
#include <memory>
#include <new>
#include <optional>
#include <utility>

#include "tree/tree.h"
#include "tree/tree_moment.h"

namespace isotherm {
namespace {

constexpr size_t most_cursors = 1 << 16;
constexpr uint64_t most_cursor_bytes = 16 << 20;
// Of cursors the upper 48 bits count (engine/walk.h).
constexpr int lowest_cursor_bit = 16;

std::string first_key(uint32_t database) {
  std::string text;
  TreeRecord::put_key(database, {}, text);
  return text;
}

}  // namespace

// `from` becomes where the next step begins, and is empty behind the last. False: files cannot be
// read.
bool Tree::step(const TreeMoment& moment, std::string& from, uint64_t count, int64_t now_ms,
                const Show& show_one) {
  TreeIterator at = moment.iterator(from, first_key(moment.database() + 1), true);
  for (at.seek(from); at.valid() && count != 0; at.next(), --count) {
    TreeRecord record;
    if (!record.read(at.value()) || record.expired(now_ms)) continue;
    show_one(at.key().substr(TreeRecord::prefix_bytes), record.value.size(), record.expiry);
  }
  from = at.valid() ? at.key() : std::string_view();
  if (at.error().empty()) return true;
  events().tell(at.error());
  return false;
}

Awaited* Tree::awaited_by_walks() { return files_->lasts() || !holds_runs() ? nullptr : &flush_; }

// Of what a flush has waited for. Files that have taken in too much have all, too.
bool Tree::has_taken_in_all() {
  const std::lock_guard guard(mutex_);
  return taken_in_.load() >= failed_run_ || overfull_.load();
}

// All runs were taken in first, so that what is there from now on is shown from one place; what
// changes meanwhile is shown as runs have it.
bool Tree::walk_by_hash(uint32_t database, uint64_t& cursor, uint64_t count, int64_t now_ms,
                        const Show& show_one) {
  if (cursor == 0 && !has_taken_in_all()) return false;
  std::string value;
  const auto show_key = [&](std::string_view key, uint64_t value_bytes, int64_t expiry) {
    if (TreeRecord::database_of(key) != database) return;
    const uint64_t hash = hash_of(database, key.substr(TreeRecord::prefix_bytes));
    const TreeRun::Found found = find_in_runs(key, hash, database, value);
    TreeRecord record;
    record.expiry = expiry;
    if (found.erased || (found.known && !record.read(found.value))) return;
    if (record.expired(now_ms)) return;
    show_one(key.substr(TreeRecord::prefix_bytes), found.known ? record.value.size() : value_bytes,
             record.expiry);
  };
  const std::string problem = files_->walk_by_hash(cursor, count, show_key);
  if (!problem.empty()) events().tell(problem);
  return problem.empty();
}

bool Tree::is_shown(uint32_t database, std::string_view key) {
  std::string tree_key;
  std::string value;
  TreeRecord::put_key(database, key, tree_key);
  return files_->glance(tree_key, value) == TreeFiles::Glance::found;
}

bool Tree::walk(uint32_t database, uint64_t& cursor, uint64_t count, int64_t now_ms,
                const Show& show_one, bool& anew) {
  if (!files_->lasts()) return walk_by_hash(database, cursor, count, now_ms, show_one);
  std::string from = first_key(database);
  if (cursor != 0) {
    const std::lock_guard guard(cursors_mutex_);
    std::string its = take_cursor(cursor);
    anew = !its.starts_with(from);
    if (!anew) from = std::move(its);
  }
  const bool worked = step(*take_moment(database), from, count, now_ms, show_one);
  cursor = 0;
  if (!worked || from.empty()) return worked;
  const std::lock_guard guard(cursors_mutex_);
  cursor = next_cursor_++ << lowest_cursor_bit;
  const uint64_t bytes = from.size();
  cursors_.emplace(cursor, std::move(from));
  cursor_bytes_ += bytes;
  cursor_order_.push_back(cursor);
  const auto has_too_many = [this] {
    return cursor_order_.size() > most_cursors || cursor_bytes_ > most_cursor_bytes;
  };
  while (has_too_many() && cursor_order_.size() > 1) {
    take_cursor(cursor_order_.front());
    cursor_order_.pop_front();
  }
  return true;
}

// Where it goes on; empty: it was taken, or is too old. With `cursors_mutex_`.
std::string Tree::take_cursor(uint64_t cursor) {
  const auto its = cursors_.extract(cursor);
  if (its.empty()) return {};
  cursor_bytes_ -= its.mapped().size();
  return std::move(its.mapped());
}

std::optional<uint64_t> Tree::count(uint32_t database, int64_t now_ms) {
  return has_taken_in_all() ? files_->count(database, now_ms) : std::nullopt;
}

std::optional<uint64_t> Tree::count(const TreeMoment& moment, int64_t now_ms) {
  uint64_t keys = 0;
  std::string from = first_key(moment.database());
  const Show add = [&](std::string_view, uint64_t, int64_t) { ++keys; };
  constexpr uint64_t all = ~uint64_t{0};
  try {
    if (step(moment, from, all, now_ms, add)) return keys;
  } catch (const std::bad_alloc&) {  // as if they could not be read
  }
  return std::nullopt;
}

}  // namespace isotherm
