// SortedStore: the runs of a sorted tier (gpu/store/sorted_tier.h) on one device.
//
//   list    run | run | … , the newest first; each of them by a shared pointer
// A put writes a run, which the device sorts where it is in no order, and puts it before a copy of
// the list, which takes the list's place. Then, while the second of the list has fewer than `ratio`
// times the entries of the first, the two are merged: a run is at least `ratio` times as large as
// the next newer one, so there are few, and each entry is copied a number of times that grows with
// the logarithm of all. Erased entries, and those that have expired, stay as long as there is an
// older run that may have their key. A merge that finds no room is left out, until there are as
// many runs as calls can read.
//
// Who reads holds the list of the moment, and so its runs.
//
// Threads. `put` and `clear` one at a time, the others any; the lock is held to take the list or to
// replace it. Errors. Once the device has failed every call throws DeviceError.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <cstring>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <stdexcept>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "gpu/platform/device_loss.h"
#include "gpu/platform/device_stream.h"
#include "gpu/sorted/run_merge.h"
#include "gpu/sorted/sorted_pair.h"
#include "gpu/sorted/staged_writer.h"

namespace isotherm {

template <class Device>
class SortedStore {
 public:
  using Stream = typename Device::Stream;
  using Run = StoredRun<Device>;
  using Runs = std::vector<std::shared_ptr<const Run>>;
  using Hold = std::shared_ptr<const Runs>;

  static constexpr uint64_t ratio = 4;
  static constexpr uint64_t least_bytes = 64 << 10;
  static constexpr uint64_t usual_piece = 2 << 20;

  // `piece_bytes`: of what is copied to the device at a time. Throws std::invalid_argument where
  // the memory is too little or the front too long, std::bad_alloc, DeviceError.
  SortedStore(Device& device, const SortedTierOptions& options, uint64_t piece_bytes = usual_piece)
      : device_(device),
        options_(options),
        front_(KeyFront::of(options.front)),
        memory_(device, usable(options).bytes),
        stream_(device),
        merge_(memory_),
        piece_bytes_(piece_bytes),
        heads_(device, piece_bytes),
        records_(device, piece_bytes),
        list_(std::make_shared<const Runs>()) {}

  Device& device() const { return device_; }

  bool put(std::span<const SortedPair> pairs) {
    bool done = true;
    guard([&] { done = pairs.empty() || put_run(pairs); });
    return done;
  }
  void clear() {
    guard([&] { replace(std::make_shared<const Runs>()); });
  }
  Hold hold() {
    loss_.require_usable();
    const std::lock_guard lock(mutex_);
    return list_;
  }
  SortedStats stats() {
    SortedStats stats;
    for (const auto& run : *hold()) {
      stats.entries += run->entries();
      stats.bytes += run->bytes();
      ++stats.runs;
    }
    stats.merges = merges_;
    return stats;
  }

  void lose() { loss_.lose(); }

  // What kernels are given of a list.
  SortedRuns view(const Runs& runs) const {
    SortedRuns view;
    view.front = front_;
    for (const auto& run : runs) view.run[view.count++] = run->view();
    return view;
  }
  // Runs work(), after whose failure everything is lost.
  template <class Work>
  void guard(Work&& work) {
    device_.enter();
    loss_.guard(work, [] {});
  }

 private:
  static const SortedTierOptions& usable(const SortedTierOptions& options) {
    if (options.bytes < least_bytes) throw std::invalid_argument("too little memory of the device");
    if (options.front.size() > KeyFront::most_bytes) {
      throw std::invalid_argument("the front of keys is too long");
    }
    return options;
  }

  void replace(Hold list) {
    const std::lock_guard lock(mutex_);
    list_.swap(list);
  }

  bool put_run(std::span<const SortedPair> pairs) {
    const std::optional<uint64_t> words = words_of_all(pairs);
    if (!words) return false;
    if (list_->size() == SortedRuns::most && !merge_newest()) return no_room();
    std::shared_ptr<const Run> run = Run::make(memory_, pairs.size(), *words);
    if (run == nullptr) return no_room();
    fill(*run, pairs);
    if (!in_order(pairs)) run = merge_.sort(*run, stream_.get()).run;
    if (run == nullptr) return no_room();
    auto list = std::make_shared<Runs>(*list_);
    list->insert(list->begin(), run);
    replace(std::move(list));
    while (is_to_merge() && merge_newest()) {
    }
    return true;
  }
  // Memory that is not given is no failure of the device, unless it has failed.
  bool no_room() {
    require_device(device_.healthy(stream_.get()), "allocate memory");
    return false;
  }

