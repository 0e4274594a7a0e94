// SplitHost: the host's side of a table that lies on some devices, and which bins of each device
// are there.
//
// A device that has no room for a part's rows gives bins to the host, those that are read least
// first (gpu/split/bin_moves.h); behind parts, bins move in steps. All devices share one index on
// the host and the threads that answer for it (gpu/split/host_part.h). The version changes with
// whatever moves, so that a part that was split by older bins can be told from others.
//
// A device that is too small to be cut into bins keeps all its keys; so do all where the host has
// no memory for an index.
//
// Memory. `bytes` of index on the host at most, and some pinned memory. Threads. One at a time.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <deque>
#include <new>
#include <optional>
#include <span>
#include <vector>

#include "gpu/split/bin_moves.h"
#include "gpu/split/device_bin_tier.h"
#include "gpu/split/host_part.h"
#include "gpu/split/split_gpu.h"
#include "gpu/split/split_route.h"
#include "isotherm/gpu/common.h"

namespace isotherm {

struct SplitHostOptions {
  uint64_t seed = 0;
  uint64_t bytes = 0;  // of the host's index
  uint32_t threads = 1;
  uint32_t part_rows = 0;
  uint32_t sampled = 64;  // of rows, one in so many is counted as a read of its bin
  int most_bits = 14;     // of the number of bins
  uint64_t entries_at_once = BinMoves::entries_at_once;  // that move where room is needed
};

template <class Device>
class SplitHost {
 public:
  // Throws std::bad_alloc.
  SplitHost(const SplitGpus<Device>& gpus, const SplitHostOptions& options) : options_(options) {
    for (const auto& gpu : gpus) {
      gpu->enter();
      sides_.emplace_back(*gpu, options.seed);
    }
  }

  // Whether some device has given bins to the host, ever.
  bool shared() const { return host_.has_value(); }
  uint64_t version() const { return version_; }

  bool on_host(uint64_t hash) const {
    const Side& side = side_of(hash);
    return side.moves && side.moves->on_host(hash);
  }
  // The bin of a device that the hash falls into; one of all hashes where it has not been cut.
  HashBin bin_of(uint32_t device, uint64_t hash) const {
    const int bits = std::bit_width(sides_[device].bins().size()) - 1;
    return {bin_number(hash, bits), bits};
  }
  // Adds the host's entries of a device, of hashes from `bound` to before `end` (0: to the last),
  // to `entries` until there are about `wanted`; returns the bound to go on from, `end` when all
  // are there.
  uint64_t read(uint32_t device, uint64_t bound, uint64_t end, uint64_t wanted,
                std::vector<BinHost::Entry>& entries) const {
    const uint64_t next = host_->read(bound, end, wanted, entries);
    std::erase_if(entries, [&](const BinHost::Entry& entry) {
      return shard_of_hash(entry.hash, count()) != device || !on_host(entry.hash);
    });
    return next;
  }
  void count_read(uint64_t hash) {
    if (Side& side = side_of(hash); side.moves) side.moves->count_read(hash);
  }

  // The devices' bins, as many as bins() says, and the route by them; `lists` are the host's.
  uint64_t bins() const {
    uint64_t bins = 0;
    for (const Side& side : sides_) bins += side.bins().size();
    return bins;
  }
  SplitRoute route(uint32_t lists, SharedBin* bins) const {
    SplitRoute route;
    route.seed = options_.seed;
    route.devices = count();
    route.shards = route.devices + lists;
    route.sampled = options_.sampled;
    uint32_t first = 0;
    for (uint32_t i = 0; i < count(); ++i) {
      const std::span<const SharedBin> its = sides_[i].bins();
      route.first[i] = first;
      route.bits[i] = static_cast<uint8_t>(std::bit_width(its.size()) - 1);
      std::copy(its.begin(), its.end(), bins + first);
      first += static_cast<uint32_t>(its.size());
    }
    return route;
  }
  // What the route has counted.
  void add_reads(const uint32_t* reads) {
    for (Side& side : sides_) {
      const uint64_t bins = side.bins().size();
      for (uint64_t bin = 0; side.moves && bin < bins; ++bin)
        side.moves->add_reads(bin, reads[bin]);
      reads += bins;
    }
  }

