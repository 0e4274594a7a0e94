#include "executor/device/root_table.h"

#include <algorithm>
#include <array>
#include <new>
#include <optional>
#include <set>
#include <utility>

#include "gpu/platform/device_error.h"

namespace isotherm {
namespace {

// Where a row was sent: the device's number, and its row there.
constexpr int place_bits = 27;
constexpr uint32_t place_on_host = ~uint32_t{0};
uint32_t place(size_t device, uint32_t row) {
  return static_cast<uint32_t>(device) << place_bits | row;
}
uint32_t row_of(uint32_t place) { return place & ((uint32_t{1} << place_bits) - 1); }

constexpr uint64_t least_rows = 4096;  // of own columns
// Lines of the host that an index grows by after a round, beside those for its changes.
constexpr uint64_t lines_a_round = 4096;
constexpr uint64_t lines_a_change = 64;
// How many entries of moving bins a step moves.
constexpr uint64_t entries_a_step = 4096;

}  // namespace

// Columns in ordinary memory.
struct RootTable::OwnColumns {
  static constexpr uint64_t bytes_a_row = 4 * sizeof(uint64_t) + sizeof(uint32_t) + sizeof(uint8_t);

  explicit OwnColumns(uint64_t rows)
      : keys(new uint64_t[rows]),
        roots(new Location[rows]),
        changed_keys(new uint64_t[rows]),
        changed_roots(new Location[rows]),
        places(new uint32_t[rows]),
        found(new uint8_t[rows]),
        columns{rows,        keys.get(),         roots.get(),
                found.get(), changed_keys.get(), changed_roots.get()} {}

  std::unique_ptr<uint64_t[]> keys;
  std::unique_ptr<Location[]> roots;
  std::unique_ptr<uint64_t[]> changed_keys;
  std::unique_ptr<Location[]> changed_roots;
  std::unique_ptr<uint32_t[]> places;
  std::unique_ptr<uint8_t[]> found;
  RootColumns columns;
};

// Some rows that are sent to their sides together.
struct RootTable::Block {
  static constexpr size_t most_rows = 1024;

  size_t rows = 0;
  std::array<uint8_t, most_rows> side;
  std::array<uint32_t, most_devices> next;  // rows taken on each device
  uint32_t on_host = 0;
};

RootTable::RootTable(HostStore& store, std::vector<std::unique_ptr<RootTier>> tiers,
                     uint32_t sampled)
    : store_(store), sampled_(sampled) {
  if (tiers.empty() || tiers.size() > most_devices) {
    throw DeviceError("an index lies on 1 to 16 devices");
  }
  for (auto& tier : tiers) devices_.emplace_back(std::move(tier));
}

std::vector<std::unique_ptr<ValueTier>> RootTable::make_value_tiers(uint64_t bytes, uint64_t cap) {
  std::vector<std::unique_ptr<ValueTier>> tiers;
  tiers.reserve(devices_.size());
  for (Device& device : devices_) tiers.push_back(device.tier->make_values(bytes, cap));
  return tiers;
}

std::vector<int> RootTable::memory_nodes() const {
  std::set<int> nodes;
  for (const Device& device : devices_) nodes.insert(device.tier->memory_node());
  nodes.erase(-1);
  return {nodes.begin(), nodes.end()};
}

RootTable::~RootTable() {
  store_.budget.buffers.fetch_sub(buffer_bytes_, std::memory_order_relaxed);
}

const RootColumns& RootTable::columns(uint64_t rows) {
  for (Device& device : devices_) {
    device.columns = device.tier->columns(rows);
    device.rows.store(0, std::memory_order_relaxed);
    device.changes.store(0, std::memory_order_relaxed);
  }
  if (!split()) {
    columns_ = devices_.front().columns;
  } else {
    if (!own_ || own_->columns.rows < rows) {
      const uint64_t room = std::max(rows, own_ ? own_->columns.rows * 2 : least_rows);
      own_.reset();
      own_ = std::make_unique<OwnColumns>(room);
    }
    columns_ = own_->columns;
  }
  count_buffers();
  return columns_;
}

void RootTable::count_buffers() {
  uint64_t bytes = own_ ? own_->columns.rows * OwnColumns::bytes_a_row : 0;
  for (const Device& device : devices_) bytes += device.tier->pinned_bytes();
  const auto now = static_cast<int64_t>(bytes);
  const int64_t more = now - std::exchange(buffer_bytes_, now);
  if (more != 0) store_.budget.buffers.fetch_add(more, std::memory_order_relaxed);
}

size_t RootTable::side_of(uint64_t hash) const {
  const size_t number = device_of(hash);
  if (host_ == nullptr) return number;
  const Device& device = devices_[number];
  return device.moves && device.moves->on_host(hash) ? host_side : number;
}

// Calls work(first, block) for blocks of rows, with their numbers of rows set.
template <class Work>
void RootTable::each_block(uint64_t first, uint64_t count, Work&& work) {
  Block block;
  for (const uint64_t end = first + count; first < end; first += block.rows) {
    block.rows = std::min<uint64_t>(Block::most_rows, end - first);
    work(first, block);
  }
}

// Finds out where the keys of a block go, and takes rows for them there.
void RootTable::claim(const uint64_t* keys, std::atomic<uint32_t> Device::*rows, Block& block) {
  std::array<uint32_t, most_devices + 1> counts{};
  for (size_t i = 0; i < block.rows; ++i) {
    const size_t side = side_of(hash_of(keys[i]));
    block.side[i] = static_cast<uint8_t>(side);
    ++counts[side];
  }
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (counts[i] == 0) continue;
    block.next[i] = (devices_[i].*rows).fetch_add(counts[i], std::memory_order_relaxed);
  }
  block.on_host = counts[host_side];
}

