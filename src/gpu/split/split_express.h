// SplitExpress: few requests by express (gpu/express/express.h) to a table that lies on several
// GPUs.
//
// Each request goes to the GPU that has its key, in pinned columns of that GPU, and its reply back
// to the caller's row. What a GPU does not take by express (it is busy, or a key comes twice beside
// writes) it answers by kernels that are launched; the first GPU with rows may still refuse them
// all. A key's requests are all on one GPU, so they keep their order.
//
// Memory. 34 bytes of pinned memory for each row that goes by express, on each GPU. Threads. One at
// a time.
#pragma once

#include <cstdint>
#include <deque>
#include <utility>
#include <vector>

#include "gpu/kernel/request_columns.h"
#include "gpu/platform/device_event.h"
#include "gpu/platform/device_stream.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/split/shard_kernels.h"
#include "gpu/split/split_gpu.h"

namespace isotherm {

template <class Device>
class SplitExpress {
 public:
  // Throws std::bad_alloc.
  SplitExpress(const SplitGpus<Device>& gpus, uint64_t seed)
      : seed_(seed), most_rows_(gpus.front()->table.most_express()) {
    for (const auto& gpu : gpus) {
      gpu->enter();
      gpu->table.reserve_workspace(static_cast<uint32_t>(most_rows_));
      sides_.emplace_back(*gpu, most_rows_);
    }
  }
  ~SplitExpress() {
    for (Side& side : sides_) side.gpu.device.synchronize(side.stream.get());
  }
  SplitExpress(const SplitExpress&) = delete;
  SplitExpress& operator=(const SplitExpress&) = delete;

  // False where the requests have to go another way; nothing is done then. `requests` and its
  // columns, in host memory, stay as they are until `take`.
  bool post(const TableRequests& requests) {
    take();
    if (requests.rows == 0 || requests.rows > most_rows_) return false;
    spread(requests);
    bool any = false;
    for (Side& side : sides_) {
      if (side.rows == 0) continue;
      side.gpu.enter();
      const TableRequests its = side.columns().requests(requests, 0, side.rows);
      side.posted = side.gpu.table.post(its);
      if (!side.posted && !any) return false;
      any = true;
      if (side.posted) continue;
      side.gpu.table.run(its, side.stream.get());
      require_device(side.gpu.device.record(side.ended.get(), side.stream.get()),
                     "record an event");
    }
    requests_ = requests;
    return true;
  }
  // Whether `take` would return at once, or throw.
  bool ready() {
    for (Side& side : sides_) {
      if (requests_.rows == 0 || side.rows == 0) continue;
      side.gpu.enter();
      const bool ready = side.posted ? side.gpu.table.ready()
                                     : side.gpu.device.done(side.ended.get()) ||
                                           !side.gpu.device.healthy(side.stream.get());
      if (!ready) return false;
    }
    return true;
  }
  void take() {
    const TableRequests requests = std::exchange(requests_, {});
    if (requests.rows == 0) return;
    for (Side& side : sides_) {
      if (side.rows == 0) continue;
      side.gpu.enter();
      if (side.posted) {
        side.gpu.table.take();
      } else {
        require_device(side.gpu.device.synchronize(side.stream.get()), "wait for a few requests");
      }
    }
    if (requests.found == nullptr) return;
    for (uint64_t row = 0; row < requests.rows; ++row) {
      const auto [number, at] = places_[row];
      const RequestColumns columns = sides_[number].columns();
      requests.found[row] = columns.found()[at];
      if (requests.found[row] == 1) requests.values_out[row] = columns.values_out()[at];
    }
  }
  // What is under way is given up.
  void forget() { requests_ = {}; }

 private:
  struct Side {
    Side(SplitGpu<Device>& its_gpu, uint64_t most_rows)
        : gpu(its_gpu),
          room(most_rows),
          memory(gpu.device, most_rows * RequestColumns::row_bytes),
          stream(gpu.device),
          ended(gpu.device) {}

    RequestColumns columns() const { return {memory.data(), room}; }

    SplitGpu<Device>& gpu;
    const uint64_t room;
    PinnedBlock<Device> memory;
    DeviceStream<Device> stream;
    DeviceEvent<Device> ended;
    uint64_t rows = 0;
    bool posted = false;  // else its rows go by the stream
  };

  void spread(const TableRequests& requests) {
    places_.clear();
    for (Side& side : sides_) side.rows = 0;
    for (uint64_t row = 0; row < requests.rows; ++row) {
      const uint32_t number =
          shard_of(requests.keys[row], seed_, static_cast<uint32_t>(sides_.size()));
      const uint64_t at = sides_[number].rows++;
      places_.emplace_back(number, at);
      const RequestColumns to = sides_[number].columns();
      to.keys()[at] = requests.keys[row];
      if (requests.values != nullptr) to.values()[at] = requests.values[row];
      if (requests.expected != nullptr) to.expected()[at] = requests.expected[row];
      if (requests.ops != nullptr) to.ops()[at] = requests.ops[row];
    }
  }

  const uint64_t seed_;
  const uint64_t most_rows_;
  std::deque<Side> sides_;
  std::vector<std::pair<uint32_t, uint64_t>> places_;  // of each row: a GPU, and its row there
  TableRequests requests_;                             // no rows: none are under way
};

}  // namespace isotherm
