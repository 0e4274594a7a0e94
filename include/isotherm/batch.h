// Batch: requests in arrival order, stored as columns, with a reply slot each.
//
// Layout. One column per field of a request; row i of every column is request i, and `reply(i)` is
// its answer. Columns that an operation does not use are never read, so a batch of
// reads touches the columns op, options, database, key and hash only.
//
// Life. A thread fills a batch (`get`, `put`, … append one request each and return its row),
// submits it, and reads the replies; `clear()` makes it empty again and keeps the memory, so a
// batch that is used over and over allocates nothing.
//   filling ──submit──▶ running ──every slot ready──▶ done ──clear──▶ filling
// A batch that is submitted again without `clear` forgets its replies, and all of its rows run
// again.
// Each slot becomes ready by itself: `ready(i)` may be true while row i + 1 still runs, unless
// replies are withheld until what they show is safe. The callback given to `on_done` runs on the
// submitting thread when all slots are ready: before `submit` returns, or, of a batch that was
// started, when the thread polls or waits (isotherm/store.h).
//
// Invariants.
// - Keys and values are borrowed: the bytes must stay where they are until the batch is done.
// - `Reply::data` points into the store and is valid until `clear()`, or until the handle that the
//   batch was submitted by is destroyed; the batch itself may outlive it. A batch that is done and
//   not cleared keeps memory from being reused, so do not keep one while you wait for a client.
// - Requests on one key take effect in row order.
//
// Types. A key has a string or an object (isotherm/object.h). Operations that look at the value
// work on strings; for an object they answer wrong_type, whatever else they would answer, unless
// `any_type` is set. Operations that replace or remove a value without looking at it take both.
//
// Groups. The rows that `group` names take effect together: rows of other batches on their keys
// wait until the whole batch has run, or have ended before; rows on other keys do not notice. A
// guard stands between two rows of a group. It is called once, when all rows before it have ended,
// though none of them need be `ready`, and may then change or cancel rows behind it. These rows
// find the store as the guard saw it, so a group looks at its keys first and then decides what to
// do with them:
//   MSETNX a 1 b 2    get a │ get b │ guard: cancel the puts if a or b is there │ put a │ put b
// `unless_absent` and `unless_unchanged` are such guards. A guard that says from which row on it
// looks, within its group, waits for the rows of its group alone, and for earlier rows on its keys:
// of many such groups those on different keys run together. A guard that stands in no group makes
// one of the whole batch. A guard must not throw, nor wait for other batches: they may wait for it.
// The guard before a cancelled row is not called. A group that begins within another becomes part
// of it, and its guards then decide about the rest of the larger one.
//
// Views. The gets that `view` names see each group, of other batches, whole or not at all. `flush`
// is a group of all keys of some databases.
//
// Threads. A batch belongs to one thread at a time, except that executors store reply slots, each
// published by its status (release) and read by `ready` (acquire).
//
// Limits. At most 2^32 - 1 requests.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <new>
#include <span>
#include <string_view>
#include <vector>

#include "isotherm/bitfield.h"
#include "isotherm/status.h"

