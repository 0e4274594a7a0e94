// ValueReader: how a worker's requests read values that lie in device memory.
//
// A get that finds such an item is awaited: its reply has everything but the value, and no status
// yet, so it is not ready, while all others of its batch are. When the batch's rounds have ended
// the worker fetches what is awaited, all at once (`finish`). A request that must know the old
// value to make the new one (append, for example) fetches it on the spot (`whole`), which takes as
// long as a launch; such requests on cold values are rare.
//
// Memory. What was fetched is kept until `clear`, with the batch's replies. It lies in pinned
// memory, into which the kernels write and which the reader keeps for the next batch; what a batch
// needs beyond a share of the cap, and beyond 32 MiB, lies in other memory, which goes by a lane's
// window and is freed. All of it counts as buffers in `maxmemory`. Beyond most_bytes requests are
// answered out_of_memory.
//
// Failure. A value that could not be fetched is a miss; `failed` says that there were some.
//
// Threads. `await` and `whole`: any; all else is the owner's, while nobody else uses it.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

#include "device/device_values.h"
#include "isotherm/batch.h"
#include "items/item.h"

namespace isotherm {

// A reply that waits for its value.
struct AwaitedValue {
  Reply* reply;
  ValuePlace place;
  Status status;   // when the value is there
  Status if_lost;  // when it cannot be had any more
};

class ValueReader {
 public:
  static constexpr uint64_t most_bytes = uint64_t{1} << 30;

  // `values` and the budget must outlive it. Throws as DeviceValues::make_transfer.
  ValueReader(DeviceValues& values, MemoryBudget& budget);
  ~ValueReader();
  ValueReader(const ValueReader&) = delete;
  ValueReader& operator=(const ValueReader&) = delete;

  // Takes all of `awaited`, and empties it. Replies have their sizes.
  void await(std::vector<AwaitedValue>& awaited);
  // A copy of an item that is away, with its value; null where that cannot be had.
  Item* whole(const Item& item);

  void finish();
  void clear();
  bool failed() const { return failed_; }

  // Items whose values were read again and may come back, until the next clear_wanted.
  const std::vector<Location>& wanted() const { return wanted_; }
  void clear_wanted() { wanted_.clear(); }
  // An item that was used before is read, by the owner of its row or for it.
  void want(Location location);

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
  void drop_last_chunk();
  void lose_all();

  DeviceValues& values_;
  MemoryBudget& budget_;
  const std::unique_ptr<ValueTransfer> transfer_;
  const uint64_t most_pinned_;
  bool failed_ = false;

  std::mutex mutex_;  // all below, while others await
  std::vector<AwaitedValue> awaited_;
  std::vector<Location> wanted_;
  std::vector<Chunk> chunks_;  // pinned ones first
  size_t chunk_ = 0;           // that is being filled
  uint64_t chunk_used_ = 0;    // of it
  uint64_t held_bytes_ = 0;    // of all
};

}  // namespace isotherm