void RootTable::spread(uint64_t first, uint64_t count) {
  if (!split()) return;
  each_block(first, count, [&](uint64_t from, Block& block) { spread_block(from, block); });
}

void RootTable::spread_block(uint64_t first, Block& block) {
  const uint64_t* keys = columns_.keys + first;
  claim(keys, &Device::rows, block);
  std::array<uint64_t*, most_devices> keys_there{};
  for (size_t i = 0; i < devices_.size(); ++i) keys_there[i] = devices_[i].columns.keys;
  uint32_t* places = own_->places.get() + first;
  for (size_t i = 0; i < block.rows; ++i) {
    const size_t side = block.side[i];
    if (side == host_side) {
      places[i] = place_on_host;
      continue;
    }
    const uint32_t row = block.next[side]++;
    places[i] = place(side, row);
    keys_there[side][row] = keys[i];
  }
  if (host_ != nullptr) count_reads(first, block);
  if (block.on_host != 0) look_up_on_host(first, block);
}

void RootTable::count_reads(uint64_t first, const Block& block) {
  const uint64_t end = first + block.rows;
  for (uint64_t row = (first + sampled_ - 1) / sampled_ * sampled_; row < end; row += sampled_) {
    const uint64_t hash = hash_of(columns_.keys[row]);
    Device& device = devices_[device_of(hash)];
    if (device.moves) device.moves->count_read(hash);
  }
}

void RootTable::look_up_on_host(uint64_t first, const Block& block) {
  std::array<uint16_t, Block::most_rows> rows{};
  std::array<uint64_t, Block::most_rows> keys{};
  std::array<Location, Block::most_rows> roots{};
  std::array<uint8_t, Block::most_rows> found;
  size_t count = 0;
  for (size_t i = 0; i < block.rows; ++i) {
    if (block.side[i] != host_side) continue;
    rows[count] = static_cast<uint16_t>(i);
    keys[count++] = columns_.keys[first + i];
  }
  host_->find(keys.data(), count, roots.data(), found.data());
  for (size_t i = 0; i < count; ++i) {
    columns_.roots[first + rows[i]] = roots[i];
    columns_.found[first + rows[i]] = found[i];
  }
  host_lookups_.fetch_add(count, std::memory_order_relaxed);
}

void RootTable::find(uint64_t rows) {
  if (!split()) devices_.front().rows.store(static_cast<uint32_t>(rows), std::memory_order_relaxed);
  for (Device& device : devices_) {
    if (const uint32_t its = device.rows.load(std::memory_order_relaxed)) device.tier->find(its);
  }
}

void RootTable::wait() {
  for (Device& device : devices_) {
    if (device.rows.load(std::memory_order_relaxed) != 0) device.tier->wait();
  }
}

bool RootTable::ready() {
  return std::all_of(devices_.begin(), devices_.end(), [this](const Device& device) {
    const bool unused = split() && device.rows.load(std::memory_order_relaxed) == 0;
    return unused || device.tier->ready();
  });
}

