// The part of Tree that answers gets in place, from columns that a device fills, and the columns.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

#include "base/reserve_more.h"
#include "gpu/platform/device_error.h"
#include "tree/all_shards.h"
#include "tree/device_files.h"
#include "tree/tree.h"

namespace isotherm {
namespace {

// So that a large batch is in several pieces, of which the first is read while others are looked
// up.
constexpr uint32_t most_direct_rows = 8192;
constexpr uint32_t least_direct_rows = 256;
constexpr uint64_t usual_row_bytes = 4 + DirectPool::usual_key + 96;

uint32_t rows_of(uint64_t most_bytes) {
  // Several threads share the bytes.
  const uint64_t rows = most_bytes / 32 / usual_row_bytes;
  if (most_bytes == 0) return 0;
  return static_cast<uint32_t>(std::clamp<uint64_t>(rows, least_direct_rows, most_direct_rows));
}

}  // namespace

DirectPool::DirectPool(TreeFiles& files, uint64_t most_bytes)
    : ColumnPool(most_bytes), files_(files), rows_(rows_of(most_bytes)) {}

uint64_t DirectPool::wanted_bytes() {
  // Once for all columns of a size.
  if (too_short_.load(std::memory_order_relaxed) >= stride_) {
    stride_ = std::min(stride_ * 2, most_stride);
  }
  return uint64_t{rows_} * (4 + usual_key + stride_);
}

std::unique_ptr<DirectGets> DirectPool::make() {
  try {
    return files_.make_direct({rows_, rows_ * usual_key, stride_});
  } catch (const DeviceError& error) {
    files_.lose(error.what());
  } catch (const std::bad_alloc&) {
  }
  return nullptr;
}

// Runs have nothing any more.
void Tree::note_quiet() {
  if (!sealed_.empty() || !active_->empty()) return;
  quiet_times_.fetch_add(1, std::memory_order_seq_cst);
  holds_.store(false, std::memory_order_seq_cst);
}

// Whether runs have nothing, and have had nothing since then.
bool Tree::is_quiet_since(uint64_t quiet_times) const {
  return !holds_.load(std::memory_order_seq_cst) &&
         quiet_times_.load(std::memory_order_seq_cst) == quiet_times;
}

namespace {

// How many of the rows found room in the columns.
size_t pack(const Batch::Columns& columns, std::span<const Batch::Row> rows, DirectGets& gets) {
  thread_local std::string text;
  return pack_keys(gets, rows.size(), [&](size_t i) {
    return DeviceFiles::device_key(columns.database[rows[i]], columns.key[rows[i]], text);
  });
}

}  // namespace

Backing::Seen Tree::see(uint32_t database, std::string_view key) const {
  return seen_now(hash_of(database, key));
}

bool Tree::has_changed(uint32_t database, std::string_view key) const {
  const uint64_t hash = hash_of(database, key);
  if (!may_be_in_runs(hash)) return false;
  thread_local std::string tree_key;
  thread_local std::string value;
  TreeRecord::put_key(database, key, tree_key);
  return find_in_runs(tree_key, hash, database, value).known;
}

// How often the keys were changed; rows that runs know something of go to `known`.
std::vector<Backing::Seen> Tree::see_all(const Batch::Columns& columns,
                                         std::vector<Batch::Row>& rows,
                                         std::vector<Batch::Row>& known) const {
  std::vector<uint64_t> hashes(rows.size());
  for (size_t i = 0; i < rows.size(); ++i) {
    hashes[i] = hash_in(columns.database[rows[i]], columns.hash[rows[i]]);
    __builtin_prefetch(&changes_of(hashes[i]));
  }
  std::vector<Seen> seen;
  seen.reserve(rows.size());
  std::string key;
  std::string value;
  for (size_t i = 0; i < rows.size(); ++i) {
    const Batch::Row row = rows[i];
    const Seen now = seen_now(hashes[i]);
    if (may_be_in_runs(hashes[i])) {
      TreeRecord::put_key(columns.database[row], columns.key[row], key);
      if (find_in_runs(key, hashes[i], columns.database[row], value).known) {
        known.push_back(row);
        continue;
      }
    }
    rows[seen.size()] = row;
    seen.push_back(now);
  }
  rows.resize(seen.size());
  return seen;
}

// By what the backing has of the key; null: nothing. A row stays pending where that does not say
// all: what memcached's meta commands know of an item is changed by gets.
Status Tree::show_directly(Reply& reply, const TreeRecord* record) {
  if (record == nullptr) {
    reply.status.store(Status::not_found, std::memory_order_release);
    return Status::not_found;
  }
  if (record->state != 0) return Status::pending;
  reply.type = ValueType::string;
  reply.flags = record->flags;
  reply.version = record->version;
  reply.expiry = record->expiry;
  reply.data = record->value.data();
  reply.size = record->value.size();
  reply.status.store(Status::ok, std::memory_order_release);
  return Status::ok;
}

// From a slot that the device has filled; a row stays pending where that does not say all.
Status Tree::answer(Reply& reply, const char* slot, uint32_t stride, int64_t now_ms) {
  DirectHead head;
  std::memcpy(&head, slot, sizeof head);
  if (head.bytes == DirectHead::too_long) {
    direct_.note_long(stride);
    return Status::pending;
  }
  TreeRecord record;
  const bool found =
      head.bytes != DirectHead::absent &&
      record.read(static_cast<uint8_t>(head.flags), {slot + sizeof head, head.bytes}) &&
      !record.expired(now_ms);
  // The rest has what the device cannot take.
  if (!found && files_->has_rest()) return Status::pending;
  return show_directly(reply, found ? &record : nullptr);
}

namespace {

struct Slots final : Backing::Held {
  explicit Slots(uint64_t bytes) : data(std::make_unique_for_overwrite<char[]>(bytes)) {}
  const std::unique_ptr<char[]> data;
};

// What the device has answered, beside its columns.
const char* copy(DirectGets& gets, size_t rows, std::vector<std::unique_ptr<Backing::Held>>& held) {
  gets.wait();
  const uint32_t stride = gets.shape().stride;
  auto slots = std::make_unique<Slots>(rows * stride);
  const char* const copied = slots->data.get();
  std::memcpy(slots->data.get(), gets.columns().replies, rows * stride);
  held.push_back(std::move(slots));
  return copied;
}

}  // namespace

void Tree::get_directly(const Batch::Columns& columns, int64_t now_ms,
                        std::span<const Batch::Row> rows, std::vector<std::unique_ptr<Held>>& held,
                        Answered& answered) {
  if (asks_device()) return ask_device(columns, now_ms, rows, held, answered);
  if (files_->lasts()) return read_directly(columns, now_ms, rows, held, answered);
  answered.left.assign(rows.begin(), rows.end());
}

// From the slots of a piece. `seen`: of each row; empty where runs had nothing: if they have had
// nothing since, nobody has changed any key meanwhile. Rows that are answered already stay so.
void Tree::answer(const Piece& piece, const Batch::Columns& columns, int64_t now_ms,
                  Answered& answered) {
  const bool quiet = piece.seen.empty();
  const bool counts = files_->direct_counts() && (!quiet || is_quiet_since(piece.quiet_times));
  const char* slot = piece.slots;
  for (size_t i = 0; i < piece.rows.size(); ++i, slot += piece.stride) {
    const Batch::Row row = piece.rows[i];
    Reply& reply = columns.reply[row];
    if (reply.status.load(std::memory_order_relaxed) != Status::pending) continue;
    const bool known =
        counts && (quiet || still_holds(piece.seen[i], columns.database[row], columns.key[row]));
    const Status status = known ? answer(reply, slot, piece.stride, now_ms) : Status::pending;
    answered.hits += status == Status::ok;
    answered.misses += status == Status::not_found;
    if (status == Status::pending) answered.left.push_back(row);
  }
}

// What is known of gets before they are asked for: rows that runs know something of go to `left`.
struct Tree::Before {
  Before(const Tree& tree, const Batch::Columns& columns, std::span<const Batch::Row> its,
         std::vector<Batch::Row>& left)
      : quiet_times(tree.quiet_times_.load(std::memory_order_seq_cst)), rows(its) {
    if (tree.is_quiet_since(quiet_times)) return;
    unknown.assign(its.begin(), its.end());
    seen = tree.see_all(columns, unknown, left);
    rows = unknown;
  }
  Piece piece(size_t first, size_t count) const {
    const std::span<const Seen> all(seen);
    return {rows.subspan(first, count), all.empty() ? all : all.subspan(first, count), quiet_times};
  }

