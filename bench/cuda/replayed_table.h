// ReplayedTable: what a table must have answered. Batches that a benchmark has timed are run once
// more on the host, request by request in the order of their rows, and each reply is compared.
//
// Columns are those of TableRequests, in host memory. Replies were overwritten with `untouched`
// bytes before the batch ran, so a reply that never came is wrong, and so is a value beside found
// 0. The operations are get, put and erase; any other counts as wrong.
//
// Layout. State of the keys of ranks below `ranks` (cuda/ranks.h) lies in arrays; any other key has
// its place in a map. The work on 64 neighbouring ranks is that of one thread, which passes over
// all rows and takes those it has; so rows of one key keep their order, and threads share nothing.
// Memory. 9 bytes a rank. Threads. One calls; large batches are shared among several.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <unordered_map>
#include <vector>

#include "cuda/ranks.h"
#include "isotherm/table_requests.h"

namespace isotherm::bench {

class ReplayedTable {
 public:
  static constexpr int untouched_byte = 0xab;
  static constexpr uint64_t untouched = 0xabababababababab;

  // Without an entry.
  explicit ReplayedTable(uint64_t ranks,
                         uint32_t threads = std::max(std::thread::hardware_concurrency(), 1u))
      : shares_(threads), value_(ranks), present_(ranks) {}

  uint64_t ranks() const { return value_.size(); }

  // Every rank has an entry with three times its key as the value, and no other key has one.
  void fill() {
    in_shares(ranks(), [&](uint32_t share) {
      shares_[share] = {};
      for (uint64_t first = uint64_t{share} * block; first < ranks(); first += block * threads()) {
        for (uint64_t rank = first; rank < std::min(first + block, ranks()); ++rank) {
          value_[rank] = scramble(rank + 1) * 3;
          present_[rank] = 1;
          ++shares_[share].entries;
        }
      }
    });
  }

  // Which rows were answered with values; those of others are not looked at.
  enum class Values : uint8_t { all, gets };

  // Wrong replies of a batch, which takes effect.
  uint64_t replay(const TableRequests& requests, Values values = Values::all) {
    for (Share& share : shares_) share.wrong = 0;
    in_shares(requests.rows, [&](uint32_t share) {
      for (uint64_t row = 0; row < requests.rows; ++row) replay_row(requests, row, share, values);
    });
    uint64_t wrong = 0;
    for (const Share& share : shares_) wrong += share.wrong;
    return wrong;
  }

  uint64_t entries() const {
    uint64_t entries = 0;
    for (const Share& share : shares_) entries += share.entries;
    return entries;
  }

 private:
  static constexpr uint64_t block = 64;
  static constexpr uint64_t few_rows = uint64_t{1} << 14;

  // What one thread has beside its ranks.
  struct alignas(128) Share {
    uint64_t entries = 0;
    uint64_t wrong = 0;
    std::unordered_map<uint64_t, uint64_t> others;
  };
  struct State {
    uint64_t value = 0;
    bool found = false;
  };

  uint64_t threads() const { return shares_.size(); }

  template <class Work>
  void in_shares(uint64_t rows, Work&& work) {
    std::vector<std::thread> others;
    for (uint32_t share = 1; share < threads(); ++share) {
      if (rows <= few_rows) {
        work(share);
      } else {
        others.emplace_back([&work, share] { work(share); });
      }
    }
    work(0);
    for (std::thread& thread : others) thread.join();
  }

  void replay_row(const TableRequests& requests, uint64_t row, uint32_t share_number,
                  Values values) {
    const uint64_t key = requests.keys[row];
    const uint64_t rank = key_rank(key);
    if (rank / block % threads() != share_number) return;
    Share& share = shares_[share_number];
    const State before = state_of(rank, key, share);
    const TableOp op = requests.ops != nullptr ? requests.ops[row] : requests.op;
    if (op == TableOp::put) {
      set(rank, key, {requests.values != nullptr ? requests.values[row] : 0, true}, share);
    } else if (op == TableOp::erase) {
      set(rank, key, {}, share);
    } else if (op != TableOp::get) {
      ++share.wrong;
    }
    share.entries += uint64_t{state_of(rank, key, share).found} - uint64_t{before.found};
    if (requests.found == nullptr) return;
    const bool compares = values == Values::all || op == TableOp::get;
    if (!is_reply(requests, row, before, compares)) ++share.wrong;
  }

  static bool is_reply(const TableRequests& requests, uint64_t row, State before, bool value) {
    if (requests.found[row] != (before.found ? 1 : 0)) return false;
    return !value || requests.values_out[row] == (before.found ? before.value : untouched);
  }

  State state_of(uint64_t rank, uint64_t key, const Share& share) const {
    if (rank < ranks()) return present_[rank] != 0 ? State{value_[rank], true} : State{};
    const auto at = share.others.find(key);
    return at != share.others.end() ? State{at->second, true} : State{};
  }
  void set(uint64_t rank, uint64_t key, State state, Share& share) {
    if (rank < ranks()) {
      value_[rank] = state.value;
      present_[rank] = state.found ? 1 : 0;
    } else if (state.found) {
      share.others[key] = state.value;
    } else {
      share.others.erase(key);
    }
  }

  std::vector<Share> shares_;
  std::vector<uint64_t> value_;
  std::vector<uint8_t> present_;
};

// What a benchmark ends with: says how many replies were wrong, and fails where there are any.
inline int end_with(uint64_t wrong) {
  std::printf("wrong replies: %llu\n", static_cast<unsigned long long>(wrong));
  return wrong == 0 ? 0 : 1;
}

}  // namespace isotherm::bench