// Bins that move take their time, and so does much growth of the host's part.
bool RootTable::changes_at_once(uint64_t rows) {
  if (rows == 0) return true;
  const bool all_on_host = to_host_.value_or(false) && host_ != nullptr;
  return std::all_of(devices_.begin(), devices_.end(), [&](Device& device) {
    if (all_on_host) return device.changes.load(std::memory_order_relaxed) == 0;
    return host_ == nullptr && device.tier->changes_at_once(rows);
  });
}

void RootTable::gather(uint64_t first, uint64_t count) {
  if (!split()) return;
  std::array<RootColumns, most_devices> from;
  for (size_t i = 0; i < devices_.size(); ++i) from[i] = devices_[i].columns;
  for (uint64_t row = first; row < first + count; ++row) {
    const uint32_t at = own_->places[row];
    if (at == place_on_host) continue;
    const RootColumns& columns = from[at >> place_bits];
    columns_.roots[row] = columns.roots[row_of(at)];
    columns_.found[row] = columns.found[row_of(at)];
  }
}

// The other participants of the round wait for whoever calls this, so it must not throw.
void RootTable::hand_in(uint64_t first, uint64_t count) {
  if (!split()) return;
  each_block(first, count, [&](uint64_t from, Block& block) { hand_in_block(from, block); });
}

void RootTable::hand_in_block(uint64_t first, Block& block) {
  const uint64_t* keys = columns_.changed_keys + first;
  const Location* roots = columns_.changed_roots + first;
  claim(keys, &Device::changes, block);
  constexpr size_t ahead = 8;
  for (size_t i = 0; i < block.rows; ++i) {
    if (block.on_host != 0 && i + ahead < block.rows && block.side[i + ahead] == host_side) {
      host_->prefetch_change(hash_of(keys[i + ahead]));
    }
    const size_t side = block.side[i];
    if (side == host_side) {
      host_->change(hash_of(keys[i]), roots[i]);
      continue;
    }
    const RootColumns& there = devices_[side].columns;
    const uint32_t row = block.next[side]++;
    there.changed_keys[row] = keys[i];
    there.changed_roots[row] = roots[i];
  }
}

void RootTable::change(uint64_t rows) {
  if (tries_again_in_ != 0 && --tries_again_in_ == 0) tends_.store(true, std::memory_order_relaxed);
  if (!split()) devices_.front().changes = static_cast<uint32_t>(rows);
  bool moved = false;
  for (Device& device : devices_) {
    while (device.changes != 0 && !device.tier->has_room(device.changes)) {
      free_bin(device);
      count_changes(rows);
      moved = true;
    }
  }
  if (moved) route(rows);
  for (Device& device : devices_) {
    if (device.changes != 0) device.tier->change(device.changes);
  }
  if (host_ == nullptr) return;
  // Bins that are to go to the host are moved by `tend`.
  for (Device& device : devices_) {
    if (device.moves && !to_host_.value_or(false)) device.moves->after_round(rows);
  }
  host_->settle(rows + std::min(lines_a_round, rows * lines_a_change));
  if (host_->full()) throw DeviceError("no memory for the part of the index on the host");
}

// Those that go to each device, since bins have moved.
void RootTable::count_changes(uint64_t rows) {
  for (Device& device : devices_) device.changes = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const size_t side = side_of(hash_of(columns_.changed_keys[row]));
    if (side != host_side) ++devices_[side].changes;
  }
}

// Sends changes where they go now. Those of the host were made when they were handed in, but for
// bins that have moved since: to make a change twice does no harm.
void RootTable::route(uint64_t rows) {
  for (Device& device : devices_) device.changes = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t key = columns_.changed_keys[row];
    const Location root = columns_.changed_roots[row];
    const uint64_t hash = hash_of(key);
    const size_t side = side_of(hash);
    if (side == host_side) {
      host_->change(hash, root);
      continue;
    }
    // The one device's columns may be the round's own: what is written was read before.
    Device& device = devices_[side];
    device.columns.changed_keys[device.changes] = key;
    device.columns.changed_roots[device.changes] = root;
    ++device.changes;
  }
}

void RootTable::free_bin(Device& device) {
  if (!device.moves) share(device);
  if (!device.moves->free_bin()) throw DeviceError("the memory of the device is full");
}

void RootTable::lean(bool to_host) {
  to_host_ = to_host;
  tries_again_in_ = 0;
  tends_.store(true, std::memory_order_relaxed);
}