  // Whether room for a device's rows is looked for; not in some parts behind one that found none.
  bool looks_for_room(uint32_t device) {
    Side& side = sides_[device];
    if (side.pause != 0) --side.pause;
    return side.may_share && side.pause == 0;
  }
  void pause(uint32_t device) { sides_[device].pause = parts_a_pause + 1; }
  // A call goes on without memory to look for room, or for a bin to be moved.
  bool has_room(uint32_t device, uint64_t rows) {
    Side& side = sides_[device];
    side.gpu.enter();
    try {
      return side.gpu.table.has_room(rows);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }
  // Bins of the device may go to the host from now on; false where they cannot.
  bool share(uint32_t device) {
    Side& side = sides_[device];
    if (side.moves) return true;
    side.gpu.enter();
    side.may_share = side.may_share && BinMoves::can_share(side.tier) && make_host(side);
    if (!side.may_share) return false;
    side.moves.emplace(
        side.tier, *host_, options_.seed,
        [device, count = count()](uint64_t hash) { return shard_of_hash(hash, count) == device; },
        options_.most_bits);
    ++version_;
    return true;
  }
  bool free_bin(uint32_t device) {
    if (!share(device)) return false;
    Side& side = sides_[device];
    side.gpu.enter();
    ++version_;
    try {
      return side.moves->free_bin(options_.entries_at_once);
    } catch (const std::bad_alloc&) {
      return false;
    }
  }

  // Steps behind some rows, of which `changes` were the device's: one behind each part with
  // changes, and of rows that only read so few that they cost a small share of the time.
  void move_bins(uint32_t device, uint64_t changes, uint64_t rows) {
    Side& side = sides_[device];
    if (!side.moves) return;
    side.rows_since_move += rows;
    side.changes_since_move += changes;
    const bool writes = side.changes_since_move != 0;
    const uint64_t rows_a_step = writes ? std::min<uint64_t>(options_.part_rows, rows_a_move)
                                        : uint64_t{options_.part_rows} * parts_a_move;
    uint64_t steps = std::min(side.rows_since_move / rows_a_step, most_steps);
    if (steps == 0) return;
    side.gpu.enter();
    ++version_;
    try {
      if (writes) steps = 1;
      for (; steps != 0; --steps) side.moves->after_round(side.changes_since_move);
    } catch (const std::bad_alloc&) {  // then the next step may have it
    }
    side.rows_since_move = side.changes_since_move = 0;
  }

  // Answers the host's rows of a part.
  void answer(std::span<const TableRequests> lists) {
    for (const TableRequests& list : lists) requests_ += list.rows;
    host_->answer(lists);
  }

  void add_to(gpu::TableStats& stats) const {
    stats.host_requests = requests_;
    for (const Side& side : sides_) {
      stats.host_bytes += side.tier.pinned_bytes();
      if (!side.moves) continue;
      stats.entries -= side.moves->on_both_sides();
      stats.bins_to_host += side.moves->to_host();
      stats.bins_to_device += side.moves->to_device();
    }
    if (!host_) return;
    stats.host_entries = host_->entries();
    stats.entries += stats.host_entries;
    stats.host_bytes += host_->bytes();
  }

 private:
  static constexpr uint64_t rows_a_move = 1 << 14;
  static constexpr uint64_t parts_a_move = 4;  // that only read
  static constexpr uint64_t most_steps = 8;    // behind a call
  static constexpr uint32_t parts_a_pause = 16;

  struct Side {
    Side(SplitGpu<Device>& its_gpu, uint64_t seed)
        : gpu(its_gpu), tier(its_gpu.device, its_gpu.table, seed) {}

    std::span<const SharedBin> bins() const {
      if (moves) return moves->bins().bins();
      return {&all_, 1};
    }

    SplitGpu<Device>& gpu;
    DeviceBinTier<Device> tier;
    std::optional<BinMoves> moves;  // once it has given bins to the host
    bool may_share = true;
    uint32_t pause = 0;  // parts that do not look for room
    uint64_t rows_since_move = 0;
    uint64_t changes_since_move = 0;

   private:
    static constexpr SharedBin all_ = {};  // the device's
  };

  uint32_t count() const { return static_cast<uint32_t>(sides_.size()); }
  const Side& side_of(uint64_t hash) const { return sides_[shard_of_hash(hash, count())]; }
  Side& side_of(uint64_t hash) { return sides_[shard_of_hash(hash, count())]; }

  // Bins come in order of hash, so all at one place: with lines for an eighth of what the device
  // has, chains there are short until the index has grown. But these lines lie at all places.
  bool make_host(const Side& side) {
    constexpr uint64_t bytes_an_entry = 28;
    const uint64_t small_share = options_.bytes / 32 / bytes_an_entry;
    const uint64_t of_device = side.gpu.table.stats().entries;
    return host_ || make_host(std::min(of_device * count() / 8, small_share)) || make_host(0);
  }
  bool make_host(uint64_t expected) {
    try {
      host_.emplace(HostPartOptions{options_.seed, options_.bytes, expected, options_.threads,
                                    sides_.front().gpu.device.memory_node()});
    } catch (const std::bad_alloc&) {
      return false;
    }
    return true;
  }

  const SplitHostOptions options_;
  std::deque<Side> sides_;        // of each device
  std::optional<HostPart> host_;  // once a device has given bins to it
  uint64_t version_ = 0;
  uint64_t requests_ = 0;  // that the host has answered
};

}  // namespace isotherm
