// EngineState: what the threads of an engine share: the store, the executor of the device, the
// crew, and the executors whose counters are summed up.
//
// Threads. Any, as the parts say. Ends after all workers.
#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/wait_clock.h"
#include "batch/write_delay.h"
#include "engine/crew.h"
#include "engine/engine.h"
#include "executor/device/device_executor.h"
#include "executor/host/host_executor.h"
#include "executor/host_store.h"
#include "gpu/store/item_tier.h"
#include "gpu/store/sorted_tier.h"
#include "router/hot_side.h"
#include "tree/tree.h"

namespace isotherm {

class EngineState {
 public:
  // `sorted`: makes the sorted copy of a tree's files; null: a GPU does.
  EngineState(const Options& options, const Clock& its_clock,
              const SortedTierMaker& sorted = nullptr);
  // Puts the items on a device; `required`: an error where that fails.
  void use_items(const ItemTierMaker& make_items, bool required);
  ~EngineState();
  EngineState(const EngineState&) = delete;
  EngineState& operator=(const EngineState&) = delete;

  // Puts the index on a device; `required`: an error where that fails.
  void use_device(const RootTiersMaker& make_index, bool required,
                  WaitClock* round_clock = nullptr);
  bool on_device() const { return device && device->active(); }

  // The crew, which is made when somebody asks for it first; null where the index is on the host,
  // or no thread could be had.
  Crew* crew() { return device == nullptr ? nullptr : make_crew(); }
  Crew* crew_if_made() const { return crew_in_use_.load(std::memory_order_acquire); }

  // An executor whose counters are part of the statistics, also when it has ended.
  void add_executor(const HostExecutor& executor);
  void remove_executor(const HostExecutor& executor);
  // The sums of these counters.
  EngineStats counted() const;
  // To those of each class, and the large ones: the items that went.
  void add_gone(std::span<ItemClassStats> classes) const;

  const Clock& clock;
  HostStore store;
  std::unique_ptr<HotSide> hot;  // or null
  std::unique_ptr<Tree> tree;    // or null
  SteadyWaitClock steady_clock;
  std::unique_ptr<DeviceExecutor> device;   // or null
  std::unique_ptr<WriteDelay> write_delay;  // where the index is on a device and writes are put off
  std::string device_problem;

  std::atomic<uint32_t> workers{0};
  std::atomic<uint64_t> retried{0};  // batches that were answered retry

 private:
  Crew* make_crew();
  // Over files that lie in a folder, or on a device.
  void make_tree(const std::function<std::unique_ptr<TreeFiles>(uint64_t cap)>& open);
  void make_router();

  mutable std::mutex executors_mutex_;  // of the next two
  std::vector<const HostExecutor*> executors_;
  EngineStats ended_;  // of executors that are gone
  std::array<ItemClassStats, size_classes::count + 1> ended_gone_;

  std::mutex crew_mutex_;
  bool crew_failed_ = false;
  std::unique_ptr<Crew> crew_;
  std::atomic<Crew*> crew_in_use_{nullptr};
};

}  // namespace isotherm
