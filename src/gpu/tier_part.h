// TierPart: some rows of a call to a table that its device and the host share, and the buffers in
// which they are sorted by side.
//
// The device puts the rows in order of where they go (gpu/tier_route.h): its own first, then
// those of each list of the host. The host's are copied to pinned columns, in which they lie as
// they do on the device, answered there by others, and their replies copied back; then all replies
// go to the rows that asked. The steps of a part, one after another: begin, wait_counts, fetch,
// wait_fetched, return_replies; `settle` before it begins again.
//
// Memory, for parts of `rows` rows: 38 bytes of device memory each, 34 of pinned memory, and 40
// bytes a bin. Threads. One at a time; the device has been entered.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <new>
#include <span>
#include <vector>

#include "gpu/device_event.h"
#include "gpu/device_memory.h"
#include "gpu/device_stream.h"
#include "gpu/grid.h"
#include "gpu/pinned_block.h"
#include "gpu/request_columns.h"
#include "gpu/shard_kernels.h"
#include "gpu/tier_route.h"

namespace isotherm {

struct TierPartOptions {
  uint64_t seed = 0;
  uint32_t rows = 0;
  uint32_t lists = 1;    // of the host
  uint32_t sampled = 1;  // one row in so many is counted as a read of its bin
  int most_bits = 0;     // of bins
};

template <class Device>
class TierPart {
 public:
  using Stream = typename Device::Stream;
  static constexpr uint32_t most_lists = ShardLayout::most_shards - 1;

  // Of device memory.
  static uint64_t bytes(const Device& device, const TierPartOptions& options) {
    const uint64_t counters = uint64_t{shards(options)} * warps(device, options) + options.rows;
    return aligned_rows(options) * RequestColumns::row_bytes + counters * sizeof(uint32_t) +
           bins(options) * bin_bytes;
  }

  // Throws std::bad_alloc.
  TierPart(DeviceMemory<Device>& memory, const TierPartOptions& options)
      : options_(options),
        device_(memory.device()),
        rows_(aligned_rows(options)),
        columns_(memory, rows_ * RequestColumns::row_bytes),
        places_(memory, options.rows),
        counts_(memory, uint64_t{shards(options)} * warps(device_, options)),
        bins_(memory, bins(options)),
        reads_(memory, bins(options)),
        pinned_columns_(device_, rows_ * RequestColumns::row_bytes),
        pinned_bins_(device_, bins(options) * bin_bytes),
        stretches_(device_, ShardLayout::most_shards * sizeof(ShardStretch)),
        stream_(device_),
        counted_(device_),
        fetched_(device_) {
    if (columns_.empty() || places_.empty() || counts_.empty() || bins_.empty() || reads_.empty()) {
      throw std::bad_alloc();
    }
    // Replies are copied whole, with the values of misses, which nobody writes.
    std::memset(pinned_columns_.data(), 0, pinned_columns_.bytes());
    require_device(
        device_.clear(stream(), columns_.data(), columns_.bytes()) && device_.synchronize(stream()),
        "clear columns");
  }
  ~TierPart() { settle(); }
  TierPart(const TierPart&) = delete;
  TierPart& operator=(const TierPart&) = delete;

  Stream stream() const { return stream_.get(); }
  uint64_t pinned_bytes() const { return pinned_columns_.bytes() + pinned_bins_.bytes(); }

  // At most as many requests as there is room for, and at least one. `bins` are 2^bits.
  void begin(const DeviceRequests& requests, std::span<const SharedBin> bins, int bits) {
    requests_ = requests;
    bits_ = bits;
    std::copy(bins.begin(), bins.end(), reinterpret_cast<SharedBin*>(pinned_bins_.data()));
    require_device(device_.to_device(stream(), bins_.data(), pinned_bins_.data(),
                                     bins.size() * sizeof(SharedBin)) &&
                       device_.clear(stream(), reads_.data(), bins.size() * sizeof(uint32_t)),
                   "copy bins");
    ShardSplit<TierRoute> split;
    split.route = {options_.seed, shards(options_), bits,
                   bins_.data(),  reads_.data(),    options_.sampled};
    split.rows = static_cast<uint32_t>(requests.rows);
    split.warps = warps(device_, options_);
    split.keys = requests.keys;
    split.counts = counts_.data();
    const uint32_t blocks = split.warps / (ShardLayout::threads / 32);
    launch(blocks, ShardLayout::threads, CountShardsKernel<TierRoute>{split});
    launch(1, BeginShardsKernel<TierRoute>::threads,
           BeginShardsKernel<TierRoute>{split, stretches()});
    require_device(
        device_.to_host(stream(), pinned_reads(), reads_.data(), bins.size() * sizeof(uint32_t)) &&
            device_.record(counted_.get(), stream()),
        "count rows");
    launch(blocks, ShardLayout::threads,
           SplitRowsKernel<TierRoute>{split, requests, at_device(), places_.data()});
  }

