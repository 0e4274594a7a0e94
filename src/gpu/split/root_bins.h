// RootBins: which hashes a device has and which the host, for an index that both share.
//
// The hash space is cut into 2^bits bins, runs of neighbouring lines of the index. A bin is the
// device's or the host's, or moves from one to the other from below: hashes under its `boundary`
// are where it goes to. At most one bin moves each way. Bins that are read much should be the
// device's: reads are counted for a sample of requests.
//
// Threads. on_host and count_read: any, while nobody changes bins; the others: one.
// Sources. KVCG, section 3 (bins and their histogram), for the line between GPU and host.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <vector>

#include "index/hash_bin.h"

namespace isotherm {

class RootBins {
 public:
  enum class Side : uint8_t { device, host };

  // All bins are the device's.
  explicit RootBins(int bits)
      : bits_(bits), bins_(size_t{1} << bits), reads_(bins_.size()), device_(bins_.size()) {}

  bool on_host(uint64_t hash) const { return bins_[bin_number(hash, bits_)].on_host(hash); }
  void count_read(uint64_t hash) {
    std::atomic_ref<uint32_t>(reads_[bin_number(hash, bits_)])
        .fetch_add(1, std::memory_order_relaxed);
  }

  // Reads that were counted elsewhere.
  void add_reads(uint64_t number, uint32_t reads) { reads_[number] += reads; }

  int bits() const { return bits_; }
  const std::vector<SharedBin>& bins() const { return bins_; }
  // Bins that are the device's, or on their way from it.
  uint64_t of_device() const { return device_; }

  // The first hash from `hash` on that lies on the device; none where the host has all of those.
  std::optional<uint64_t> next_of_device(uint64_t hash) const {
    for (uint64_t number = bin_number(hash, bits_); number < bins_.size(); ++number) {
      const HashBin bin{number, bits_};
      const uint64_t from = std::max(hash, bin.first());
      if (!bins_[number].on_host(from)) return from;
      // Of a bin that leaves the device, the upper part is still there.
      const uint64_t rest = bins_[number].boundary;
      if (rest > from && rest - 1 < bin.end() - 1 && !bins_[number].on_host(rest)) return rest;
    }
    return std::nullopt;
  }

  // The bin of the device that was read least, or of one side that was read most.
  std::optional<uint64_t> coldest_of_device() const { return extreme(true, false); }
  std::optional<uint64_t> hottest_of(Side where) const {
    return extreme(where == Side::device, true);
  }
  uint32_t reads(uint64_t number) const { return reads_[number]; }
  // Counted reads of all bins.
  uint64_t all_reads() const { return std::accumulate(reads_.begin(), reads_.end(), uint64_t{0}); }
  // Reads count half from now on.
  void age_reads() {
    for (uint32_t& reads : reads_) reads /= 2;
  }

  // Begins to move a bin from where it is to the other side; none may be on its way there.
  void move(uint64_t number) { moving_[side(bins_[number])] = number; }
  bool moves(Side to) const { return moving_[static_cast<size_t>(to)].has_value(); }
  HashBin moving(Side to) const { return {*moving_[static_cast<size_t>(to)], bits_}; }
  // How far it has moved: the first hash that has not.
  uint64_t boundary(Side to) const {
    const HashBin bin = moving(to);
    return std::max(bins_[bin.number].boundary, bin.first());
  }
  void set_boundary(Side to, uint64_t hash) { bins_[moving(to).number].boundary = hash; }
  // The bin that moves there has arrived.
  void arrive(Side to) {
    SharedBin& bin = bins_[moving(to).number];
    moving_[side(bin)].reset();
    bin.boundary = 0;
    bin.to_host = !bin.to_host;
    device_ += to == Side::device ? 1 : uint64_t{0} - 1;
  }

  // Halves all bins; none moves.
  void refine() {
    std::vector<SharedBin> bins(bins_.size() * 2);
    std::vector<uint32_t> reads(bins.size());
    for (size_t i = 0; i < bins.size(); ++i) {
      bins[i] = bins_[i / 2];
      reads[i] = reads_[i / 2] / 2;
    }
    bins_.swap(bins);
    reads_.swap(reads);
    device_ *= 2;
    ++bits_;
  }

 private:
  static size_t side(const SharedBin& bin) {
    return static_cast<size_t>(bin.to_host ? Side::host : Side::device);
  }
  std::optional<uint64_t> extreme(bool on_device, bool most) const {
    std::optional<uint64_t> best;
    for (uint64_t i = 0; i < bins_.size(); ++i) {
      if (bins_[i].to_host != on_device || moving_[side(bins_[i])] == i) continue;
      if (!best || (most ? reads_[i] > reads_[*best] : reads_[i] < reads_[*best])) {
        best = i;
      }
    }
    return best;
  }

  int bits_;
  std::vector<SharedBin> bins_;
  // Apart, since many threads count while all look at the bins.
  std::vector<uint32_t> reads_;
  uint64_t device_;
  std::optional<uint64_t> moving_[2];  // to each side
};

}  // namespace isotherm
