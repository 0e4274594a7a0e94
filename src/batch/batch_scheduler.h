// BatchScheduler: gathers rows of submissions, sends them in batches and answers them. It is all
// that the queue's thread does, with the time as an argument.
//
// Rows are gathered in two tracks, each a ring of pinned rows (batch/row_ring.h): reads, and writes
// together with the reads that must not pass one. A batch is a range of one track.
//
// Order. Reads pass writes that wait, never on the same key:
//   - A read whose key a waiting write may be on (batch/waiting_writes.h) joins the track of
//     writes, behind that write. Once the write is sent, reads sent later see it, because the table
//     runs calls in the order made.
//   - A write that goes to the device is preceded by all reads that wait, so by those that arrived
//     before it.
// So requests on one key take effect in the order they arrived, whoever sent them, while a policy
// may hold writes back. The two paths to the device keep no order between them, so a batch waits
// for the batches under way on the other path if it or one of these has writes.
//
// Failure. DeviceError leaves the functions here; `give_up` then ends all submissions. A batch of
// writes that found no memory for its work is answered reply_retry row by row.
//
// Threads. One, but for `stats`. Limits. The caller admits at most as many rows as the rings hold.
#pragma once

#include <atomic>
#include <mutex>
#include <new>
#include <utility>
#include <vector>

#include "batch/batch_path.h"
#include "batch/cost_model.h"
#include "batch/row_ring.h"
#include "batch/waiting_writes.h"
#include "executor/scheduling_policy.h"
#include "gpu/kernel/request_op.h"

namespace isotherm {

class BatchScheduler {
 public:
  struct Setup {
    char* memory = nullptr;  // pinned, of memory_bytes(rows)
    uint64_t rows = 0;       // a power of two
    uint32_t batches = 0;    // channels of each path
    SchedulingPolicy* policy = nullptr;
    BatchPath* bulk = nullptr;
    BatchPath* express = nullptr;  // null: there is none, and the bulk path takes its place
    // Rows in the queue. Submitters count up; the scheduler counts down when rows have left the
    // rings, before their submissions are ready, so a submitter that has its replies finds its room
    // free. Null: nobody counts.
    std::atomic<uint64_t>* held = nullptr;
  };

  static uint64_t memory_bytes(uint64_t rows) {
    return RowRing::bytes(rows, RowRing::Columns::reads) +
           RowRing::bytes(rows, RowRing::Columns::operations);
  }

  explicit BatchScheduler(const Setup& setup)
      : policy_(*setup.policy),
        bulk_(*setup.bulk),
        express_(setup.express),
        held_(setup.held),
        reads_(BatchKind::reads,
               {setup.memory + RowRing::bytes(setup.rows, RowRing::Columns::operations), setup.rows,
                RowRing::Columns::reads}),
        writes_(BatchKind::writes, {setup.memory, setup.rows, RowRing::Columns::operations}) {
    for (uint32_t channel = 0; channel < setup.batches; ++channel)
      free_channels_.push_back(channel);
  }
  BatchScheduler(const BatchScheduler&) = delete;
  BatchScheduler& operator=(const BatchScheduler&) = delete;

  // Copies its rows in.
  void take(gpu::Completion& submission, int64_t now) {
    const TableRequests& requests = Submission::requests(submission);
    arrived_ += requests.rows;
    if (is_gets(requests) && writes_.rows.waiting() == 0) {
      reads_.rows.append(submission, 0, requests.rows, now);
    } else {
      take_in_runs(submission, requests, now);
    }
  }

  // Answers batches that have ended, asks the policy, and sends; returns whether anything happened.
  // With `drain` all that waits goes, whatever the policy says.
  bool step(int64_t now, bool drain) {
    const bool reads_ended = end_batches(reads_, now);
    const bool writes_ended = end_batches(writes_, now);
    if (!anything_due()) decide(now, drain);
    return send_due(now) || reads_ended || writes_ended;
  }

  uint64_t waiting() const { return reads_.rows.waiting() + writes_.rows.waiting(); }
  uint32_t on_device() const { return on_device_; }
  bool idle() const { return waiting() == 0 && on_device_ == 0; }
  // When the next step is due although nothing happens.
  int64_t again() const { return again_; }

