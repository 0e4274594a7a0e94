// Store: Isotherm as a library, in process: byte-string keys and values.
//
//   isotherm::Store store({.maxmemory = 1 << 30});
//   isotherm::Handle handle(store);            // one a thread
//   handle.put("user:1", "Ada");
//   std::string value;
//   if (handle.get("user:1", value) == isotherm::Status::ok) …
//
// Single operations are convenient; batches are fast: fill a Batch (isotherm/batch.h), `submit` it,
// read the replies, `clear` it. A batch of some hundred requests hides the memory's latency, and
// reads values without copying them.
//
// A batch can also be started without waiting for its end (`start`), which helps where the index is
// on a GPU: its threads run the batches of all handles together. Several batches are under way
// then:
//   if (handle.start(batch) == isotherm::Status::retry) …  // clear those that have ended, or poll
//   …                                          // fill and start others
//   handle.wait(batch);                        // or on_done with poll, or batch.ready(row)
//
// Threads. A Store may be used by any number of threads, each through a Handle of its own (at most
// most_handles), but not in a child of fork, which may find locks held by threads that it does not
// have. A Handle and its batches belong to one thread. Each key is linearizable; requests
// of a batch on one key take effect in order. Batches of a handle that are under way together are
// concurrent. Rows of a batch that take effect together are a group, and stop nobody who wants
// other keys (isotherm/batch.h): so a compare-and-swap of several keys is
//   for (key : keys) batch.note(batch.get(key, option::any_type | option::no_value), version);
//   batch.unless_unchanged(0);
//   …                                          // puts, erases; cancelled unless all are unchanged
//   batch.group(0);
//
// Errors. Constructors throw std::invalid_argument for options out of range, std::runtime_error
// where a device, files or a place for one more Handle cannot be had, and std::bad_alloc without
// memory; operations return a Status and throw nothing. out_of_memory is also the answer where the
// program has no memory for a value that is to be copied out; what the operation changes is then
// changed (put and erase with `previous`).
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "isotherm/batch.h"
#include "isotherm/options.h"
#include "isotherm/status.h"

namespace isotherm {

class Engine;
class Clock;
class Worker;

class Store {
 public:
  // As many as a server may have threads, and one beside.
  static constexpr uint32_t most_handles = 257;

  explicit Store(const Options& options = {});
  // Expiry by another clock than the system's, which must outlive the store; for tests.
  Store(const Options& options, const Clock& clock);
  ~Store();
  Store(const Store&) = delete;
  Store& operator=(const Store&) = delete;

  // Keys in a database. An expired key counts until a request or a sweep meets it. With a tree all
  // are looked at; throws std::runtime_error where its files cannot be read.
  uint64_t size(uint32_t database = 0) const;
  // The bytes that maxmemory limits.
  uint64_t memory() const;
  // Whether the index lies on GPUs, and how many entries of it they have no room for.
  bool on_gpu() const;
  uint64_t entries_beyond_gpu() const;
  // Values that lie in the memory of GPUs (Options::gpu_values).
  uint64_t values_on_gpu() const;

 private:
  friend class Handle;
  std::unique_ptr<Engine> engine_;
};

// What a read tells beside the value.
struct ItemInfo {
  uint64_t version = 0;        // for compare_and_swap
  int64_t expiry = no_expiry;  // ms since the epoch
  uint32_t flags = 0;          // the application's
};

struct PutOptions {
  // Any of option::if_absent, if_present, keep_expiry.
  uint16_t conditions = 0;
  int64_t expiry = no_expiry;  // ms since the epoch
  uint32_t flags = 0;
};

class Handle {
 public:
  explicit Handle(Store& store);
  ~Handle();
  Handle(const Handle&) = delete;
  Handle& operator=(const Handle&) = delete;

  // The database that single operations and scans use.
  void select(uint32_t database) { database_ = database; }

  // ok, with value and info filled; not_found; or wrong_type where the key has an object
  // (isotherm/object.h), as of every operation that works on strings.
  Status get(std::string_view key, std::string& value, ItemInfo* info = nullptr);
  // ok; condition_failed or not_found as the conditions say; too_large; out_of_memory. `previous`,
  // if given, gets the value before (empty when there was none).
  Status put(std::string_view key, std::string_view value, const PutOptions& options = {},
             std::string* previous = nullptr);
  // ok or not_found.
  Status erase(std::string_view key, std::string* previous = nullptr);
  // Stores where the version is still `expected`: ok, condition_failed or not_found.
  Status compare_and_swap(std::string_view key, uint64_t expected, std::string_view value,
                          const PutOptions& options = {});
  // Adds to a decimal integer (absent: 0): ok, not_an_integer or overflow.
  Status add(std::string_view key, int64_t delta, int64_t& sum);
  // Sets the absolute expiry; no_expiry removes it: ok or not_found.
  Status expire(std::string_view key, int64_t expiry);

  // Runs a batch; every reply is ready when it returns.
  void submit(Batch& batch);

  // Begins to run a batch, which stays where it is until it has ended. ok: it runs, or has ended
  // already, as it has where the index is on the CPU and no group of another thread has a key of
  // it. retry: nothing ran, because most_under_way batches of this handle are under way or not
  // cleared, or because the queue before the GPU is full. Try again after clearing some, or `poll`.
  static constexpr uint32_t most_under_way = 64;
  Status start(Batch& batch);
  // Calls what `on_done` was given of each batch that has ended since. Returns how many are under
  // way.
  uint32_t poll();
  // The same, but waits until this batch has ended.
  void wait(Batch& batch);

  // Visits about `count` keys from `cursor` on (0: the beginning), fewer where the index has few,
  // and returns the cursor to go on from, 0 at the end. Keys present from the first to the last
  // call are visited at least once. Throws std::bad_alloc, and what `visit` throws.
  uint64_t scan(uint64_t cursor, uint64_t count,
                const std::function<void(std::string_view key)>& visit);
  // Removes every key of the database: ok, or why none was removed.
  Status clear();
  // A bounded step of background work (growth, expiry, eviction). Operations do it as well, and
  // batches before they run; call it now and then when idle. True while more waits. With the index
  // on a GPU nothing is done while a batch is not cleared.
  bool maintain();

 private:
  template <class Attempt>
  Status attempt(Attempt&& attempt);
  template <class Read>
  Status run_single(Read&& read);

  std::unique_ptr<Worker> worker_;
  Batch batch_;  // of single operations
  uint32_t database_ = 0;
};

}  // namespace isotherm
