// Submission: the queue's side of a gpu::Completion, and the list in which submissions arrive.
//
// A submission is its own list node, so submitting allocates nothing. Submitters push at the head
// with one compare-and-swap; the queue's thread takes the whole list with one exchange and reverses
// it, so what one thread pushed comes out in the order pushed.
//
// Ownership. From the push to `finish` the fields belong to the queue's thread. Afterwards the
// caller may use the completion again or destroy it.
#pragma once

#include <atomic>
#include <cstdint>

#include "isotherm/gpu/queue.h"

namespace isotherm {

struct Submission {
  // Before the push; the completion is not under way.
  static void begin(gpu::Completion& completion, const TableRequests& requests) {
    completion.requests_ = requests;
    completion.unanswered_ = requests.rows;
    completion.next_ = nullptr;
    completion.state_.store(static_cast<int32_t>(gpu::QueueStatus::pending),
                            std::memory_order_relaxed);
  }
  // All of a list, linked by next.
  static void finish(gpu::Completion* list, gpu::QueueStatus status) {
    while (list != nullptr) {
      std::atomic<int32_t>& state = list->state_;
      list = list->next_;  // before the owner may use the completion again
      // Sequentially consistent: notify_all looks for sleepers, and must not do so before a thread
      // that is about to sleep can see the store. It needs the address only.
      state.store(static_cast<int32_t>(status), std::memory_order_seq_cst);
      state.notify_all();
    }
  }
  // Rows were answered; true with the last of them.
  static bool answered(gpu::Completion& completion, uint64_t rows) {
    completion.unanswered_ -= rows;
    return completion.unanswered_ == 0;
  }
  static const TableRequests& requests(const gpu::Completion& completion) {
    return completion.requests_;
  }
  static gpu::Completion*& next(gpu::Completion& completion) { return completion.next_; }
};

class Inbox {
 public:
  void push(gpu::Completion& submission) {
    gpu::Completion* head = head_.load(std::memory_order_relaxed);
    do {
      Submission::next(submission) = head;
    } while (!head_.compare_exchange_weak(head, &submission, std::memory_order_seq_cst,
                                          std::memory_order_relaxed));
  }
  bool empty() const { return head_.load(std::memory_order_seq_cst) == nullptr; }

  // All that was pushed, oldest first, linked by Submission::next.
  gpu::Completion* take() {
    if (head_.load(std::memory_order_relaxed) == nullptr) return nullptr;
    gpu::Completion* newest = head_.exchange(nullptr, std::memory_order_acquire);
    gpu::Completion* oldest = nullptr;
    while (newest != nullptr) {
      gpu::Completion* before = Submission::next(*newest);
      Submission::next(*newest) = oldest;
      oldest = newest;
      newest = before;
    }
    return oldest;
  }

 private:
  std::atomic<gpu::Completion*> head_{nullptr};
};

}  // namespace isotherm
