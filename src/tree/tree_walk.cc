// The part of Tree that shows all keys of a database, in their order.
#include <algorithm>
#include <map>
#include <utility>

#include "tree/tree.h"

namespace isotherm {
namespace {

constexpr size_t most_cursors = 1 << 16;

// What one step has found of a key, in the newest place that knows it.
struct WalkedKey {
  bool there;
  uint64_t bytes;
  int64_t expiry;
};

std::string first_key(uint32_t database) {
  std::string text;
  TreeRecord::put_key(database, {}, text);
  return text;
}

}  // namespace

// What runs have, newest first, and what the files have. Where a source has more than was taken,
// what is behind its last key is left to the next step. `from` becomes where that begins. False:
// files cannot be read.
bool Tree::step(uint32_t database, std::string& from, uint64_t count, int64_t now_ms,
                const Show& show_one) {
  const std::string end = first_key(database + 1);
  std::string bound = end;
  std::map<std::string, WalkedKey, std::less<>> all;
  const auto add = [&](const TreeEntry& entry) {
    TreeRecord record;
    const bool there = record.read(entry.value) && !record.expired(now_ms);
    all.try_emplace(std::string(entry.key), WalkedKey{there, record.value.size(), record.expiry});
  };
  const auto stop_behind = [&](std::string_view key) {
    bound = std::min(bound, std::string(key) + '\0');
  };
  bool hidden = false;  // by a flush
  std::vector<TreeEntry> some;
  for (uint32_t shard = 0; shard < TreeRun::shards; ++shard) {
    hidden = false;
    const std::lock_guard guard(shard_locks_[shard]);
    const auto take = [&](const TreeRun& run) {
      if (hidden) return;
      some.clear();
      if (run.copy(shard, from, end, count / 8 + 2, some)) stop_behind(some.back().key);
      for (const TreeEntry& entry : some) add(entry);
      hidden = run.flushed.contains(database);
    };
    take(*active_);
    for (auto run = sealed_.rbegin(); run != sealed_.rend(); ++run) take(**run);
  }
  uint64_t left = hidden ? 0 : count + 1;
  const auto visit = [&](std::string_view key, std::string_view value) {
    add({key, value});
    if (--left == 0) stop_behind(key);
    return left != 0;
  };
  if (left != 0) {
    const std::string problem = files_->walk(from, bound, visit);
    if (!problem.empty()) {
      log(problem);
      return false;
    }
  }
  uint64_t shown = 0;
  for (const auto& [key, one] : all) {
    if (key >= bound) break;
    if (!one.there) continue;
    if (shown == count) {
      bound = key;
      break;
    }
    show_one(std::string_view(key).substr(TreeRecord::prefix_bytes), one.bytes, one.expiry);
    ++shown;
  }
  from = bound == end ? std::string() : std::move(bound);
  return true;
}

// All runs are taken in first, so that what is there from now on is shown from one place; what
// changes meanwhile is shown as runs have it.
bool Tree::walk_by_hash(uint32_t database, uint64_t& cursor, uint64_t count, int64_t now_ms,
                        const Show& show_one) {
  // Files that have taken in too much have all.
  const bool is_whole = cursor != 0 || !holds_runs() || flush() || overfull_.load();
  if (!is_whole) return false;
  std::string value;
  const auto show_key = [&](std::string_view key, uint64_t value_bytes, int64_t expiry) {
    if (TreeRecord::database_of(key) != database) return;
    const TreeRun::Found found = find_in_runs(key, TreeRun::hash_of(key), database, value);
    TreeRecord record;
    record.expiry = expiry;
    if (found.erased || (found.known && !record.read(found.value))) return;
    if (record.expired(now_ms)) return;
    show_one(key.substr(TreeRecord::prefix_bytes), found.known ? record.value.size() : value_bytes,
             record.expiry);
  };
  const std::string problem = files_->walk_by_hash(cursor, count, show_key);
  if (!problem.empty()) log(problem);
  return problem.empty();
}

bool Tree::is_shown(uint32_t database, std::string_view key) {
  std::string tree_key;
  std::string value;
  TreeRecord::put_key(database, key, tree_key);
  return files_->glance(tree_key, value) == TreeFiles::Glance::found;
}

bool Tree::walk(uint32_t database, uint64_t& cursor, uint64_t count, int64_t now_ms,
                const Show& show_one) {
  if (!files_->lasts()) return walk_by_hash(database, cursor, count, now_ms, show_one);
  std::string from = first_key(database);
  if (cursor != 0) {
    const std::lock_guard guard(cursors_mutex_);
    const auto at = cursors_.find(cursor);
    if (at != cursors_.end() && at->second.starts_with(from)) from = at->second;
    if (at != cursors_.end()) cursors_.erase(at);
  }
  const bool worked = step(database, from, count, now_ms, show_one);
  cursor = 0;
  if (!worked || from.empty()) return worked;
  const std::lock_guard guard(cursors_mutex_);
  cursor = next_cursor_++;
  cursors_.emplace(cursor, std::move(from));
  cursor_order_.push_back(cursor);
  while (cursor_order_.size() > most_cursors) {
    cursors_.erase(cursor_order_.front());
    cursor_order_.pop_front();
  }
  return true;
}

uint64_t Tree::count(uint32_t database, int64_t now_ms) {
  constexpr uint64_t at_once = 4096;
  uint64_t keys = 0;
  std::string from = first_key(database);
  const Show add = [&](std::string_view, uint64_t, int64_t) { ++keys; };
  if (!files_->lasts()) {
    uint64_t cursor = 0;
    while (walk_by_hash(database, cursor, at_once, now_ms, add) && cursor != 0) {
    }
    return keys;
  }
  while (step(database, from, at_once, now_ms, add) && !from.empty()) {
  }
  return keys;
}

}  // namespace isotherm
