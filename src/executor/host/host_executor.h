// HostExecutor: runs batches in the calling thread.
//
// A batch goes through three passes by a few rows in turn, each pass behind the one before, so that
// lines and items are fetched at an even pace. The first hashes the rows' keys and prefetches their
// home lines, the second finds their locations and prefetches the items, the third runs the
// requests in row order. The third pass does exactly what running the requests one by one would do:
// where a row wrote lately, rows behind it on its key look their locations up again; for all others
// those of the second pass serve.
//
// A read that finds its item expired erases it, for which it looks everything up anew; rows behind
// it that have found the item before see that it has expired, too.
//
// Writes follow one scheme (index/item_table.h): look, plan (items/change.h), prepare the new item,
// and one compare-and-swap of the root; lost: again. Reads of an item that has expired erase it,
// under the lock, so expiry is ordered with everything else on the key.
//
// Gets whose keys memory lacks are left until behind the passes, with the rows behind them on these
// keys, where the backing answers them directly, if it does that, and the thread may wait. Keys
// that are asked for again soon are brought into memory all the same, as long as it has room. Where
// memory misses many, they are not looked up there at all. Where the thread may not wait they are
// parked, and answered when the batch runs again.
//
// The passes are compiled per instruction set (host_stages_*.cc), with and without a table for hot
// keys (executor/host/hot_roots.h), and for indexes of a fixed size (executor/host/cache_roots.h),
// and chosen when an executor is made: a store pays nothing for what it does not use.
//
// Threads. One executor a thread; the thread has entered an epoch for the time of `run` and for as
// long as replies are read.
#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "base/counter.h"
#include "executor/backing.h"
#include "executor/commit_sink.h"
#include "executor/host/direct_rows.h"
#include "executor/host_store.h"
#include "executor/values/value_reader.h"
#include "hot/fast_use.h"
#include "index/item_table.h"
#include "isotherm/batch.h"
#include "items/change.h"
#include "router/bin_counts.h"

namespace isotherm {

class BatchRun;

class HostExecutor {
 public:
  // Of one size class.
  struct Gone {
    Counter expired, evicted;
    Counter volatile_evicted;  // of these: that would have expired
  };
  struct Counters {
    Counter batches, requests, hits, misses, expired, evicted, retries, changes;
    Counter index_evicted;  // of these: for want of room in an index of a fixed size
    std::array<Gone, size_classes::count + 1> gone;  // by ItemStore::class_number
    FastUse fast;                                    // where hot keys have a table of their own
  };

  // One run of a batch, as the passes see it.
  struct Run {
    HostExecutor& executor;
    Batch::Columns& columns;
    int64_t now_ms;
    uint64_t largest_item;  // that a row may store; 0: none
    bool reads_only;
    bool hashed = false;  // the column of hashes is filled
    // Whether puts of nothing but a key and a value may be done at once (bare_items.h): no value
    // lies on a device.
    bool puts_plainly = false;
    // Whether a read may erase the item it finds expired; else that is left to the sweep.
    bool erases_expired = true;
    uint64_t hits = 0;
    uint64_t misses = 0;
    uint64_t retries = 0;
    uint64_t expired = 0;
    uint64_t changes = 0;
    // The reader of the batch, where values may lie on devices, and the rows that wait for values.
    ValueReader* values = nullptr;
    std::vector<AwaitedValue> awaited = {};
    // Takes rows that must know a value which is away, for as long as it is; null: it is fetched on
    // the spot. The first of the columns' rows is this one of the batch.
    BatchRun* parking = nullptr;
    const Batch* batch = nullptr;
    Batch::Row first_row = 0;
    // The first row at which the run may stop, and the row at which it has: that found no memory.
    static constexpr Batch::Row nowhere = ~Batch::Row{0};
    Batch::Row stops_from = nowhere;
    Batch::Row stopped = nowhere;
    bool passes_some = false;  // over: rows behind that one, or behind those that are parked
    uint64_t token = 0;        // for whoever is told of changes (executor/commit_sink.h)
    // Takes gets that memory misses, for the backing to answer directly; null: they go on here.
    DirectRows* direct = nullptr;
    bool leaves_gets = false;  // all of them, to it
    // What the backing has of the only row, which is brought into memory or left alone, once.
    const Backing::Stored* known = nullptr;
    bool is_known_used = false;

    void count_expired(Location location) {
      ++expired;
      executor.counters_.gone[ItemStore::class_number(location)].expired.add();
    }

