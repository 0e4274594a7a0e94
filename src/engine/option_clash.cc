#include "engine/option_clash.h"

#include <algorithm>
#include <vector>

#include "executor/device/root_table.h"

namespace isotherm {
namespace {

bool has_device(const Options& options) { return options.device != DeviceChoice::cpu; }
bool has_router(const Options& options) { return options.router.choice != RouterChoice::off; }

std::optional<OptionClash> clash_of_index(const Options& options) {
  if (has_device(options) || has_router(options) || !options.tree.empty()) {
    return {{"index", "cuckoo and set need device cpu, router off and no tree"}};
  }
  if (options.maxmemory == 0 || !evicts_any_key(options.maxmemory_policy)) {
    return {{"index",
             "cuckoo and set need maxmemory, and maxmemory_policy allkeys-lru or allkeys-random"}};
  }
  return {};
}

// What is said of GPUs must be used by somebody.
std::optional<OptionClash> clash_of_gpus(const Options& options) {
  std::vector<uint32_t> gpus = options.gpus;
  if (gpus.empty() || gpus.size() > RootTable::most_devices) {
    return {{"gpus", "must name 1 to 16 GPUs, also where none is used"}};
  }
  std::sort(gpus.begin(), gpus.end());
  if (std::adjacent_find(gpus.begin(), gpus.end()) != gpus.end()) {
    return {{"gpus", "may name each GPU once"}};
  }
  if (gpus.size() > 1 && options.gpu_sorted != 0) {
    return {{"gpus", "may name one GPU alone with gpu_sorted"}};
  }
  if (gpus.size() > 1 && !has_device(options)) return {{"gpus", "needs device cuda or auto"}};
  if (options.gpu_memory != 0 && !has_device(options)) {
    return {{"gpu_memory", "needs device cuda or auto"}};
  }
  if (options.gpu_memory != 0 && options.gpu_items != 0) {
    return {{"gpu_memory", "is for an index on GPUs: gpu_items says itself how much it takes"}};
  }
  return {};
}

// A GPU evicts any item or none.
std::optional<OptionClash> clash_of_items(const Options& options) {
  using enum EvictionPolicy;
  if (!has_device(options)) return {{"gpu_items", "needs device cuda or auto"}};
  if (!options.tree.empty() || options.gpu_values != 0) {
    return {{"gpu_items", "cannot be used with tree or gpu_values"}};
  }
  if (options.gpu_items_host > uint64_t{1} << 60) {
    return {{"gpu_items_host", "must be at most 1 EiB"}};
  }
  if (options.maxmemory != 0 && options.gpu_items_host > options.maxmemory / 2) {
    return {{"gpu_items_host", "is part of maxmemory, and may be half of it at most"}};
  }
  if (options.maxmemory_policy == volatile_lru || options.maxmemory_policy == volatile_ttl) {
    return {{"gpu_items", "needs maxmemory_policy noeviction, allkeys-lru or allkeys-random"}};
  }
  return {};
}

}  // namespace

std::optional<OptionClash> clash_in(const Options& options) {
  if (const auto clash = clash_of_gpus(options)) return clash;
  if (options.gpu_items_host != 0 && options.gpu_items == 0) {
    return {{"gpu_items_host", "needs gpu_items"}};
  }
  if (options.gpu_items != 0) {
    if (const auto clash = clash_of_items(options)) return clash;
  }
  if (options.index != IndexChoice::line) {
    if (const auto clash = clash_of_index(options)) return clash;
  }
  if (options.gpu_sorted != 0 && options.tree.empty()) return {{"gpu_sorted", "needs a tree"}};
  if (!options.tree_options.empty() && options.tree.empty()) {
    return {{"tree_options", "needs a tree"}};
  }
  if (has_router(options) && has_device(options) && options.gpu_items == 0) {
    return {{"router", "needs device cpu, or gpu_items"}};
  }
  if (!options.tree.empty() && options.maxmemory != 0 &&
      options.maxmemory < Options::least_with_tree) {
    return {{"maxmemory", "must be 0, for no cap, or at least 2mb with a tree"}};
  }
  if (!options.tree.empty() && has_device(options)) return {{"tree", "needs device cpu"}};
  return {};
}

}  // namespace isotherm
