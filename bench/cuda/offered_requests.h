// OfferedRequests: a client that offers requests to a gpu::Queue at a given rate, in open loop:
// GETs, and if wanted a submission of PUTs among them now and then.
//
// Request i is due at begin + i / rate, whatever the queue does; the client submits what is due
// every few microseconds, and what the queue refuses stays due. A latency counts from the time a
// request was due to the time the client saw its reply, so a queue that stalls shows it in every
// request that was due meanwhile (no coordinated omission). Requests that were due within a
// quarter of a microsecond are recorded together, with the time of the first.
//
// GETs and PUTs are waited for apart, since PUTs may be held back. One submission in ten of those
// with writes erases, the others put values that are drawn anew. Each reply is compared with the
// one that was foreseen (cuda/foreseen_replies.h), and check_all() reads all keys at the end.
// Threads. One a client. Memory. 2 × slots × slot_rows × 26 bytes.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <vector>

#include "cuda/foreseen_replies.h"
#include "isotherm/gpu/queue.h"
#include "isotherm_bench/histogram.h"

namespace isotherm::bench {

inline int64_t clock_ns() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

class OfferedRequests {
 public:
  struct Plan {
    double rate = 0;  // of this client, rows a second
    int64_t begin = 0;
    int64_t measured_from = 0;
    int64_t end = 0;
    int64_t gap_ns = 0;       // between submissions
    int64_t within_ns = 0;    // what share was answered within this time
    uint64_t one_put_in = 0;  // submissions; 0: none
  };
  struct Result {
    Histogram gets;  // latencies
    Histogram puts;
    uint64_t rows = 0;    // that were due while it was measured, all answered
    uint64_t within = 0;  // of the gets among them, answered in time
    uint64_t wrong = 0;
    uint64_t retries = 0;
    uint64_t submissions = 0;
    int64_t last_reply = 0;
  };

  // Different keys of present entries, whose values are three times the key.
  explicit OfferedRequests(std::vector<uint64_t> keys) : foreseen_(std::move(keys)) {}

  // Wrong replies to gets of all keys.
  uint64_t check_all(gpu::Table& table) {
    const std::vector<uint64_t>& keys = foreseen_.keys();
    ForeseenReplies::Columns columns(keys.size());
    foreseen_.foresee(TableOp::get, 0, keys.size(), columns);
    std::vector<uint64_t> values(keys.size());
    std::vector<uint8_t> found(keys.size(), ForeseenReplies::unanswered);
    table.get(keys, values, found);
    return ForeseenReplies::wrong(columns, keys.size(), values.data(), found.data());
  }

  Result run(gpu::Queue& queue, const Plan& plan) {
    plan_ = plan;
    result_ = {};
    offered_ = 0;
    group_ = std::max<uint64_t>(1, static_cast<uint64_t>(plan.rate * group_ns / 1e9));
    int64_t last_submission = 0;
    for (int64_t now = clock_ns(); now < plan.end; now = clock_ns()) {
      collect_ready(gets_);
      collect_ready(puts_);
      if (now - last_submission < plan.gap_ns) continue;
      if (submit_due(queue, now)) last_submission = now;
    }
    for (Line* line : {&gets_, &puts_}) {
      while (!line->empty()) {
        line->oldest().completion.wait();
        collect_ready(*line);
      }
    }
    return std::move(result_);
  }

 private:
  static constexpr uint64_t slots = 256;
  static constexpr uint64_t slot_rows = 8192;
  static constexpr double group_ns = 250;
  static constexpr uint64_t erase_in = 10;  // submissions with writes

