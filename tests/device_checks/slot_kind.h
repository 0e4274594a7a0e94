// SlotKind: a deliberately simple index kind (gpu/kernel/index_kind.h), for tests: what is true of
// it and of the line index alike is what the engine of batches and tables rely on.
//
// Layout. One array of slots, a power of two, and behind it the head, for the key whose hash is 0,
// which is kept there as hash 1. A key lies in the first slot from its home on that was free when
// it came. A slot that has a hash keeps it, whether its key is there or was erased, until the array
// is written anew; so a search ends at a slot without one. Each lane looks by itself.
//
// Growth. When three quarters of the slots have a hash a kernel between batches writes all entries
// into a larger array. Where memory ends the array fills up, and keys that find no slot are
// refused.
#pragma once

#include <algorithm>
#include <bit>
#include <cstdint>
#include <new>
#include <utility>

#include "base/hash.h"
#include "base/tile_lanes.h"
#include "gpu/kernel/each_request.h"
#include "gpu/kernel/request_op.h"
#include "gpu/kernel/settle_kernels.h"
#include "gpu/platform/device_context.h"
#include "gpu/table/scan_kernel.h"
#include "gpu/table/table_options.h"
#include "gpu/table/table_reports.h"
#include "index/probe.h"

namespace isotherm {

struct SlotEntry {
  uint64_t hash = 0;  // 0: nobody's
  uint64_t word = 0;
  uint64_t there = 0;  // 1: the key is present
};

struct SlotCounts {
  int64_t entries = 0;
  uint64_t claimed = 0;  // slots with a hash
};

// With what a search along the slots needs of the view.
struct SlotHome {
  SlotEntry* begin = nullptr;
  uint64_t hash = 0;
  SlotEntry* entries = nullptr;
  uint64_t slots = 0;
  SlotCounts* counts = nullptr;

  ISOTHERM_HOST_DEVICE bool is_given() const { return begin != nullptr; }
  ISOTHERM_HOST_DEVICE void clear() { begin = nullptr; }
  // The slot behind; null behind the last that the home leads to.
  ISOTHERM_HOST_DEVICE SlotEntry* next(SlotEntry* slot) const {
    if (begin == entries + slots) return nullptr;
    ++slot;
    if (slot == entries + slots) slot = entries;
    return slot == begin ? nullptr : slot;
  }
};

struct SlotView {
  SlotEntry* entries = nullptr;  // slots + 1
  uint64_t slots = 0;
  uint64_t seed = 0;
  SlotCounts* counts = nullptr;

  ISOTHERM_HOST_DEVICE uint64_t hash(uint64_t key) const { return mix(key, seed); }
  ISOTHERM_HOST_DEVICE SlotHome home(uint64_t hash) const {
    const bool head = hash == 0;
    return {entries + (head ? slots : hash & (slots - 1)), head ? 1 : hash, entries, slots, counts};
  }
};

// The key's own slot, or the first that is free, or none.
struct SlotPlace {
  SlotEntry* slot = nullptr;
  uint64_t word = 0;
  bool found = false;
};

template <class Lane>
ISOTHERM_HOST_DEVICE inline SlotPlace place_in_slots(const SlotHome& home) {
  SlotPlace place;
  for (SlotEntry* slot = home.begin; slot != nullptr; slot = home.next(slot)) {
    const uint64_t hash = Lane::load(&slot->hash);
    if (hash != 0 && hash != home.hash) continue;
    place.slot = slot;
    place.found = hash != 0 && Lane::load(&slot->there) != 0;
    if (place.found) place.word = Lane::load(&slot->word);
    break;
  }
  return place;
}

// Makes the slot the key's; what hash it had.
template <class Lane>
ISOTHERM_HOST_DEVICE inline uint64_t claim_slot(const SlotPlace& place, const SlotHome& home) {
  const uint64_t seen = Lane::compare_exchange(&place.slot->hash, uint64_t{0}, home.hash);
  if (seen == 0) Lane::atomic_add(&home.counts->claimed, uint64_t{1});
  return seen;
}

template <class Lane>
ISOTHERM_HOST_DEVICE inline bool write_slot(const SlotPlace& place, const SlotHome& home,
                                            KeyState to) {
  if (to.found == 0 && !place.found) return true;
  if (place.slot == nullptr) return false;
  const uint64_t seen = claim_slot<Lane>(place, home);
  if (seen != 0 && seen != home.hash) return false;
  Lane::store(&place.slot->word, to.value);
  Lane::store(&place.slot->there, uint64_t{to.found});
  return true;
}

// A tile's leader works for all of it.
template <class Lane>
class SlotUpdate {
 public:
  ISOTHERM_HOST_DEVICE SlotUpdate(const SoleWriterTile<Lane>& tile, const SlotView& view)
      : tile_(tile), view_(view) {}