bool RootTable::tend() {
  bool more = false;
  bool refused = false;
  for (Device& device : devices_) {
    try {
      more |= tend(device, refused);
    } catch (const std::bad_alloc&) {  // no entry has moved
      refused = true;
    }
  }
  if (host_ != nullptr) host_->settle(entries_a_step + lines_a_round);
  const bool all_on_devices =
      std::all_of(devices_.begin(), devices_.end(), [](const Device& device) {
        return !device.moves ||
               device.moves->bins().of_device() == device.moves->bins().bins().size();
      });
  // Then rounds need not ask any more where a key is.
  if (!more && !*to_host_ && all_on_devices) give_up();
  tends_.store(more, std::memory_order_relaxed);
  tries_again_in_ = refused && !more ? rounds_between_tries : 0;
  return more;
}

bool RootTable::tend(Device& device, bool& refused) {
  if (*to_host_) {
    refused |= !store_.budget.fits(store_.budget.limit() / 8);
    if (refused) return false;
    if (!device.moves) share(device, 0);
  }
  using Side = RootBins::Side;
  return device.moves && device.moves->lean(*to_host_ ? Side::host : Side::device, entries_a_step);
}

void RootTable::make_host(uint64_t expected) {
  host_ =
      std::make_unique<HostTier>(store_.pages, store_.budget, store_.epochs, store_.seed, expected);
}

// From now on the device has not all of its hashes.
void RootTable::share(Device& device, int bits_at_least) {
  if (host_ == nullptr) {
    // Bins come in order of hash, so all at one place: with lines for an eighth of what the device
    // has, chains there are short until the index has grown.
    constexpr uint64_t bytes_an_entry = 27;
    const uint64_t expected = device.tier->device_bytes() / bytes_an_entry / 8;
    try {
      make_host(expected);
    } catch (const std::bad_alloc&) {
      make_host(0);
    }
  }
  device.moves.emplace(
      *device.tier, *host_, store_.seed,
      [this, &device](uint64_t hash) { return &devices_[device_of(hash)] == &device; },
      BinMoves::most_bits, bits_at_least);
}

uint64_t RootTable::scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                         const std::function<void(uint64_t key, Location root)>& visit) {
  if (!split()) {
    // The bound may be one of the host's, in the middle of a line of the device.
    return devices_.front().tier->scan(bound, lines, wanted, [&](uint64_t key, Location root) {
      if (hash_of(key) >= bound) visit(key, root);
    });
  }
  // Each part gives what it has up to somewhere; what all have come to is visited.
  std::vector<HostTier::Entry> entries;
  uint64_t next = 0;
  const auto come_to = [&](uint64_t to) {
    if (to != 0 && (next == 0 || to < next)) next = to;
  };
  for (Device& device : devices_) {
    // Where the host has bins, the device has nothing but empty lines.
    const std::optional<uint64_t> from =
        device.moves ? device.moves->bins().next_of_device(bound) : bound;
    if (!from) continue;
    come_to(device.tier->scan(*from, lines, wanted, [&](uint64_t key, Location root) {
      const uint64_t hash = hash_of(key);
      const size_t side = side_of(hash);
      if (side != host_side && &devices_[side] == &device) entries.push_back({hash, root});
    }));
  }
  if (host_ != nullptr) come_to(host_->read(bound, next, wanted, entries));
  for (const HostTier::Entry& entry : entries) {
    if (entry.hash < bound || (next != 0 && entry.hash >= next)) continue;
    visit(unmix(entry.hash, store_.seed), entry.word);
  }
  return next;
}

void RootTable::clear() {
  for (Device& device : devices_) device.tier->clear();
  give_up();
  own_.reset();
  tends_.store(to_host_.has_value(), std::memory_order_relaxed);
}

// Participants of a round that fails may still read its columns.
void RootTable::give_up() {
  for (Device& device : devices_) device.moves.reset();
  host_.reset();
}

RootTableStats RootTable::stats() {
  RootTableStats stats;
  stats.host_lookups = host_lookups_.load(std::memory_order_relaxed);
  for (Device& device : devices_) {
    stats.device_bytes += device.tier->device_bytes();
    if (!device.moves) continue;
    stats.bins_to_host += device.moves->to_host();
    stats.bins_to_device += device.moves->to_device();
  }
  if (host_ != nullptr) stats.host_entries = host_->count();
  return stats;
}

}  // namespace isotherm