  struct Slot {
    std::vector<uint64_t> values = std::vector<uint64_t>(slot_rows);
    std::vector<uint8_t> found = std::vector<uint8_t>(slot_rows);
    ForeseenReplies::Columns columns{slot_rows};
    const uint64_t* keys = nullptr;
    uint64_t first = 0;  // number of the request
    uint64_t rows = 0;
    bool puts = false;
    gpu::Completion completion;
  };
  // Submissions of one kind that are under way, oldest first.
  struct Line {
    Line() {
      for (uint64_t i = 0; i < slots; ++i) all.push_back(std::make_unique<Slot>());
    }
    bool empty() const { return begin == end; }
    bool full() const { return end - begin == slots; }
    Slot& oldest() { return *all[begin % slots]; }
    Slot& next() { return *all[end % slots]; }

    std::vector<std::unique_ptr<Slot>> all;
    uint64_t begin = 0;
    uint64_t end = 0;
  };

  int64_t due_at(uint64_t request) const {
    return plan_.begin + static_cast<int64_t>(static_cast<double>(request) * 1e9 / plan_.rate);
  }

  // False if nothing is due, or no slot is free.
  bool submit_due(gpu::Queue& queue, int64_t now) {
    const auto due =
        static_cast<int64_t>(static_cast<double>(now - plan_.begin) * plan_.rate / 1e9) -
        static_cast<int64_t>(offered_);
    const bool puts =
        plan_.one_put_in != 0 && result_.submissions % plan_.one_put_in == plan_.one_put_in - 1;
    Line& line = puts ? puts_ : gets_;
    if (due < 1 || line.full()) return false;
    Slot& next = line.next();
    const std::vector<uint64_t>& keys = foreseen_.keys();
    const uint64_t at = offered_ % keys.size();
    next.rows = std::min({static_cast<uint64_t>(due), slot_rows, keys.size() - at});
    next.first = offered_;
    next.keys = keys.data() + at;
    next.puts = puts;
    TableRequests requests;
    requests.rows = next.rows;
    requests.op = !puts ? TableOp::get : writes_ % erase_in == 0 ? TableOp::erase : TableOp::put;
    requests.keys = next.keys;
    requests.values = next.columns.put.data();
    requests.values_out = next.values.data();
    requests.found = next.found.data();
    foreseen_.foresee(requests.op, at, next.rows, next.columns);
    std::fill_n(next.found.begin(), next.rows, ForeseenReplies::unanswered);
    const gpu::QueueStatus status = queue.submit(requests, next.completion);
    if (status == gpu::QueueStatus::retry) {
      ++result_.retries;
      return true;
    }
    foreseen_.apply(requests.op, at, next.rows, next.columns);
    if (puts) ++writes_;
    if (status == gpu::QueueStatus::lost) result_.wrong += next.rows;
    ++result_.submissions;
    offered_ += next.rows;
    ++line.end;
    return true;
  }

  void collect_ready(Line& line) {
    while (!line.empty() && line.oldest().completion.ready()) {
      collect(line.oldest());
      ++line.begin;
    }
  }

  void collect(const Slot& done) {
    const int64_t now = clock_ns();
    result_.wrong +=
        ForeseenReplies::wrong(done.columns, done.rows, done.values.data(), done.found.data());
    if (done.completion.status() != gpu::QueueStatus::ok) result_.wrong += done.rows;
    for (uint64_t row = 0; row < done.rows; row += group_) {
      const int64_t due = due_at(done.first + row);
      if (due < plan_.measured_from) continue;
      const uint64_t rows = std::min(group_, done.rows - row);
      const int64_t took = std::max<int64_t>(now - due, 0);
      (done.puts ? result_.puts : result_.gets).record(static_cast<uint64_t>(took), rows);
      result_.rows += rows;
      if (!done.puts && took <= plan_.within_ns) result_.within += rows;
      result_.last_reply = now;
    }
  }

  ForeseenReplies foreseen_;
  uint64_t writes_ = 1;  // submissions with writes so far, and one
  Line gets_;
  Line puts_;
  Plan plan_;
  Result result_;
  uint64_t group_ = 1;
  uint64_t offered_ = 0;  // rows submitted
};

}  // namespace isotherm::bench
