#include "device/root_table.h"

#include <algorithm>
#include <array>
#include <new>
#include <utility>

#include "device/gpu/device_error.h"

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

RootTable::RootTable(HostStore& store, std::vector<std::unique_ptr<RootTier>> tiers,
                     uint32_t sampled)
    : store_(store), sampled_(sampled) {
  if (tiers.empty() || tiers.size() > most_devices) {
    throw DeviceError("an index lies on 1 to 16 devices");
  }
  for (auto& tier : tiers) devices_.emplace_back(std::move(tier));
}

RootTable::~RootTable() {
  store_.budget.buffers.fetch_sub(buffer_bytes_, std::memory_order_relaxed);
}

const RootColumns& RootTable::columns(uint64_t rows) {
  for (Device& device : devices_) {
    device.columns = device.tier->columns(rows);
    device.rows.store(0, std::memory_order_relaxed);
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

bool RootTable::on_host(uint64_t hash) const {
  const Device& device = devices_[device_of(hash)];
  return device.moves && device.moves->on_host(hash);
}

void RootTable::spread(uint64_t first, uint64_t count) {
  if (!split()) return;
  constexpr size_t at_once = 64;
  std::array<HostTier::Wanted, at_once> wanted;
  size_t waiting = 0;
  uint64_t looked_up = 0;
  const auto look_up = [&] {
    if (waiting == 0) return;
    looked_up += waiting;
    host_->find(wanted.data(), std::exchange(waiting, 0), [&](uint32_t row, const Found& found) {
      columns_.roots[row] = found.word;
      columns_.found[row] = static_cast<uint8_t>(found.found);
    });
  };
  std::array<uint32_t, most_devices> rows{};
  for (uint64_t row = first; row < first + count; ++row) {
    const uint64_t hash = hash_of(columns_.keys[row]);
    const size_t number = device_of(hash);
    Device& device = devices_[number];
    if (device.moves && row % sampled_ == 0) device.moves->count_read(hash);
    if (device.moves && device.moves->on_host(hash)) {
      own_->places[row] = place_on_host;
      wanted[waiting++] = {static_cast<uint32_t>(row), hash};
      if (waiting == at_once) look_up();
    } else {
      own_->places[row] = place(number, rows[number]++);
    }
  }
  look_up();
  if (looked_up != 0) host_lookups_.fetch_add(looked_up, std::memory_order_relaxed);
  std::array<uint32_t, most_devices> begin{};
  for (size_t i = 0; i < devices_.size(); ++i) {
    if (rows[i] != 0) begin[i] = devices_[i].rows.fetch_add(rows[i], std::memory_order_relaxed);
  }
  for (uint64_t row = first; row < first + count; ++row) {
    uint32_t& at = own_->places[row];
    if (at == place_on_host) continue;
    const size_t number = at >> place_bits;
    at += begin[number];
    devices_[number].columns.keys[row_of(at)] = columns_.keys[row];
  }
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

void RootTable::gather(uint64_t first, uint64_t count) {
  if (!split()) return;
  for (uint64_t row = first; row < first + count; ++row) {
    const uint32_t at = own_->places[row];
    if (at == place_on_host) continue;
    const RootColumns& from = devices_[at >> place_bits].columns;
    columns_.roots[row] = from.roots[row_of(at)];
    columns_.found[row] = from.found[row_of(at)];
  }
}

// Other members of the round wait for whoever calls, so nothing may be thrown here.
void RootTable::hand_in(uint64_t first, uint64_t count) {
  if (host_ == nullptr) return;
  constexpr uint64_t ahead = 8;
  const auto hash = [&](uint64_t row) { return hash_of(columns_.changed_keys[row]); };
  const uint64_t end = first + count;
  for (uint64_t row = first; row < end; ++row) {
    if (row + ahead < end) host_->prefetch_change(hash(row + ahead));
    if (on_host(hash(row))) host_->change(hash(row), columns_.changed_roots[row]);
  }
}

void RootTable::change(uint64_t rows) {
  count_changes(rows);
  bool moved = false;
  for (Device& device : devices_) {
    while (device.changes != 0 && !device.tier->has_room(device.changes)) {
      free_bin(device);
      count_changes(rows);
      moved = true;
    }
  }
  if (split()) route(rows, moved);
  for (Device& device : devices_) {
    if (device.changes != 0) device.tier->change(device.changes);
  }
  if (host_ == nullptr) return;
  for (Device& device : devices_) {
    if (device.moves) device.moves->after_round(rows);
  }
  host_->settle(rows + lines_a_round);
  if (host_->full()) throw DeviceError("no memory for the part of the index on the host");
}

// Those that go to each device.
void RootTable::count_changes(uint64_t rows) {
  if (!split()) {
    devices_.front().changes = rows;
    return;
  }
  for (Device& device : devices_) device.changes = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t hash = hash_of(columns_.changed_keys[row]);
    if (!on_host(hash)) ++devices_[device_of(hash)].changes;
  }
}

// Sends changes to the devices. Those of the host were made when they were handed in, but for bins
// that have `moved` since: to make a change twice does no harm.
void RootTable::route(uint64_t rows, bool moved) {
  for (Device& device : devices_) device.changes = 0;
  for (uint64_t row = 0; row < rows; ++row) {
    const uint64_t key = columns_.changed_keys[row];
    const Location root = columns_.changed_roots[row];
    const uint64_t hash = hash_of(key);
    if (on_host(hash)) {
      if (moved) host_->change(hash, root);
      continue;
    }
    // The one device's columns may be the round's own: what is written was read before.
    Device& device = devices_[device_of(hash)];
    device.columns.changed_keys[device.changes] = key;
    device.columns.changed_roots[device.changes] = root;
    ++device.changes;
  }
}

void RootTable::free_bin(Device& device) {
  if (!device.moves) share(device);
  if (!device.moves->free_bin()) throw DeviceError("the memory of the device is full");
}

void RootTable::make_host(uint64_t expected) {
  host_ =
      std::make_unique<HostTier>(store_.pages, store_.budget, store_.epochs, store_.seed, expected);
}

// From now on the device has not all of its hashes.
void RootTable::share(Device& device) {
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
  device.moves.emplace(*device.tier, *host_, store_.seed, [this, &device](uint64_t hash) {
    return &devices_[device_of(hash)] == &device;
  });
}

uint64_t RootTable::scan(uint64_t bound, uint64_t lines, uint64_t wanted,
                         const std::function<void(uint64_t key, Location root)>& visit) {
  if (!split()) return devices_.front().tier->scan(bound, lines, wanted, visit);
  // Each part gives what it has up to somewhere; what all have come to is visited.
  std::vector<HostTier::Entry> entries;
  uint64_t next = 0;
  const auto come_to = [&](uint64_t to) {
    if (to != 0 && (next == 0 || to < next)) next = to;
  };
  for (Device& device : devices_) {
    come_to(device.tier->scan(bound, lines, wanted, [&](uint64_t key, Location root) {
      const uint64_t hash = hash_of(key);
      if (&devices_[device_of(hash)] == &device && !on_host(hash)) entries.push_back({hash, root});
    }));
  }
  if (host_ != nullptr) come_to(host_->read(bound, next, wanted, entries));
  for (const HostTier::Entry& entry : entries) {
    if (entry.hash < bound || (next != 0 && entry.hash >= next)) continue;
    visit(unmix(entry.hash, store_.seed), entry.root);
  }
  return next;
}

void RootTable::clear() {
  for (Device& device : devices_) device.tier->clear();
  give_up();
  own_.reset();
}

// Members of a round that fails may still read its columns.
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
