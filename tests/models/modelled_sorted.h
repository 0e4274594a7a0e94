// ModelledSorted: a sorted tier with a model of it, a std::map; each reply of gets and ranges is
// checked against the model, or against what the model was when a view was taken.
//
// Threads. One.
#pragma once

#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "gpu/store/device_sorted_tier.h"

namespace isotherm {

struct SortedValue {
  std::string value;
  uint32_t flags = 0;
  bool erased = false;
};
using SortedChanges = std::map<std::string, SortedValue>;
using UnsortedChanges = std::vector<std::pair<std::string, SortedValue>>;

struct SortedRange {
  std::string first;
  std::string end;
  uint32_t limit = ~uint32_t{0};
};

// What there was, with the view that shows it.
struct SortedMoment {
  SortedChanges pairs;
  std::shared_ptr<const SortedView> view;
};

inline RangeShape small_ranges() { return {32, 4096, 16 << 10, 4096, 0}; }

template <class Device>
class ModelledSorted {
 public:
  static constexpr uint64_t piece_bytes = 1000;  // so that records lie in several

  ModelledSorted(Device& device, uint64_t bytes, const std::string& front = "",
                 const RangeShape& ranges = small_ranges())
      : tier_(device, {bytes, front}, piece_bytes),
        gets_(tier_.make_direct({64, 8192, 64})),
        ranges_(tier_.make_ranges(ranges)) {}

  SortedTier& tier() { return tier_; }
  const SortedChanges& model() const { return model_; }
  uint64_t wrong() const { return wrong_; }
  SortedMoment moment() { return {model_, tier_.view()}; }

  // In the order of keys; false where there was no room.
  bool put(const SortedChanges& changes) { return put_all(changes); }
  // In any order.
  bool put_unsorted(const UnsortedChanges& changes) { return put_all(changes); }
  void clear() {
    tier_.clear();
    model_.clear();
  }

  void check_gets(const std::vector<std::string>& keys) {
    const DirectColumns& columns = gets_->columns();
    for (size_t begin = 0; begin < keys.size();) {
      uint32_t rows = 0;
      for (; rows < gets_->shape().rows && begin + rows < keys.size(); ++rows) {
        const std::string& key = keys[begin + rows];
        const uint32_t at = columns.key_ends[rows];
        if (at + key.size() > gets_->shape().key_room) break;
        std::memcpy(columns.keys + at, key.data(), key.size());
        columns.key_ends[rows + 1] = at + static_cast<uint32_t>(key.size());
      }
      gets_->start(rows);
      gets_->wait();
      for (uint32_t row = 0; row < rows; ++row) {
        if (!is_right(columns.replies + uint64_t{row} * gets_->shape().stride, keys[begin + row])) {
          fail("a get", keys[begin + row]);
        }
      }
      begin += rows;
    }
  }
  void check_ranges(const std::vector<SortedRange>& ranges) { check_ranges(moment(), ranges); }
  void check_ranges(const SortedMoment& moment, std::vector<SortedRange> ranges) {
    while (!ranges.empty()) {
      const uint32_t asked = ask(ranges);
      ranges_->start(*moment.view, asked);
      ranges_->wait();
      std::vector<SortedRange> left(ranges.begin() + asked, ranges.end());
      for (uint32_t i = 0; i < asked; ++i) {
        const RangeHead& head = ranges_->columns().heads[i];
        if (head.end == RangeHead::End::room) {
          ++without_room_;
          if (asked == 1) return fail("no room for one range", ranges[i].first);
          left.insert(left.begin(), ranges[i]);
        } else if (!is_right(head, moment.pairs, ranges[i])) {
          fail("a range", ranges[i].first);
        }
        ++ends_[static_cast<size_t>(head.end)];
      }
      if (left.size() == ranges.size()) return fail("no range was answered", ranges[0].first);
      ranges = std::move(left);
    }
  }
  // How many ranges ended so.
  uint64_t ended(RangeHead::End end) const { return ends_[static_cast<size_t>(end)]; }
  uint64_t without_room() const { return without_room_; }

