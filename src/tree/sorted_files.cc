#include "tree/sorted_files.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <new>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/worker_pool.h"
#include "gpu/platform/device_error.h"
#include "tree/device_files.h"
#include "tree/tree_record.h"

namespace isotherm {
namespace {

// Of items of all databases; the meta record is behind them.
constexpr std::string_view first_of_all = "i";
constexpr std::string_view end_of_all = "j";

// What the keys of the first database begin with.
std::string front_of(TreeFiles& files) {
  std::string first;
  std::string end;
  TreeRecord::put_key(0, {}, first);
  TreeRecord::put_key(1, {}, end);
  const std::unique_ptr<TreeView> view = files.view();
  const std::unique_ptr<TreeCursor> at = view->cursor(first, end, true);
  at->seek(first);
  if (!at->valid()) return {};
  std::string front;
  DeviceFiles::put_device_key(at->key(), front);
  at->seek_before(end);
  if (!at->valid()) return {};
  std::string last;
  DeviceFiles::put_device_key(at->key(), last);
  front.resize(std::min<size_t>(front.size(), SortedTierOptions::most_front));
  front.erase(std::mismatch(front.begin(), front.end(), last.begin(), last.end()).first,
              front.end());
  return front;
}

constexpr size_t entries_of_piece = 1 << 14;

// The copy's pairs of some entries; of keys that are another there `device_keys` has the text.
void make_pairs(std::span<const TreeEntry> entries, SortedPair* pairs,
                std::deque<std::string>& device_keys) {
  for (const TreeEntry& entry : entries) {
    SortedPair& pair = *pairs++;
    const std::string_view key = entry.key.substr(TreeRecord::prefix_bytes);
    if (DeviceFiles::is_plain(TreeRecord::database_of(entry.key), key)) {
      pair.key = key;
    } else {
      DeviceFiles::put_device_key(entry.key, device_keys.emplace_back());
      pair.key = device_keys.back();
    }
    pair.erased = entry.value.empty();
    if (pair.erased) continue;
    pair.flags = static_cast<uint8_t>(entry.value[0]);
    pair.value = entry.value.substr(1);
  }
}

}  // namespace

class SortedFiles::View final : public TreeView {
 public:
  View(const SortedFiles& owner, std::unique_ptr<TreeView> files,
       std::shared_ptr<const SortedView> sorted)
      : owner_(owner), files_(std::move(files)), sorted_(std::move(sorted)) {}

  void read(std::string_view key, TreeRead& read) override { files_->read(key, read); }
  std::unique_ptr<TreeCursor> cursor(std::string_view first, std::string_view end,
                                     bool once) override {
    return files_->cursor(first, end, once);
  }
  const SortedView* sorted() const override {
    return owner_.direct_counts() ? sorted_.get() : nullptr;
  }

