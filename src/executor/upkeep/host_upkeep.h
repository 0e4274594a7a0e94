// HostUpkeep: the background work of a host store, in bounded steps between batches.
//
//   grow      moves lines of segments that split or are joined, in proportion to the writes and to
//             what was erased here
//   evict     at the cap, frees room ahead of need by the eviction policy
//   values    sends cold values to devices that have memory for them, at the cap before anything is
//             evicted, and keeps that memory in order (executor/upkeep/value_moves.h)
//   expire    erases items whose time has come
//   compact   empties sparse chunks, so that a size class which shrank gives its memory back
//   drain     takes flushed indexes apart
// Every worker calls it between its batches; where the work is one thread's at a time, the others
// pass by. What grows, expires and is drained in a step is in proportion to the rows before it, so
// that it does not pile up behind long batches.
//
// Everything here removes or moves an item as "swap if the location is still this one"
// (executor/host/member_swap.h), so it never loses a write that came in between. Where the index is
// on a device, a sweep collects what it finds and goes to the device once.
//
// Keys that a group has (executor/key_gate.h) keep their items where they are: whoever wants to
// move or remove an item works, in the sense of items/epoch.h, from before it asks the gate until
// it has done so.
//
// Room. What can still be stored: the rest of the budget, free items of all classes, and what
// waits for readers. Eviction keeps a reserve of room, so a batch of writes finds its memory ready.
// It frees as many bytes as are missing, whatever the items' sizes, and little more. A batch that
// finds no room waits while that is made for it: a writer that outruns eviction, or whose sizes
// leave memory in the wrong classes, is slowed down rather than refused. Large values and objects,
// whose memory comes beside all chunks, wait for that of those that were evicted or replaced, too,
// but not twice for the same reader.
//
// Threads. One object a worker, used outside of epochs; it enters them itself.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "executor/batch_bytes.h"
#include "executor/device/device_executor.h"
#include "executor/host/host_executor.h"
#include "executor/host/member_swap.h"
#include "executor/upkeep/value_moves.h"
#include "index/growth_share.h"

namespace isotherm {

class HostUpkeep {
 public:
  // `device`: the executor that has the index, and this worker's place in its rounds; null where
  // the host has it. `reader`: where values lie on devices, too, this worker's.
  HostUpkeep(HostExecutor& executor, EpochDomain::Slot& slot, DeviceExecutor* device = nullptr,
             DeviceExecutor::Participant* participant = nullptr, ValueReader* reader = nullptr)
      : executor_(executor),
        store_(executor.store()),
        slot_(&slot),
        device_(device),
        participant_(participant) {
    if (reader != nullptr) values_.emplace(executor, *store_.values, *reader);
  }

  // Before a batch that needs so much: false when that cannot be had, so rows that need memory have
  // to be refused. The budget admits it for `admitted` bytes, which the caller dismisses behind it.
  bool make_room(const BatchBytes& needed, int64_t now_ms, int64_t& admitted);
  // Whether it is there already.
  bool has_room(const BatchBytes& needed) const;

  // One bounded step after a batch with `writes` rows that may write; true while more waits.
  bool step(uint64_t writes, int64_t now_ms);
  // The same in another slot, while a batch of this worker is in the usual one.
  bool step_in(EpochDomain::Slot& slot, uint64_t writes, int64_t now_ms);
  // Before the thread sleeps: what it has retired does not wait for it where memory is short.
  void rest();
  // In the middle of a long batch, behind so many of its rows and within its epoch, so that the
  // index keeps up with it.
  void keep_up(uint64_t rows);

 private:
  bool outruns_readers(const BatchBytes& needed) const;
  bool keep_reserve(int64_t reserve, int64_t now_ms);
  bool grow(uint64_t changes);
  bool pay(LineIndex& index);
  bool drain();
  bool drain_share(uint64_t share);
  bool expire(uint64_t sweeps, int64_t now_ms);
  // Sends values away or evicts until there is that much room, in at most so many sweeps; whether
  // it got there.
  bool evict_to(int64_t wanted, uint32_t sweeps, int64_t now_ms);
  bool help_evict(int64_t wanted, int64_t now_ms);
  bool sends_values() const;
  // off: there is nowhere to send to; busy: another thread is at it.
  enum class Sent : uint8_t { off, none, some, busy };
  Sent send_values(int64_t bytes, int64_t now_ms);
  bool tend_values(int64_t now_ms);
  bool sends_now();
  template <class Step>
  size_t move_values(int64_t now_ms, Step&& step);
  void evict_some(int64_t bytes, int64_t now_ms);
  void evict_coldest(int64_t bytes, bool volatile_only, int64_t now_ms);
  int64_t evicted_bytes(Location location) const;
  void prefetch_line(Location location) const;
  Location find_soonest();
  void compact(int64_t now_ms);

  // Bytes of room as above; negative over the cap.
  int64_t room() const;
  bool over_cap() const;
  // Whether the policy may have something to evict, or room comes by itself, of files that are
  // being written or of flushed indexes, and that would help: buffers that are above the cap alone
  // stay above it.
  bool evictable() const;
  bool has_keys() const;

  bool on_device() const { return device_ != nullptr && device_->active(); }
  bool erase_if_still(Location location, MoveReason reason, int64_t now_ms);
  bool move_if_still(Location from, int64_t now_ms);
  // Does the move, or puts it off until `make_moves` where the index is on a device.
  bool swap(ItemMove move, int64_t now_ms);
  bool swap_on_host(const ItemMove& move, int64_t now_ms);
  bool is_held(const ItemMove& move) const;
  void leave_held();
  size_t make_moves(int64_t now_ms);
  void book(const ItemMove& move);
  void count_value_move(const ItemMove& move);

  HostExecutor& executor_;
  HostStore& store_;
  EpochDomain::Slot* slot_;
  DeviceExecutor* const device_;
  DeviceExecutor::Participant* const participant_;
  std::vector<ItemMove> moves_;    // put off
  std::vector<Location> drained_;  // roots of some lines of a flushed index
  std::optional<ValueMoves> values_;
  uint32_t steps_ = 0;       // since values were brought back
  bool sent_ = false;        // some values, in this step
  uint32_t vain_sends_ = 0;  // that were left out, where there is nothing to send
  static constexpr int64_t no_height = std::numeric_limits<int64_t>::min();
  int64_t vain_height_ = no_height;  // at which the last wait for room was given up
  uint64_t batches_seen_ = 0;
  GrowthShare growth_;
  size_t next_database_ = 0;  // to grow
  uint64_t erased_ = 0;       // items, since the last step of growth
};

}  // namespace isotherm