    // The reply shows the item but for its value, which is away and for which memory is reserved.
    void await(Reply& reply, const Item& item, Status status, Status if_lost, bool again = false,
               bool get = false);
    // The item with its value, for the row, which is parked where the value is not there yet.
    ValueReader::Whole whole(const Item& item, Batch::Row row) const;
    // Whether the row, which has found no memory, and all behind it are left to run again later.
    bool may_stop(Batch::Row row) const { return row >= stops_from; }
    bool stops(Batch::Row row) {
      if (!may_stop(row)) return false;
      stopped = row;
      return passes_some = true;
    }
    bool passes_over(Batch::Row row) const { return stopped != nowhere || parks_behind(row); }
    // Whether the row was parked, behind another one of its key.
    bool parks_behind(Batch::Row row) const;
    bool reserve(const Item& item) const;
    // The row is parked until what it waits for is there.
    void park(Batch::Row row, Awaited* what) const;
    // Whether there is a place at all for the item that the plan stores.
    ISOTHERM_INLINE bool takes(const Request& request, const Plan& plan) const {
      if (plan.parts.bytes() > largest_item) return false;
      return plan.parts.bytes() <= size_classes::largest || backing_takes(request, plan);
    }
    bool backing_takes(const Request& request, const Plan& plan) const;
    // Tells the sink what a request does to the item of its key; `fresh` and `call` as ItemChange
    // has them.
    void tell(const Request& request, uint64_t hash, Member old, int64_t old_expiry,
              const Item* fresh, int64_t expiry, uint64_t version,
              const ObjectCall* call = nullptr) const;
    // The same of what `plan` has stored, of which the sink may want to know the part alone.
    void tell_stored(const Request& request, uint64_t hash, Member old, int64_t old_expiry,
                     const Item* fresh, const Plan& plan, uint64_t version) const;
    // The value of an item that may change is looked at, until the batch is cleared.
    void share(Location location) const;
    // The same of one that a row wants a few bytes of: these are copied, and the value is not
    // looked at any more. False: they are too many.
    bool show_part(Batch::Row row, Member member) const;
    // What ChangedInPlace asks of a row, and of its plan: whether it may be done in its place, and
    // which part it is then. And does it, by whoever has the lease of the writer: `part` is told,
    // null where nobody is. Throws std::bad_alloc, and then nothing has changed.
    bool may_change_in_place(const Request& request) const;
    bool fits_in_place(const Request& request, const Item& old, const Plan& plan,
                       ChangedPart& part) const;
    void change_in_place(const Request& request, uint64_t hash, Member old, const Plan& plan,
                         const ChangedPart* part, uint64_t version) const;
    // Answers a get by a copy that its batch holds, where memory has no room for the item. False:
    // the batch holds none, or the item has to be there.
    bool show_held(Batch::Row row, const Backing::Stored& stored);
  };

  explicit HostExecutor(HostStore& store);

  // Answers the rows from `first` to before `end`. `writable` is false when the store is at its cap
  // and nothing could be evicted: rows that need memory are then answered out_of_memory.
  // `hashed`: the column of hashes is filled. Returns `end`, or the row at which it has stopped.
  Batch::Row run(Batch& batch, int64_t now_ms, bool writable, Batch::Row first, Batch::Row end,
                 bool hashed = false);
  // All rows.
  void run(Batch& batch, int64_t now_ms, bool writable) {
    run(batch, now_ms, writable, 0, batch.size());
  }
  // Rows whose gets have come (executor/backing.h); those that are left stay parked. Within an
  // epoch.
  void answer_coming(BatchRun& run);
  // Parks gets of whole views, which the backing answers while the thread goes on, each view as it
  // was at one moment. Those that it does not take go to `left`.
  void start_together(BatchRun& run, std::span<const Batch::Row> rows,
                      std::vector<Batch::Row>& left);
  // A get that needs no run: of a bare item (Item::is_bare) in host memory, which nobody has to be
  // told of. False: it has to run as a batch, and nothing was done.
  bool get_at_once(uint32_t database, std::string_view key, Reply& reply);
  // Adds what a run over `requests` rows has counted.
  void count(const Run& run, uint64_t requests);
  // The router learns from some of them, where there is one.
  void note_keys(std::span<const uint64_t> hashes);
  // Gets that were answered without it.
  void count_reads(uint64_t hits, uint64_t misses);
  // Takes back what it has counted of reads that were answered in vain and will run again.
  void uncount_reads(const Batch& batch, Batch::Row first, Batch::Row end);
  // Fills the column of hashes.
  void hash_keys(Batch::Columns& columns, Batch::Row from, Batch::Row to) const;