 private:
  const SortedFiles& owner_;
  const std::unique_ptr<TreeView> files_;
  const std::shared_ptr<const SortedView> sorted_;
};

SortedFiles::SortedFiles(std::unique_ptr<TreeFiles> files, const SortedTierMaker& make,
                         uint64_t bytes, std::function<int64_t()> now_ms)
    : files_(std::move(files)),
      tier_(make({bytes, front_of(*files_), TreeRecord::has_expiry, TreeRecord::expiry_at,
                  std::move(now_ms)})),
      gets_(*this, read_columns) {
  const std::string problem = copy(first_of_all, end_of_all, false);
  if (!problem.empty()) throw TreeError(problem);
}

// What the files have of the range goes to the copy, or goes from there; in pieces, each a run.
std::string SortedFiles::copy(std::string_view first, std::string_view end, bool erases) {
  constexpr size_t most_entries = 1 << 18;
  constexpr size_t most_bytes = 16 << 20;
  std::vector<std::pair<std::string, std::string>> pairs;
  size_t bytes = 0;
  const auto put_some = [&] {
    std::vector<TreeEntry> entries(pairs.size());
    for (size_t i = 0; i < pairs.size(); ++i) entries[i] = {pairs[i].first, pairs[i].second};
    put(entries, 1);
    pairs.clear();
    bytes = 0;
  };
  std::string problem = files_->walk(first, end, [&](std::string_view key, std::string_view value) {
    pairs.emplace_back(key, erases ? std::string_view() : value);
    bytes += key.size() + pairs.back().second.size();
    if (pairs.size() >= most_entries || bytes >= most_bytes) put_some();
    return direct_counts();
  });
  if (problem.empty()) put_some();
  return problem;
}

void SortedFiles::put(std::span<const TreeEntry> entries, uint32_t threads) {
  if (entries.empty() || !direct_counts()) return;
  try {
    std::vector<SortedPair> pairs(entries.size());
    const size_t pieces = (entries.size() + entries_of_piece - 1) / entries_of_piece;
    std::vector<std::deque<std::string>> device_keys(pieces);  // that are not the items'
    WorkerPool pool(static_cast<uint32_t>(std::min<size_t>(threads, pieces)));
    pool.run(static_cast<uint32_t>(pieces), [&](uint32_t piece, uint32_t) {
      const size_t first = piece * entries_of_piece;
      const size_t count = std::min(entries_of_piece, entries.size() - first);
      make_pairs(entries.subspan(first, count), &pairs[first], device_keys[piece]);
    });
    if (!tier_->put(pairs)) give_up("its memory has no room for all keys");
  } catch (const DeviceError& error) {
    give_up(error.what());
  } catch (const std::bad_alloc&) {
    give_up("there is no memory to write to it");
  }
}

void SortedFiles::give_up(const std::string& why) {
  if (given_up_.exchange(true, std::memory_order_acq_rel)) return;
  const std::string problem = "the sorted copy on the GPU is given up: " + why;
  {
    const std::lock_guard guard(mutex_);
    problem_ = problem;
  }
  gets_.release();
  clear();
  events().tell(problem);
}

std::string SortedFiles::ingest(std::span<const TreeEntry> entries, const TreeMeta& meta,
                                uint32_t threads) {
  std::string problem;
  WorkerPool pool(2);
  pool.run(2, [&](uint32_t piece, uint32_t) {
    if (piece == 0) {
      problem = files_->ingest(entries, meta, threads);
    } else {
      put(entries, threads);
    }
  });
  return problem;
}

// A run hides what is erased, until this has been done.
std::string SortedFiles::erase_range(std::string_view first, std::string_view end) {
  std::string problem = direct_counts() ? copy(first, end, true) : std::string();
  if (problem.empty()) problem = files_->erase_range(first, end);
  if (!problem.empty() || !direct_counts()) return problem;
  // Of what has expired the files may have forgotten the keys, which the copy still has.
  bool has_any = false;
  problem = files_->walk(first_of_all, end_of_all, [&](std::string_view, std::string_view) {
    has_any = true;
    return false;
  });
  if (problem.empty() && !has_any) clear();
  return problem;
}

void SortedFiles::clear() {
  try {
    tier_->clear();
  } catch (const DeviceError& error) {
    give_up(error.what());
  } catch (const std::bad_alloc&) {
    give_up("there is no memory to clear it");
  }
}

std::unique_ptr<TreeView> SortedFiles::view(bool with_sorted) {
  std::shared_ptr<const SortedView> sorted;
  try {
    if (with_sorted && direct_counts()) sorted = tier_->view();
  } catch (const DeviceError& error) {
    give_up(error.what());
  }
  return std::make_unique<View>(*this, files_->view(), std::move(sorted));
}

std::unique_ptr<DirectGets> SortedFiles::make_direct(const DirectShape& shape) {
  return direct_counts() ? tier_->make_direct(shape) : nullptr;
}

std::unique_ptr<DirectRanges> SortedFiles::make_ranges(const RangeShape& shape) {
  return direct_counts() ? tier_->make_ranges(shape) : nullptr;
}

void SortedFiles::read(std::span<const std::string_view> keys, TreeRead* reads) {
  std::vector<size_t> left;
  size_t at = 0;
  try {
    if (direct_counts()) at = gets_.read(keys, reads, left);
    if (!direct_counts()) {
      at = 0;
      left.clear();
    }
  } catch (const DeviceError& error) {
    give_up(error.what());
    left.clear();
  } catch (const std::bad_alloc&) {
    left.clear();
  }
  reads_.fetch_add(at - left.size(), std::memory_order_relaxed);
  for (const size_t row : left) files_->read(keys.subspan(row, 1), reads + row);
  if (at < keys.size()) files_->read(keys.subspan(at), reads + at);
}

SortedCopy SortedFiles::sorted_copy() {
  SortedCopy its;
  its.there = true;
  its.reads = reads_.load(std::memory_order_relaxed);
  try {
    its.stats = tier_->stats();
  } catch (const DeviceError& error) {
    lose(error.what());
  }
  const std::lock_guard guard(mutex_);
  its.problem = problem_;
  return its;
}

}  // namespace isotherm
