// Engine: one store, wired from its stages: batch → executor → index → items.
//
// The index is in host memory, or in that of a device (executor/device/device_executor.h) as long
// as it works. Nobody above needs to know which. With the index on the host, a batch has ended when
// `start` returns, unless a group has some of its keys. With the index on a device, a worker that
// must not wait hands its batches to a crew (engine/crew.h) and is told when they have ended:
//   Worker ── start ──▶ BatchRunner, in the calling thread ─┐
//      ▲  ├───────────▶ Crew: a BatchRunner a thread ───────┼─▶ rows, or rounds
//      │  └───────────▶ QuickPath: few rows, in steps ──────┘
//      └──── poll ◀──── BatchRun: answered, ended
//
// An Engine owns the items, one index per database, and the gate of groups (executor/key_gate.h).
// Threads use it through a Worker each. A Worker runs batches (`submit`, `start`), the commands
// without one key (`count`, `flush`, `scan`), and, between batches, a bounded share of the
// background work (`maintain`): index growth, eviction ahead of need, expiry, reclamation.
//
// Threads. Engine's functions may be called by any thread; a Worker belongs to one thread.
// Order. Requests of a batch on one key take effect in row order; across workers each key is
// linearizable. Batches of one worker that are under way together are concurrent. The rows of a
// group take effect together. If a group of another worker has the key of a row, the row waits for
// that group, and its batch is under way until then, also on the host. A group waits for others who
// have some of its keys, and so do the rows of its own batch on these keys. A worker that may wait
// does so in `start`; otherwise the batch stays under way.
//
// Limits. Store::most_handles workers; 64 batches under way, or ended and not cleared, of each.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/clock.h"
#include "base/wait_clock.h"
#include "executor/executor.h"
#include "executor/scheduling_policy.h"
#include "executor/values/device_values.h"
#include "gpu/store/item_tier.h"
#include "gpu/store/root_tier.h"
#include "gpu/store/sorted_tier.h"
#include "isotherm/batch.h"
#include "isotherm/options.h"
#include "router/hot_stats.h"

namespace isotherm {

// How many keys there were; empty: the files of a tree cannot be read.
using KeyCount = std::function<std::optional<uint64_t>()>;

// A snapshot of counters, for INFO and `stats`.
struct EngineStats {
  uint64_t used_memory = 0;  // what maxmemory is compared with
  uint64_t item_bytes = 0;   // chunks and large items
  uint64_t index_bytes = 0;
  uint64_t retired_bytes = 0;  // waiting for readers before reuse
  uint64_t buffer_bytes = 0;   // of connections and of rounds
  uint64_t ahead_bytes = 0;    // pages that were made ready before they are needed
  uint64_t batches = 0;
  uint64_t requests = 0;
  uint64_t hits = 0;
  uint64_t misses = 0;
  uint64_t evicted = 0;
  uint64_t expired = 0;
  uint64_t retried = 0;           // batches that were answered retry, wherever it was full
  uint64_t changes = 0;           // of strings, by requests; a flush counts as one and one a key
  uint64_t splits = 0;            // segments split
  uint64_t joins = 0;             // pairs of segments joined
  uint64_t retries = 0;           // compare-and-swaps that lost and ran again
  uint64_t index_room = 0;        // entries that indexes of a fixed size have room for
  uint64_t index_evicted = 0;     // of `evicted`: for want of room in such an index
  uint64_t index_displaced = 0;   // cells that such an index has moved to make room
  HotStats hot;                   // of the router and the table for hot keys, where there is one
  uint64_t fast_looks = 0;        // into the fast part of that table, by full windows of them
  uint64_t fast_hits = 0;         // of these
  uint64_t fast_skipped = 0;      // that were not made, since too few hit
  bool on_device = false;         // the index is in the memory of a device
  RootTableStats root_table;      // of the index there
  RoundOptions round_options;     // in use, where there is a device; greedy where not
  RoundStats rounds;              // that took batches there, or work in the background
  uint64_t quick_batches = 0;     // that were led in steps
  uint64_t queue_full = 0;        // batches that found no place in the queue before it
  DeviceValueStats values;        // that lie there
  std::vector<int> memory_nodes;  // that items are preferred to lie on; none: anywhere
  uint64_t takeover_us = 0;       // that it took the host to make an index when the device was lost
};

struct DatabaseStats {
  uint64_t keys = 0;
  uint64_t expires = 0;  // keys with an expiry
};

class ArrivingItem;
class CommitSink;
class DemotionHook;
class RowGate;
class Snapshot;
class Tree;
class WorkerPool;

// One size class of items, a chunk of which has 64 KiB; or the large items, which are in no chunks.
struct ItemClassStats {
  uint64_t bytes = 0;      // of an item; 0: large
  uint64_t per_chunk = 0;  // items
  uint64_t chunks = 0;
  uint64_t items = 0;  // live
  // Ever: that expired and were erased, that were evicted, and of these those with an expiry.
  uint64_t expired = 0;
  uint64_t evicted = 0;
  uint64_t volatile_evicted = 0;
};

class EngineState;  // internal: the stages

class Engine {
 public:
  // The clock must outlive the engine. Throws std::invalid_argument for options out of range, and
  // std::runtime_error where they ask for a GPU and there is none.
  Engine(const Options& options, const Clock& clock);
  // With an index on a device of the caller's, whose rounds take the time from `round_clock` if
  // there is one; for tests.
  Engine(const Options& options, const Clock& clock, const RootTiersMaker& make_index,
         WaitClock* round_clock = nullptr);
  // With items on a device of the caller's (Options::gpu_items); for tests.
  Engine(const Options& options, const Clock& clock, const ItemTierMaker& make_items);
  // With the sorted copy of its files on a device of the caller's (Options::gpu_sorted); null: on a
  // GPU. For tests.
  Engine(const Options& options, const Clock& clock, const SortedTierMaker& make_sorted);
  ~Engine();
  Engine(const Engine&) = delete;
  Engine& operator=(const Engine&) = delete;

