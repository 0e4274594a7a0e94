// Checks of what a table of rows does beside storing them: arrays of the host, scores, eviction by
// them, and exports. For any devices; see tests/device_checks/device_row_checks.h.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <map>
#include <span>
#include <unordered_map>
#include <vector>

#include "device_checks/device_table_checks.h"
#include "gpu/rows/split_row_store.h"

namespace isotherm {

// All by arrays of the host; every row is filled with a number of its own.
template <class Device>
class ScoredRows {
 public:
  struct Row {
    uint64_t number = 0;
    uint64_t score = 0;
  };

  ScoredRows(std::span<Device* const> devices, const DeviceRowOptions& options)
      : seed_(options.index.seed),
        shards_(static_cast<uint32_t>(devices.size())),
        words_(options.row_bytes / sizeof(uint64_t)),
        scored_(options.scores != gpu::RowScores::none),
        by_use_(options.scores == gpu::RowScores::use),
        store_(devices, options) {}

  SplitRowStore<Device>& store() { return store_; }
  uint64_t wrong() const { return wrong_; }
  uint64_t evicted() const { return evicted_; }
  const std::unordered_map<uint64_t, Row>& model() const { return model_; }
  void fail(const char* what) {
    if (++wrong_ <= 10) std::printf("  %s\n", what);
  }

  // A call of one part, of distinct keys; what it evicts must be what has the lowest scores.
  void write(gpu::RowOp op, const std::vector<uint64_t>& keys, std::vector<uint64_t> scores = {}) {
    ++calls_;
    std::vector<uint64_t> rows(keys.size() * words_);
    for (size_t i = 0; i < keys.size(); ++i) {
      std::fill_n(rows.begin() + static_cast<int64_t>(i * words_), words_, ++numbers_);
    }
    std::vector<uint8_t> found(keys.size(), 9);
    const std::vector<uint64_t> given = rows;
    store_.run_host({op, keys.size(), keys.data(), rows.data(), found.data(),
                     scores.empty() ? nullptr : scores.data()});
    const auto before = model_;
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = before.find(keys[i]);
      const bool present = at != before.end();
      const bool puts = op == gpu::RowOp::put;
      if (found[i] != static_cast<uint8_t>(puts || present)) fail("a reply is wrong");
      const uint64_t number = puts || !present ? given[i * words_] : at->second.number;
      for (uint64_t w = 0; !puts && w < words_; ++w) {
        if (rows[i * words_ + w] != number) fail("a row is not the one that was put");
      }
      uint64_t score = present ? at->second.score : 0;
      if (!scores.empty() && (puts || !present)) score = std::min(scores[i], ~uint64_t{0} - 1);
      model_[keys[i]] = {number, by_use_ ? calls_ : score};
    }
    forget_evicted(before);
  }
  void get(const std::vector<uint64_t>& keys) {
    ++calls_;
    std::vector<uint64_t> rows(keys.size() * words_, 77), scores(keys.size(), 88);
    std::vector<uint8_t> found(keys.size(), 9);
    store_.run_host({gpu::RowOp::get, keys.size(), keys.data(), rows.data(), found.data(),
                     scored_ ? scores.data() : nullptr});
    for (size_t i = 0; i < keys.size(); ++i) {
      const auto at = model_.find(keys[i]);
      const bool present = at != model_.end();
      if (found[i] != static_cast<uint8_t>(present)) fail("found a row or missed it");
      if (rows[i * words_] != (present ? at->second.number : 77)) fail("a row is wrong");
      if (!scored_ || by_use_) continue;
      if (scores[i] != (present ? at->second.score : 88)) fail("a score is wrong");
    }
    for (const uint64_t key : keys) {
      if (by_use_ && model_.count(key) != 0) model_[key].score = calls_;
    }
  }
  void erase(const std::vector<uint64_t>& keys) {
    ++calls_;
    store_.run_host({gpu::RowOp::erase, keys.size(), keys.data(), nullptr, nullptr});
    for (const uint64_t key : keys) model_.erase(key);
  }

