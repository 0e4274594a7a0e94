// Checks of a sorted tier against a model, for any device; see
// tests/device_checks/device_table_checks.h.
#pragma once

#include <algorithm>
#include <iterator>
#include <ostream>
#include <random>
#include <string>
#include <vector>

#include "models/modelled_sorted.h"

namespace isotherm {

// Keys whose order is easily got wrong: of few different bytes, zeros and the highest among them,
// so one is often the beginning of another; many of them with the same first 8 bytes and more.
class SortedKeys {
 public:
  explicit SortedKeys(uint64_t seed) : random_(seed) {}

  std::mt19937_64& random() { return random_; }
  uint64_t below(uint64_t bound) { return random_() % bound; }

  std::string key() {
    static constexpr char bytes[] = {'\0', '\x01', 'a', '\xff'};
    static const std::string fronts[] = {"", "12345678", std::string(9, '\0'),
                                         std::string(8, '\xff'), "a front of more than 16 bytes"};
    std::string key = fronts[below(std::size(fronts))];
    for (uint64_t length = below(12); length != 0; --length) key += bytes[below(4)];
    return key;
  }
  std::string value(uint64_t most) {
    std::string value(below(most + 1), '\0');
    for (char& byte : value) byte = static_cast<char>(random_());
    return value;
  }
  SortedChanges changes(uint64_t count, uint64_t most_value, bool flags) {
    SortedChanges changes;
    for (uint64_t i = 0; i < count; ++i) {
      SortedValue& change = changes[key()];
      change.erased = below(4) == 0;
      change.value = below(8) == 0 ? "" : value(most_value);
      if (flags && below(16) == 0) change.flags = static_cast<uint32_t>(random_() | 1);
    }
    return changes;
  }
  std::vector<std::string> keys(uint64_t count) {
    std::vector<std::string> keys;
    while (keys.size() < count) keys.push_back(key());
    return keys;
  }
  // Some of them empty or the wrong way round.
  std::vector<SortedRange> ranges(uint64_t count) {
    std::vector<SortedRange> ranges{{"", std::string(50, '\xff')}, {"", ""}, {"b", "a"}};
    while (ranges.size() < count) {
      SortedRange range{key(), key(), ~uint32_t{0}};
      if (range.end < range.first && below(8) != 0) std::swap(range.first, range.end);
      if (below(2) == 0) range.limit = static_cast<uint32_t>(below(40));
      ranges.push_back(range);
    }
    return ranges;
  }