  // Ends all submissions as lost, but for those that were answered.
  void give_up() {
    finish_answered();
    for (Track* track : {&reads_, &writes_}) {
      for (; !track->batches.empty(); track->batches.pop()) {
        const SentBatch& batch = track->batches.front();
        if (!batch.answered) track->rows.give_up(batch.range, lose);
      }
      track->rows.give_up(lose);
    }
    on_device_ = 0;
  }

  // From any thread.
  gpu::QueueStats stats() const {
    const std::lock_guard guard(stats_mutex_);
    gpu::QueueStats stats = stats_;
    stats.submissions = submissions_.load(std::memory_order_relaxed);
    stats.read_cost = read_costs_.fit();
    stats.write_cost = write_costs_.fit();
    return stats;
  }

 private:
  static constexpr double keep_costs = 0.999;  // a thousand batches ago counts a third

  struct SentBatch {
    RowRange range;
    uint32_t channel = 0;
    BatchRoute route = BatchRoute::bulk;
    int64_t sent = 0;
    bool alone = false;     // on the device when it was sent
    bool refused = false;   // for want of memory
    bool answered = false;  // but an older one is not
  };
  // Rows of one kind, and their batches in the order sent.
  struct Track {
    Track(BatchKind its_kind, RowRing ring) : kind(its_kind), rows(std::move(ring)) {}
    BatchKind kind;
    RowRing rows;
    uint64_t due = 0;  // rows below this number are to be sent
    Fifo<SentBatch> batches;
  };

  static void lose(gpu::Completion& owner, uint64_t rows) {
    if (!Submission::answered(owner, rows)) return;
    Submission::next(owner) = nullptr;
    Submission::finish(&owner, gpu::QueueStatus::lost);
  }

  // Takes the rows in by runs that go to the same track.
  void take_in_runs(gpu::Completion& submission, const TableRequests& requests, int64_t now) {
    uint64_t first = 0;
    bool in_writes = false;
    const auto append = [&](uint64_t end) {
      Track& track = in_writes ? writes_ : reads_;
      if (end != first) track.rows.append(submission, first, end - first, now);
      first = end;
    };
    for (uint64_t row = 0; row < requests.rows; ++row) {
      const uint64_t key = requests.keys[row];
      const bool write = is_write(requests.ops != nullptr ? requests.ops[row] : requests.op);
      const bool joins = write || waiting_writes_.may_wait(key, writes_.rows.sent());
      if (joins != in_writes) append(row);
      in_writes = joins;
      if (write) waiting_writes_.add(key, writes_.rows.appended() + (row - first));
    }
    append(requests.rows);
  }

  bool anything_due() const {
    return reads_.rows.sent() < reads_.due || writes_.rows.sent() < writes_.due;
  }

  void decide(int64_t now, bool drain) {
    again_ = BatchDecision::never;
    if (waiting() == 0) return;
    BatchDecision decision;
    if (drain) {
      decision.reads = reads_.rows.waiting();
      decision.writes = writes_.rows.waiting();
    } else {
      decision = policy_.decide(describe(now));
    }
    again_ = decision.again;
    route_ = express_ != nullptr ? decision.route : BatchRoute::bulk;
    const uint64_t writes = std::min(decision.writes, writes_.rows.waiting());
    const uint64_t reads = std::min(decision.reads, reads_.rows.waiting());
    writes_.due = writes_.rows.sent() + writes;
    reads_.due = writes != 0 ? reads_.rows.appended() : reads_.rows.sent() + reads;
  }

  WaitingRows describe(int64_t now) const {
    WaitingRows waiting;
    waiting.now = now;
    waiting.reads = reads_.rows.waiting();
    waiting.writes = writes_.rows.waiting();
    if (waiting.reads != 0) waiting.read_age = now - reads_.rows.oldest_arrival();
    if (waiting.writes != 0) waiting.write_age = now - writes_.rows.oldest_arrival();
    waiting.on_device = on_device_;
    waiting.arrived = arrived_;
    return waiting;
  }

  bool send_due(int64_t now) {
    bool sent = false;
    while (anything_due() && !free_channels_.empty()) {
      Track& track = reads_.rows.sent() < reads_.due ? reads_ : writes_;
      if (must_wait(track.kind)) break;
      send(track, now);
      sent = true;
    }
    return sent;
  }