  const uint64_t quiet_times;
  std::vector<Batch::Row> unknown;
  std::vector<Seen> seen;
  std::span<const Batch::Row> rows;
};

// Pieces of the batch are on their way together.
void Tree::ask_device(const Batch::Columns& columns, int64_t now_ms,
                      std::span<const Batch::Row> rows, std::vector<std::unique_ptr<Held>>& held,
                      Answered& answered) {
  const Before before(*this, columns, rows, answered.left);
  std::vector<std::pair<DirectGets*, Piece>> pieces;  // null: their replies are there
  size_t asked = 0;
  size_t done = 0;
  try {
    while (asked < before.rows.size()) {
      std::unique_ptr<DirectPool::Lent> lent = direct_.lend(true);
      const bool holds = lent != nullptr;
      if (!holds) lent = direct_.lend(false);
      if (lent == nullptr) break;
      DirectGets& gets = lent->columns();
      const size_t packed = pack(columns, before.rows.subspan(asked), gets);
      if (packed == 0) break;
      pieces.emplace_back(holds ? &gets : nullptr, before.piece(asked, packed));
      if (holds) held.push_back(std::make_unique<StartedGets>(std::move(lent)));
      gets.start(static_cast<uint32_t>(packed));
      Piece& piece = pieces.back().second;
      piece.stride = gets.shape().stride;
      piece.slots = holds ? gets.columns().replies : copy(gets, packed, held);
      asked += packed;
    }
    for (const auto& [gets, piece] : pieces) {
      if (gets != nullptr) gets->wait();
      if (files_->is_lost()) break;  // by one of several devices, of which the others answer still
      answer(piece, columns, now_ms, answered);
      done += piece.rows.size();
    }
  } catch (const DeviceError& error) {
    files_->lose(error.what());
  } catch (const std::bad_alloc&) {
    // The rest goes the other way.
  }
  for (const Batch::Row row : before.rows.subspan(done)) answered.left.push_back(row);
}

class Tree::ComingGets final : public Coming {
 public:
  ComingGets(Tree& tree, std::unique_ptr<DirectPool::Lent> lent, Batch::Row first_row,
             const Piece& piece)
      : tree_(tree),
        started_(std::move(lent)),
        rows_(piece.rows.begin(), piece.rows.end()),
        seen_(piece.seen.begin(), piece.seen.end()),
        quiet_times_(piece.quiet_times) {
    for (Batch::Row& row : rows_) row += first_row;
  }

