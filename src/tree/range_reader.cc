#include "tree/range_reader.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/bytes.h"
#include "gpu/platform/device_error.h"
#include "tree/device_files.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

bool is_empty(const RangeAsked& asked) {
  return asked.limit == 0 || (!asked.end.empty() && asked.end <= asked.first);
}

std::string in_tree(uint32_t database, std::string_view key) {
  std::string text;
  TreeRecord::put_key(database, key, text);
  return text;
}

// Of all of the database.
std::string first_of(const MomentSources& moment) { return in_tree(moment.database(), {}); }
std::string end_of(const MomentSources& moment) { return in_tree(moment.database() + 1, {}); }

}  // namespace

// As the tree has its keys.
struct RangeReader::Bounds {
  Bounds(uint32_t database, const RangeAsked& asked)
      : first(in_tree(database, asked.first)),
        end(in_tree(asked.end.empty() ? database + 1 : database, asked.end)),
        end_head(KeyHead::of(end)) {}
  bool has(const TreeIterator& at) const {
    return at.valid() && compare_keys(at.key_head(), at.key(), end_head, end) < 0;
  }
  const std::string first;
  const std::string end;
  const KeyHead end_head;
};

// Pairs of a range that a device has shown, gone over once.
class RangeReader::ShownPairs {
 public:
  ShownPairs(RangePairs pairs, bool all) : all_(all), begin_(pairs.at), left_(pairs.count) {
    look(pairs.at);
  }

  // Whether there are none behind them.
  bool all() const { return all_; }
  uint32_t left() const { return left_; }
  void next() {
    --left_;
    last_ = key_;
    look(next_);
  }
  // As std::string_view::compare; of an item's key.
  int compare(const KeyHead& head, std::string_view key) const {
    return compare_keys(KeyHead::of(item_key_), item_key_, head, key);
  }
  // Those that were gone past since the last call.
  std::string_view take() {
    const char* const from = std::exchange(begin_, at_);
    return {from, static_cast<size_t>(at_ - from)};
  }
  void leave_out() {
    next();
    begin_ = at_;
  }
  // Of the last that was gone past, as the device has it.
  std::optional<std::string_view> last_key() const { return last_; }

 private:
  void look(const char* at) {
    at_ = at;
    if (left_ == 0) return;
    PairHead head;
    std::memcpy(&head, at, sizeof head);
    key_ = {at + sizeof head, head.key_bytes};
    item_key_ = DeviceFiles::item_key(key_);
    next_ = at + head.bytes();
  }

  const bool all_;
  const char* begin_;
  const char* at_ = nullptr;
  const char* next_ = nullptr;
  uint32_t left_;
  std::string_view key_;
  std::string_view item_key_;
  std::optional<std::string_view> last_;
};

RangeReader::RangeReader(RangePool& pool) : pool_(pool) {}
RangeReader::~RangeReader() = default;

void RangeReader::clear() {
  forget_moment();
  held_.clear();
  text_.clear();
}

std::string RangeReader::read(const TreeMoment& moment, std::span<const RangeAsked> asked,
                              std::span<RangePairs> found) {
  asked_ = asked;
  found_ = found;
  problem_.clear();
  forget_moment();  // of a call that has thrown
  moment_ = moment.sources();
  done_.assign(asked.size(), false);
  for (uint32_t row = 0; row < asked.size(); ++row) {
    found[row] = {};
    done_[row] = is_empty(asked[row]);
  }
  if (const SortedView* const view = moment_->sorted(); view != nullptr) ask_device(*view);
  for (uint32_t row = 0; row < asked.size() && problem_.empty(); ++row) {
    if (done_[row]) continue;
    const Bounds bounds(moment.database(), asked[row]);
    text_.begin();
    read_on(row, bounds, bounds.first);
  }
  forget_moment();
  return std::exchange(problem_, {});
}

void RangeReader::forget_moment() {
  all_.reset();
  changes_.reset();
  moment_.reset();
}

void RangeReader::ask_device(const SortedView& view) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < asked_.size(); ++row) {
    if (!done_[row]) rows.push_back(row);
  }
  try {
    while (!rows.empty() && ask_once(view, rows)) {
    }
  } catch (const DeviceError& error) {
    pool_.lose(error.what());
  }
}

// All pieces are on their way together, as far as there are columns. `rows`: those that found no
// room in a reply, then. False: these are not for the device.
bool RangeReader::ask_once(const SortedView& view, std::vector<uint32_t>& rows) {
  std::vector<uint32_t> again;
  std::vector<Piece> started;
  const std::span<const uint32_t> all(rows);
  size_t at = 0;
  while (at < all.size()) {
    Piece piece{pool_.lend(true), {}};
    if (piece.lent == nullptr && !started.empty()) {
      for (const Piece& one : started) settle(one, true, again);
      started.clear();
      piece.lent = pool_.lend(true);
    }
    const bool passes = piece.lent == nullptr;
    if (passes) piece.lent = pool_.lend(false);
    if (piece.lent == nullptr) break;
    const size_t some = start(view, all.subspan(at), piece.lent->columns());
    if (some == 0) {  // its keys are too long
      ++at;
      continue;
    }
    piece.rows = all.subspan(at, some);
    at += some;
    if (passes) {
      settle(piece, true, again);
    } else {
      started.push_back(std::move(piece));
    }
  }
  for (Piece& one : started) {
    settle(one, false, again);
    held_.push_back(std::move(one.lent));
  }
  const bool worked = again.size() < rows.size();
  rows = std::move(again);
  return worked;
}

