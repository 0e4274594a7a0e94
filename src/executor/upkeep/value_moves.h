// ValueMoves: the background work on values that lie in device memory
// (executor/values/device_values.h), in bounded steps.
//
//   send      values that nobody read since the CLOCK last passed go to a device
//   bring     values that were read again come back
//   clean     values of a sparse segment of the log go to its head, so that the segment comes free
// Each makes copies of some items, with or without their values, and the bytes of these values have
// arrived when the function returns. The caller then swaps the copies into the index ("swap if the
// location is still this one"), or drops them (executor/host/member_swap.h).
//
// Which values. Those of at least Options::gpu_values_from bytes that fit a segment, if their item
// becomes smaller without the value. All other values stay on the host.
//
// Errors. DeviceError when the device fails, std::bad_alloc; the copies are then dropped.
// Threads. One object a worker; within the epoch in which the copies are swapped.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/host/host_executor.h"
#include "executor/host/member_swap.h"
#include "executor/values/device_values.h"
#include "executor/values/value_reader.h"

namespace isotherm {

class ValueMoves {
 public:
  // All must outlive it.
  ValueMoves(HostExecutor& executor, DeviceValues& values, ValueReader& reader)
      : executor_(executor), store_(executor.store()), values_(values), reader_(reader) {}

  // Append their moves. `send` takes values of about so many bytes.
  void send(std::vector<ItemMove>& moves, uint64_t bytes, int64_t now_ms, SendFound& found);
  // What was read again; as long as `room` bytes are left for it.
  void bring(std::vector<ItemMove>& moves, int64_t room);
  size_t wanted() const { return reader_.wanted(); }
  void clean(std::vector<ItemMove>& moves);

 private:
  SendFound find(uint64_t bytes, int64_t now_ms);
  bool may_go(const Item& item, int64_t now_ms) const;
  bool is_at(Location location, ValuePlace place) const;
  // The copy whose value will lie on a device, at `to`; null without room there, or without memory,
  // where `to` is none.
  Item* make_away(const Item& item, Location& to, ValueLog::For purpose);
  template <class Make>
  void guarded(std::vector<ItemMove>& moves, Make&& make);

  HostExecutor& executor_;
  HostStore& store_;
  DeviceValues& values_;
  ValueReader& reader_;
  std::vector<Location> found_;
};

}  // namespace isotherm
