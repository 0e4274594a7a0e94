// RootTable: the index of a store on one or more devices, and on the host what they have no room
// for: 64-bit keys to roots (index/item_table.h).
//
// Parts. A key's hash is mix(key, seed). Its low bits pick the device (gpu/store/root_tier.h); of a
// device whose memory is full, the top bits pick a bin, which is the device's or the host's
// (gpu/split/host_tier.h) and moves between them (gpu/split/bin_moves.h). While all is on one
// device, rounds write their keys into that device's columns, and nothing here is in their way.
// Otherwise the columns are the host's own: keys are spread over the tiers by those who wrote them,
// who look up the host's share on the spot, and gather the roots when the devices have answered;
// those who hand in changes make the host's share of them and spread the others over the devices.
//
// Side. Whoever decides which side is to answer (executor/device/rounds.h) has the bins go there,
// in steps between rounds (`lean`, `tend`): to the host, as long as an eighth of a cap on its
// memory is free, or to the devices, as far as there is room. What a round finds on the host takes
// nothing of a device, not even a look; so where all is there, rounds do not wait for one.
//
// Memory. Columns count as buffers in `maxmemory`, the host's part as index.
// Errors. All functions throw DeviceError when a device fails, or where neither it nor the host has
// memory for a change; what the table holds is then of no use any more.
// Threads. One at a time, but for spread, gather and hand_in: any, each for other rows, between the
// calls that the comments name. All within an epoch.
// Sources. KVCG, section 5.2, whose store beyond device memory was unified memory instead.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "executor/host_store.h"
#include "gpu/split/bin_moves.h"
#include "gpu/split/host_tier.h"
#include "gpu/store/root_tier.h"

namespace isotherm {

class RootTable {
 public:
  static constexpr size_t most_devices = 16;

  // At least one tier, at most most_devices. `store` must outlive it. Of rows of lookups one in
  // `sampled` is counted as a read of its bin.
  RootTable(HostStore& store, std::vector<std::unique_ptr<RootTier>> tiers, uint32_t sampled = 64);
  ~RootTable();
  RootTable(const RootTable&) = delete;
  RootTable& operator=(const RootTable&) = delete;

  // Columns for a round of at most `rows` rows; what was in them is gone. Throws std::bad_alloc
  // too.
  const RootColumns& columns(uint64_t rows);
  // Behind the writing of the keys, for all of them, before `find`.
  void spread(uint64_t first, uint64_t count);
  // Looks up the first `rows` keys, among them all that this round changes; the roots are there
  // when `wait` has returned and they were gathered.
  void find(uint64_t rows);
  void wait();
  // As RootTier's.
  bool ready();
  bool changes_at_once(uint64_t rows);
  void gather(uint64_t first, uint64_t count);
  // Behind the writing of changes, for all of them, before `change`, which applies the first
  // `rows`. Their keys were looked up in this round: so what the devices still had to read of the
  // columns of changes before, they have read.
  void hand_in(uint64_t first, uint64_t count);
  void change(uint64_t rows);

  // From now on bins are to go to the host, or else to the devices.
  void lean(bool to_host);
  // Whether there may be some that have to. Any thread.
  bool tends() const { return tends_.load(std::memory_order_relaxed); }
  // Moves some thousand entries there; whether more is left.
  bool tend();

  // As RootTier::scan, over all.
  uint64_t scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                const std::function<void(uint64_t key, Location root)>& visit);
  // Empties the table and gives its memory back.
  void clear();
  // Memory for values on each device, so many bytes; DeviceError or std::bad_alloc without it.
  // `cap`: of host memory, of which each channel to them takes a small part; 0: none.
  std::vector<std::unique_ptr<ValueTier>> make_value_tiers(uint64_t bytes, uint64_t cap);
  // Those of the devices, each once, in order.
  std::vector<int> memory_nodes() const;
  // Frees what lies on the host, of a table that has failed.
  void give_up();
  RootTableStats stats();

 private:
  struct Device {
    std::unique_ptr<RootTier> tier;
    RootColumns columns;
    std::atomic<uint32_t> rows{0};     // of lookups that were sent there
    std::atomic<uint32_t> changes{0};  // that were sent there
    std::optional<BinMoves> moves;     // once it was full

    explicit Device(std::unique_ptr<RootTier> its_tier) : tier(std::move(its_tier)) {}
  };
  struct OwnColumns;
  struct Block;

  bool split() const { return devices_.size() > 1 || host_ != nullptr; }
  size_t device_of(uint64_t hash) const {
    return static_cast<size_t>((hash & 0xFFFFFFFF) * devices_.size() >> 32);
  }
  // The number of the device that has a hash, or `host_side`.
  static constexpr size_t host_side = most_devices;
  size_t side_of(uint64_t hash) const;
  uint64_t hash_of(uint64_t key) const { return mix(key, store_.seed); }

  template <class Work>
  static void each_block(uint64_t first, uint64_t count, Work&& work);
  void claim(const uint64_t* keys, std::atomic<uint32_t> Device::*rows, Block& block);
  void spread_block(uint64_t first, Block& block);
  void count_reads(uint64_t first, const Block& block);
  void look_up_on_host(uint64_t first, const Block& block);
  void hand_in_block(uint64_t first, Block& block);

  void count_buffers();
  void free_bin(Device& device);
  void share(Device& device, int bits_at_least = BinMoves::least_bits);
  bool tend(Device& device, bool& refused);
  void make_host(uint64_t expected);
  void count_changes(uint64_t rows);
  void route(uint64_t rows);

  HostStore& store_;
  const uint32_t sampled_;
  std::deque<Device> devices_;
  std::unique_ptr<HostTier> host_;  // once a device was full, or bins are to go to the host
  std::optional<bool> to_host_;     // where bins are to go, if anybody has said that
  std::atomic<bool> tends_{false};
  // Rounds until bins that found no memory on the host are tried again; 0: there are none.
  static constexpr uint32_t rounds_between_tries = 1024;
  uint32_t tries_again_in_ = 0;
  std::atomic<uint64_t> host_lookups_{0};
  RootColumns columns_;  // of the one device, or own ones
  std::unique_ptr<OwnColumns> own_;
  int64_t buffer_bytes_ = 0;  // that the store's budget knows of
};

}  // namespace isotherm