namespace isotherm {

enum class Op : uint8_t {
  get,      // reply: data, flags, version, expiry
  put,      // stores `value`; conditions by options
  erase,    // removes the item
  add,      // adds `number` to the decimal integer stored; reply.number: the sum
  append,   // value behind the stored one; reply.number: the new length
  prepend,  // value before the stored one; reply.number: the new length
  expire,   // sets the absolute expiry to `expiry` (no_expiry: removes it); reply as of get
  // All of these count a missing value as empty, and keep the expiry of one that is there.
  set_range,  // writes `value` at byte `number`, behind zero bytes if it lies beyond the end; an
              // empty value changes nothing; reply.number: the new length
  set_bit,    // sets bit `number` to `flags`, 0 or 1; reply.number: what it was
  bitfield,   // runs the steps at `value` (isotherm/bitfield.h), which hold their own results
  add_float,  // adds the decimal fraction in `value` to the one stored; reply.data: the sum
  none,       // a row that was cancelled: does nothing, and answers not_found
  flush,      // removes every key of the databases from `database` to before `number`; where there
              // is a function at `value`, calls that instead
  meta,  // a meta command of memcached, a MetaRequest at `number` (items/meta_request.h), which
         // holds its own results; reply as of get (the server's, not for others)
  // On objects:
  call,  // runs the function at `value`; its arguments begin at `number` and are `flags` many,
         // and its context stands in `expiry`
  put_object,  // as put; `value` is where the object is
  walk,  // shows about `expiry` items of the database from the cursor `number` on, whole lines of
         // the index, to the visitor at `value`; reply.number: the cursor to go on from, 0 at the
         // end; reply.flags: 1 where the walk had to begin anew, with this step. What is there
         // from the first step to the last is shown at least once (the engine's, not for others)
};

// Options of one request, a bit each.
namespace option {
inline constexpr uint16_t if_absent = 1 << 0;       // put: only where the key is absent
inline constexpr uint16_t if_present = 1 << 1;      // put, and all that change a value: only where
                                                    // the key is present
inline constexpr uint16_t if_version = 1 << 2;      // put, erase: only where version == `number`
inline constexpr uint16_t keep_expiry = 1 << 3;     // put: the new item inherits the expiry
inline constexpr uint16_t want_previous = 1 << 4;   // put, erase: reply.data is the value before
inline constexpr uint16_t no_touch = 1 << 5;        // get: do not count as a use for eviction
inline constexpr uint16_t any_type = 1 << 6;        // get, expire: of an object, too
inline constexpr uint16_t saturating = 1 << 7;      // add: memcached's arithmetic: unsigned 64-bit,
                                                    // wraps upward, stops at 0 downward
inline constexpr uint16_t with_state = 1 << 7;      // get: see Batch::get_with_state
inline constexpr uint16_t any_length = 1 << 8;      // put: longer than max_value_bytes, too, since
                                                    // the store has had the value already
inline constexpr uint16_t part = 1 << 8;            // get: see Batch::get_part
inline constexpr uint16_t expire_if_none = 1 << 8;  // expire: only where it has none
inline constexpr uint16_t expire_if_any = 1 << 9;   // expire: only where it has one
inline constexpr uint16_t expire_if_greater = 1 << 10;  // expire: only to a later time
inline constexpr uint16_t expire_if_less = 1 << 11;     // expire: only to an earlier time
inline constexpr uint16_t decrement = 1 << 12;   // add with saturating: subtract `number` instead
inline constexpr uint16_t with_bytes = 1 << 12;  // get: reply.number is the memory that the item
                                                 // takes, in bytes, with its object
inline constexpr uint16_t no_value = 1 << 13;  // get, expire: the reply has the size of the value,
                                               // but its data only where that costs nothing
inline constexpr uint16_t in_place = 1 << 14;  // put: the value lies in an ArrivingItem, which the
                                               // store takes over (the server's, not for others)
inline constexpr uint16_t over_cap = 1 << 15;  // put: may take memory beyond the cap, as far as
                                               // the writes of a store that evicts may;
                                               // expire always may
}  // namespace option

// Expiry: absolute, in milliseconds since the Unix epoch.
inline constexpr int64_t no_expiry = 0;

enum class ValueType : uint8_t { none, string, list, set, zset, hash, stream };

class Object;
struct ObjectFunction;

// One answer, 56 bytes. `data` is null where the request found no value or returns none, and may be
// null with option::no_value; of an object it is where that lies, and `size` is 0.
struct Reply {
  std::atomic<Status> status{Status::pending};
  ValueType type = ValueType::none;
  uint32_t flags = 0;          // memcached's client flags
  uint64_t version = 0;        // of the item found or written; grows with every write of the value
  int64_t number = 0;          // add: the sum; append, prepend: the new length in bytes; call: what
                               // the function says; get with with_bytes: what the item takes
  int64_t expiry = no_expiry;  // of the item found or written
  const char* data = nullptr;
  uint64_t size = 0;  // bytes at data
  // Where data lies, or the item that was written or erased; for executors.
  uint64_t location = 0;

