// Iterators of a Db, and ranges by them.
#include <algorithm>
#include <utility>

#include "db/db_state.h"
#include "isotherm/db.h"

namespace isotherm {
namespace {

std::string in_tree(std::string_view key) {
  std::string text;
  TreeRecord::put_key(0, key, text);
  return text;
}

// The first key that is behind all that begin so; none: there is no such key.
std::optional<std::string> behind_prefix(std::string prefix) {
  while (!prefix.empty() && prefix.back() == '\xff') prefix.pop_back();
  if (prefix.empty()) return std::nullopt;
  ++prefix.back();
  return prefix;
}

struct Bounds {
  std::string first;
  std::string end;
};

Bounds bounds_of(const DbRange& range) {
  std::string first = std::max(range.lower.value_or(std::string()), range.prefix);
  std::optional<std::string> end = behind_prefix(range.prefix);
  if (range.upper && (!end || *range.upper < *end)) end = range.upper;
  Bounds bounds{in_tree(first), {}};
  if (end) {
    bounds.end = in_tree(*end);
  } else {
    TreeRecord::put_key(1, {}, bounds.end);
  }
  bounds.end = std::max(bounds.first, bounds.end);
  return bounds;
}

}  // namespace

struct DbIterator::State {
  State(std::shared_ptr<const TreeMoment> its_moment, Bounds bounds)
      : moment(std::move(its_moment)),
        at(moment->iterator(std::move(bounds.first), std::move(bounds.end))) {}

  // Reads the record that it has come to.
  DbStatus read() {
    valid = at.valid();
    if (!valid) {
      return at.error().empty() ? DbStatus() : DbStatus(DbStatus::Code::not_saved, at.error());
    }
    TreeRecord record;
    valid = record.read(at.value());
    if (!valid) return {DbStatus::Code::corrupt, "a record of the files cannot be understood"};
    key = at.key().substr(TreeRecord::prefix_bytes);
    value = record.value;
    return {};
  }
  template <class How>
  void move(How&& how) {
    problem = guarded([&]() -> DbStatus {
      valid = false;
      how();
      return read();
    });
  }

  const std::shared_ptr<const TreeMoment> moment;
  TreeIterator at;
  bool valid = false;
  std::string_view key;
  std::string_view value;
  DbStatus problem;
};

DbIterator::DbIterator(std::unique_ptr<State> state) : state_(std::move(state)) {}
DbIterator::~DbIterator() = default;

void DbIterator::seek_to_first() { seek({}); }
void DbIterator::seek_to_last() {
  state_->move([&] { state_->at.seek_to_last(); });
}
void DbIterator::seek(std::string_view key) {
  state_->move([&] { state_->at.seek(in_tree(key)); });
}
void DbIterator::seek_for_prev(std::string_view key) {
  state_->move([&] { state_->at.seek_before(in_tree(key) + '\0'); });
}
void DbIterator::next() {
  if (valid()) state_->move([&] { state_->at.next(); });
}
void DbIterator::prev() {
  if (valid()) state_->move([&] { state_->at.prev(); });
}
bool DbIterator::valid() const { return state_->valid; }
std::string_view DbIterator::key() const { return state_->key; }
std::string_view DbIterator::value() const { return state_->value; }
DbStatus DbIterator::status() const {
  return guarded([&] { return state_->problem; });
}

DbStatus Db::iterate(const DbRange& range, std::unique_ptr<DbIterator>& iterator) {
  return guarded([&]() -> DbStatus {
    auto moment = state_->moment_of(range.snapshot);
    iterator.reset(
        new DbIterator(std::make_unique<DbIterator::State>(std::move(moment), bounds_of(range))));
    return {};
  });
}

DbStatus Db::range(std::string_view first, std::string_view end, size_t limit, Pairs& pairs,
                   const DbReadOptions& options) {
  return guarded([&]() -> DbStatus {
    pairs.clear();
    if (limit == 0) return {};
    DbRange range;
    range.lower = first;
    if (!end.empty()) range.upper = end;
    range.snapshot = options.snapshot;
    auto moment = state_->moment_of(range.snapshot);
    DbIterator::State its(std::move(moment), bounds_of(range));
    constexpr size_t most_reserved = 256;
    pairs.reserve(std::min(limit, most_reserved));
    for (its.at.seek({});; its.at.next()) {
      if (DbStatus status = its.read(); !its.valid) return status;
      pairs.emplace_back(its.key, its.value);
      if (pairs.size() == limit) return {};
    }
  });
}

}  // namespace isotherm
