// The face that Db (isotherm_system.h) and RocksDB (rocksdb_system.h) have for the loads of
// db_loads.h: the same calls, the same memory.
//
// What a call says is wrong ends the program: it throws.
//
// Threads. All calls by any thread; begin_parts and end_parts by each that is to be timed.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "isotherm_bench/workload.h"

namespace isotherm::bench {

struct TransactionRow {
  std::string key;
  std::string value;  // empty: a get
};

// A request of a batch: a get, or a put of `value`.
struct BatchRow {
  bool puts = false;
  std::string key;
  std::string value;   // of a get: what is there
  bool found = false;  // a get
};

// Checks the pairs of ranges whose keys are numbers one behind the other, the highest byte first.
class SeenPairs {
 public:
  // Of numbers below `end`; what lies behind them is not looked at.
  void begin(const std::vector<uint64_t>& firsts, uint64_t end) {
    next_ = firsts;
    end_ = end;
  }
  void add(size_t range, std::string_view key, std::string_view value) {
    uint64_t number = 0;
    std::memcpy(&number, key.data(), sizeof number);
    number = __builtin_bswap64(number);
    if (number >= end_) return;
    wrong_ += number != next_[range]++ || !value_belongs(number, value);
  }
  // Whether all were right, and the range had so many pairs, or ended with the last.
  bool is_right(size_t range, uint64_t first, uint64_t pairs) const {
    return wrong_ == 0 && next_[range] == std::min(first + pairs, end_);
  }

 private:
  std::vector<uint64_t> next_;
  uint64_t end_ = 0;
  uint64_t wrong_ = 0;
};

class DbSystem {
 public:
  using Pairs = std::vector<std::pair<std::string, std::string>>;
  using Parts = std::vector<std::pair<std::string, uint64_t>>;  // nanoseconds
  virtual ~DbSystem() = default;
  virtual const char* name() const = 0;
  virtual bool get(std::string_view key, std::string& value) = 0;  // whether it is there
  virtual void put(std::string_view key, std::string_view value) = 0;
  virtual void add_one(std::string_view key) = 0;  // to a counter of 8 bytes
  virtual void erase(std::string_view key) = 0;
  virtual void range(std::string_view first, size_t most, Pairs& pairs) = 0;
  virtual void transaction(const std::vector<TransactionRow>& rows) = 0;
  // One call for all, or, where a system has none for both kinds, one for each kind.
  virtual void batch(std::vector<BatchRow>& rows) = 0;
  // Ranges from each of the keys on, in one call.
  virtual void ranges(const std::vector<std::string>& firsts, size_t most, SeenPairs& seen) = 0;
  virtual void flush() = 0;
  // Where the time of this thread's calls goes, where the system can tell.
  virtual void begin_parts() {}
  virtual Parts end_parts() { return {}; }
};

}  // namespace isotherm::bench
