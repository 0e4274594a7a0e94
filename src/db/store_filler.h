// StoreFiller: puts items that were read from disk into a store, in batches, by a worker of its
// own.
//
// What has expired is left out. Keys and values have to stay until `finish`, or the next batch,
// unless they are told to be copied.
//
// Threads. One each.
#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <vector>

#include "engine/engine.h"
#include "isotherm/batch.h"
#include "items/meta_request.h"

namespace isotherm {

// Of all databases.
uint64_t count_keys(const Engine& engine);

// Of all fillers of a start.
struct FillTotals {
  std::atomic<uint64_t> refused{0};
  std::atomic<uint64_t> refused_bytes{0};  // keys and values
  std::atomic<uint64_t> longest{0};        // value of these
  std::atomic<uint64_t> expired{0};

  // Why the start cannot go on with what is stored now, and how it can; empty: it can.
  std::string problem(const Engine& engine) const;
};

class StoreFiller {
 public:
  struct Item {
    uint32_t database;
    std::string_view key;
    std::string_view value;
    int64_t expiry;  // no_expiry: none
    uint32_t flags;
    uint64_t state;  // items/meta_state.h; 0: none
  };

  StoreFiller(Engine& engine, FillTotals& totals);

  void put(const Item& item, bool copies = false);
  void erase(uint32_t database, std::string_view key);
  void finish();
  // The value that a key has in the store, which a tree may have to bring; false: none. It must not
  // be one that was put or erased here. Throws JournalError where it cannot be had.
  bool get(uint32_t database, std::string_view key, std::string& value, uint64_t& version);

 private:
  static constexpr Batch::Row most_rows = 512;
  static constexpr int most_tries = 100;

  static bool is_refused(const Batch& batch, Batch::Row row);
  void note_refused(Batch::Row row);
  bool put_again(Batch::Row row, MetaRequest* with_state);

  Engine& engine_;
  FillTotals& totals_;
  const int64_t now_ms_;
  Worker worker_;
  Batch batch_;
  std::vector<MetaRequest> with_state_;
  std::deque<std::string> copies_;
  const uint64_t most_bytes_;  // that a batch stores
  uint64_t bytes_ = 0;
};

}  // namespace isotherm
