// The part of Tree that answers gets in place, from columns that a device fills, and the columns.
#include <algorithm>
#include <cstring>
#include <new>
#include <utility>

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
    : files_(files), most_bytes_(most_bytes), rows_(rows_of(most_bytes)) {}

std::unique_ptr<DirectPool::Lent> DirectPool::lend() {
  std::unique_ptr<DirectGets> gets;
  const std::lock_guard guard(mutex_);
  if (longer_.exchange(false) && stride_ < most_stride)
    stride_ = std::min(stride_ * 2, most_stride);
  while (!free_.empty() && gets == nullptr) {
    gets = std::move(free_.back());
    free_.pop_back();
    if (gets->shape().stride >= stride_) break;
    bytes_.fetch_sub(gets->pinned_bytes());
    gets.reset();
  }
  if (gets == nullptr) {
    const DirectShape shape{rows_, rows_ * usual_key, stride_};
    if (bytes() + uint64_t{rows_} * (4 + usual_key + stride_) > most_bytes_) return nullptr;
    try {
      gets = files_.make_direct(shape);
    } catch (const DeviceError&) {
      files_.lose();
    } catch (const std::bad_alloc&) {
    }
    if (gets == nullptr) return nullptr;
    bytes_.fetch_add(gets->pinned_bytes());
  }
  return std::make_unique<Lent>(*this, std::move(gets));
}

void DirectPool::give_back(std::unique_ptr<DirectGets> gets) {
  const std::lock_guard guard(mutex_);
  free_.push_back(std::move(gets));
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

// Keys into columns; how many of the rows found room.
size_t pack(const Batch::Columns& columns, std::span<const Batch::Row> rows, DirectGets& gets) {
  const DirectColumns& to = gets.columns();
  const DirectShape& shape = gets.shape();
  uint32_t at = 0;
  size_t packed = 0;
  thread_local std::string text;
  thread_local std::string device_key;
  for (; packed < rows.size() && packed < shape.rows; ++packed) {
    const Batch::Row row = rows[packed];
    std::string_view key = columns.key[row];
    if (!DeviceFiles::is_plain(columns.database[row], key)) {
      TreeRecord::put_key(columns.database[row], key, text);
      DeviceFiles::put_device_key(text, device_key);
      key = device_key;
    }
    if (key.size() > shape.key_room - at) break;
    if (!key.empty()) std::memcpy(to.keys + at, key.data(), key.size());
    at += static_cast<uint32_t>(key.size());
    to.key_ends[packed + 1] = at;
  }
  return packed;
}

}  // namespace

Backing::Seen Tree::see(uint32_t database, std::string_view key) const {
  thread_local std::string text;
  TreeRecord::put_key(database, key, text);
  return seen_now(TreeRun::hash_of(text));
}

// How often the keys were changed; rows that runs know something of go.
std::vector<Backing::Seen> Tree::see_all(const Batch::Columns& columns,
                                         std::vector<Batch::Row>& rows) {
  std::vector<Seen> seen;
  std::string key;
  std::string value;
  const auto known = [&](Batch::Row row) {
    TreeRecord::put_key(columns.database[row], columns.key[row], key);
    const uint64_t hash = TreeRun::hash_of(key);
    const Seen now = seen_now(hash);
    if (find_in_runs(key, hash, columns.database[row], value).known) return true;
    seen.push_back(now);
    return false;
  };
  rows.erase(std::remove_if(rows.begin(), rows.end(), known), rows.end());
  return seen;
}

// From a slot that the device has filled; a row stays pending where that does not say all.
void Tree::answer(Reply& reply, const char* slot, int64_t now_ms) {
  DirectHead head;
  std::memcpy(&head, slot, sizeof head);
  if (head.bytes == DirectHead::too_long) return direct_.note_long();
  TreeRecord record;
  const bool found =
      head.bytes != DirectHead::absent &&
      record.read(static_cast<uint8_t>(head.flags), {slot + sizeof head, head.bytes}) &&
      !record.expired(now_ms);
  if (!found) {
    // The rest has what the device cannot take.
    if (files_->memory() != 0) return;
    return reply.status.store(Status::not_found, std::memory_order_release);
  }
  // What memcached's meta commands know of an item is changed by gets.
  if (record.state != 0) return;
  reply.type = ValueType::string;
  reply.flags = record.flags;
  reply.version = record.version;
  reply.expiry = record.expiry;
  reply.data = record.value.data();
  reply.size = record.value.size();
  reply.status.store(Status::ok, std::memory_order_release);
}

// Pieces of the batch are on their way together. Where runs have nothing from before the keys are
// sent until behind the replies, nobody has changed any key meanwhile; else each is looked at.
void Tree::get_directly(const Batch::Columns& columns, int64_t now_ms,
                        std::span<const Batch::Row> rows,
                        std::vector<std::unique_ptr<Held>>& held) {
  struct Piece {
    DirectGets* gets;
    size_t rows;
  };
  const uint64_t quiet_times = quiet_times_.load(std::memory_order_seq_cst);
  const bool quiet = is_quiet_since(quiet_times);
  std::vector<Batch::Row> unknown;
  std::vector<Seen> seen;
  if (!quiet) {
    unknown.assign(rows.begin(), rows.end());
    seen = see_all(columns, unknown);
    rows = unknown;
  }
  std::vector<Piece> pieces;
  try {
    for (size_t first = 0; first < rows.size(); first += pieces.back().rows) {
      std::unique_ptr<DirectPool::Lent> lent = direct_.lend();
      if (lent == nullptr) break;
      DirectGets& gets = lent->gets();
      const size_t packed = pack(columns, rows.subspan(first), gets);
      held.push_back(std::move(lent));
      if (packed == 0) break;
      pieces.push_back({&gets, packed});
      gets.start(static_cast<uint32_t>(packed));
    }
    size_t at = 0;
    bool sure = true;
    for (const Piece& piece : pieces) {
      piece.gets->wait();
      sure = sure && (!quiet || is_quiet_since(quiet_times));
      if (!sure) continue;
      const char* slot = piece.gets->columns().replies;
      for (size_t i = 0; i < piece.rows; ++i, ++at, slot += piece.gets->shape().stride) {
        if (quiet || is_as_seen(seen[at])) answer(columns.reply[rows[at]], slot, now_ms);
      }
    }
  } catch (const DeviceError&) {
    files_->lose();
  }
}

}  // namespace isotherm