  std::string_view value() const { return {data, size}; }
  // All but the status; for executors.
  void copy_answer(const Reply& from) {
    type = from.type;
    flags = from.flags;
    version = from.version;
    number = from.number;
    expiry = from.expiry;
    data = from.data;
    size = from.size;
    location = from.location;
  }
  // The object that a get with option::any_type has found; null: none, or a string.
  const Object* object() const {
    return type > ValueType::string ? reinterpret_cast<const Object*>(data) : nullptr;
  }
};

struct ScanItem;     // engine/engine.h
struct MetaRequest;  // items/meta_request.h
class WorkerPool;    // base/worker_pool.h

// Whom a walk shows items, on the thread that runs the batch.
class ItemVisitor {
 public:
  virtual void visit(const ScanItem& item) = 0;
  // Whether it is to see only what is in memory, of a store with a tree; by the hash then.
  virtual bool only_memory() const { return false; }
  // Whether it wants to know only how many items there are. A store that knows that without a walk
  // then calls `count` once, in place of `visit`.
  virtual bool only_counts() const { return false; }
  virtual void count(uint64_t /*items*/) {}

 protected:
  ~ItemVisitor() = default;
};

class Batch {
 public:
  using Row = uint32_t;
  using Done = void (*)(Batch&, void* context);

  Batch();
  ~Batch();
  Batch(const Batch&) = delete;
  Batch& operator=(const Batch&) = delete;

  // Appends a request and returns its row.
  Row get(std::string_view key, uint16_t options = 0) { return append_row(Op::get, key, options); }
  // A get of each of the keys; the first of their rows.
  Row get_all(std::span<const std::string_view> keys);
  Row put(std::string_view key, std::string_view value, uint16_t options = 0,
          int64_t expiry = no_expiry, uint32_t flags = 0, uint64_t expected_version = 0) {
    const Row row = append_row(Op::put, key, options);
    columns_.value[row] = value;
    columns_.number[row] = static_cast<int64_t>(expected_version);
    columns_.expiry[row] = expiry;
    columns_.flags[row] = flags;
    return row;
  }
  Row erase(std::string_view key, uint16_t options = 0, uint64_t expected_version = 0);
  Row add(std::string_view key, int64_t delta, uint16_t options = 0);
  Row append(std::string_view key, std::string_view value, uint16_t options = 0);
  Row prepend(std::string_view key, std::string_view value, uint16_t options = 0);
  Row expire(std::string_view key, int64_t expiry, uint16_t options = 0);

  Row set_range(std::string_view key, int64_t offset, std::string_view value, uint16_t options = 0);
  Row set_bit(std::string_view key, int64_t offset, bool bit, uint16_t options = 0);
  // The steps stay where they are until the batch is done.
  Row bitfield(std::string_view key, std::span<BitfieldStep> steps, uint16_t options = 0);
  Row add_float(std::string_view key, std::string_view delta, uint16_t options = 0);
  // The function, what the arguments view, and what is behind `context` stay where they are until
  // the batch is done.
  Row call(std::string_view key, const ObjectFunction& function,
           std::span<const std::string_view> arguments = {}, void* context = nullptr,
           uint16_t options = 0);
  // The store takes the object where the reply is ok. It may be filled in by a guard.
  Row put(std::string_view key, std::unique_ptr<Object>& object, uint16_t options = 0,
          int64_t expiry = no_expiry);

  // The database that requests appended from now on belong to. A batch with a request of one that
  // the store does not have is refused as a whole: all of its rows are `invalid`.
  void select(uint32_t database) {
    current_database_ = database;
    last_database_ = std::max(last_database_, database);
  }

  // A step of a walk. The batch has rows of no other kind.
  Row walk(uint64_t cursor, uint64_t count, ItemVisitor& visitor);

  // `request` stays where it is until the batch is done.
  Row meta(std::string_view key, std::string_view value, MetaRequest& request,
           int64_t expiry = no_expiry, uint32_t flags = 0);
  // A get that knows of memcached's meta commands: reply.number is the item's state as found
  // (items/meta_state.h), and who is the first to see a stale one has won it, which changes it.
  Row get_with_state(std::string_view key, uint16_t options) {
    marks_ = true;
    return append_row(Op::get, key, options | option::with_state);
  }

  // A get for the bytes of the value from `first` to `last`, which count from its end where they
  // are below 0. Where reply.number is `part_alone` the reply has these alone, else the whole
  // value.
  Row get_part(std::string_view key, int64_t first, int64_t last) {
    const Row row = append_row(Op::get, key, option::part);
    note(row, first, last);
    return row;
  }
  static constexpr int64_t part_alone = 1;

