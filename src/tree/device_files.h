// DeviceFiles: the memory of a GPU in the place of a tree's files (tree/tree_files.h): the
// canonical store of a store's strings, of which host memory is the cache.
//
//   runs ─▶ bulk puts and erases, packed by several threads ─▶ whole items on the device
//   (gpu/store/item_tier.h) memory misses ─▶ gets, many at a time
//
// An item there. Its key is the item's, for database 0, and else, or where the key itself begins
// with byte 255, byte 255, the database (4 bytes, the highest first) and the key. Its value is the
// record of tree/tree_record.h without the first byte, which lies in the item's flags: so an item
// without expiry and flags takes 8 bytes for its version, and no byte for what it lacks. Its expiry
// lets the device free what nobody asks for.
//
// The rest: keys and values that are too long for the device (`ItemTier`) stay in host memory, and
// count as memory of the tree, up to `most_rest` bytes, which may change at any time. Where the
// device's memory ends, or that, it evicts, and then a put that finds no place all the same is
// evicted. Or it may not: then what finds no place stays in the rest, beyond its bound, and is put
// on the device when there is room there. Until then it is crowded, so writes are refused, but what
// erases; what it has too much is no more than the runs that there were. A value that is too long
// for the device, and for what is left of the bound, is refused alone, before it is stored.
//
// Loss. When the device fails what it had is absent, `lost_keys` says how many keys that were, and
// what is taken in from then on stays in host memory, up to as many bytes: beyond that the
// tree forgets items, and they count as lost.
//
// Walks are in order of hash, over the device and the rest together; at the end of the program all
// is gone. A walk over one moment (tree/device_moment.h) is told of what is written meanwhile.
//
// Threads. As TreeFiles.
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "gpu/store/item_tier.h"
#include "isotherm/gpu/common.h"
#include "tree/device_columns.h"
#include "tree/device_moment.h"
#include "tree/direct_reads.h"
#include "tree/tree_files.h"

namespace isotherm {

struct DeviceFilesOptions {
  bool evicts = false;                  // as the tier does
  std::function<uint64_t()> most_rest;  // bytes of host memory; 0, or no function: no bound
  uint64_t most_kept = 64 << 20;        // of host memory, for a moment
  size_t rows_at_once = 1 << 14;        // of one call that writes
  uint64_t read_columns = 4 << 20;      // bytes of columns for reads
  std::function<int64_t()> now_ms;
};

class DeviceFiles final : public TreeFiles {
 public:
  DeviceFiles(std::unique_ptr<ItemTier> tier, DeviceFilesOptions options);

  Glance glance(std::string_view key, std::string& value) override;
  void read(std::span<const std::string_view> keys, TreeRead* reads) override;
  std::string ingest(std::span<const TreeEntry> entries, const TreeMeta& meta,
                     uint32_t threads) override;
  std::string erase_range(std::string_view first, std::string_view end) override;
  bool load(TreeMeta& /*meta*/) override { return false; }

  bool lasts() const override { return false; }
  std::string walk_by_hash(uint64_t& cursor, uint64_t count, const ShowKey& show) override;
  std::unique_ptr<MomentWalk> walk_moment() override;
  std::unique_ptr<DirectGets> make_direct(const DirectShape& shape) override;
  std::unique_ptr<PacketDevice> make_packets(const PacketOptions& options) override;
  bool has_rest() const override { return rest_bytes_.load(std::memory_order_relaxed) != 0; }
  void lose(const std::string& why) override;
  bool takes(std::string_view key, uint64_t value_bytes) override;
  std::string crowding() override;
  void tend() override;
  bool is_lost() const override { return lost_.load(std::memory_order_acquire); }
  uint64_t lost_keys() const override { return lost_keys_.load(std::memory_order_relaxed); }

  // Not for what has no order.
  std::string walk(std::string_view from, std::string_view end, const Visit& visit) override;
  std::unique_ptr<TreeView> view(bool sorted) override;
  std::string checkpoint(const std::string& folder) override;