  // What is there, by an export of chunks; scores are those of the model where they are given.
  std::map<uint64_t, Row> exported(uint64_t capacity, uint64_t from = 0,
                                   uint64_t to = ~uint64_t{0}) {
    std::map<uint64_t, Row> all;
    std::vector<uint64_t> keys(capacity), rows(capacity * words_), scores(capacity);
    uint64_t cursor = 0;
    do {
      gpu::RowExport chunk{capacity, keys.data(), rows.data(), scored_ ? scores.data() : nullptr,
                           from,     to};
      cursor = store_.export_rows_host(cursor, chunk);
      if (chunk.count > capacity) fail("a chunk has more rows than room");
      for (uint64_t i = 0; i < chunk.count; ++i) {
        if (!all.emplace(keys[i], Row{rows[i * words_], scores[i]}).second) fail("a key twice");
        if (rows[i * words_ + words_ - 1] != rows[i * words_]) fail("a row was torn");
      }
    } while (cursor != 0);
    return all;
  }
  void check_export(uint64_t capacity, uint64_t from = 0, uint64_t to = ~uint64_t{0}) {
    const std::map<uint64_t, Row> all = exported(capacity, from, to);
    uint64_t expected = 0;
    for (const auto& [key, row] : model_) {
      const bool wanted = !scored_ || (row.score >= from && row.score <= to);
      expected += wanted;
      const auto at = all.find(key);
      if ((at != all.end()) != wanted) fail("an export has a key too many or too few");
      if (at == all.end()) continue;
      if (at->second.number != row.number) fail("an exported row is wrong");
      if (scored_ && !by_use_ && at->second.score != row.score) fail("an exported score is wrong");
    }
    if (all.size() != expected) fail("an export has a key that is not there");
    if (store_.stats().entries != model_.size()) fail("the count is wrong");
  }

 private:
  // Of the keys that were there before the call those that are gone must have the lowest scores of
  // their shard.
  void forget_evicted(const std::unordered_map<uint64_t, Row>& before) {
    const uint64_t evictions = store_.stats().evictions;
    if (evictions == evicted_) return;
    const std::map<uint64_t, Row> there = exported(1024);
    std::vector<uint64_t> highest(shards_, 0), lowest(shards_, ~uint64_t{0});
    uint64_t gone = 0;
    for (auto at = model_.begin(); at != model_.end();) {
      const uint32_t shard = shards_ == 1 ? 0 : shard_of(at->first, seed_, shards_);
      const bool stays = there.count(at->first) != 0;
      if (before.count(at->first) == 0) {
        if (!stays) fail("a new row went");
      } else if (stays) {
        lowest[shard] = std::min(lowest[shard], at->second.score);
      } else {
        highest[shard] = std::max(highest[shard], at->second.score);
      }
      gone += stays ? 0 : 1;
      at = stays ? std::next(at) : model_.erase(at);
    }
    for (uint32_t i = 0; i < shards_; ++i) {
      if (highest[i] > lowest[i]) fail("a row of a higher score went");
    }
    if (gone != evictions - evicted_) fail("evictions are counted wrong");
    evicted_ = evictions;
  }

  const uint64_t seed_;
  const uint32_t shards_;
  const uint64_t words_;
  const bool scored_;
  const bool by_use_;
  SplitRowStore<Device> store_;
  std::unordered_map<uint64_t, Row> model_;
  uint64_t numbers_ = 0;
  uint64_t calls_ = 0;
  uint64_t evicted_ = 0;
  uint64_t wrong_ = 0;
};

// Arrays of the host, of rows of two sizes.
template <class Device>
uint64_t check_rows_of_the_host(std::span<Device* const> devices, uint64_t scale) {
  uint64_t wrong = 0;
  for (const uint32_t row_bytes : {16u, 528u}) {
    DeviceRequestSource source(row_bytes);
    ScoredRows<Device> table(
        devices, {row_bytes, uint64_t{row_bytes} * 128, {0, 3, 6, static_cast<uint32_t>(scale)}});
    const std::vector<uint64_t> keys = source.keys(scale), others = source.keys(scale / 2);
    table.get(keys);
    table.write(gpu::RowOp::put, keys);
    table.write(gpu::RowOp::get_or_insert, others);
    table.erase({keys.begin(), keys.begin() + static_cast<int64_t>(scale / 3)});
    table.write(gpu::RowOp::get_or_insert, keys);
    table.get(keys);
    table.get(others);
    for (const uint64_t capacity : {uint64_t{64}, scale * 4}) table.check_export(capacity);
    const uint64_t ones = row_bytes / sizeof(float);
    std::vector<float> deltas(others.size() * ones, 1), rows(others.size() * ones, 0);
    auto& store = table.store();
    std::vector<uint8_t> found(others.size());
    store.run_host({gpu::RowOp::put, others.size(), others.data(), rows.data(), nullptr});
    store.run_host({gpu::RowOp::accumulate, others.size(), others.data(), deltas.data(), nullptr});
    store.run_host({gpu::RowOp::get, others.size(), others.data(), rows.data(), found.data()});
    if (rows != deltas) table.fail("a sum is wrong");
    wrong += table.wrong() + table.evicted();
  }
  return wrong;
}