  const Options& options() const;  // as the store was opened
  const Clock& clock() const;
  EngineStats stats() const;
  uint64_t used_memory() const;  // of these
  // From the smallest size to the largest, then the large items.
  std::vector<ItemClassStats> item_classes() const;
  uint64_t large_item_bytes() const;  // of items that are in no class
  // Why the index, or the items, are on the host though the options did not ask for it; empty
  // otherwise.
  const std::string& device_problem() const;
  DatabaseStats database(uint32_t database) const;  // what is in memory
  // All keys that it has now, which those of a tree are counted for, one by one. What is returned
  // may look at them all, and may be called later, as long as the engine is there.
  KeyCount begin_count(uint32_t database) const;
  std::optional<uint64_t> count(uint32_t database) const { return begin_count(database)(); }
  // What may change while workers run; batches that run meanwhile go by the old or the new value.
  // A cap below what is in use is reached by eviction, in steps, where the policy allows any.
  uint64_t maxmemory() const;
  void set_maxmemory(uint64_t bytes);
  EvictionPolicy policy() const;
  void set_policy(EvictionPolicy policy);
  // At most 2^32 - 1; larger values that are stored already stay.
  void set_max_value_bytes(uint64_t bytes);

  // Says which rows wait before they run (executor/awaited.h); null: none. While no batch runs.
  void set_row_gate(RowGate* gate);
  // Who is told of changes, and who is asked before eviction drops an item
  // (executor/commit_sink.h); null: nobody. While there is no worker.
  void set_commit_sink(CommitSink* sink);
  void set_demotion_hook(DemotionHook* hook);
  // Where more is than memory holds; null: nowhere.
  Tree* tree() const;
  // Writes that a scheduling policy puts off go at once from now on: the store is about to end.
  void hurry_writes();
  // Who is told of what an operator should know: a device that is given up, files that cannot be
  // written. Any thread may call it.
  void log_to(const std::function<void(const std::string& line)>& to);
  // Versions that are given from now on are larger. While no row runs, with the index on the host.
  void begin_versions(uint64_t version);
  // How many keys databases are about to be filled with, before the first is put. An index that
  // grows has room for many of them from the start. Of indexes of a fixed size those that come
  // first get the largest part, so that of the most keys comes first, whoever puts them.
  void expect_keys(const std::map<uint32_t, uint64_t>& keys);
  // Whether replies may have to wait until changes that they show are safe.
  bool has_commit_sink() const;

  // What the buffers of connections take; negative: given back.
  void add_buffer_bytes(int64_t bytes);
  // Memory that whoever has the commit sink takes for it; it counts against maxmemory.
  void add_sink_bytes(int64_t bytes);
  // The same of all connections, with values that they still send though the store is done with
  // them.
  uint64_t client_bytes() const;
  // Lets writes that may run over the cap (option::over_cap) take so much more; negative: no
  // longer.
  void lend_memory(int64_t bytes);

  // Keeps the value of a reply in its place beyond Batch::clear, for sending it without a copy. The
  // handle goes to `let_go`, by any thread; 0: the value cannot be kept. Values of more than
  // `least_kept` bytes mostly can.
  uint64_t keep(const Reply& reply);
  void let_go(uint64_t kept);

  // For a large value that a client has announced and will put: the item that it becomes, or null
  // where others that are on their way leave no room for it now: it is asked for again, or copied
  // after all. An item that is not usable is for one that the cap refuses.
  std::unique_ptr<ArrivingItem> arriving(uint64_t key_bytes, uint64_t value_bytes);
  static constexpr uint64_t least_arriving = 64 << 10;
  struct Arrivals {
    uint64_t announced = 0;  // full lengths of those that are on their way
    uint64_t came = 0;       // bytes of such values, ever
    uint64_t room = 0;       // bytes that may come before something is evicted for them
  };
  Arrivals arrivals() const;
  static constexpr uint64_t least_kept = 32 << 10;

 private:
  friend class Snapshot;
  friend class Worker;
  std::unique_ptr<EngineState> state_;
};

// What scan shows of one item; valid during the callback only.
struct ScanItem {
  std::string_view key;
  ValueType type;
  uint64_t value_bytes;
  int64_t expiry;
  uint32_t size_class;  // number of it; for a large item one more than there are
  uint32_t flags = 0;   // memcached's; of what is only in files not known
};

class Worker {
 public:
  // What becomes of a batch that was started (executor/executor.h).
  using Started = Submitted;
  static constexpr uint32_t most_under_way = 64;

