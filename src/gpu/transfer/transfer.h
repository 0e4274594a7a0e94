// Transfer: the ways of arrays in host memory to a table on one device.
//
// Gets from and to pinned memory are copied over the bus in both directions at once
// (gpu/transfer/awaited_gets.h; gpu/transfer/pinned_gets.h in the order of a stream); everything
// else goes through pinned buffers (gpu/transfer/host_pipeline.h). Each way is made when first
// needed; where there is no memory for its channels, which a table that may fill the device leaves
// nobody, a slower one is taken.
//
// Threads. Any; one mutex, while the table may be used beside it.
#pragma once

#include <mutex>
#include <optional>

#include "base/lazily_made.h"
#include "gpu/transfer/awaited_gets.h"
#include "gpu/transfer/host_pipeline.h"
#include "gpu/transfer/pinned_gets.h"

namespace isotherm {

template <class Device, class Table>
class Transfer {
 public:
  using Stream = typename Device::Stream;

  // The device has been entered. These return when the replies are there.
  void run(Device& device, Table& table, const TableRequests& requests) {
    const std::lock_guard guard(mutex_);
    if (is_pinned_gets(device, requests)) {
      if (auto* gets = made(awaited_, device, table)) return gets->run(requests);
    }
    run_pipeline(device, table, requests);
  }
  void get_pinned(Device& device, Table& table, const TableRequests& requests) {
    const std::lock_guard guard(mutex_);
    if (auto* gets = made(awaited_, device, table)) return gets->run(requests);
    run_pipeline(device, table, requests);
  }
  // In the order of the stream.
  void get_pinned(Device& device, Table& table, const TableRequests& requests, Stream stream) {
    const std::lock_guard guard(mutex_);
    if (auto* gets = made(pinned_, device, table)) return gets->run(requests, stream);
    table.run(requests, stream);
  }

  void reset() {
    awaited_.reset();
    pinned_.reset();
    pipeline_.reset();
  }

 private:
  static bool is_pinned_gets(Device& device, const TableRequests& requests) {
    const uint64_t words = requests.rows * sizeof(uint64_t);
    return is_gets(requests) && device.is_pinned(requests.keys, words) &&
           device.is_pinned(requests.values_out, words) &&
           device.is_pinned(requests.found, requests.rows);
  }
  void run_pipeline(Device& device, Table& table, const TableRequests& requests) {
    if (!pipeline_) pipeline_.emplace(device, table);
    pipeline_->run(requests);
  }
  template <class Gets>
  static Gets* made(LazilyMade<Gets>& gets, Device& device, Table& table) {
    return gets.get([&] { table.end_express(); }, device, table);
  }

  std::mutex mutex_;  // all below
  std::optional<HostPipeline<Device, Table>> pipeline_;
  LazilyMade<PinnedGets<Device, Table>> pinned_;
  LazilyMade<AwaitedGets<Device, Table>> awaited_;
};

}  // namespace isotherm
