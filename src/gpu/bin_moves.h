// BinMoves: what of an index lies on one device and what on the host, and how bins of it
// (gpu/root_bins.h) go from one to the other.
//
// A bin leaves the device when it would have no room for two rounds more like the last, the one
// that is read least first. When enough reads were counted, the bin of the host that is read most
// takes the place of the one of the device that is read least, if it is read twice as much. A bin
// moves from below in steps of some thousand entries, one after a round. Only where changes find no
// room otherwise, one moves at once. A step for which there is no memory is undone, and tried again
// some rounds later.
//
// Whoever wants all bins on one side, or as many as find room there, says so step by step (`lean`):
// then those that are read most go first.
//
// Errors. DeviceError when the device fails, or is too small to be shared; std::bad_alloc without
// memory to work in, and then no entry has moved.
// Threads. One, in an epoch; on_host and count_read: any, while nobody is in the others.
// Sources. KVCG, sections 3 and 7 (bins), for the line between GPU and host.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "gpu/bin_tier.h"
#include "gpu/root_bins.h"

namespace isotherm {

class BinMoves {
 public:
  // Whether a hash is among those that this device and the host share.
  using Owns = std::function<bool(uint64_t hash)>;

  static constexpr uint64_t entries_at_once = 1 << 15;
  static constexpr int most_bits = 16;

  static constexpr int least_bits = 3;  // fewer bins are too coarse to share a full device by

  // All bins are the device's. Throws DeviceError where it has fewer than 2^bits_at_least.
  BinMoves(BinTier& tier, BinHost& host, uint64_t seed, Owns owns, int bits_at_most = most_bits,
           int bits_at_least = least_bits);
  static bool can_share(BinTier& tier);

  const RootBins& bins() const { return bins_; }
  bool on_host(uint64_t hash) const { return bins_.on_host(hash); }
  void count_read(uint64_t hash) { bins_.count_read(hash); }
  void add_reads(uint64_t bin, uint32_t reads) { bins_.add_reads(bin, reads); }

  // Moves a bin to the host at once, in steps of about `entries`; false where the device has none,
  // or the host no memory for all of it: some steps may have been made then, too.
  bool free_bin(uint64_t entries = entries_at_once);
  // A step, if there is one to be made, after a round with `rows` changes.
  void after_round(uint64_t rows);

  // A step of about so many entries towards having all bins on this side; what is on its way to
  // the other one arrives there first. False where nothing is left to be moved, or found no room.
  bool lean(RootBins::Side side, uint64_t entries);

  // Entries that the host has and the device, too, until their bin has left it.
  uint64_t on_both_sides() const { return on_both_sides_; }
  uint64_t to_host() const { return to_host_; }
  uint64_t to_device() const { return to_device_; }

 private:
  using Side = RootBins::Side;

  bool begin_to_free();
  void refine();
  bool move_out(uint64_t entries);
  void finish_out(const HashBin& bin);
  bool move_in(uint64_t entries);
  void look_for_moves();
  bool begin_to_lean(Side side);

  BinTier& tier_;
  BinHost& host_;
  const uint64_t seed_;
  const Owns owns_;
  const int bits_at_most_;
  RootBins bins_;
  std::vector<BinHost::Entry> moving_;
  std::vector<BinTier::Entry> put_;
  uint32_t rounds_ = 0;
  // Rounds until a step is tried again for which there was no memory.
  uint32_t pause_out_ = 0;
  uint32_t pause_in_ = 0;
  uint64_t on_both_sides_ = 0;
  bool was_full_ = false;             // since the last look for moves
  std::optional<uint64_t> wants_in_;  // the bin to take in when another has left
  uint64_t to_host_ = 0;              // bins that have moved
  uint64_t to_device_ = 0;
};

}  // namespace isotherm
