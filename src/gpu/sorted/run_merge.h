// RunMerge: makes one run of two, by the kernels of gpu/sorted/merge_kernels.h, or of one that is
// in no order, by those of gpu/sorted/run_sort_kernels.h.
//
// While it runs there are both, a work space of 8 bytes for each of their entries (of 24 where they
// are sorted) and 16 for each tile, and the new run, which takes what it needs and no more. It does
// not begin without room for all entries of both.
//
// Threads. One at a time; others may read both runs meanwhile. Errors. DeviceError, std::bad_alloc.
#pragma once

#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "gpu/platform/device_error.h"
#include "gpu/platform/grid.h"
#include "gpu/platform/pinned_block.h"
#include "gpu/sorted/merge_kernels.h"
#include "gpu/sorted/run_sort_kernels.h"
#include "gpu/sorted/stored_run.h"

namespace isotherm {

template <class Device>
class RunMerge {
 public:
  using Stream = typename Device::Stream;
  using Run = StoredRun<Device>;

  explicit RunMerge(DeviceMemory<Device>& memory)
      : device_(memory.device()), memory_(memory), totals_(device_, sizeof(Pair)) {}

  struct Result {
    bool done = false;               // false: there is no room, and nothing has happened
    std::shared_ptr<const Run> run;  // null: nothing is left
  };

  Result merge(const Run& older, const Run& newer, const Droppable& droppable, Stream stream) {
    const uint64_t entries = older.entries() + newer.entries();
    const uint64_t bytes = work_bytes(entries) + older.bytes() + newer.bytes();
    if (entries > most_run_entries || bytes > memory_.below_cap()) return {};
    MergePart part;
    part.older = older.view();
    part.newer = newer.view();
    part.droppable = droppable;
    return build<PlaceKernel>(part, stream);
  }

  // Records that came in any order; of equal keys the last stays. Changes the order of heads.
  Result sort(const Run& unsorted, Stream stream) {
    const DeviceArray<Device, Pair> room(memory_, unsorted.entries());
    if (room.empty()) return {};
    const SettleAtEnd<Device> settle(device_, stream);
    SortPassKernel pass{unsorted.heads(), room.data(), unsorted.words(), unsorted.entries(), 1};
    Pair* spare = unsorted.heads();
    for (; pass.stretch < pass.entries; pass.stretch *= 2) {
      launch(stream, grid_for(device_, pass.entries, SortPassKernel::threads), pass);
      pass.from = pass.to;
      std::swap(pass.to, spare);
    }
    MergePart part;
    part.older = {pass.from, pass.words, static_cast<uint32_t>(pass.entries)};
    return build<LastOfKeyKernel>(part, stream);
  }

 private:
  static uint64_t work_bytes(uint64_t entries) {
    return 2 * sizeof(uint32_t) * entries + sizeof(Pair) * (entries / MergePart::tile + 2);
  }

  // `Place` says which entries stay.
  template <class Place>
  Result build(MergePart part, Stream stream) {
    const DeviceArray<Device, uint32_t> entries(memory_, part.positions());
    const DeviceArray<Device, uint32_t> words(memory_, part.positions());
    const DeviceArray<Device, Pair> begins(memory_, part.tiles() + 1);
    if (entries.empty() || words.empty() || begins.empty()) return {};
    part.entries = entries.data();
    part.words = words.data();
    part.begins = begins.data();
    const Pair totals = count<Place>(part, stream);
    Result result{true, nullptr};
    if (totals.first == 0) return result;
    result.run = Run::make(memory_, totals.first, totals.second);
    if (result.run == nullptr) return {};
    move(part, *result.run, stream);
    return result;
  }
  template <class Kernel>
  void launch(Stream stream, uint32_t blocks, const Kernel& kernel) {
    require_device(device_.launch(stream, blocks, Kernel::threads, kernel), "launch a merge");
  }

  // Entries and words of the new run.
  template <class Place>
  Pair count(const MergePart& part, Stream stream) {
    const SettleAtEnd<Device> settle(device_, stream);
    launch(stream, grid_for(device_, part.positions(), Place::threads), Place{part});
    launch(stream, grid_for(device_, part.positions(), SumTilesKernel::threads),
           SumTilesKernel{part});
    launch(stream, 1, SumAllKernel{part});
    require_device(
        device_.to_host(stream, totals_.data(), part.begins + part.tiles(), sizeof(Pair)),
        "read a merge's counts");
    require_device(device_.synchronize(stream), "wait for a merge");
    Pair totals;
    std::memcpy(&totals, totals_.data(), sizeof totals);
    return totals;
  }
  void move(const MergePart& part, const Run& to, Stream stream) {
    const SettleAtEnd<Device> settle(device_, stream);
    launch(stream, grid_for(device_, part.positions(), MoveKernel::threads),
           MoveKernel{part, to.heads(), to.words()});
    require_device(device_.synchronize(stream), "wait for a merge");
  }

  Device& device_;
  DeviceMemory<Device>& memory_;
  const PinnedBlock<Device> totals_;
};

}  // namespace isotherm
