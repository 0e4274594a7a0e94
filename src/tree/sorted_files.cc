#include "tree/sorted_files.h"

#include <algorithm>
#include <deque>
#include <new>
#include <utility>
#include <vector>

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
  const std::unique_ptr<TreeCursor> at = view->cursor(first, end);
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

}  // namespace

class SortedFiles::View final : public TreeView {
 public:
  View(const SortedFiles& owner, std::unique_ptr<TreeView> files,
       std::shared_ptr<const SortedView> sorted)
      : owner_(owner), files_(std::move(files)), sorted_(std::move(sorted)) {}

  void read(std::string_view key, TreeRead& read) override { files_->read(key, read); }
  std::unique_ptr<TreeCursor> cursor(std::string_view first, std::string_view end) override {
    return files_->cursor(first, end);
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
                         uint64_t bytes)
    : files_(std::move(files)), tier_(make({bytes, front_of(*files_)})) {
  fill();
}

// In pieces, each a run.
void SortedFiles::fill() {
  constexpr size_t most_entries = 1 << 20;
  constexpr size_t most_bytes = 64 << 20;
  std::vector<std::pair<std::string, std::string>> pairs;
  size_t bytes = 0;
  const auto put_some = [&] {
    std::vector<TreeEntry> entries;
    for (const auto& [key, value] : pairs) entries.push_back({key, value});
    put(entries);
    pairs.clear();
    bytes = 0;
  };
  const std::string problem =
      files_->walk(first_of_all, end_of_all, [&](std::string_view key, std::string_view value) {
        pairs.emplace_back(key, value);
        bytes += key.size() + value.size();
        if (pairs.size() >= most_entries || bytes >= most_bytes) put_some();
        return direct_counts();
      });
  if (!problem.empty()) throw TreeError(problem);
  put_some();
}

void SortedFiles::put(std::span<const TreeEntry> entries) {
  if (entries.empty() || !direct_counts()) return;
  try {
    std::vector<SortedPair> pairs(entries.size());
    std::deque<std::string> device_keys;  // that are not the items'
    for (size_t i = 0; i < entries.size(); ++i) {
      const std::string_view key = entries[i].key.substr(TreeRecord::prefix_bytes);
      const std::string_view record = entries[i].value;
      if (DeviceFiles::is_plain(TreeRecord::database_of(entries[i].key), key)) {
        pairs[i].key = key;
      } else {
        DeviceFiles::put_device_key(entries[i].key, device_keys.emplace_back());
        pairs[i].key = device_keys.back();
      }
      pairs[i].erased = record.empty();
      if (record.empty()) continue;
      pairs[i].flags = static_cast<uint8_t>(record[0]);
      pairs[i].value = record.substr(1);
    }
    if (!tier_->put(pairs)) give_up("its memory has no room for all keys");
  } catch (const DeviceError& error) {
    give_up(error.what());
  } catch (const std::bad_alloc&) {
    give_up("there is no memory to write to it");
  }
}

void SortedFiles::give_up(const std::string& why) {
  if (given_up_.exchange(true, std::memory_order_acq_rel)) return;
  {
    const std::lock_guard guard(mutex_);
    problem_ = "the sorted copy on the GPU is given up: " + why;
  }
  try {
    tier_->clear();
  } catch (const DeviceError&) {
  } catch (const std::bad_alloc&) {
  }
}

std::string SortedFiles::ingest(std::span<const TreeEntry> entries, const TreeMeta& meta,
                                uint32_t threads) {
  std::string problem = files_->ingest(entries, meta, threads);
  if (problem.empty()) put(entries);
  return problem;
}

std::string SortedFiles::erase_range(std::string_view first, std::string_view end) {
  give_up("a database was flushed");
  return files_->erase_range(first, end);
}

std::unique_ptr<TreeView> SortedFiles::view() {
  std::shared_ptr<const SortedView> sorted;
  if (direct_counts()) sorted = tier_->view();
  return std::make_unique<View>(*this, files_->view(), std::move(sorted));
}

std::unique_ptr<DirectGets> SortedFiles::make_direct(const DirectShape& shape) {
  return direct_counts() ? tier_->make_direct(shape) : nullptr;
}

std::unique_ptr<DirectRanges> SortedFiles::make_ranges(const RangeShape& shape) {
  return direct_counts() ? tier_->make_ranges(shape) : nullptr;
}

SortedCopy SortedFiles::sorted_copy() {
  SortedCopy its{true, {}, {}};
  try {
    its.stats = tier_->stats();
  } catch (const DeviceError&) {
    lose();
  }
  const std::lock_guard guard(mutex_);
  its.problem = problem_;
  return its;
}

}  // namespace isotherm
