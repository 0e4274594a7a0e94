// BatchWork: some rows of a batch, as rounds see them (executor/device/rounds.h).
//
// Threads. As RoundWork. Ends before the batch, and when its rows are answered.
#pragma once

#include <cstdint>

#include "command/changes.h"
#include "executor/device/round_stages.h"
#include "executor/device/rounds.h"
#include "executor/host/host_executor.h"
#include "executor/run/batch_run.h"
#include "isotherm/batch.h"

namespace isotherm {

class BatchWork final : public RoundWork {
 public:
  // The rows from `first` on, or those of them that `picked` names, counted from `first`, in order;
  // all have their hashes then. `parking`: takes rows that must know a value which is away; null:
  // they fetch it on the spot.
  BatchWork(const BatchRun& run, const Batch& batch, uint32_t first, uint32_t rows,
            BatchRun* parking, const uint32_t* picked = nullptr)
      : batch_(batch),
        columns_(batch.columns().from(first)),
        first_(first),
        rows_(rows),
        picked_(picked),
        marks_(batch.marks()),
        writes_((marks_ || batch.writes()) && (picked == nullptr || any_writes())),
        now_ms_(run.now_ms),
        writable_(run.writable),
        reader_(run.reader),
        // Rows that have waited already wait for no other sender.
        sender_(run.put_off && &batch != run.batch ? nullptr : run.sender),
        parking_(parking),
        token_(run.token) {}

  uint32_t rows() const override { return rows_; }
  bool writes() const override { return writes_; }
  bool writes(uint32_t number) const override {
    const uint32_t row = row_of(number);
    return changes(columns_, row) || (marks_ && marks(columns_, row));
  }
  bool changes_in_place(uint32_t number) const override {
    const Op op = columns_.op[row_of(number)];
    return op == Op::expire || (op == Op::call && writes(number));
  }
  RoundSender* sender() const override { return sender_; }

  void write_keys(HostExecutor& executor, uint64_t* keys) override {
    // Others may be reading those of rows that are picked.
    if (picked_ == nullptr) executor.hash_keys(columns_, 0, rows_);
    for (uint32_t number = 0; number < rows_; ++number) {
      const uint32_t row = row_of(number);
      keys[number] = key_on_device(columns_.hash[row], columns_.database[row]);
    }
  }

  void answer(const RoundShare& share, const RootColumns& found, const uint32_t* numbers,
              uint32_t count) override {
    const uint64_t largest = writable_ ? share.executor.store().largest_item() : 0;
    HostExecutor::Run run{share.executor, columns_, now_ms_, largest, !writes_};
    run.erases_expired = share.overlay != nullptr;
    run.values = reader_;
    run.parking = parking_;
    run.batch = &batch_;
    run.first_row = first_;
    run.token = token_;
    run_round_stages(run, share, found, numbers, count, picked_);
    if (reader_ != nullptr) reader_->await(run.awaited);
    share.executor.count(run, count);
  }

 private:
  uint32_t row_of(uint32_t number) const { return picked_ != nullptr ? picked_[number] : number; }
  bool any_writes() const {
    for (uint32_t number = 0; number < rows_; ++number) {
      if (writes(number)) return true;
    }
    return false;
  }

  const Batch& batch_;
  Batch::Columns columns_;
  const uint32_t first_;
  const uint32_t rows_;
  const uint32_t* const picked_;
  const bool marks_;
  const bool writes_;
  const int64_t now_ms_;
  const bool writable_;
  ValueReader* const reader_;
  RoundSender* const sender_;
  BatchRun* const parking_;
  const uint64_t token_;  // of the sink
};

}  // namespace isotherm
