// ModelledTable: a table on the GPU beside a map that says what each reply must be.
//
// `run` sends one batch to the device, compares every reply with what the map answers to the same
// requests one by one, and then compares the lines themselves with the map: every entry once and in
// its own chain, every overflow line either in a chain or clean and free. What differs is printed
// (the first few) and counted.
//
// Limits. Keys of a batch that writes are distinct, as cuda/index_kernels.h demands, so the map
// need not know the order in which the device took them. Threads. One.
#pragma once

#include <cinttypes>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/hash.h"
#include "cuda/device_array.h"
#include "cuda/device_lines.h"
#include "cuda/index_kernels.h"

namespace isotherm {

struct KernelRequest {
  uint64_t key = 0;
  uint64_t word = 0;
  uint64_t expected = 0;
};

struct KernelReply {
  Found previous;
  Change change = Change::none;

  friend bool operator==(const KernelReply& a, const KernelReply& b) {
    return a.previous.found == b.previous.found &&
           (!a.previous.found || a.previous.word == b.previous.word) && a.change == b.change;
  }
};

// Sends one batch and waits for its replies.
template <class Table>
std::vector<KernelReply> run_batch(Operation operation, const Table& table,
                                   const OverflowLines& lines,
                                   const std::vector<KernelRequest>& requests) {
  const uint64_t rows = requests.size();
  std::vector<uint64_t> keys, words, expected;
  for (const KernelRequest& request : requests) {
    keys.push_back(request.key);
    words.push_back(request.word);
    expected.push_back(request.expected);
  }
  DeviceArray<uint64_t> device_keys(keys), device_words(words), device_expected(expected);
  DeviceArray<Found> previous(rows);
  DeviceArray<Change> change(rows);
  launch(operation, table, lines,
         {rows, device_keys.data(), device_words.data(), device_expected.data(), previous.data(),
          change.data()});
  check_cuda(cudaGetLastError(), "launch");
  check_cuda(cudaDeviceSynchronize(), "kernel");
  const std::vector<Found> found = previous.download();
  const std::vector<Change> changes = change.download();
  std::vector<KernelReply> replies;
  for (uint64_t row = 0; row < rows; ++row) replies.push_back({found[row], changes[row]});
  return replies;
}

template <class Table>
class ModelledTable {
 public:
  static constexpr bool fixed = std::is_same_v<Table, FixedTable>;
  static constexpr uint64_t seed = 0x9e3779b97f4a7c15;

  ModelledTable(const std::vector<SegmentShape>& segments, int line_bits, uint64_t overflow_lines)
      : lines_(segments, line_bits, overflow_lines), head_(1) {}

  static uint64_t hash_of(uint64_t key) { return fixed ? mix(key, seed) : key; }
  static uint64_t key_of(uint64_t hash) { return fixed ? unmix(hash, seed) : hash; }

  std::vector<KernelReply> run(Operation operation, const std::vector<KernelRequest>& requests) {
    const std::vector<KernelReply> replies =
        run_batch(operation, table(), lines_.overflow(), requests);
    for (uint64_t row = 0; row < requests.size(); ++row) {
      if (replies[row].change == Change::no_line) {
        ++refused_;
        if (model_.contains(requests[row].key)) fail("a present key was refused");
        continue;
      }
      const KernelReply wanted = answer(operation, requests[row]);
      if (!(replies[row] == wanted)) complain(row, requests[row], replies[row], wanted);
    }
    lines_.recycle();
    check_lines();
    return replies;
  }

  // `rows` times "add 1" to one present key. Which request saw which value is open, but each value
  // was seen once.
  void count_up(uint64_t key, uint64_t rows) {
    const std::vector<KernelReply> replies = run_batch(
        Operation::add, table(), lines_.overflow(), std::vector<KernelRequest>(rows, {key, 1, 0}));
    const uint64_t start = model_.at(key);
    std::vector<bool> seen(rows, false);
    for (const KernelReply& reply : replies) {
      const uint64_t step = reply.previous.word - start;
      const bool right = reply.change == Change::replaced && step < rows && !seen[step];
      if (!right) return fail("an addition was lost");
      seen[step] = true;
    }
    model_[key] += rows;
    check_lines();
  }

  const std::unordered_map<uint64_t, uint64_t>& model() const { return model_; }
  DeviceLines& lines() { return lines_; }
  uint64_t wrong() const { return wrong_; }
  uint64_t refused() const { return refused_; }

  void fail(const std::string& what) {
    constexpr uint64_t printed = 5;
    if (++wrong_ <= printed) std::fprintf(stderr, "  %s\n", what.c_str());
  }

 private:
  Table table() {
    if constexpr (fixed) {
      return {lines_.index(), head_.data(), seed};
    } else {
      return {lines_.index()};
    }
  }

  // What the request is answered by one that comes alone.
  KernelReply answer(Operation operation, const KernelRequest& request) {
    const auto at = model_.find(request.key);
    const bool found = at != model_.end();
    const Found previous{found, found ? at->second : 0};
    switch (operation) {
      case Operation::find:
        return {previous, Change::none};
      case Operation::upsert:
        return store(request.key, previous, request.word);
      case Operation::add:
        return store(request.key, previous, previous.word + request.word);
      case Operation::erase:
        return erase(request.key, previous);
      case Operation::compare_and_swap:
        break;
    }
    if ((fixed && !found) || previous.word != request.expected) return {previous, Change::none};
    if (!fixed && request.word == 0) return erase(request.key, previous);
    return store(request.key, previous, request.word);
  }
  KernelReply store(uint64_t key, Found previous, uint64_t word) {
    model_[key] = word;
    return {previous, previous.found ? Change::replaced : Change::inserted};
  }
  KernelReply erase(uint64_t key, Found previous) {
    model_.erase(key);
    return {previous, previous.found ? Change::erased : Change::none};
  }

  void check_lines() {
    DeviceLines::Contents contents = lines_.contents();
    if (contents.misplaced) fail("an entry or a line is in the wrong chain");
    if (contents.unlinked_dirty != 0) fail("a free overflow line is not clean");
    if (contents.linked + lines_.free_lines() != lines_.overflow_lines()) {
      fail("an overflow line was lost: " + std::to_string(contents.linked) + " linked, " +
           std::to_string(lines_.free_lines()) + " free");
    }
    const Slot head = head_.download()[0].slot[0];
    if (head.first != 0) contents.entries.push_back({0, head.second});
    if (contents.entries.size() != model_.size()) {
      fail(std::to_string(contents.entries.size()) + " entries instead of " +
           std::to_string(model_.size()));
    }
    for (const Slot& entry : contents.entries) {
      const auto at = model_.find(key_of(entry.first));
      if (at == model_.end() || at->second != entry.second) fail("an entry that must not be");
    }
  }

  void complain(uint64_t row, const KernelRequest& request, const KernelReply& got,
                const KernelReply& wanted) {
    char text[256];
    std::snprintf(text, sizeof text,
                  "row %" PRIu64 ", key %" PRIx64 ": found %d word %" PRIx64
                  " change %d instead of found %d word %" PRIx64 " change %d",
                  row, request.key, got.previous.found, got.previous.word,
                  static_cast<int>(got.change), wanted.previous.found, wanted.previous.word,
                  static_cast<int>(wanted.change));
    fail(text);
  }

  DeviceLines lines_;
  DeviceArray<Bucket> head_;
  std::unordered_map<uint64_t, uint64_t> model_;
  uint64_t wrong_ = 0;
  uint64_t refused_ = 0;
};

}  // namespace isotherm