  uint64_t memory() override;
  uint64_t disk_bytes() override { return stats().bytes; }
  uint64_t host_bytes() override { return stats().host_item_bytes; }
  uint64_t keys() override { return stats().entries; }
  std::optional<uint64_t> count(uint32_t database, int64_t now_ms) override;

  // The item's key on the device; `to` is for one that is not its own.
  static std::string_view device_key(uint32_t database, std::string_view key, std::string& to);
  static void put_device_key(std::string_view tree_key, std::string& to);
  // Whether it is the item's key as it is.
  static bool is_plain(uint32_t database, std::string_view key);
  static std::string tree_key_of(std::string_view device_key);
  static std::string_view item_key(std::string_view device_key);

  // For a moment. Shows the records of the keys from `first` on, empty where there is none, at most
  // about so many bytes, and returns how many keys that were; 0: the device is lost.
  using ShowRecord = std::function<void(size_t row, std::string&& record)>;
  size_t read_records(const ByteColumn& device_keys, size_t first, uint64_t most_bytes,
                      const ShowRecord& show);
  // Whether it worked. As ItemTier::walk.
  bool walk_items(uint64_t bound, uint64_t wanted, std::vector<WalkedItem>& to, uint64_t& next);
  uint64_t place_of(std::string_view device_key) const { return tier_->place_of(device_key); }

 private:
  static constexpr uint64_t bytes_at_once = 8 << 20;  // of one call, or one item

  using Rest = std::shared_ptr<const HostItem>;
  // By the place that walks have them at (rest_place).
  using AllRest = std::multimap<uint64_t, Rest>;
  class Walk;

  // Calls work(tier); whether it worked. If not, the device is lost.
  template <class Work>
  bool use(Work&& work);
  gpu::ItemStats stats();
  void ingest_some(std::span<const TreeEntry> entries);
  void write(ItemTier& tier, DeviceColumns& columns, int64_t now_ms);
  void settle(const DeviceColumns& sent, std::span<const TreeEntry> entries,
              std::unique_lock<std::mutex>& stays);
  void keep_for_moment(const DeviceColumns& columns);
  void change_rest(std::span<const TreeEntry> entries);
  void take_in_rest(std::span<const TreeEntry> entries);
  static bool fits_device(uint64_t key_bytes, uint64_t record_bytes);
  static bool fits_device(const TreeEntry& entry) {
    return fits_device(entry.key.size(), entry.value.size());
  }

  std::shared_ptr<DeviceMoment> moment();
  uint64_t rest_place(std::string_view key) const;
  AllRest::iterator find_rest(std::string_view key);
  bool is_in_rest(std::string_view key);
  bool put_rest(const TreeEntry& entry, bool over_bound = false);
  void keep_crowding(const TreeEntry& entry);
  uint64_t most_rest() const { return options_.most_rest ? options_.most_rest() : 0; }
  bool is_misplaced(const HostItem& item) const;
  std::vector<Rest> misplaced();
  uint64_t force_rest(const TreeEntry& entry);
  void erase_rest(AllRest::iterator at);
  std::vector<Rest> step_of_rest(uint64_t& cursor, uint64_t count, uint64_t end);

  const std::unique_ptr<ItemTier> tier_;
  const DeviceFilesOptions options_;
  DirectReads gets_;
  std::atomic<bool> lost_{false};
  std::atomic<bool> any_{false};  // something was put on the device
  // There: as the device has said behind the last run, and those that have come and gone since.
  std::atomic<int64_t> items_{0};
  std::atomic<uint64_t> lost_keys_{0};
  std::atomic<uint64_t> rest_bytes_{0};
  std::atomic<bool> has_escaped_{false};  // keys on the device that are not the item's own
  std::atomic<bool> crowded_{false};      // the rest has what does not belong there, or too much

  // While keys go from the rest to the device or back, are counted, or a walk takes a step.
  std::mutex places_mutex_;
  std::mutex mutex_;  // of what follows
  AllRest rest_;
  std::shared_ptr<DeviceMoment> moment_;  // over which somebody walks
};

}  // namespace isotherm
