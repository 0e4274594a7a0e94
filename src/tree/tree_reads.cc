// The part of Tree that answers the gets of a batch from files, on the thread that asks.
#include <algorithm>
#include <new>
#include <utility>

#include "tree/tree.h"

namespace isotherm {
namespace {

// So many bytes are read at once, about, if values are as long as those before.
constexpr uint64_t piece_bytes = 1 << 20;
constexpr uint64_t most_rows = 512;

// What replies point into, counted in `all`.
class HeldReads final : public Backing::Held {
 public:
  HeldReads(size_t rows, std::atomic<uint64_t>& all) : reads(rows), all_(all) {}
  ~HeldReads() override { all_.fetch_sub(bytes_, std::memory_order_relaxed); }
  HeldReads(const HeldReads&) = delete;
  HeldReads& operator=(const HeldReads&) = delete;
  uint64_t count() {
    for (const TreeRead& read : reads) bytes_ += sizeof read + read.value.capacity();
    all_.fetch_add(bytes_, std::memory_order_relaxed);
    return bytes_;
  }

  std::vector<TreeRead> reads;

 private:
  std::atomic<uint64_t>& all_;
  uint64_t bytes_ = 0;
};

}  // namespace

// Of the first of the rows, at least one. Throws std::bad_alloc.
std::span<TreeRead> Tree::read_some(const Batch::Columns& columns, std::span<const Batch::Row> rows,
                                    std::vector<std::unique_ptr<Held>>& held) {
  const uint64_t usual = usual_bytes_.load(std::memory_order_relaxed);
  const size_t some =
      std::min<uint64_t>(rows.size(), std::clamp<uint64_t>(piece_bytes / usual, 1, most_rows));
  std::vector<std::string> texts(some);
  std::vector<std::string_view> keys(some);
  for (size_t i = 0; i < some; ++i) {
    TreeRecord::put_key(columns.database[rows[i]], columns.key[rows[i]], texts[i]);
    keys[i] = texts[i];
  }
  auto its = std::make_unique<HeldReads>(some, held_bytes_);
  HeldReads& read = *its;
  held.push_back(std::move(its));
  loads_.read(keys, read.reads.data());
  usual_bytes_.store(std::max<uint64_t>(read.count() / some, 1), std::memory_order_relaxed);
  return read.reads;
}

// What replies hold is bounded, and rows beyond that go the way on which each waits for its load.
void Tree::read_directly(const Batch::Columns& columns, int64_t now_ms,
                         std::span<const Batch::Row> rows, std::vector<std::unique_ptr<Held>>& held,
                         Answered& answered) {
  std::vector<Batch::Row> unknown(rows.begin(), rows.end());
  const std::vector<Seen> seen = see_all(columns, unknown, answered.left);
  size_t at = 0;
  try {
    while (at < unknown.size() &&
           held_bytes_.load(std::memory_order_relaxed) <= options_.most_loaded) {
      for (TreeRead& read : read_some(columns, std::span(unknown).subspan(at), held)) {
        TreeRecord record;
        const bool found = read.state == TreeRead::State::found;
        const Batch::Row row = unknown[at];
        const bool knows = read.state != TreeRead::State::failed &&
                           (!found || record.read(read.value)) &&
                           still_holds(seen[at], columns.database[row], columns.key[row]);
        ++at;
        const Status status =
            knows ? show_directly(columns.reply[row],
                                  found && !record.expired(now_ms) ? &record : nullptr)
                  : Status::pending;
        answered.hits += status == Status::ok;
        answered.misses += status == Status::not_found;
        if (status == Status::pending) answered.left.push_back(row);
      }
    }
  } catch (const std::bad_alloc&) {
    // The rest goes the other way.
  }
  answered.left.insert(answered.left.end(), unknown.begin() + static_cast<ptrdiff_t>(at),
                       unknown.end());
}

}  // namespace isotherm
