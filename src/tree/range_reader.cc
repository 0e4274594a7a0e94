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

struct Bounds {
  Bounds(uint32_t database, const RangeAsked& asked) {
    TreeRecord::put_key(database, asked.first, first);
    TreeRecord::put_key(asked.end.empty() ? database + 1 : database, asked.end, end);
  }
  std::string first;
  std::string end;
};

bool is_empty(const RangeAsked& asked) {
  return asked.limit == 0 || (!asked.end.empty() && asked.end <= asked.first);
}

// The first of some pairs, as they lie.
struct Shown {
  explicit Shown(const char* at) {
    PairHead head;
    std::memcpy(&head, at, sizeof head);
    key = {at + sizeof head, head.key_bytes};
    value = {at + sizeof head + head.key_bytes, head.value_bytes};
    next = at + head.bytes();
  }
  std::string_view key;
  std::string_view value;
  const char* next;
};

std::string_view last_key(RangePairs pairs) {
  std::string_view key;
  for (uint32_t i = 0; i < pairs.count; ++i) {
    const Shown one(pairs.at);
    key = one.key;
    pairs.at = one.next;
  }
  return key;
}

void append(std::string_view key, std::string_view value, std::string& to) {
  const PairHead head{static_cast<uint32_t>(key.size()), static_cast<uint32_t>(value.size())};
  const size_t at = to.size();
  to.resize(at + head.bytes());
  std::memcpy(to.data() + at, &head, sizeof head);
  copy_bytes(to.data() + at + sizeof head, key.data(), key.size());
  copy_bytes(to.data() + at + sizeof head + key.size(), value.data(), value.size());
}

}  // namespace

// Over pairs that a device has shown of a range, and then over the files, unless these were all.
class RangeReader::ShownCursor final : public TreeCursor {
 public:
  explicit ShownCursor(std::unique_ptr<TreeCursor> files) : files_(std::move(files)) {}
  void show(RangePairs pairs, bool all) {
    pairs_ = pairs;
    all_ = all;
  }

  void seek(std::string_view key) override {
    left_ = pairs_;
    read(key);
  }
  void next() override {
    if (left_.count == 0) return files_->next();
    --left_.count;
    left_.at = Shown(left_.at).next;
    read(key_ + '\0');
  }
  void seek_before(std::string_view key) override {
    left_ = {};
    in_files_ = true;
    files_->seek_before(key);
  }
  void prev() override { left_.count == 0 ? files_->prev() : seek_before(std::string(key_)); }
  bool valid() const override { return left_.count != 0 || (in_files_ && files_->valid()); }
  std::string_view key() const override { return left_.count != 0 ? key_ : files_->key(); }
  std::string_view value() const override { return left_.count != 0 ? record_ : files_->value(); }
  std::string error() const override { return in_files_ ? files_->error() : std::string(); }

 private:
  // `from`: where the files go on behind the pairs.
  void read(std::string_view from) {
    in_files_ = left_.count == 0 && !all_;
    if (in_files_) return files_->seek(from);
    if (left_.count == 0) return;
    const Shown one(left_.at);
    key_ = DeviceFiles::tree_key_of(one.key);
    TreeRecord record;
    record.value = one.value;
    record_.resize(record.bytes());
    record.write(record_.data());
  }

  const std::unique_ptr<TreeCursor> files_;
  RangePairs pairs_;
  bool all_ = false;
  RangePairs left_;
  bool in_files_ = false;
  std::string key_;
  std::string record_;  // without its version
};

// What runs have, merged with what files have, of which a device may have shown some.
class RangeReader::Merged {
 public:
  explicit Merged(const TreeMoment& moment) : Merged(moment, Bounds(moment.database(), {})) {}

  // Empty: it worked.
  std::string read(const RangeAsked& asked, RangePairs shown, bool all, std::string& to,
                   uint32_t& count) {
    const Bounds bounds(database_, asked);
    if (source_ != nullptr) source_->show(shown, all);
    count = 0;
    for (at_.seek(bounds.first); at_.valid() && at_.key() < bounds.end; at_.next()) {
      TreeRecord record;
      if (!record.read(at_.value())) return "a record of the files cannot be understood";
      const std::string_view key = at_.key().substr(TreeRecord::prefix_bytes);
      append(DeviceFiles::device_key(database_, key, key_), record.value, to);
      if (++count == asked.limit) break;
    }
    return at_.error();
  }

