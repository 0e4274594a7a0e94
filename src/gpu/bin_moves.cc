#include "gpu/bin_moves.h"

#include <algorithm>
#include <utility>

#include "base/hash.h"
#include "gpu/device_error.h"

namespace isotherm {
namespace {

constexpr uint64_t least_bins_of_device = 16;
constexpr int usual_bits = 4;
// A walk on a device goes over so many lines at most.
constexpr uint64_t lines_a_scan = 1 << 16;
constexpr uint64_t entries_a_step = 4096;
// However many changes a round makes, since the device leaves them in pinned memory.
constexpr uint64_t most_entries_a_step = 1 << 17;
// Between two looks for bins to move: rounds, and reads that were counted, for each bin.
constexpr uint32_t rounds_a_look = 64;
constexpr uint64_t reads_a_look = 16;
constexpr uint32_t rounds_a_pause = 64;

int bits_for(BinTier& tier, int most, int least) {
  const int bits = tier.least_bin_bits();
  if (bits < least) throw DeviceError("the memory of the device is full");
  return std::min(bits, most);
}

}  // namespace

BinMoves::BinMoves(BinTier& tier, BinHost& host, uint64_t seed, Owns owns, int bits_at_most,
                   int bits_at_least)
    : tier_(tier),
      host_(host),
      seed_(seed),
      owns_(std::move(owns)),
      bits_at_most_(bits_at_most),
      bins_(bits_for(tier, bits_at_most, bits_at_least)) {}

bool BinMoves::can_share(BinTier& tier) { return tier.least_bin_bits() >= least_bits; }

bool BinMoves::free_bin(uint64_t entries) {
  if (!bins_.moves(Side::host) && !begin_to_free()) return false;
  wants_in_.reset();
  while (bins_.moves(Side::host)) {
    if (!move_out(entries)) return false;
  }
  return true;
}

// False where the device has none left.
bool BinMoves::begin_to_free() {
  refine();
  const auto coldest = bins_.coldest_of_device();
  if (coldest) bins_.move(*coldest);
  was_full_ = true;
  return coldest.has_value();
}

// Bins of a device that has few are made smaller, if its segments have become so.
void BinMoves::refine() {
  if (bins_.moves(Side::host) || bins_.moves(Side::device)) return;
  while (bins_.of_device() != 0 && bins_.of_device() < least_bins_of_device &&
         std::min(tier_.least_bin_bits(), bits_at_most_) > bins_.bits()) {
    bins_.refine();
  }
}

void BinMoves::after_round(uint64_t rows) {
  const bool may_free = bins_.of_device() != 0 && !bins_.moves(Side::host);
  if (may_free && rows != 0 && !tier_.has_room(rows * 2)) begin_to_free();
  if (bins_.moves(Side::host)) {
    if (pause_out_ != 0) {
      --pause_out_;
    } else {
      move_out(std::clamp(rows * 2, entries_a_step, most_entries_a_step));
    }
  } else if (!bins_.moves(Side::device)) {
    look_for_moves();
  }
  if (!bins_.moves(Side::device)) return;
  if (pause_in_ != 0) {
    --pause_in_;
  } else {
    move_in(entries_a_step);
  }
}

// Moves at least so many entries of the bin that leaves the device, or all that it has left. False
// where the host has no memory for them; then none has moved.
bool BinMoves::move_out(uint64_t entries) {
  const HashBin bin = bins_.moving(Side::host);
  const uint64_t from = bins_.boundary(Side::host);
  moving_.clear();
  const uint64_t next = tier_.scan(from, lines_a_scan, entries, [&](uint64_t key, uint64_t word) {
    const uint64_t hash = mix(key, seed_);
    if (hash >= from && bin_number(hash, bin.bits) == bin.number) moving_.push_back({hash, word});
  });
  if (!host_.put(moving_)) {
    pause_out_ = rounds_a_pause;
    return false;
  }
  pause_out_ = 0;
  on_both_sides_ += moving_.size();
  if (next != 0 && bin_number(next, bin.bits) == bin.number) {
    bins_.set_boundary(Side::host, next);
  } else {
    finish_out(bin);
  }
  return true;
}

void BinMoves::finish_out(const HashBin& bin) {
  tier_.drop(bin);
  bins_.arrive(Side::host);
  on_both_sides_ = 0;
  ++to_host_;
  if (!wants_in_) return;
  const HashBin wanted{*std::exchange(wants_in_, std::nullopt), bins_.bits()};
  if (tier_.restore(wanted)) bins_.move(wanted.number);
}

// The same for the bin that comes to the device. What has no room waits until another has left.
bool BinMoves::move_in(uint64_t entries) {
  const HashBin bin = bins_.moving(Side::device);
  moving_.clear();
  const uint64_t next = host_.read(bins_.boundary(Side::device), bin.end(), entries, moving_);
  std::erase_if(moving_, [&](const BinHost::Entry& entry) { return !owns_(entry.hash); });
  put_.clear();
  for (const BinHost::Entry& entry : moving_)
    put_.push_back({unmix(entry.hash, seed_), entry.word});
  if (!tier_.has_room(put_.size()) || !tier_.put(put_)) {
    if (bins_.moves(Side::host)) {
      pause_in_ = rounds_a_pause;
    } else {
      begin_to_free();
    }
    return false;
  }
  host_.erase(moving_);
  if (next != bin.end()) {
    bins_.set_boundary(Side::device, next);
    return true;
  }
  bins_.arrive(Side::device);
  ++to_device_;
  return true;
}

bool BinMoves::lean(Side side, uint64_t entries) {
  wants_in_.reset();
  const bool moves = bins_.moves(Side::host) || bins_.moves(Side::device);
  if (!moves && !begin_to_lean(side)) return false;
  const bool moved = bins_.moves(Side::host) && move_out(entries);
  return (bins_.moves(Side::device) && move_in(entries)) || moved;
}

// False where no bin is left, or none of the host finds room on the device.
bool BinMoves::begin_to_lean(Side side) {
  refine();
  // Where the device has nothing any bins will do; with a few it takes what it has room for.
  while (bins_.of_device() == 0 && bins_.bits() < std::min(usual_bits, bits_at_most_)) {
    bins_.refine();
  }
  const bool to_host = side == Side::host;
  const auto next = bins_.hottest_of(to_host ? Side::device : Side::host);
  if (!next) return false;
  if (to_host) {
    was_full_ = false;
  } else if (was_full_ || !tier_.restore({*next, bins_.bits()})) {
    return false;
  }
  bins_.move(*next);
  return true;
}

void BinMoves::look_for_moves() {
  if (++rounds_ % rounds_a_look != 0) return;
  if (bins_.all_reads() < (reads_a_look << bins_.bits())) return;
  refine();
  const auto coldest = bins_.coldest_of_device();
  const auto hottest = bins_.hottest_of(Side::host);
  if (!hottest) return;
  const uint32_t reads = bins_.reads(*hottest);
  const bool was_full = std::exchange(was_full_, false);
  if (!was_full && tier_.restore({*hottest, bins_.bits()})) {
    bins_.move(*hottest);
  } else if (coldest && reads > reads_a_look && reads / 2 > bins_.reads(*coldest)) {
    wants_in_ = hottest;
    bins_.move(*coldest);
  }
  bins_.age_reads();
}

}  // namespace isotherm