  // Two numbers kept beside a get, for the code that reads its reply; executors ignore them, but
  // with option::part.
  void note(Row get, int64_t first, int64_t second = 0) {
    columns_.number[get] = first;
    columns_.expiry[get] = second;
  }

  // The rows from `first` on, to the last so far, are a group, or a view; see above.
  void group(Row first) {
    while (!groups_.empty() && groups_.back().first >= first) groups_.pop_back();
    groups_.push_back({first, size_});
  }
  void view(Row first) { view(first, size_); }
  // The databases from `first` to before `end`, or the last one there is.
  Row flush(uint32_t first, uint32_t end);
  // The same of databases that have no key, by option::if_absent: their indexes are given back (the
  // engine's, not for others).
  Row flush_empty();
  // Calls `work` while no row of another batch runs (the engine's, not for others).
  Row stand_still(const std::function<void()>& work);

  // A guard before the next row; see above. `row` is that row. With `looks_from` it looks at no row
  // before that one, at nothing else of the store, and changes no row behind its group.
  using Check = void (*)(Batch& batch, Row row, void* context);
  static constexpr Row everywhere = ~Row{0};
  void guard(Check check, void* context = nullptr, Row looks_from = everywhere) {
    guards_.push_back({size_, check, context, looks_from});
  }
  // Guards that look at the gets from `first` to the last so far, and cancel the rest of the group:
  // unless none of the keys is there,
  void unless_absent(Row first);
  // or unless each is at the version that was noted as its first number, 0: absent.
  void unless_unchanged(Row first);
  // Rows from here on share no key with those before: several threads may run them side by side
  // (the engine's, not for others).
  void part() { parts_.push_back(size_); }

  // For guards: rows from `first` to before `end` are not to run.
  void cancel(Row first, Row end) {
    for (Row row = first; row < end; ++row) columns_.op[row] = Op::none;
    writes_ |= first < end;  // they are no reads
  }

  Row size() const { return size_; }
  bool empty() const { return size_ == 0; }

  bool ready(Row row) const { return answered(row) && !withheld(); }
  const Reply& reply(Row row) const { return columns_.reply[row]; }

  // Called with this batch on the submitting thread when every slot is ready.
  void on_done(Done done, void* context) {
    done_ = done;
    done_context_ = context;
  }

  // Gives back what the replies point into and empties the batch; capacity stays.
  void clear();
  // Frees columns beyond `rows`; a batch that was once huge need not stay so.
  void shrink(Row rows);
  // Bytes that the columns take.
  size_t memory() const;

  // ---- For executors ----

  // Rows from `first` on, and what is about them, were never appended (the engine's, not for
  // others).
  void drop(Row first);
  // Of an empty batch: frees the columns, whose pages the threads of the pool give back.
  void free_columns(WorkerPool& pool);
  // The columns; pointers are stable while the batch runs.
  struct Columns {
    Op* op = nullptr;
    uint16_t* options = nullptr;
    uint32_t* database = nullptr;
    std::string_view* key = nullptr;
    uint64_t* hash = nullptr;  // filled by the executor
    std::string_view* value = nullptr;
    int64_t* number = nullptr;
    int64_t* expiry = nullptr;
    uint32_t* flags = nullptr;
    Reply* reply = nullptr;
    const std::string_view* arguments = nullptr;  // of all calls

