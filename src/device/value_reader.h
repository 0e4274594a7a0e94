// ValueReader: how a worker's requests read values that lie in device memory.
//
// A get that finds such an item is awaited: its reply has everything but the value, and no status
// yet, so it is not ready, while all others of its batch are. When the batch's rounds have ended
// the worker fetches what is awaited, all at once (`finish`). A request that must know the old
// value to make the new one (append, for example) fetches it on the spot (`whole`), which takes as
// long as a launch; such requests on cold values are rare.
//
// Memory. What was fetched is kept until `clear`, with the batch's replies; it counts as buffers in
// `maxmemory`. Beyond most_bytes requests are answered out_of_memory.
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
  Status status;    // when the value is there
  bool found_only;  // without the value it is a miss; else the request has done what it did
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
  char* room(uint64_t bytes);
  void free_chunks(size_t kept);
  void lose_all();

  DeviceValues& values_;
  MemoryBudget& budget_;
  const std::unique_ptr<ValueTransfer> transfer_;
  struct Chunk {
    std::unique_ptr<char[]> memory;
    uint64_t bytes;
  };
  bool failed_ = false;

  std::mutex mutex_;  // all below, while others await
  std::vector<AwaitedValue> awaited_;
  std::vector<Location> wanted_;
  std::vector<Chunk> chunks_;
  uint64_t chunk_used_ = 0;  // of the last
  uint64_t held_bytes_ = 0;  // of all
};

}  // namespace isotherm