  void post() { started_.gets().post(static_cast<uint32_t>(rows_.size())); }
  void begin(Waiter& waiter) override { tree_.watch_.watch(started_.gets(), waiter); }
  std::span<const Batch::Row> rows() const override { return rows_; }
  void answer(const Batch::Columns& columns, int64_t now_ms, Answered& answered) override {
    const DirectGets& gets = started_.gets();
    if (!has_come()) {
      answered.left.insert(answered.left.end(), rows_.begin(), rows_.end());
      return;
    }
    const Piece piece{rows_, seen_, quiet_times_, gets.columns().replies, gets.shape().stride};
    tree_.answer(piece, columns, now_ms, answered);
  }

 private:
  bool has_come() {
    try {
      started_.gets().wait();
      return !tree_.files_->is_lost();
    } catch (const DeviceError& error) {
      tree_.files_->lose(error.what());
    } catch (const std::bad_alloc&) {
      // A launch had no memory.
    }
    return false;
  }

  Tree& tree_;
  StartedGets started_;
  std::vector<Batch::Row> rows_;
  const std::vector<Seen> seen_;
  const uint64_t quiet_times_;
};

void Tree::start_directly(const Batch::Columns& columns, Batch::Row first_row,
                          std::span<const Batch::Row> rows, bool all,
                          std::vector<std::unique_ptr<Coming>>& coming,
                          std::vector<Batch::Row>& left) {
  const Before before(*this, columns, rows, left);
  const std::span<const Batch::Row> asked = before.rows;
  std::vector<std::unique_ptr<ComingGets>> pieces;
  size_t packed = 0;
  size_t posted = 0;
  try {
    while (packed < asked.size()) {
      std::unique_ptr<DirectPool::Lent> lent = direct_.lend(true);
      if (lent == nullptr) break;
      const size_t some = pack(columns, asked.subspan(packed), lent->columns());
      if (some == 0) break;
      pieces.push_back(std::make_unique<ComingGets>(*this, std::move(lent), first_row,
                                                    before.piece(packed, some)));
      packed += some;
    }
    reserve_more(coming, pieces.size());
    if (all && packed != rows.size()) pieces.clear();
    for (auto& piece : pieces) {
      piece->post();
      posted += piece->rows().size();
      coming.push_back(std::move(piece));
    }
  } catch (const std::bad_alloc&) {
    // The rest goes the other way.
  }
  left.insert(left.end(), asked.begin() + static_cast<ptrdiff_t>(posted), asked.end());
}

}  // namespace isotherm
