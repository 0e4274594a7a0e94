#include "server/flags_together.h"

#include <CLI/CLI.hpp>
#include <stdexcept>

#include "batch/round_policy.h"

namespace isotherm {
namespace {

void check_index(const Options& store) {
  if (store.device != DeviceChoice::cpu || store.router.choice != RouterChoice::off ||
      !store.tree.empty()) {
    throw CLI::ValidationError("--index",
                               "cuckoo and set need --device cpu, --router off and no --tree");
  }
  if (store.maxmemory == 0 || !evicts_any_key(store.maxmemory_policy)) {
    throw CLI::ValidationError("--index",
                               "cuckoo and set need --maxmemory, and --maxmemory-policy "
                               "allkeys-lru or allkeys-random");
  }
}

void check_items(const Options& store) {
  using enum EvictionPolicy;
  if (store.device == DeviceChoice::cpu) {
    throw CLI::ValidationError("--gpu-items", "needs --device cuda or auto");
  }
  if (!store.tree.empty() || store.gpu_values != 0 || store.router.choice != RouterChoice::off) {
    throw CLI::ValidationError("--gpu-items",
                               "cannot be used with --tree, --gpu-values or --router");
  }
  if (store.maxmemory_policy == volatile_lru || store.maxmemory_policy == volatile_ttl) {
    throw CLI::ValidationError(
        "--gpu-items", "needs --maxmemory-policy noeviction, allkeys-lru or allkeys-random");
  }
}

}  // namespace

void check_together(const net::ServerOptions& options) {
  if (options.store.gpu_values != 0 && options.store.device == DeviceChoice::cpu) {
    throw CLI::ValidationError("--gpu-values", "needs --device cuda or auto");
  }
  if (options.store.router.choice != RouterChoice::off &&
      options.store.device != DeviceChoice::cpu) {
    throw CLI::ValidationError("--router", "needs --device cpu");
  }
  if (options.store.index != IndexChoice::line) check_index(options.store);
  if (options.appendonly && options.store.device != DeviceChoice::cpu &&
      options.store.gpu_items == 0) {
    throw CLI::ValidationError("--appendonly", "needs --device cpu, or --gpu-items");
  }
  if (options.store.gpu_items != 0) check_items(options.store);
  if (!options.store.tree.empty() && (options.store.device != DeviceChoice::cpu ||
                                      options.store.router.choice != RouterChoice::off)) {
    throw CLI::ValidationError("--tree", "needs --device cpu and --router off");
  }
  if (!options.save.empty() && options.store.device != DeviceChoice::cpu) {
    throw CLI::ValidationError("--save", "needs --device cpu");
  }
  try {
    static_cast<void>(completed(options.store.rounds));
  } catch (const std::invalid_argument&) {
    throw CLI::ValidationError("--gpu-schedule",
                               "--gpu-batch and --gpu-wait-usec are for fixed or periodic, "
                               "--gpu-write-cycles for periodic");
  }
}

}  // namespace isotherm