  // A worker that `waits` may wait for a device, in a round for example; one of a network thread
  // may not, and leaves all that to threads of the engine's (engine/crew.h).
  explicit Worker(Engine& engine, bool waits = true);
  ~Worker();
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  // Runs `batch`; its slots become ready one by one, then batch.finish() is called on this thread.
  // It runs at the time `now_ms`, or else the clock's.
  void submit(Batch& batch, int64_t now_ms);
  void submit(Batch& batch);
  // The same by several threads, which share the parts (Batch::part) of very many rows that are all
  // in groups. Nobody else uses the helpers meanwhile, and the pool has one thread more than there
  // are.
  void submit(Batch& batch, WorkerPool& pool, std::span<Worker* const> helpers);

  // The same without waiting. ended: as after submit. under_way: `poll` will say more; the batch
  // stays where it is, and is cleared only when it has ended. retry: nothing ran, for the moment:
  // too much is under way, in the engine or of this worker. Batches under way are concurrent.
  Started start(Batch& batch, int64_t now_ms);
  Started start(Batch& batch);
  // Shows each batch under way of which more rows are ready than before, or that has ended, after
  // batch.finish(). Returns how many are under way.
  using Visit = std::function<void(Batch& batch, bool ended)>;
  uint32_t poll(const Visit& visit);
  // For a worker that may not wait for a device. Small batches of it go on in its own thread while
  // that is here, or polls: looks after them for a little while. Whether `poll` has something to
  // show.
  bool linger();
  // The thread is about to sleep until it is woken. False: it must not, since `poll` has something
  // to show, or batches go on in this thread only. Where memory is short, others free what it has
  // retired.
  bool rest();
  // Waits until `poll` has something to show, or a queue that was full has room; else returns.
  void wait();
  // Waits until this batch has ended. Of others that end meanwhile `poll` has nothing more to show.
  void wait_for(const Batch& batch);
  // Whether a batch of it is under way or not cleared.
  bool busy() const;
  // Whether its batches run in its thread, so rows that are not answered when `start` returns wait
  // for something.
  bool runs_all() const;
  // Whether a queue was full for its last batch, and has not told yet that it has room.
  bool refused() const;
  // Called, by any thread, when `wait` would return; of a worker that starts small batches, or
  // lingers, only behind `rest`.
  void wake_by(std::function<void()> wake);

  // A get by the shortest way: of an item in host memory that has nothing but a key and a value,
  // and that nobody has to wait for. Of upkeep it counts as a row of maintain_behind. False: it is
  // to be submitted as a batch, which then answers whatever there is.
  bool get_at_once(uint32_t database, std::string_view key, std::string& value, uint64_t& version);

  // What a get would show of an item that host memory has, without a value, and without being
  // counted as one. False: likewise, or there is none.
  bool look_at_once(uint32_t database, std::string_view key, uint64_t& version, int64_t& expiry);

  // Commands without one key. A flush is a batch of that row alone. Where there is a sink, what the
  // others show may be answered when a batch without rows that is started behind them has ended.
  std::optional<uint64_t> count(uint32_t database);
  void flush(uint32_t database);
  void flush_all();
  // Calls `work` at a moment at which no row runs; false where it was not called, or did not come
  // to its end, for want of memory.
  bool stand_still(const std::function<void()>& work);
  // Visits at least `count` live items (whole lines) from `cursor` on, in order of hash; returns
  // the cursor to go on from, 0 at the end. Items present from the first to the last call are
  // visited at least once, also while the index grows. Throws std::bad_alloc, and what `visit`
  // throws.
  uint64_t scan(uint32_t database, uint64_t cursor, uint64_t count,
                const std::function<void(const ScanItem&)>& visit);

  // The reads from `first` to before `end`, of a batch that was not cleared yet, will run again
  // because nobody took their answers: until then they count as not run.
  void uncount_reads(const Batch& batch, Batch::Row first, Batch::Row end);

  // Gets that somebody else has answered from the store, for this worker: they count as its own.
  void count_reads(uint64_t hits, uint64_t misses);

  // How many bytes of long values all requests so far have copied to change them.
  uint64_t copied_bytes() const;

  // A bounded step of background work; true while more is waiting. Call it between batches and,
  // when idle, about ten times a second. Where the worker must not wait, the crew does it between
  // batches, and else when it is nudged.
  bool maintain(int64_t now_ms);
  bool maintain();
  // Such a step for many rows together, of batches that were cleared and had so many rows, and
  // bytes to write: for who has few at a time, since a step looks at the whole store.
  void maintain_behind(uint64_t rows, uint64_t bytes);
  void nudge();

 private:
  struct Impl;
  void flush(uint32_t first, uint32_t end);
  void give_indexes_back(int64_t now_ms);
  std::unique_ptr<Impl> impl_;
};

}  // namespace isotherm
