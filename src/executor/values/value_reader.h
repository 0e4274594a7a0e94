// ValueReader: how a worker's requests read values that lie in device memory.
//
// A get that finds such an item has to wait: its reply has everything but the value and the status,
// so it is not ready, while the other replies of its batch are. When the batch's rounds have ended,
// all awaited values are fetched together: by the thread that runs the batch, or by threads of
// their own (`fetch_by`) where that thread must not wait. A request that must know the old value to
// make the new one (append, for example) is run again when that was fetched with the others
// (`whole`); or it fetches it on the spot, which takes as long as a launch.
//
// Memory. What was fetched is kept until `clear`, with the batch's replies. It lies in pinned
// memory, into which the kernels write and which the reader keeps for the next batch; what a batch
// needs beyond the shares of the cap that a reader and all of them have, and beyond 32 MiB, lies in
// other memory, which goes by a channel's window and is freed. All of it counts as buffers in
// `maxmemory`. A request that would need more than is left of most_bytes is answered out_of_memory
// before it does anything
// (`reserve`).
//
// Failure. If a device fails, gets whose values could not be fetched have to be looked up again, on
// the host (`take_lost`), since the key may have another value by then. Replies of other requests
// lack the value. `failed` says that a device failed here.
//
// Threads. `reserve`, `await` and `whole`: any; all else is the run's that has it, while nobody
// else uses it (executor/run/batch_run.h).
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <unordered_map>
#include <utility>
#include <vector>

#include "executor/awaited.h"
#include "executor/values/device_values.h"
#include "isotherm/batch.h"
#include "items/item.h"

namespace isotherm {

// A reply that waits for its value.
struct AwaitedValue {
  Reply* reply;
  ValuePlace place;
  Status status;   // when the value is there
  Status if_lost;  // when it cannot be had any more
  bool again;      // it was read before, since the CLOCK last passed
  bool get;        // of a row that changes nothing
};

class ValueFetchers;

class ValueReader final : public Awaited {
 public:
  static constexpr uint64_t most_bytes = uint64_t{1} << 30;

  // `values` and the budget must outlive it. Throws as DeviceValues::make_transfer.
  ValueReader(DeviceValues& values, MemoryBudget& budget);
  ~ValueReader();
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;

  // For a value of so many bytes, before its request does anything; false: beyond the limit.
  bool reserve(uint64_t bytes);
  // Takes all of `awaited`, and empties it. Replies have their sizes; all are reserved.
  void await(std::vector<AwaitedValue>& awaited);
  // A copy of an item that is away, with its value.
  struct Whole {
    const Item* item = nullptr;  // null: that is lost, or
    bool no_memory = false;
    bool awaited = false;  // `whole` has it when this has ended its waiting
  };
  // `later`: where the value was not fetched yet, it is awaited.
  Whole whole(const Item& item, bool later = false);

  bool awaits() const { return !awaited_.empty() || !places_.empty(); }
  // The threads that `begin` has fetch what is awaited; null: the thread that runs the batch calls
  // `finish` itself.
  void fetch_by(ValueFetchers* fetchers) { fetchers_ = fetchers; }
  void begin(Waiter& waiter) override;

  void finish();
  void clear();
  // Behind `clear`: also what it would keep for the next batch.
  void give_memory_back();
  // A device has failed it.
  bool failed() const { return failed_; }
  // Behind `finish`: replies of gets whose values are lost, which are not ready.
  bool has_lost() const { return !lost_.empty(); }
  std::vector<Reply*> take_lost() { return std::exchange(lost_, {}); }

  // What was read again and may come back: of this reader's batches, and of those whose values were
  // fetched by threads for that. So where nobody else fetches, a value that comes back is none that
  // another thread just reads, and misses because its device is lost.
  size_t wanted() const { return wanted_.size() + values_.wanted(); }
  std::vector<DeviceValues::Wanted> take_wanted();

  ValueTransfer& transfer() { return *transfer_; }

 private:
  // Memory for one value.
  struct Room {
    char* at = nullptr;  // null: none
    bool pinned = false;
  };
  struct Chunk {
    PinnedValues memory;
    uint64_t bytes;
    bool pinned;
  };

  Room room(uint64_t bytes);
  bool add_chunk(uint64_t bytes);
  bool may_pin(uint64_t bytes) const;
  void drop_last_chunk();
  void choose_wanted();
  void fetch_all();
  void finish_all(bool lost);

  DeviceValues& values_;
  MemoryBudget& budget_;
  const std::unique_ptr<ValueTransfer> transfer_;
  const uint64_t most_pinned_;
  const uint64_t first_chunk_;
  const int64_t transfer_bytes_;
  ValueFetchers* fetchers_ = nullptr;
  bool failed_ = false;
  std::vector<Reply*> lost_;

  std::mutex mutex_;  // all below, while others await
  std::vector<AwaitedValue> awaited_;
  std::vector<uint32_t> first_of_;
  std::unordered_map<ValuePlace, uint64_t> places_;      // of values that rows wait for; sizes
  std::unordered_map<ValuePlace, const char*> fetched_;  // for those; null: without memory
  std::vector<DeviceValues::Wanted> wanted_;
  size_t first_wanted_ = 0;
  std::vector<Chunk> chunks_;  // pinned ones first
  size_t chunk_ = 0;           // that is being filled
  uint64_t chunk_used_ = 0;    // of it
  uint64_t held_bytes_ = 0;    // of all
  std::atomic<uint64_t> reserved_{0};
};

}  // namespace isotherm