// How many of the rows found room.
size_t RangeReader::start(const SortedView& view, std::span<const uint32_t> rows,
                          DirectRanges& ranges) {
  const RangeColumns& to = ranges.columns();
  const RangeShape& shape = ranges.shape();
  const uint32_t database = moment_->database();
  std::string text;
  uint32_t at = 0;
  size_t packed = 0;
  const auto add = [&](uint32_t of, std::string_view key, size_t number) {
    key = DeviceFiles::device_key(of, key, text);
    if (key.size() > shape.key_room - at) return false;
    copy_bytes(to.keys + at, key.data(), key.size());
    at += static_cast<uint32_t>(key.size());
    to.key_ends[number + 1] = at;
    return true;
  };
  for (; packed < rows.size() && packed < shape.ranges; ++packed) {
    const RangeAsked& asked = asked_[rows[packed]];
    const uint32_t of_end = asked.end.empty() ? database + 1 : database;
    if (!add(database, asked.first, 2 * packed) || !add(of_end, asked.end, 2 * packed + 1)) break;
    to.limits[packed] = asked.limit;
  }
  if (packed != 0) ranges.start(view, static_cast<uint32_t>(packed));
  return packed;
}

void RangeReader::settle(const Piece& piece, bool copies, std::vector<uint32_t>& again) {
  DirectRanges& ranges = piece.lent->columns();
  ranges.wait();
  for (size_t i = 0; i < piece.rows.size(); ++i) {
    const RangeHead& head = ranges.columns().heads[i];
    if (head.end == RangeHead::End::room) {
      again.push_back(piece.rows[i]);
    } else {
      settle_row(piece.rows[i], head, {ranges.columns().replies + head.at, head.pairs}, copies);
    }
  }
}

// A device has shown some pairs of the range. Where no run knows a key among them they stay where
// they are.
void RangeReader::settle_row(uint32_t row, const RangeHead& head, RangePairs pairs, bool copies) {
  using enum RangeHead::End;
  const Bounds bounds(moment_->database(), asked_[row]);
  const uint32_t most = asked_[row].limit;
  ShownPairs shown(pairs, head.end == all);
  text_.begin();
  uint32_t count = 0;
  const bool changed = merge(bounds, most, shown, count);
  done_[row] = true;
  if (!changed && !copies && (head.end == all || head.end == limit)) {
    found_[row] = pairs;
    return;
  }
  while (shown.left() != 0 && count < most) {
    shown.next();
    ++count;
  }
  text_.add_all(shown.take());
  found_[row] = {text_.range(), count};
  if (count == most || shown.all()) return;
  const auto last = shown.last_key();
  read_on(row, bounds, last ? DeviceFiles::tree_key_of(*last) + '\0' : bounds.first);
}

// Up to the last change among the pairs, takes each, and the pairs before it, into the text; behind
// the last pair changes count only where all were shown. Whether there were any.
bool RangeReader::merge(const Bounds& bounds, uint32_t most, ShownPairs& shown, uint32_t& count) {
  if (!changes_) changes_.emplace(moment_->changes(first_of(*moment_), end_of(*moment_)));
  bool changed = false;
  for (changes_->seek(bounds.first); bounds.has(*changes_); changes_->next()) {
    const std::string_view key = changes_->key().substr(TreeRecord::prefix_bytes);
    const KeyHead head = KeyHead::of(key);
    for (; shown.left() != 0 && count < most && shown.compare(head, key) < 0; ++count) {
      shown.next();
    }
    if (count == most || (shown.left() == 0 && !shown.all())) break;
    text_.add_all(shown.take());
    changed = true;
    if (shown.left() != 0 && shown.compare(head, key) == 0) shown.leave_out();
    if (changes_->value().empty()) continue;
    add(key, changes_->value());
    ++count;
  }
  return changed;
}

// What runs and files have from `from` on, behind what the range has.
void RangeReader::read_on(uint32_t row, const Bounds& bounds, std::string_view from) {
  if (!problem_.empty()) return;
  if (!all_) all_.emplace(moment_->iterator(first_of(*moment_), end_of(*moment_)));
  uint32_t& count = found_[row].count;
  for (all_->seek(from); count < asked_[row].limit && bounds.has(*all_); all_->next(), ++count) {
    add(all_->key().substr(TreeRecord::prefix_bytes), all_->value());
  }
  if (!all_->error().empty()) problem_ = all_->error();
  found_[row].at = text_.range();
  done_[row] = true;
}

void RangeReader::add(std::string_view key, std::string_view value) {
  TreeRecord record;
  if (!record.read(value)) problem_ = "a record of the files cannot be understood";
  text_.add(DeviceFiles::device_key(moment_->database(), key, device_key_), record.value);
}

}  // namespace isotherm
