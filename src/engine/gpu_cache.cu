#include <stdexcept>
#include <variant>

#include "engine/span_requests.h"
#include "gpu/kernel/cache_kind.h"
#include "gpu/platform/cuda_device.cuh"
#include "gpu/platform/cuda_setup.cuh"
#include "gpu/table/cache_owner.h"
#include "gpu/table/fixed_device_table.h"
#include "gpu/transfer/host_pipeline.h"
#include "isotherm/gpu/cache.h"

namespace isotherm::gpu {

namespace {

// A cache and the device that it is on, as one store on a GPU.
template <class Kind>
struct CacheOnDevice {
  using Table = FixedDeviceTable<CudaDevice, Kind>;

  CacheOnDevice(CudaDevice& its_device, const FixedDeviceOptions& options)
      : device(its_device), table(its_device, options) {}
  // The work space of large calls.
  void reserve(uint64_t entries) { table.reserve(entries); }

  CudaDevice& device;
  Table table;
};

FixedDeviceOptions table_options(const CacheOptions& options) {
  if (options.entries == 0) throw std::invalid_argument("a cache without room for an entry");
  if (options.lanes != 1 && options.lanes != 2 && options.lanes != 4 && options.lanes != 8) {
    throw std::invalid_argument("lanes: 1, 2, 4 or 8");
  }
  FixedDeviceOptions table;
  table.gpu_memory = options.gpu_memory;
  table.seed = seed_or_random(options.hash_seed);
  table.entries = options.entries;
  table.tries.when = TryPuts::never;  // no lane claims a place
  return table;
}

}  // namespace

struct Cache::State {
  using Cuckoo = StoreOnGpu<CacheOnDevice<CuckooKind<>>>;
  using Set = StoreOnGpu<CacheOnDevice<SetKind>>;

  explicit State(const CacheOptions& options) : lanes(options.lanes) {
    const FixedDeviceOptions table = table_options(options);
    switch (options.index) {
      case FixedIndexKind::cuckoo:
        cache.emplace<Cuckoo>(options.device, table, options.entries);
        return;
      case FixedIndexKind::set:
        cache.emplace<Set>(options.device, table, options.entries);
        return;
      case FixedIndexKind::line:
        break;
    }
    throw std::invalid_argument("a cache has an index of a fixed size: cuckoo or set");
  }

  // work(its), `its` having `device` and `table`.
  template <class Work>
  void use(Work&& work) {
    if (auto* cuckoo = std::get_if<Cuckoo>(&cache)) cuckoo->use(work);
    if (auto* set = std::get_if<Set>(&cache)) set->use(work);
  }
  void run(const TableRequests& requests, Stream stream) {
    use([&](auto& its) { its.table.run(requests, stream); });
  }
  void run_host(const TableRequests& requests) {
    use([&](auto& its) { HostPipeline(its.device, its.table).run(requests); });
  }
  // By units of other sizes than the usual one.
  bool get_by_lanes(const TableRequests& requests, Stream stream) {
    auto* cuckoo = std::get_if<Cuckoo>(&cache);
    if (cuckoo == nullptr || lanes == 4) return false;
    cuckoo->use([&](auto& its) {
      if (lanes == 1) its.table.template get_by<CuckooKind<1>>(requests, stream);
      if (lanes == 2) its.table.template get_by<CuckooKind<2>>(requests, stream);
      if (lanes == 8) its.table.template get_by<CuckooKind<8>>(requests, stream);
    });
    return true;
  }

  const uint32_t lanes;
  std::variant<std::monostate, Cuckoo, Set> cache;
};

Cache::Cache(const CacheOptions& options) : state_(std::make_unique<State>(options)) {}
Cache::~Cache() = default;

void Cache::get(const uint64_t* keys, uint64_t* values, uint8_t* found, uint64_t n, Stream stream) {
  run(gets(keys, values, found, n), stream);
}

void Cache::put(const uint64_t* keys, const uint64_t* values, uint64_t n, Stream stream) {
  run(puts(keys, values, n), stream);
}

void Cache::erase(const uint64_t* keys, uint64_t n, Stream stream) { run(erases(keys, n), stream); }

void Cache::run(const TableRequests& requests, Stream stream) {
  if (requests.rows == 0) return;
  if (is_gets(requests) && state_->get_by_lanes(requests, stream)) return;
  state_->run(requests, stream);
}

void Cache::get_stored(const uint64_t* keys, uint64_t* stored_keys, uint64_t* values,
                       uint8_t* found, uint64_t n, Stream stream) {
  if (n == 0) return;
  if (stored_keys == nullptr) throw std::invalid_argument("no column for stored keys");
  state_->use(
      [&](auto& its) { its.table.get_stored(gets(keys, values, found, n), stored_keys, stream); });
}

void Cache::get(std::span<const uint64_t> keys, std::span<uint64_t> values,
                std::span<uint8_t> found) {
  run_host(gets(keys, values, found));
}

void Cache::put(std::span<const uint64_t> keys, std::span<const uint64_t> values) {
  run_host(puts(keys, values));
}

void Cache::run_host(const TableRequests& requests) {
  if (requests.rows != 0) state_->run_host(requests);
}

TableStats Cache::stats() {
  TableStats stats;
  state_->use([&](auto& its) { stats = its.table.stats(); });
  return stats;
}

}  // namespace isotherm::gpu