    // Of a call.
    std::span<const std::string_view> arguments_of(Row row) const {
      return {arguments + number[row], flags[row]};
    }
    // The columns of the rows from `row` on.
    Columns from(Row row) const {
      return {op + row,     options + row, database + row, key + row,   hash + row, value + row,
              number + row, expiry + row,  flags + row,    reply + row, arguments};
    }
  };
  Columns& columns() { return columns_; }
  void view(Row first, Row end) { views_.push_back({first, end}); }
  // Appends a copy of a row of another batch.
  Row append(const Columns& from, Row row);
  // Makes room for so many rows more, so that appending them moves no row. Throws std::bad_alloc.
  void reserve(uint64_t rows);
  // Appends so many puts and erases, of the database that is selected; the first of their rows.
  // Whoever calls sets each of them before the batch runs, several threads if they like.
  Row add_changes(Row count);
  void set_change(Row row, Op op, std::string_view key, std::string_view value, uint16_t options) {
    start_row(row, op, key, options);
    columns_.value[row] = value;
    columns_.number[row] = 0;
    columns_.expiry[row] = no_expiry;
    columns_.flags[row] = 0;
  }
  // The first rows of parts, in order.
  const std::vector<Row>& parts() const { return parts_; }
  const Columns& columns() const { return columns_; }
  // Rows from `first` to before `end`.
  struct Span {
    Row first;
    Row end;
  };
  // Whether some rows are in groups, or flush.
  bool has_groups() const { return !groups_.empty() || !guards_.empty(); }
  bool walks() const { return walks_; }
  // Those of the batch that is filled, in order, and its views if it has any group; `close_groups`
  // comes before.
  void close_groups();
  const std::vector<Span>& groups() const { return groups_; }
  const std::vector<Span>& views() const { return views_; }
  // Whether the row has run; its reply may be withheld.
  bool answered(Row row) const {
    return columns_.reply[row].status.load(std::memory_order_acquire) != Status::pending;
  }
  // No slot is ready from now on until they are let go.
  // Some rows are `not_saved`.
  void note_unsaved() { unsaved_.store(true, std::memory_order_relaxed); }
  bool unsaved() const { return unsaved_.load(std::memory_order_relaxed); }
  void withhold(bool withheld) { withheld_.store(withheld, std::memory_order_release); }
  bool withheld() const { return withheld_.load(std::memory_order_acquire); }
  // `check` is null where the row flushes.
  struct Guard {
    Row row;
    Check check;
    void* context;
    Row looks_from;
  };
  const std::vector<Guard>& guards() const { return guards_; }
  // True when a request may change what is stored.
  bool writes() const { return writes_; }
  // Whether gets may change what they find (get_with_state).
  bool marks() const { return marks_; }
  // No row belongs to a later database.
  uint32_t last_database() const { return last_database_; }
  bool only_gets() const { return !writes_ && !calls_; }

  // Keeps what replies point into alive until clear(); an executor sets it once per run.
  class Hold {
   public:
    virtual void release(Batch& batch) = 0;

   protected:
    ~Hold() = default;
  };
  void hold(Hold* hold) { hold_ = hold; }
  // What an earlier run has left is given back, so that the rows can run again.
  void let_go() {
    if (hold_ != nullptr) [[unlikely]]
      forget_replies();
  }
  void finish() {
    if (done_ != nullptr) done_(*this, done_context_);
  }

 private:
  Row group_end(Row row) const;
  bool is_absent(Row get) const;
  bool is_unchanged(Row get) const;
  template <auto holds>
  static void check_gets(Batch& batch, Row row, void* count);
  [[gnu::always_inline]] Row append_row(Op op, std::string_view key, uint16_t options) {
    if (size_ == capacity_) grow_for_more();
    const Row row = size_++;
    start_row(row, op, key, options);
    writes_ |= op != Op::get;
    return row;
  }
  [[gnu::always_inline]] void start_row(Row row, Op op, std::string_view key, uint16_t options) {
    columns_.op[row] = op;
    columns_.options[row] = options;
    columns_.database[row] = current_database_;
    columns_.key[row] = key;
    new (&columns_.reply[row]) Reply();
  }
  void forget_replies();
  void grow_for_more();
  void grow(Row capacity);
  void note_call(Row row, bool writes);
  void take_views_as_groups();
  void add_arguments(Row row, std::span<const std::string_view> arguments);

  Columns columns_;
  Row size_ = 0;
  Row capacity_ = 0;
  uint32_t current_database_ = 0;
  uint32_t last_database_ = 0;  // of those that were selected
  bool writes_ = false;
  bool calls_ = false;
  bool walks_ = false;
  bool marks_ = false;
  std::atomic<bool> withheld_{false};
  std::atomic<bool> unsaved_{false};
  Hold* hold_ = nullptr;
  Done done_ = nullptr;
  void* done_context_ = nullptr;
  std::unique_ptr<char[]> memory_;
  size_t memory_bytes_ = 0;
  // In order of their rows.
  std::vector<Guard> guards_;
  std::vector<Span> groups_;
  std::vector<Span> views_;
  std::vector<Row> parts_;
  std::vector<std::string_view> arguments_;
};

}  // namespace isotherm