  void fail(const char* what, const std::string& key) {
    if (wrong_++ > 5) return;
    std::printf("  wrong: %s:", what);
    for (const char byte : key) std::printf(" %02x", static_cast<unsigned char>(byte));
    std::printf("\n");
  }

 private:
  template <class Changes>
  bool put_all(const Changes& changes) {
    std::vector<SortedPair> pairs;
    for (const auto& [key, change] : changes) {
      pairs.push_back({key, change.value, change.flags, change.erased});
    }
    if (!tier_.put(pairs)) return false;
    for (const auto& [key, change] : changes) {
      if (change.erased) {
        model_.erase(key);
      } else {
        model_[key] = change;
      }
    }
    return true;
  }
  // How many of them fit in a call.
  uint32_t ask(const std::vector<SortedRange>& ranges) {
    const RangeColumns& columns = ranges_->columns();
    uint32_t keys = 0;
    const auto add = [&](const std::string& key) {
      const uint32_t at = columns.key_ends[keys];
      if (at + key.size() > ranges_->shape().key_room) return false;
      std::memcpy(columns.keys + at, key.data(), key.size());
      columns.key_ends[++keys] = at + static_cast<uint32_t>(key.size());
      return true;
    };
    uint32_t asked = 0;
    while (asked < ranges.size() && asked < ranges_->shape().ranges && add(ranges[asked].first) &&
           add(ranges[asked].end)) {
      columns.limits[asked] = ranges[asked].limit;
      ++asked;
    }
    return asked;
  }

  bool is_right(const char* slot, const std::string& key) const {
    DirectHead head;
    std::memcpy(&head, slot, sizeof head);
    const auto found = model_.find(key);
    if (found == model_.end()) return head.bytes == DirectHead::absent;
    const SortedValue& its = found->second;
    if (head.flags != its.flags) return false;
    if (its.value.size() > gets_->shape().stride - sizeof head) {
      return head.bytes == DirectHead::too_long;
    }
    return std::string(slot + sizeof head, std::min<size_t>(head.bytes, 64)) == its.value;
  }

  bool is_right(const RangeHead& head, const SortedChanges& pairs, const SortedRange& range) const {
    const RangeShape& shape = ranges_->shape();
    const char* at = ranges_->columns().replies + head.at;
    if (head.at % RangeShape::unit != 0) return false;
    auto next = pairs.lower_bound(range.first);
    uint64_t bytes = 0;
    uint32_t count = 0;
    auto end = RangeHead::End::all;
    for (; next != pairs.end() && next->first < range.end; ++next, ++count) {
      const SortedValue& its = next->second;
      const std::string value =
          its.value.size() > shape.value_skip ? its.value.substr(shape.value_skip) : "";
      const PairHead wanted{static_cast<uint32_t>(next->first.size()),
                            static_cast<uint32_t>(value.size())};
      if (count == range.limit) {
        end = RangeHead::End::limit;
      } else if (its.flags != 0) {
        end = RangeHead::End::flags;
      } else if (bytes + wanted.bytes() > shape.most_bytes) {
        end = RangeHead::End::bytes;
      }
      if (end != RangeHead::End::all) break;
      std::string text(wanted.bytes(), '\0');
      std::memcpy(text.data(), &wanted, sizeof wanted);
      std::memcpy(text.data() + sizeof wanted, next->first.data(), next->first.size());
      std::memcpy(text.data() + sizeof wanted + next->first.size(), value.data(), value.size());
      if (count >= head.pairs || std::memcmp(at + bytes, text.data(), text.size()) != 0) {
        return false;
      }
      bytes += wanted.bytes();
    }
    const bool at_limit = count == range.limit && head.end == RangeHead::End::limit;
    return head.pairs == count && (head.end == end || at_limit);
  }

  DeviceSortedTier<Device> tier_;
  const std::unique_ptr<DirectGets> gets_;
  const std::unique_ptr<DirectRanges> ranges_;
  SortedChanges model_;
  uint64_t ends_[5] = {};
  uint64_t without_room_ = 0;
  uint64_t wrong_ = 0;
};

}  // namespace isotherm
