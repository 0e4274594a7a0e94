#include <algorithm>
#include <array>

#include "backend.h"
#include "handle_pool.h"
#include "isotherm/fixed_table.h"

namespace isotherm::python {
namespace {

constexpr size_t rows_per_part = 1024;

class WordBackend final : public Backend {
 public:
  explicit WordBackend(const BackendOptions& options)
      : table_({.maxmemory = options.memory,
                .expected_entries = options.expected,
                .hash_seed = std::nullopt}),
        pool_(table_) {}

  uint64_t size() const override { return table_.size(); }
  uint64_t memory() const override { return table_.memory(); }

  uint64_t get(const uint64_t* keys, size_t n, void* rows, uint8_t* found) override {
    const Pool::Lease handle(pool_);
    if (rows != nullptr)
      return handle->get({keys, n}, {static_cast<uint64_t*>(rows), n}, {found, n});
    std::array<uint64_t, rows_per_part> unused;
    uint64_t count = 0;
    for (size_t from = 0; from < n; from += rows_per_part) {
      const size_t part = std::min(rows_per_part, n - from);
      count += handle->get({keys + from, part}, {unused.data(), part}, {found + from, part});
    }
    return count;
  }

  BackendResult run(const RowRequests& requests) override {
    const Pool::Lease handle(pool_);
    const std::span<const uint64_t> keys = requests.keys;
    TableRequests all;
    all.rows = keys.size();
    all.op = requests.op;
    all.keys = keys.data();
    all.values = static_cast<const uint64_t*>(requests.rows);
    all.expected = static_cast<const uint64_t*>(requests.expected);
    all.values_out = static_cast<uint64_t*>(requests.rows_out);
    all.found = requests.found;
    size_t done = 0;
    if (requests.op == TableOp::put && requests.found == nullptr) {
      done = handle->put(keys, {all.values, keys.size()}).done;
      if (done == keys.size()) return {};
    }
    if (requests.rows_out != nullptr) {
      handle->run(all);
      return count(requests.found, keys.size());
    }
    return run_in_parts(*handle, all, done);
  }

  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(uint64_t key, const void* row)>& visit) override {
    const Pool::Lease handle(pool_);
    return handle->scan(cursor, count, [&](uint64_t key, uint64_t value) { visit(key, &value); });
  }

 private:
  using Pool = HandlePool<FixedTable, FixedHandle>;

  static BackendResult count(const uint8_t* found, size_t rows) {
    return {static_cast<uint64_t>(std::count(found, found + rows, 1)),
            static_cast<uint64_t>(std::count(found, found + rows, reply_retry))};
  }

  // For who wants no values; the table wants places for both replies or for none.
  static BackendResult run_in_parts(FixedHandle& handle, const TableRequests& all, size_t from) {
    std::array<uint64_t, rows_per_part> values;
    std::array<uint8_t, rows_per_part> found;
    BackendResult result;
    for (; from < all.rows; from += rows_per_part) {
      TableRequests part = all;
      part.rows = std::min<uint64_t>(rows_per_part, all.rows - from);
      part.keys += from;
      if (part.values != nullptr) part.values += from;
      if (part.expected != nullptr) part.expected += from;
      part.values_out = values.data();
      part.found = all.found != nullptr ? all.found + from : found.data();
      handle.run(part);
      const BackendResult its = count(part.found, part.rows);
      result.found += its.found;
      result.refused += its.refused;
    }
    return result;
  }

  FixedTable table_;
  Pool pool_;
};

class RowBackend final : public Backend {
 public:
  explicit RowBackend(const BackendOptions& options)
      : table_({.row_bytes = options.row_bytes,
                .maxmemory = options.memory,
                .expected_rows = options.expected,
                .scores = options.evict_by,
                .evict = options.evict_by != RowScores::none,
                .hash_seed = std::nullopt}),
        pool_(table_) {}

  uint64_t size() const override { return table_.size(); }
  uint64_t memory() const override { return table_.memory(); }
  uint64_t evictions() const override { return table_.evictions(); }
  uint64_t get(const uint64_t* keys, size_t n, void* rows, uint8_t* found) override {
    return Pool::Lease(pool_)->get({keys, n}, rows, {found, n});
  }
  BackendResult run(const RowRequests& requests) override {
    const RowHandle::Result result = Pool::Lease(pool_)->run(requests);
    return {result.found, result.refused};
  }
  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(uint64_t key, const void* row)>& visit) override {
    return Pool::Lease(pool_)->scan(cursor, count, visit);
  }

 private:
  using Pool = HandlePool<RowTable, RowHandle>;

  RowTable table_;
  Pool pool_;
};

}  // namespace

BackendResult Backend::put_new(const uint64_t* keys, size_t n, uint64_t* to) {
  std::array<uint8_t, rows_per_part> found;
  BackendResult result;
  for (size_t from = 0; from < n; from += rows_per_part) {
    RowRequests part;
    part.op = TableOp::put_if_absent;
    part.keys = {keys + from, std::min(rows_per_part, n - from)};
    part.rows = part.keys.data();  // any value
    part.found = found.data();
    result.refused += run(part).refused;
    for (size_t i = 0; i < part.keys.size(); ++i) {
      to[result.found] = part.keys[i];
      result.found += static_cast<uint64_t>(found[i] == 0);
    }
  }
  return result;
}

std::unique_ptr<Backend> make_host_backend(const BackendOptions& options) {
  if (options.words && options.evict_by == RowScores::none) {
    return std::make_unique<WordBackend>(options);
  }
  return std::make_unique<RowBackend>(options);
}

}  // namespace isotherm::python