  template <class Loaded, class After>
  ISOTHERM_HOST_DEVICE KeyState run(const SlotHome& home, const Loaded& /*loaded*/, After&& after) {
    KeyState before;
    if (tile_.leads()) before = run_alone(home, after);
    return {tile_.share(before.value), static_cast<uint8_t>(tile_.share(uint32_t{before.found}))};
  }
  ISOTHERM_HOST_DEVICE void count(int32_t entries) { entries_ += entries; }
  ISOTHERM_HOST_DEVICE void close() {
    if (entries_ != 0) Lane::atomic_add(&view_.counts->entries, int64_t{entries_});
    entries_ = 0;
  }

 private:
  template <class After>
  ISOTHERM_HOST_DEVICE KeyState run_alone(const SlotHome& home, After& after) {
    for (;;) {
      const SlotPlace place = place_in_slots<Lane>(home);
      const KeyState before{place.word, static_cast<uint8_t>(place.found)};
      const KeyState to = after(before);
      if (to.found != 0 && place.slot == nullptr) return {0, reply_retry};
      if (!write_slot<Lane>(place, home, to)) continue;
      entries_ += static_cast<int32_t>(to.found) - static_cast<int32_t>(before.found);
      return before;
    }
  }

  const SoleWriterTile<Lane>& tile_;
  const SlotView& view_;
  int32_t entries_ = 0;
};

// `linked_lines` are the slots with a hash.
struct SlotTotals {
  const SlotCounts* counts = nullptr;
  TableTotals* to = nullptr;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void sum_up(const Lane& lane) const {
    if (lane.thread() != 0) return;
    *to = {static_cast<uint64_t>(counts->entries), 0, counts->claimed};
  }
};

// Writes all entries of `from` into `to`, which is clear.
struct RehashKernel {
  SlotView from;
  SlotView to;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    each_request(lane, from.slots + 1, [&](uint64_t i) {
      const SlotEntry& entry = from.entries[i];
      if (entry.there == 0) return;
      const SlotHome home = i == from.slots ? to.home(0) : to.home(entry.hash);
      while (!write_slot<Lane>(place_in_slots<Lane>(home), home, {entry.word, 1})) {
      }
    });
  }
};

// Slots by number; the head is the last.
struct SlotScan {
  static constexpr uint32_t threads = 32;

  SlotView view;
  uint64_t bound = 0;
  uint64_t lines = 0;
  uint64_t wanted = 0;
  ScanRoom room;

  template <class Lane>
  ISOTHERM_HOST_DEVICE void operator()(const Lane& lane) const {
    if (lane.thread() != 0) return;
    uint64_t count = 0;
    uint64_t at = bound;
    for (; at <= view.slots && at < bound + lines && count < wanted && count < room.entries; ++at) {
      const SlotEntry& entry = view.entries[at];
      if (entry.there == 0) continue;
      room.hashes[count] = at == view.slots ? 0 : entry.hash;
      room.values[count] = entry.word;
      ++count;
    }
    *room.result = {count, at > view.slots ? 0 : at, 0};
  }
};

template <class Device>
class SlotOwner {
 public:
  using Stream = typename Device::Stream;

  SlotOwner(DeviceContext<Device>& context, TableReports<Device>& reports,
            const FixedDeviceOptions& options)
      : context_(context),
        device_(context.device()),
        seed_(options.seed),
        reports_(reports),
        entries_(context.memory(), least + 1),
        counts_(context.memory(), 1) {
    if (entries_.empty() || counts_.empty()) throw std::bad_alloc();
    require_device(device_.clear(context.stream(), entries_.data(), entries_.bytes()) &&
                       device_.clear(context.stream(), counts_.data(), counts_.bytes()) &&
                       device_.synchronize(context.stream()),
                   "make the table");
  }

  SlotView view() const { return view_of(entries_); }
  SlotTotals totals() { return {counts_.data(), reports_.next()}; }
  uint64_t segments() const { return slots() / 64; }

  static uint64_t likely_rows(uint64_t entries, uint64_t /*bytes*/) { return entries / 32; }
  bool fits(uint64_t rows) const { return claimed() + rows <= slots() * 3 / 4; }
  uint64_t rows_at_once() const {
    const uint64_t most = slots() * 3 / 4;
    return (most - std::min(most, claimed())) / 2;
  }
  bool has_plenty(uint64_t rows) const { return fits(rows); }

  void reserve(uint64_t entries, uint64_t /*rows*/, Stream stream) {
    context_.order().begin_write(stream);
    reports_.take_all();
    write_anew(entries, stream);
    context_.order().end_write(stream);
  }
  template <class Leave>
  bool make_room(uint64_t rows, uint64_t /*soon*/, Stream stream, Leave&& leave) {
    while (!fits(rows) && reports_.any_under_way()) reports_.take_one();
    if (fits(rows)) return true;
    leave();
    write_anew(reports_.known().entries + rows, stream);
    return fits(rows);
  }
  template <class Leave>
  bool has_room(uint64_t rows, Leave&& leave) {
    context_.order().begin_write(context_.stream());
    make_room(rows, rows, context_.stream(), leave);
    context_.order().end_write(context_.stream());
    return fits(rows);
  }
  template <class Leave>
  bool has_express_room(uint64_t rows, Leave&& leave) {
    reports_.take_all();
    return fits(rows) || has_room(rows, leave);
  }
  void add_express(int64_t entries, uint64_t inserted) {
    reports_.add(entries, 0);
    expressed_ += inserted;
  }