  // Sets the token of the batches that `run` gets from now on.
  void set_token(uint64_t token) { token_ = token; }
  // Takes their rows that wait for items which memory lacks; null: such rows wait on the spot.
  void set_parking(BatchRun* parking) { parking_ = parking; }
  // Keeps the values that may change (items/changing_item.h) and that the rows of the batches show;
  // null: these values change no more.
  void set_showing(BatchRun* showing) { showing_ = showing; }
  // From which row of a batch on `run` stops at one that finds no memory, so that it runs again
  // when there is some; rows before, or all, are answered out_of_memory.
  static constexpr Batch::Row never = Run::nowhere;
  void set_stops_from(Batch::Row row) { stops_from_ = row; }
  // The rows that `run` gets from now on are shown to the gate by `holder` and no more by `slot`,
  // which the thread has entered; null: the thread works (items/epoch.h) while it runs rows.
  void set_gated(EpochDomain::Slot* slot, const KeyGate::Holder* holder) {
    gated_ = {slot, holder};
  }
  struct Gated {
    EpochDomain::Slot* slot = nullptr;
    const KeyGate::Holder* holder = nullptr;
  };
  const Gated& gated() const { return gated_; }
  // Counts an item that is evicted, and books its end.
  void settle_evicted(Database& database, Member old);
  // Whether this thread may wait for a device, so gets may be answered by it directly
  // (executor/backing.h).
  void may_wait(bool waits) { waits_ = waits; }
  // Whether it waits for all that its rows wait for in any case, so that it may read them itself
  // where that is dear.
  void may_read(bool reads) { reads_ = reads; }

  HostStore& store() { return store_; }
  ItemStore::Cache& cache() { return cache_; }
  Counters& counters() { return counters_; }
  const Counters& counters() const { return counters_; }

  // Books what a swap of members did: the old item retires, and so does its value on a device, or
  // its object, unless `fresh` has the same; the database's count of expiries follows. Expiries are
  // those of the moment of the swap: others may change the fresh item's at once.
  void settle(Database& database, Member old, int64_t old_expiry, int64_t fresh_expiry,
              Member fresh = {});
  // A request has put `fresh`, for a key of this hash, in the place of `old`, which has not
  // retired, or of nothing: what the CLOCK knows of it. To write a key that is there is a use of
  // it.
  void begin_marks(uint64_t hash, Location old, Location fresh);
  // Whether a write may run over the cap; `over_cap`: also where the policy does not evict.
  ISOTHERM_INLINE bool runs_over(bool over_cap) const {
    return over_cap || store_.evicts || (store_.values != nullptr && sends_for_writers());
  }

 private:
  template <class Tile, class Roots>
  friend struct HostStages;
  template <class Tile, class Roots>
  friend struct RowAnswers;
  template <class Part>
  friend struct CacheRoots;
  template <class Tile>
  friend struct BareItems;

  using Stages = void (*)(Run& run, Batch::Row rows);
  static Stages choose_stages(const HostStore& store);

  // An item made ready for a swap; freed when the swap is lost.
  struct Prepared {
    Location location = location::none;
    Item* item = nullptr;
  };
  Prepared prepare_item(const Plan& plan, bool over_cap);
  uint64_t room_to_grow(const Plan& plan) const;
  Location allocate(const Plan& plan, bool over);
  Prepared take_over(const Plan& plan, bool over);
  bool sends_for_writers() const;
  void settle_object(const Item& old, const Item* fresh);
  // Of one that was not published.
  void drop_item(const Plan& plan, Location location);

  HostStore& store_;
  ItemStore::Cache cache_;
  Counters counters_;
  uint64_t token_ = 0;
  bool gets_directly() const;
  void run_directly(Run& run, Batch::Row rows);
  void get_directly(Run& run, bool skips);
  void start_directly(const Run& run, std::vector<Batch::Row>& left);
  void await(BatchRun& run, std::vector<std::unique_ptr<Backing::Coming>>& coming,
             Batch::Row first_row);
  void bring_in(const Run& run, std::span<const Backing::Hot> hot);
  bool bring_in(const Run& run, const Backing::Hot& hot);

  BatchRun* parking_ = nullptr;
  BatchRun* showing_ = nullptr;
  Batch::Row stops_from_ = never;
  Gated gated_;
  // Of the run in an index of a fixed size: the moment of its first row, and how many rows it has.
  uint64_t first_time_ = 0;
  Batch::Row rows_ = 0;
  bool waits_ = false;
  bool reads_ = false;
  DirectRows direct_;
  RequestSample sample_;
  const Stages stages_;
};

}  // namespace isotherm
