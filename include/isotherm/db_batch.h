// DbBatch: many reads, writes and ranges of a Db (isotherm/db.h) in one call, as fast as the store
// goes, and as the GPU does where the Db has one (DbOptions::gpu_memory).
//
//   isotherm::DbBatch batch(*db);
//   batch.put("user:1", "Ada");
//   const auto row = batch.get("user:2");
//   const auto users = batch.range("user:", "user;", 100);
//   if (isotherm::DbStatus status = batch.run(); status.ok()) … batch.value(row)
//   for (const auto& [key, value] : batch.pairs(users)) …
//   batch.clear();
//
// Order. The requests of a batch on one key take effect in the order in which they were added.
// Requests on different keys do not wait for each other, and others may see some of them before the
// rest: what is to take effect as a whole is a WriteGroup. A range shows what there is at one
// moment of the call: all writes of the batch that were added before it, and none that were added
// behind it. Ranges with no write of the batch in between are of one moment. Nothing is copied:
// keys and values stay where they are until `run` has returned, and what was read until `clear`.
// When `run` returns, all writes are as safe as DbOptions::sync says.
//
// Memory. A batch that has run is cleared soon: what it read keeps its memory until `clear`, and
// what is replaced or evicted behind it, by whomever, is not used again before. At
// DbOptions::memory every write of the Db would wait for that, a tenth of a second each. What
// ranges show takes memory beside DbOptions::memory where no GPU has answered them. A batch of
// writes may be larger than DbOptions::memory; one that reads, too, has to fit with what it writes,
// or rows of it are answered out_of_memory. Where snapshots keep the memory (isotherm/db.h) a batch
// waits once, its writes from there on are answered out_of_memory, and its reads go on.
//
// Threads. Belongs to one at a time. It has one of the Db's workers (DbOptions::most_calls) as long
// as it lives, so a thread keeps its own and uses it again. It is destroyed before the Db.
// Sources. H-Rocks, sections 4 (batches of operations) and 6.4 (ranges).
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <string_view>

#include "isotherm/db_status.h"

namespace isotherm {

class Db;

// The pairs of a range, in the order of keys; they stay until DbBatch::clear.
class DbPairs {
 public:
  struct Pair {
    std::string_view key;
    std::string_view value;
  };
  class Iterator {
   public:
    const Pair& operator*() const { return pair_; }
    const Pair* operator->() const { return &pair_; }
    Iterator& operator++() {
      --left_;
      read();
      return *this;
    }
    bool operator==(const Iterator& other) const { return left_ == other.left_; }

   private:
    friend class DbPairs;
    Iterator(const char* at, uint32_t left) : next_(at), left_(left) { read(); }
    // Two lengths of 4 bytes, the key, the value, and up to 7 bytes. A key that begins with byte
    // 255 has 5 more before it.
    void read() {
      if (left_ == 0) return;
      uint32_t bytes[2];
      std::memcpy(bytes, next_, sizeof bytes);
      const char* const key = next_ + sizeof bytes;
      const uint64_t both = uint64_t{bytes[0]} + bytes[1];
      const uint32_t escape = bytes[0] != 0 && *key == '\xff' ? 5 : 0;
      pair_ = {{key + escape, bytes[0] - escape}, {key + bytes[0], bytes[1]}};
      next_ = key + ((both + 7) & ~uint64_t{7});
    }
    Pair pair_;
    const char* next_;
    uint32_t left_;
  };

  DbPairs(const char* at, uint32_t count) : at_(at), count_(count) {}
  Iterator begin() const { return {at_, count_}; }
  Iterator end() const { return {nullptr, 0}; }
  uint32_t size() const { return count_; }

 private:
  const char* at_;
  uint32_t count_;
};

class DbBatch {
 public:
  using Row = uint32_t;
  struct RangeRow {
    uint32_t number;  // of the batch's ranges
  };

  // Waits for a worker where all are out. Throws std::bad_alloc.
  explicit DbBatch(Db& db);
  ~DbBatch();
  DbBatch(const DbBatch&) = delete;
  DbBatch& operator=(const DbBatch&) = delete;

  // Each returns its row. They throw std::bad_alloc.
  Row get(std::string_view key);
  Row put(std::string_view key, std::string_view value);
  Row erase(std::string_view key);  // ok also where it was absent
  Row size() const;                 // of these
  // The pairs from `first` to before `end`, at most `limit`; an empty `end`: to the last.
  RangeRow range(std::string_view first, std::string_view end, uint32_t limit);

  // ok: each row has a status of its own. Otherwise that of the first write that failed, or why a
  // range could not be read.
  DbStatus run();
  // Behind `run`. Of a get: ok or not_found, or why the files cannot be read.
  DbStatus status(Row row) const;
  std::string_view value(Row row) const;  // of a get that is ok
  DbPairs pairs(RangeRow row) const;      // none where `run` was not ok
  // Forgets all rows; the batch may be filled again.
  void clear();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace isotherm