 private:
  Merged(const TreeMoment& moment, const Bounds& all)
      : database_(moment.database()),
        files_(moment.files_cursor(all.first, all.end)),
        source_(moment.sorted() == nullptr ? nullptr : new ShownCursor(std::move(files_))),
        at_(moment.iterator(
            all.first, all.end,
            source_ == nullptr ? std::move(files_) : std::unique_ptr<TreeCursor>(source_))) {}

  const uint32_t database_;
  std::unique_ptr<TreeCursor> files_;  // until the iterator has them
  ShownCursor* const source_;          // of the iterator; null: files are read from the beginning
  TreeIterator at_;
  std::string key_;
};

RangeReader::RangeReader(RangePool& pool) : pool_(pool) {}
RangeReader::~RangeReader() = default;

void RangeReader::clear() {
  merged_.reset();
  held_.clear();
  texts_.clear();
}

std::string RangeReader::read(const TreeMoment& moment, std::span<const RangeAsked> asked,
                              std::span<RangePairs> found) {
  moment_ = &moment;
  asked_ = asked;
  found_ = found;
  problem_.clear();
  merged_.reset();  // of a call that has thrown
  done_.assign(asked.size(), false);
  for (uint32_t row = 0; row < asked.size(); ++row) {
    found[row] = {};
    done_[row] = is_empty(asked[row]);
  }
  if (const SortedView* const view = moment.sorted(); view != nullptr) ask_device(*view);
  for (uint32_t row = 0; row < asked.size() && problem_.empty(); ++row) {
    if (!done_[row]) merge(row, {}, false);
  }
  merged_.reset();
  return std::exchange(problem_, {});
}

void RangeReader::ask_device(const SortedView& view) {
  std::vector<uint32_t> rows;
  for (uint32_t row = 0; row < asked_.size(); ++row) {
    if (!done_[row]) rows.push_back(row);
  }
  try {
    while (!rows.empty() && ask_once(view, rows)) {
    }
  } catch (const DeviceError&) {
    pool_.lose();
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
    Piece piece{pool_.lend(), {}};
    if (piece.lent == nullptr && !started.empty()) {
      for (const Piece& one : started) settle(one, true, again);
      started.clear();
      piece.lent = pool_.lend();
    }
    if (piece.lent == nullptr) break;
    const size_t some = start(view, all.subspan(at), piece.lent->columns());
    if (some == 0) {  // its keys are too long
      ++at;
      continue;
    }
    piece.rows = all.subspan(at, some);
    started.push_back(std::move(piece));
    at += some;
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

void RangeReader::settle_row(uint32_t row, const RangeHead& head, RangePairs shown, bool copies) {
  using enum RangeHead::End;
  const bool whole = head.end == all || head.end == limit;
  if (!whole) return merge(row, shown, false);
  if (moment_->has_changes()) {
    Bounds bounds(moment_->database(), asked_[row]);
    if (head.end == limit) bounds.end = DeviceFiles::tree_key_of(last_key(shown)) + '\0';
    if (moment_->is_changed(bounds.first, bounds.end)) return merge(row, shown, head.end == all);
  }
  if (copies && shown.count != 0) {
    const char* const end = last_key(shown).data();
    const Shown last(end - sizeof(PairHead));
    texts_.emplace_back(shown.at, last.next);
    shown.at = texts_.back().data();
  }
  found_[row] = shown;
  done_[row] = true;
}

void RangeReader::merge(uint32_t row, RangePairs shown, bool all) {
  if (!problem_.empty()) return;
  if (merged_ == nullptr) merged_ = std::make_unique<Merged>(*moment_);
  std::string& text = texts_.emplace_back();
  problem_ = merged_->read(asked_[row], shown, all, text, found_[row].count);
  found_[row].at = text.data();
  done_[row] = true;
}

}  // namespace isotherm