// More keys than a table may have: rows of the lowest scores, or those not used for the longest
// time, go for new ones, and the table stays nearly full.
template <class Device>
uint64_t check_rows_evict(std::span<Device* const> devices, uint64_t scale) {
  uint64_t wrong = 0;
  const uint64_t most = std::max<uint64_t>(scale * 2, 1024);
  for (const gpu::RowScores scores : {gpu::RowScores::given, gpu::RowScores::use}) {
    DeviceRequestSource source(static_cast<uint64_t>(scores));
    const auto part = static_cast<uint32_t>(most / 4);
    DeviceRowOptions options{32, 32 * 128, {0, 3, 4, part}};
    options.most_rows = most;
    options.scores = scores;
    options.evicts = true;
    ScoredRows<Device> table(devices, options);
    const bool given = scores == gpu::RowScores::given;
    std::vector<uint64_t> known;
    for (int round = 0; round < 9; ++round) {
      std::vector<uint64_t> keys = source.keys(part / 2);
      // Some that are there, or were.
      for (size_t i = 0; i < known.size() && i < part / 8; ++i)
        keys.push_back(known[i * 3 % known.size()]);
      std::sort(keys.begin(), keys.end());
      keys.erase(std::unique(keys.begin(), keys.end()), keys.end());
      std::vector<uint64_t> its;
      // Of all sizes: small ones, ones that differ in their highest digits, the largest of all.
      for (size_t i = 0; given && i < keys.size(); ++i) {
        const uint64_t drawn = source.random()();
        its.push_back(i % 3 == 0 ? drawn % 100 : i % 50 == 1 ? ~uint64_t{0} : drawn);
      }
      table.write(round % 3 == 1 ? gpu::RowOp::get_or_insert : gpu::RowOp::put, keys, its);
      known.insert(known.end(), keys.begin(), keys.end());
      std::shuffle(known.begin(), known.end(), source.random());
      table.get({known.begin(), known.begin() + static_cast<int64_t>(known.size() / 4)});
    }
    table.check_export(most / 8);
    if (given) table.check_export(256, 50, uint64_t{1} << 63);
    if (table.evicted() == 0) table.fail("no row went");
    const uint64_t entries = table.model().size();
    // Each GPU has its share, and a step of an eviction takes a 16th, or 64.
    if (entries > most + devices.size()) table.fail("there are more rows than there may be");
    if (entries < most * 3 / 4) table.fail("rows went for nothing");
    wrong += table.wrong();
  }
  return wrong;
}

// A part with more new keys than there may be rows: as many as fit are stored, others refused, and
// requests for one key do not cost a row each.
template <class Device>
uint64_t check_rows_evict_for_many(std::span<Device* const> devices, uint64_t) {
  DeviceRowOptions options{16, 16 * 64, {0, 3, 4, 4096}};
  options.most_rows = 256 * devices.size();
  options.scores = gpu::RowScores::given;
  options.evicts = true;
  ScoredRows<Device> table(devices, options);
  DeviceRequestSource source(41);
  table.write(gpu::RowOp::put, source.keys(100));
  const uint64_t before = table.store().stats().entries;
  const std::vector<uint64_t> same(2000, source.random()());
  std::vector<uint64_t> rows(4000 * 2);
  auto& store = table.store();
  store.run_host({gpu::RowOp::put, same.size(), same.data(), rows.data(), nullptr});
  // Those that go at once, for requests whose key is not known to be the same.
  if (store.stats().entries + 64 * devices.size() < before) table.fail("a key took many rows");
  const std::vector<uint64_t> many = source.keys(4000);
  std::vector<uint8_t> found(many.size());
  store.run_host({gpu::RowOp::put, many.size(), many.data(), rows.data(), found.data()});
  const auto stored = static_cast<uint64_t>(std::count(found.begin(), found.end(), 1));
  if (stored != 256 * devices.size()) table.fail("a row has no key");
  if (store.stats().entries != stored) table.fail("the count is wrong");
  store.run_host({gpu::RowOp::get, many.size(), many.data(), rows.data(), found.data()});
  if (std::count(found.begin(), found.end(), 1) != static_cast<int64_t>(stored)) {
    table.fail("a stored row is missing");
  }
  return table.wrong();
}

}  // namespace isotherm