  void wait_counts() {
    require_device(device_.synchronize(counted_.get()), "wait for the counts of a part");
  }
  // Of each bin, among the rows that were looked at.
  std::span<const uint32_t> reads() const { return {pinned_reads(), size_t{1} << bits_}; }
  uint64_t device_rows() const { return stretches()[0].rows; }
  uint64_t host_rows() const { return requests_.rows - device_rows(); }
  DeviceRequests device_requests() const {
    return at_device().requests(requests_, stretches()[0].begin, device_rows());
  }

  // Copies the host's rows to the lists, which are complete when `wait_fetched` returns.
  void fetch() {
    const uint64_t first = first_of_host(), rows = end_of_host() - first;
    const DeviceRequests to = at_host().requests(requests_, first, rows);
    const DeviceRequests from = at_device().requests(requests_, first, rows);
    each_request_column(to, from, [&](void* into, const void* column, uint64_t bytes) {
      require_device(device_.to_host(stream(), into, column, bytes), "copy requests to the host");
    });
    require_device(device_.record(fetched_.get(), stream()), "record an event");
  }
  void wait_fetched() { require_device(device_.synchronize(fetched_.get()), "wait for requests"); }
  // What the host has to answer.
  std::span<const DeviceRequests> lists() {
    lists_.clear();
    for (uint32_t i = 1; i < shards(options_); ++i) {
      lists_.push_back(at_host().requests(requests_, stretches()[i].begin, stretches()[i].rows));
    }
    return lists_;
  }

  // Behind all replies, those of the device in the order of the stream.
  void return_replies() {
    if (requests_.found == nullptr) return;
    if (const uint64_t first = first_of_host(), rows = end_of_host() - first; rows != 0) {
      require_device(device_.to_device(stream(), at_device().values_out() + first,
                                       at_host().values_out() + first, rows * sizeof(uint64_t)) &&
                         device_.to_device(stream(), at_device().found() + first,
                                           at_host().found() + first, rows),
                     "copy replies to the device");
    }
    launch(grid_for(device_, requests_.rows, ShardLayout::threads), ShardLayout::threads,
           ReturnRepliesKernel{places_.data(), at_device().values_out(), at_device().found(),
                               requests_});
  }

  // Waits for all that is queued; of a lost device for nothing.
  void settle() { device_.synchronize(stream()); }

 private:
  static constexpr uint64_t bin_bytes = sizeof(SharedBin) + sizeof(uint32_t);

  static uint32_t shards(const TierPartOptions& options) { return options.lists + 1; }
  static uint64_t bins(const TierPartOptions& options) { return uint64_t{1} << options.most_bits; }
  static uint64_t aligned_rows(const TierPartOptions& options) {
    return options.rows + uint64_t{shards(options)} * ShardLayout::alignment;
  }
  // Few, since one block adds up what they count.
  static uint32_t warps(const Device& device, const TierPartOptions& options) {
    const uint32_t blocks = std::min(device.full_grid() / 16, options.rows / ShardLayout::threads);
    return std::max(blocks, 1u) * (ShardLayout::threads / 32);
  }

  RequestColumns at_device() const { return {columns_.data(), rows_}; }
  RequestColumns at_host() const { return {pinned_columns_.data(), rows_}; }
  ShardStretch* stretches() const { return reinterpret_cast<ShardStretch*>(stretches_.data()); }
  uint32_t* pinned_reads() const {
    return reinterpret_cast<uint32_t*>(pinned_bins_.data() + bins(options_) * sizeof(SharedBin));
  }
  uint64_t first_of_host() const { return stretches()[1].begin; }
  uint64_t end_of_host() const {
    const ShardStretch& last = stretches()[options_.lists];
    return uint64_t{last.begin} + last.rows;
  }

  template <class Kernel>
  void launch(uint32_t blocks, uint32_t threads, const Kernel& kernel) {
    require_device(device_.launch(stream(), blocks, threads, kernel), "launch a part's kernel");
  }

  const TierPartOptions options_;
  Device& device_;
  const uint64_t rows_;
  DeviceArray<Device, char> columns_;
  DeviceArray<Device, uint32_t> places_;
  DeviceArray<Device, uint32_t> counts_;
  DeviceArray<Device, SharedBin> bins_;
  DeviceArray<Device, uint32_t> reads_;
  PinnedBlock<Device> pinned_columns_;
  PinnedBlock<Device> pinned_bins_;  // and what was counted of them
  PinnedBlock<Device> stretches_;
  DeviceStream<Device> stream_;
  DeviceEvent<Device> counted_;
  DeviceEvent<Device> fetched_;
  DeviceRequests requests_;
  int bits_ = 0;
  std::vector<DeviceRequests> lists_;
};

}  // namespace isotherm