 private:
  std::mt19937_64 random_;
};

// Puts and erases, in few large runs and many small ones, with gets and ranges between.
template <class Device>
uint64_t check_sorted_changes(Device& device, uint64_t scale) {
  uint64_t wrong = 0;
  for (const std::string& front : {std::string(), std::string("1234"), std::string(12, '\0')}) {
    SortedKeys keys(1 + front.size());
    RangeShape shape = small_ranges();
    shape.value_skip = static_cast<uint32_t>(front.size()) % 8;
    ModelledSorted<Device> tier(device, scale << 16, front, shape);
    for (const uint64_t count : {scale, uint64_t{1}, uint64_t{3}, scale / 2, uint64_t{40},
                                 uint64_t{2}, uint64_t{5}, scale / 4, uint64_t{20}, uint64_t{1}}) {
      if (!tier.put(keys.changes(count, 100, true))) tier.fail("no room for a put", "");
      tier.check_gets(keys.keys(64));
      tier.check_ranges(keys.ranges(24));
    }
    const SortedStats stats = tier.tier().stats();
    if (stats.merges == 0 || stats.runs > 6) tier.fail("runs are not merged", "");
    tier.clear();
    tier.check_gets(keys.keys(4));
    tier.check_ranges(keys.ranges(4));
    if (tier.ended(RangeHead::End::limit) == 0 || tier.ended(RangeHead::End::all) == 0 ||
        tier.ended(RangeHead::End::flags) == 0) {
      tier.fail("ranges do not end in all ways", front);
    }
    wrong += tier.wrong();
  }
  return wrong;
}

// Ranges over several runs of different sizes, which are not merged, as no flags cut them short.
template <class Device>
uint64_t check_sorted_ranges(Device& device, uint64_t scale) {
  SortedKeys keys(5);
  RangeShape shape = small_ranges();
  shape.reply_room = scale * 512;
  shape.most_bytes = static_cast<uint32_t>(shape.reply_room);
  ModelledSorted<Device> tier(device, scale << 16, "", shape);
  for (uint64_t count = scale * 2; count > 2; count /= 6) {
    tier.put(keys.changes(count, 20, false));
    tier.check_ranges(keys.ranges(16));
  }
  if (tier.tier().stats().runs < 3) tier.fail("all runs were merged", "");
  for (const uint32_t limit : {0u, 1u, 31u, 32u, 33u, 127u, 128u, 129u, 1000u}) {
    tier.check_ranges({{"", "\xff", limit}, {"1", "b", limit}});
  }
  return tier.wrong();
}

// Puts whose pairs come in any order, keys several times.
template <class Device>
uint64_t check_sorted_any_order(Device& device, uint64_t scale) {
  SortedKeys keys(6);
  ModelledSorted<Device> tier(device, scale << 16, "1234");
  for (const uint64_t count : {uint64_t{1}, uint64_t{2}, uint64_t{3}, uint64_t{33}, scale,
                               scale / 2, uint64_t{2}, scale + 1}) {
    UnsortedChanges changes;
    const std::vector<std::string> some = keys.keys(1 + count / 2);
    for (uint64_t i = 0; i < count; ++i) {
      changes.emplace_back(
          some[keys.below(some.size())],
          SortedValue{keys.value(40), keys.below(16) == 0 ? 5u : 0u, keys.below(5) == 0});
    }
    if (!tier.put_unsorted(changes)) tier.fail("no room for a put", "");
    tier.check_gets(some);
    tier.check_ranges(keys.ranges(10));
  }
  const std::string key(20, 'k');
  tier.put_unsorted(UnsortedChanges(100, {key, {"value", 0, false}}));
  tier.check_ranges({{key, key + "a"}});
  return tier.wrong();
}

// Views show what there was when they were taken, whatever is merged or cleared since.
template <class Device>
uint64_t check_sorted_views(Device& device, uint64_t scale) {
  SortedKeys keys(7);
  ModelledSorted<Device> tier(device, scale << 16);
  std::vector<SortedMoment> moments;
  for (uint32_t round = 0; round < 12; ++round) {
    moments.push_back(tier.moment());
    tier.put(keys.changes(scale / 8, 30, false));
    if (round == 8) tier.clear();
    for (const SortedMoment& moment : moments) tier.check_ranges(moment, keys.ranges(4));
    if (moments.size() > 4) moments.erase(moments.begin());
  }
  if (tier.tier().stats().merges == 0) tier.fail("runs are not merged", "");
  return tier.wrong();
}

// What hides nothing any more goes: the last run takes the memory of what it shows.
template <class Device>
uint64_t check_sorted_leftovers(Device& device, uint64_t scale) {
  ModelledSorted<Device> tier(device, scale << 16);
  SortedChanges puts, erases, all;
  for (uint64_t i = 0; i < scale; ++i) {
    const std::string key = std::to_string(i);
    puts[key] = {"some value", 0, false};
    if (i % 3 != 0) erases[key] = {"", 0, true};
    all[key] = {"", 0, true};
  }
  tier.put(puts);
  tier.put(puts);
  if (tier.tier().stats().entries != scale) tier.fail("hidden entries stay", "");
  tier.put(erases);
  if (tier.tier().stats().entries != (scale + 2) / 3) tier.fail("erased entries stay", "");
  tier.check_ranges({{"", "b"}, {"1", "2"}});
  tier.put(all);
  const SortedStats stats = tier.tier().stats();
  if (stats.runs != 0 || stats.entries != 0 || stats.bytes != 0) tier.fail("something is left", "");
  tier.check_ranges({{"", "b"}});
  tier.put(puts);
  tier.check_gets({"0", "1", "2", "10", "x"});
  return tier.wrong();
}

// Ranges that are too long, and calls whose ranges are together.
template <class Device>
uint64_t check_sorted_room(Device& device, uint64_t scale) {
  ModelledSorted<Device> tier(device, uint64_t{scale} << 20, "", {32, 4096, 4096, 2048, 3});
  SortedKeys keys(9);
  SortedChanges changes;
  for (uint64_t i = 0; i < scale; ++i) {
    changes[std::to_string(100'000 + i)].value = keys.value(i % 16 == 0 ? 3000 : 40);
  }
  tier.put(changes);
  std::vector<SortedRange> ranges;
  for (uint64_t i = 0; i < 60; ++i) ranges.push_back({std::to_string(100'000 + i), "2"});
  tier.check_ranges(ranges);
  if (tier.ended(RangeHead::End::bytes) == 0) tier.fail("no range was too long", "");
  if (tier.without_room() == 0) tier.fail("all ranges found room", "");
  std::vector<std::string> all;
  for (const auto& [key, value] : changes) all.push_back(key);
  tier.check_gets(all);
  return tier.wrong();
}

// A tier that is full refuses puts and stays what it was; there may be no room for merges before.
template <class Device>
uint64_t check_sorted_full(Device& device, uint64_t scale) {
  SortedKeys keys(11);
  ModelledSorted<Device> tier(device, uint64_t{256} << 10);
  const std::string large(uint64_t{300} << 10, 'x');
  if (tier.put({{"large", {large, 0, false}}})) tier.fail("a value above the cap was taken", "");
  uint64_t refused = 0;
  const uint64_t count = std::min<uint64_t>(scale / 8 + 4, 64);
  for (uint64_t round = 0; refused < 5 && round < 1000; ++round) {
    SortedChanges changes;
    for (uint64_t i = 0; i < count; ++i) {
      changes[std::to_string(round) + " " + std::to_string(i)].value = keys.value(200);
    }
    refused += tier.put(changes) ? 0 : 1;
    if (round % 16 == 0) tier.check_ranges(keys.ranges(3));
  }
  if (refused == 0) tier.fail("no put was refused", "");
  const SortedStats stats = tier.tier().stats();
  if (stats.bytes > 256 << 10 || stats.runs > SortedRuns::most) tier.fail("it has too much", "");
  std::vector<std::string> some;
  for (const auto& [key, value] : tier.model()) {
    if (some.size() < 128) some.push_back(key);
  }
  tier.check_gets(some);
  tier.check_ranges({{"", "4"}, {"4", "5"}, {"5", "9"}});
  tier.clear();
  if (!tier.put(keys.changes(10, 50, false))) tier.fail("no room when all is cleared", "");
  tier.check_ranges(keys.ranges(5));
  return tier.wrong();
}

// What has expired goes when the oldest run is merged, and not before; what it hides never shows.
template <class Device>
uint64_t check_sorted_expiry(Device& device, uint64_t /*scale*/) {
  constexpr uint32_t flag = 4;
  int64_t now_ms = 50;
  SortedTierOptions options;
  options.bytes = 1 << 20;
  options.expiry_flag = flag;
  options.expiry_at = 8;
  options.now_ms = [&] { return now_ms; };
  DeviceSortedTier<Device> tier(device, options, 1000);
  const auto value = [](int64_t expiry) {
    std::string text(8, 'v');
    text.append(reinterpret_cast<const char*>(&expiry), sizeof expiry);
    return text + "rest";
  };
  uint64_t wrong = 0;
  const auto put = [&](const std::vector<SortedPair>& pairs, uint64_t entries, uint64_t runs) {
    if (!tier.put(pairs)) ++wrong;
    const SortedStats stats = tier.stats();
    if (stats.entries != entries || stats.runs != runs) ++wrong;
  };
  const std::string early = value(100);
  const std::string late = value(1000);
  std::vector<SortedPair> first = {
      {"a", early, flag | 1}, {"b", early, 1}, {"c", late, flag}, {"d", "short", flag}};
  std::vector<std::string> keys;
  for (int i = 0; i < 16; ++i) keys.push_back("x" + std::to_string(10 + i));
  for (const std::string& key : keys) first.push_back({key, early});
  put(first, 20, 1);
  put({{"e", early, flag}, {"f", early}, {"g", early}, {"h", early}, {"i", early}, {"j", early}},
      26, 1);
  // A newer value of a key, which expires, in a run that is not merged with the oldest one.
  now_ms = 500;
  put({{"b", early, flag}}, 27, 2);
  // "a" and "e" have expired, and so has "b" with the older value that it hides.
  put({{"k", late}, {"l", late}, {"m", late}, {"n", late}, {"o", late}, {"p", late}, {"q", late}},
      30, 1);
  return wrong;
}

template <class Device>
struct SortedCheck {
  const char* name;
  uint64_t (*run)(Device& device, uint64_t scale);

  friend std::ostream& operator<<(std::ostream& to, const SortedCheck& check) {
    return to << check.name;
  }
};

template <class Device>
constexpr SortedCheck<Device> sorted_checks[] = {
    {"sorted: changes", check_sorted_changes<Device>},
    {"sorted: ranges", check_sorted_ranges<Device>},
    {"sorted: any order", check_sorted_any_order<Device>},
    {"sorted: views", check_sorted_views<Device>},
    {"sorted: leftovers", check_sorted_leftovers<Device>},
    {"sorted: room", check_sorted_room<Device>},
    {"sorted: full", check_sorted_full<Device>},
    {"sorted: expiry", check_sorted_expiry<Device>},
};

}  // namespace isotherm