 private:
  static constexpr uint64_t least = 64;

  uint64_t slots() const { return entries_.size() - 1; }
  // At most; nothing that came by express is forgotten.
  uint64_t claimed() const {
    return reports_.known().linked_lines + expressed_ + reports_.rows_under_way();
  }
  SlotView view_of(const DeviceArray<Device, SlotEntry>& entries) const {
    return {entries.data(), entries.size() - 1, seed_, counts_.data()};
  }

  // So that `entries` fit, or not at all where memory ends. Nothing is under way.
  void write_anew(uint64_t entries, Stream stream) {
    const uint64_t wanted = std::bit_ceil(std::max(entries, least) * 2);
    DeviceArray<Device, SlotEntry> larger(context_.memory(), std::max(wanted, slots()) + 1);
    if (larger.empty()) return;
    constexpr uint32_t threads = 256;
    const RehashKernel kernel{view(), view_of(larger)};
    require_device(
        device_.clear(stream, larger.data(), larger.bytes()) &&
            device_.clear(stream, &counts_.data()->claimed, sizeof(uint64_t)) &&
            device_.launch(stream, grid_for(device_, slots() + 1, threads), threads, kernel) &&
            device_.launch(stream, 1, 32, TotalsKernel<SlotTotals>{totals()}),
        "write the slots anew");
    reports_.expect(0, false, stream);
    require_device(device_.synchronize(stream), "write the slots anew");
    reports_.take_all();
    entries_ = std::move(larger);
    expressed_ = 0;
  }

  DeviceContext<Device>& context_;
  Device& device_;
  const uint64_t seed_;
  TableReports<Device>& reports_;
  DeviceArray<Device, SlotEntry> entries_;
  DeviceArray<Device, SlotCounts> counts_;
  uint64_t expressed_ = 0;  // keys that came by express since the slots were written
};

struct SlotKind {
  struct Nothing {};
  using View = SlotView;
  using Home = SlotHome;
  using Totals = SlotTotals;
  using FindShared = Nothing;
  using PlaceShared = Nothing;
  template <class Lane>
  using Update = SlotUpdate<Lane>;
  template <class Device>
  using Owner = SlotOwner<Device>;
  using Scan = SlotScan;

  template <uint32_t rows_per_tile, class Lane>
  ISOTHERM_HOST_DEVICE static Found find(const SteadyTile<Lane>& /*tile*/, FindShared& /*shared*/,
                                         const Home& home) {
    const SlotPlace place = place_in_slots<Lane>(home);
    return {place.found, place.word};
  }
  template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
  ISOTHERM_HOST_DEVICE static SlotPlace find_place(const SoleWriterTile<Lane>& /*tile*/,
                                                   PlaceShared& /*shared*/, const Home& home) {
    return place_in_slots<Lane>(home);
  }
  template <uint32_t rows_per_tile, uint32_t at_a_time, class Lane>
  ISOTHERM_HOST_DEVICE static SlotPlace find_first_place(const SoleWriterTile<Lane>& /*tile*/,
                                                         PlaceShared& /*shared*/,
                                                         const Home& home) {
    return place_in_slots<Lane>(home);
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE static bool write(const SlotPlace& place, const Home& home, KeyState to) {
    return write_slot<Lane>(place, home, to);
  }
  // A slot that has the hash already was its key's before, or another row was faster.
  template <class Lane>
  ISOTHERM_HOST_DEVICE static bool claim(const SlotPlace& place, const Home& home, uint64_t value) {
    if (claim_slot<Lane>(place, home) != 0) return false;
    Lane::store(&place.slot->word, value);
    Lane::store(&place.slot->there, uint64_t{1});
    return true;
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE static Nothing load(const SoleWriterTile<Lane>& /*tile*/,
                                           const Home& /*home*/) {
    return {};
  }
  template <class Lane, class Work>
  ISOTHERM_HOST_DEVICE static void tile_rows(const SoleWriterTile<Lane>& tile, const Home& home,
                                             Work&& work) {
    for (uint32_t owner = 0; owner < tile_lanes; ++owner) {
      Home its = home;
      its.begin =
          reinterpret_cast<SlotEntry*>(tile.from(reinterpret_cast<uint64_t>(home.begin), owner));
      its.hash = tile.from(home.hash, owner);
      its.entries =
          reinterpret_cast<SlotEntry*>(tile.from(reinterpret_cast<uint64_t>(home.entries), owner));
      its.slots = tile.from(home.slots, owner);
      its.counts =
          reinterpret_cast<SlotCounts*>(tile.from(reinterpret_cast<uint64_t>(home.counts), owner));
      if (its.is_given()) work(owner, its, Nothing{});
    }
  }
  template <class Lane>
  ISOTHERM_HOST_DEVICE static void count(const SoleWriterTile<Lane>& tile, const View& view,
                                         int32_t entries) {
    SlotUpdate<Lane> update(tile, view);
    update.count(entries);
    update.close();
  }
};

}  // namespace isotherm
