#include "base/hash.h"
#include "cuda/index_kernels.h"
#include "cuda/tile_lines.cuh"
#include "gpu/kernel/warp_find.h"
#include "items/location.h"

namespace isotherm {
namespace {

constexpr int threads_per_block = 256;
constexpr uint64_t max_blocks = 1 << 16;

// One request, equal in all lanes of the tile.
struct Request {
  uint64_t key = 0;
  uint64_t word = 0;
  uint64_t expected = 0;
};

// Equal in all lanes, too.
struct Reply {
  Found previous;
  Change change = Change::none;
};

// How one table finds and updates.
struct ByteAccess {
  ByteTable table;

  __device__ Home home(uint64_t key) const { return {table.index.home(key), key}; }
  template <class Decide>
  __device__ Updated update(TileCuda tile, uint64_t key, TileLines& lines, Decide&& decide) const {
    return isotherm::update(tile, table.index.home(key), key, lines, decide);
  }
  static __device__ Decision swap(const Request& request, bool found, uint64_t word) {
    if ((found ? word : location::none) != request.expected) return {};
    const bool erase = request.word == location::none;
    return {erase ? Action::erase : Action::store, request.word};
  }
};

struct FixedAccess {
  FixedTable table;

  __device__ Home home(uint64_t key) const {
    const uint64_t hash = mix(key, table.seed);
    if (hash == 0) return {table.head, 1};
    return {table.index.home(hash), hash};
  }
  template <class Decide>
  __device__ Updated update(TileCuda tile, uint64_t key, TileLines& lines, Decide&& decide) const {
    const uint64_t hash = mix(key, table.seed);
    if (hash != 0) return isotherm::update(tile, table.index.home(hash), hash, lines, decide);
    return update_head(tile, decide);
  }
  static __device__ Decision swap(const Request& request, bool found, uint64_t word) {
    if (!found || word != request.expected) return {};
    return {Action::store, request.word};
  }

 private:
  template <class Decide>
  __device__ Updated update_head(TileCuda tile, Decide& decide) const {
    for (;;) {
      const Slot slot = tile.slot(tile.load(table.head), 0);
      const Found previous{slot.first != 0, slot.second};
      const Decision decision = decide(previous.found, previous.word);
      const bool store = decision.action == Action::store;
      const bool erase = decision.action == Action::erase && previous.found;
      if (!store && !erase) return {Change::none, previous, false};
      if (!tile.replace(table.head, 0, slot, store ? Slot{1, decision.word} : Slot{0, 0})) continue;
      const Change stored = previous.found ? Change::replaced : Change::inserted;
      return {store ? stored : Change::erased, previous, false};
    }
  }
};

template <Operation operation, class Access>
__device__ Reply answer(TileCuda tile, const Access& access, TileLines& lines,
                        const Request& request) {
  const auto decide = [&](bool found, uint64_t word) -> Decision {
    if constexpr (operation == Operation::upsert) return {Action::store, request.word};
    if constexpr (operation == Operation::erase) return {Action::erase, 0};
    if constexpr (operation == Operation::add) return {Action::store, word + request.word};
    return Access::swap(request, found, word);
  };
  const Updated updated = access.update(tile, request.key, lines, decide);
  return {updated.previous, updated.change};
}

// The lookup that tables use: a row a lane, and whole warps.
template <class Access>
__global__ void look_up(Access access, Columns columns) {
  __shared__ FindShared<FoundWord> shared;
  const LaneCuda self;
  const SteadyTile<LaneCuda> tile(self);
  const WarpRounds<LaneCuda> rounds(self);
  for (uint64_t first = rounds.first; first < columns.rows; first += rounds.stride) {
    const uint64_t row = first + rounds.number;
    Home home;
    if (row < columns.rows) home = access.home(columns.keys[row]);
    const Found found = find_in_warp<tile_lanes>(tile, shared, home);
    if (row >= columns.rows) continue;
    columns.previous[row] = found.found ? found : Found{};
    columns.change[row] = Change::none;
  }
}

template <Operation operation, class Access>
__global__ void run(Access access, OverflowLines overflow, Columns columns) {
  constexpr uint32_t lanes = TileCuda::lanes;
  const uint32_t lane = threadIdx.x % lanes;
  const LaneCuda self;
  const TileCuda tile(self);
  TileLines lines(tile, overflow);
  const auto from_lane = [&](uint64_t value, uint32_t owner) {
    return __shfl_sync(tile.mask(), value, static_cast<int>(owner), lanes);
  };

  const uint64_t stride = uint64_t{gridDim.x} * blockDim.x;
  const uint64_t thread = uint64_t{blockIdx.x} * blockDim.x + threadIdx.x;
  // Lanes whose row lies behind the last one stay to help.
  for (uint64_t first = thread - lane; first < columns.rows; first += stride) {
    const uint64_t row = first + lane;
    Request owned;
    if (row < columns.rows) {
      owned.key = columns.keys[row];
      if (columns.words != nullptr) owned.word = columns.words[row];
      if (columns.expected != nullptr) owned.expected = columns.expected[row];
    }
    Reply reply;
    for (uint32_t owner = 0; owner < lanes && first + owner < columns.rows; ++owner) {
      const Request request{from_lane(owned.key, owner), from_lane(owned.word, owner),
                            from_lane(owned.expected, owner)};
      const Reply answered = answer<operation>(tile, access, lines, request);
      if (lane == owner) reply = answered;
    }
    if (row < columns.rows) {
      columns.previous[row] = reply.previous;
      columns.change[row] = reply.change;
    }
  }
  lines.close();
}

template <Operation operation, class Access>
void launch_one(Access access, const OverflowLines& lines, const Columns& columns) {
  const uint64_t wanted = (columns.rows + threads_per_block - 1) / threads_per_block;
  if (wanted == 0) return;
  const auto blocks = static_cast<uint32_t>(wanted < max_blocks ? wanted : max_blocks);
  if constexpr (operation == Operation::find) {
    look_up<<<blocks, threads_per_block>>>(access, columns);
  } else {
    run<operation><<<blocks, threads_per_block>>>(access, lines, columns);
  }
}

template <class Access>
void launch_any(Operation operation, Access access, const OverflowLines& lines,
                const Columns& columns) {
  switch (operation) {
    case Operation::find:
      return launch_one<Operation::find>(access, lines, columns);
    case Operation::upsert:
      return launch_one<Operation::upsert>(access, lines, columns);
    case Operation::erase:
      return launch_one<Operation::erase>(access, lines, columns);
    case Operation::compare_and_swap:
      return launch_one<Operation::compare_and_swap>(access, lines, columns);
    case Operation::add:
      return launch_one<Operation::add>(access, lines, columns);
  }
}

}  // namespace

void launch(Operation operation, const ByteTable& table, const OverflowLines& lines,
            const Columns& columns) {
  launch_any(operation, ByteAccess{table}, lines, columns);
}

void launch(Operation operation, const FixedTable& table, const OverflowLines& lines,
            const Columns& columns) {
  launch_any(operation, FixedAccess{table}, lines, columns);
}

}  // namespace isotherm