  // Nothing where they are too many or too large.
  std::optional<uint64_t> words_of_all(std::span<const SortedPair> pairs) const {
    if (pairs.size() > most_run_entries) return {};
    uint64_t words = 0;
    for (const SortedPair& pair : pairs) {
      const uint64_t key = pair.key.size();
      const uint64_t value = value_of(pair).size();
      if (key > most_pair_bytes || value > most_pair_bytes - key) return {};
      words += words_of_pair(pair);
    }
    const uint64_t room = memory_.below_cap() / sizeof(uint64_t);
    if (words > room || Run::bytes_for(pairs.size(), words) > memory_.below_cap()) return {};
    return words;
  }
  static bool in_order(std::span<const SortedPair> pairs) {
    return std::adjacent_find(pairs.begin(), pairs.end(), [](const auto& a, const auto& b) {
             return a.key >= b.key;
           }) == pairs.end();
  }
  static std::string_view value_of(const SortedPair& pair) {
    return pair.erased ? std::string_view() : pair.value;
  }
  static bool is_flagged(const SortedPair& pair) { return pair.flags != 0 && !pair.erased; }
  static uint64_t words_of_pair(const SortedPair& pair) {
    return 1 + words_of(pair.key.size()) + words_of(value_of(pair).size()) +
           (is_flagged(pair) ? 1 : 0);
  }

  void fill(const Run& run, std::span<const SortedPair> pairs) {
    const Stream stream = stream_.get();
    const SettleAtEnd<Device> settle(device_, stream);
    heads_.begin(stream, run.heads());
    records_.begin(stream, run.words());
    uint64_t at = 0;
    for (const SortedPair& pair : pairs) {
      const HostKey key{pair.key.data(), static_cast<uint32_t>(pair.key.size())};
      const Pair head{front_.prefix(key), at << SortedPlace::word_at |
                                              (pair.erased ? SortedPlace::erased : 0) |
                                              (is_flagged(pair) ? SortedPlace::flagged : 0)};
      std::memcpy(heads_.take(sizeof head), &head, sizeof head);
      write_record(pair);
      at += words_of_pair(pair);
    }
    heads_.end();
    records_.end();
    require_device(device_.synchronize(stream), "wait for a run");
  }
  void write_record(const SortedPair& pair) {
    const uint64_t bytes = words_of_pair(pair) * word_bytes;
    if (bytes <= piece_bytes_) {
      write_record(pair, records_.take(bytes));
    } else {
      std::vector<char> whole(bytes);
      write_record(pair, whole.data());
      records_.write(whole.data(), bytes);
    }
  }
  static void write_record(const SortedPair& pair, char* to) {
    const std::string_view value = value_of(pair);
    const auto write_word = [&](uint64_t word) {
      std::memcpy(to, &word, sizeof word);
      to += sizeof word;
    };
    write_word(SortedRecord::sizes_word(pair.key.size(), value.size()));
    for (const std::string_view part : {pair.key, value}) {
      if (part.empty()) continue;
      char* const end = to + words_of(part.size()) * word_bytes;
      std::memset(end - word_bytes, 0, word_bytes);
      copy_bytes(to, part.data(), part.size());
      to = end;
    }
    if (is_flagged(pair)) write_word(pair.flags);
  }

  // Of the two newest runs.
  Droppable droppable() const {
    return {list_->size() == 2, options_.expiry_flag,
            options_.expiry_at / static_cast<uint32_t>(word_bytes),
            options_.now_ms ? options_.now_ms() : 0};
  }
  bool is_to_merge() const {
    const Runs& runs = *list_;
    return runs.size() > 1 && runs[1]->entries() < ratio * runs[0]->entries();
  }
  bool merge_newest() {
    const Runs& runs = *list_;
    const auto result = merge_.merge(*runs[1], *runs[0], droppable(), stream_.get());
    if (!result.done) return no_room();
    auto list = std::make_shared<Runs>();
    if (result.run != nullptr) list->push_back(result.run);
    list->insert(list->end(), runs.begin() + 2, runs.end());
    replace(std::move(list));
    ++merges_;
    return true;
  }

  Device& device_;
  const SortedTierOptions options_;
  const KeyFront front_;
  DeviceMemory<Device> memory_;
  DeviceStream<Device> stream_;
  RunMerge<Device> merge_;
  const uint64_t piece_bytes_;
  StagedWriter<Device> heads_;
  StagedWriter<Device> records_;
  DeviceLoss loss_{"the sorted tier was lost when the device failed"};
  std::atomic<uint64_t> merges_ = 0;
  std::mutex mutex_;
  Hold list_;  // replaced under the lock, by `put` and `clear` alone
};

}  // namespace isotherm
