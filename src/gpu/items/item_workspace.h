// ItemWorkspace: the memory that a part of a call to a table of device items is worked off in; see
// gpu/items/item_part.h.
//
// Layout. Columns for parts of up to `rows` rows. What a part needs clear (its counts, and for
// parts with writes the entries of the writer table and the marks of its slots) lies together. The
// report is what the host reads of a part, in pinned memory.
//
// Threads. One part at a time; the caller orders parts.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>

#include "gpu/items/item_evict_kernels.h"
#include "gpu/items/item_exact_kernels.h"
#include "gpu/items/item_part.h"
#include "gpu/platform/device_memory.h"
#include "gpu/platform/grid.h"

namespace isotherm {

template <class Device>
class ItemWorkspace {
 public:
  using Stream = typename Device::Stream;

  // Throws std::bad_alloc.
  ItemWorkspace(DeviceMemory<Device>& memory, uint32_t rows)
      : device_(memory.device()),
        rows_(rows),
        cleared_(memory, cleared_bytes(slots_for(rows))),
        words_(memory, uint64_t{rows} * word_columns + rows / 32 + 1),
        numbers_(memory, uint64_t{rows} * number_columns),
        bytes_(memory, uint64_t{rows} * byte_columns),
        report_(static_cast<ItemReport*>(device_.allocate_pinned(sizeof(ItemReport)))) {
    if (!cleared_.empty() && !words_.empty() && !numbers_.empty() && !bytes_.empty() &&
        report_ != nullptr) {
      return;
    }
    release();
    throw std::bad_alloc();
  }
  ~ItemWorkspace() { release(); }
  ItemWorkspace(const ItemWorkspace&) = delete;
  ItemWorkspace& operator=(const ItemWorkspace&) = delete;

  uint64_t rows() const { return rows_; }

  const ItemReport& report() const { return *report_; }
  // Asks for the report; it is there when the stream has come past.
  void ask_counts(const ItemPart& part, Stream stream) const {
    require_device(
        device_.launch(stream, 1, ReportItemsKernel::threads, ReportItemsKernel{part, report_}),
        "ask for the counts of a part");
  }

  // Sets the part's own columns, and clears what it needs clear.
  void lay_out(ItemPart& part, bool writes, Stream stream) const {
    part.counts = reinterpret_cast<ItemCounts*>(cleared_.data());
    const uint32_t slots = slots_for(part.rows);
    part.writers.entry = reinterpret_cast<uint64_t*>(part.counts + 1);
    part.writers.slots = slots;
    part.states = reinterpret_cast<uint32_t*>(part.writers.entry + slots);
    part.hashes = words(0);
    part.writers.keys = part.hashes;
    part.first = words(1);
    part.before = words(2);
    part.fresh = words(3);
    part.old = words(4);
    part.sums = words(word_columns);
    part.lengths = numbers(0);
    part.slots = numbers(1);
    part.long_copies = numbers(2);
    part.index_ops = reinterpret_cast<TableOp*>(bytes(0));
    part.first_found = bytes(1);
    part.before_found = bytes(2);
    part.verdict = bytes(3);
    require_device(
        device_.clear(stream, cleared_.data(), writes ? cleared_bytes(slots) : sizeof(ItemCounts)),
        "clear the counts of a part");
  }

  // The columns of items that are evicted, for rows() of them, in a part that has not written its
  // items yet.
  EvictedItems evicted(const ItemPart& part) const {
    EvictedItems evicted;
    evicted.items = part.fresh;
    evicted.hashes = part.old;
    evicted.first = part.before;
    evicted.found = part.before_found;
    evicted.ops = part.index_ops;
    evicted.count = &part.counts->chosen;
    return evicted;
  }

  // The columns of exact chains, all gets of hash 0.
  ExactChains chains(uint64_t rows, Stream stream) const {
    const ExactChains chains{words(5), words(6), reinterpret_cast<TableOp*>(bytes(4)), words(7),
                             bytes(5)};
    require_device(device_.clear(stream, chains.hashes, rows * sizeof(uint64_t)) &&
                       device_.clear(stream, chains.ops, rows),
                   "clear the chains of a part");
    return chains;
  }

 private:
  static constexpr uint32_t word_columns = 8;
  static constexpr uint32_t number_columns = 3;
  static constexpr uint32_t byte_columns = 6;

  static uint32_t slots_for(uint32_t rows) { return std::bit_ceil(std::max(rows, 64u) * 2); }
  static uint64_t cleared_bytes(uint64_t slots) {
    return sizeof(ItemCounts) + slots * (sizeof(uint64_t) + sizeof(uint32_t));
  }

  uint64_t* words(uint32_t i) const { return words_.data() + uint64_t{i} * rows_; }
  uint32_t* numbers(uint32_t i) const { return numbers_.data() + uint64_t{i} * rows_; }
  uint8_t* bytes(uint32_t i) const { return bytes_.data() + uint64_t{i} * rows_; }

  void release() {
    if (report_ != nullptr) device_.release_pinned(report_, sizeof(ItemReport));
  }

  Device& device_;
  const uint64_t rows_;
  DeviceArray<Device, char> cleared_;
  DeviceArray<Device, uint64_t> words_;
  DeviceArray<Device, uint32_t> numbers_;
  DeviceArray<Device, uint8_t> bytes_;
  ItemReport* report_;
};

// Launches a kernel with a lane for each of `rows`.
template <class Device, class Kernel>
void launch_on_items(Device& device, typename Device::Stream stream, uint64_t rows,
                     const Kernel& kernel) {
  constexpr uint32_t threads = 256;
  require_device(device.launch(stream, grid_for(device, rows, threads), threads, kernel),
                 "launch a kernel of items");
}

}  // namespace isotherm