  // Whether a batch of this kind has to wait for one on the other path.
  bool must_wait(BatchKind kind) const {
    if (express_ == nullptr) return false;
    for (const Track* track : {&reads_, &writes_}) {
      if (kind == BatchKind::reads && track->kind == BatchKind::reads) continue;
      for (uint64_t number = track->batches.begin(); number != track->batches.end(); ++number) {
        const SentBatch& batch = track->batches[number];
        if (!batch.answered && batch.route != route_) return true;
      }
    }
    return false;
  }

  BatchPath& path(BatchRoute route) { return route == BatchRoute::express ? *express_ : bulk_; }

  void send(Track& track, int64_t now) {
    BatchPath& way = path(route_);
    SentBatch batch;
    batch.range = track.rows.send(std::min(way.most_rows(), track.due - track.rows.sent()));
    batch.channel = free_channels_.back();
    batch.route = route_;
    batch.sent = now;
    batch.alone = on_device_ == 0;
    free_channels_.pop_back();
    ++on_device_;
    track.batches.push(batch);
    try {
      way.send(batch.channel, track.rows.columns(batch.range), now);
    } catch (const std::bad_alloc&) {
      track.rows.answer_all(batch.range, reply_retry);
      track.batches.back().refused = true;
    }
  }

  bool end_batches(Track& track, int64_t now) {
    bool ended = false;
    for (uint64_t number = track.batches.begin(); number != track.batches.end(); ++number) {
      SentBatch& batch = track.batches[number];
      if (batch.answered) continue;
      if (!batch.refused && !path(batch.route).done(batch.channel, now)) continue;
      account(track, batch, now);
      track.rows.answer(batch.range, [this](gpu::Completion& owner) {
        Submission::next(owner) = finished_;
        finished_ = &owner;
      });
      batch.answered = true;
      free_channels_.push_back(batch.channel);
      --on_device_;
      ended = true;
    }
    if (ended) release(track);
    return ended;
  }

  void release(Track& track) {
    const uint64_t before = track.rows.released();
    while (!track.batches.empty() && track.batches.front().answered) {
      track.rows.release(track.batches.front().range);
      track.batches.pop();
    }
    if (held_ != nullptr) {
      held_->fetch_sub(track.rows.released() - before, std::memory_order_acq_rel);
    }
    finish_answered();
  }

  void finish_answered() {
    uint64_t finished = 0;
    for (gpu::Completion* next = finished_; next != nullptr; next = Submission::next(*next)) {
      ++finished;
    }
    submissions_.store(submissions_.load(std::memory_order_relaxed) + finished,
                       std::memory_order_relaxed);
    Submission::finish(std::exchange(finished_, nullptr), gpu::QueueStatus::ok);
  }

  void account(const Track& track, const SentBatch& batch, int64_t now) {
    const bool reads = track.kind == BatchKind::reads;
    if (!batch.refused)
      policy_.report({track.kind, batch.route, batch.range.rows, now - batch.sent});
    const std::lock_guard guard(stats_mutex_);
    stats_.rows += batch.range.rows;
    ++(reads ? stats_.read_batches : stats_.write_batches);
    if (batch.route == BatchRoute::express) ++stats_.express_batches;
    if (batch.alone && !batch.refused && batch.route == BatchRoute::bulk) {
      (reads ? read_costs_ : write_costs_)
          .add(batch.range.rows, static_cast<double>(now - batch.sent));
    }
  }

  SchedulingPolicy& policy_;
  BatchPath& bulk_;
  BatchPath* const express_;
  std::atomic<uint64_t>* const held_;
  Track reads_;
  Track writes_;
  WaitingWrites waiting_writes_;
  std::vector<uint32_t> free_channels_;
  uint32_t on_device_ = 0;
  BatchRoute route_ = BatchRoute::bulk;  // of what is due
  int64_t again_ = BatchDecision::never;
  uint64_t arrived_ = 0;
  gpu::Completion* finished_ = nullptr;  // answered, not yet ready

  std::atomic<uint64_t> submissions_{0};  // answered; one thread writes
  mutable std::mutex stats_mutex_;
  gpu::QueueStats stats_;
  CostModel read_costs_{keep_costs};
  CostModel write_costs_{keep_costs};
};

}  // namespace isotherm
