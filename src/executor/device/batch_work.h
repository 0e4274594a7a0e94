// BatchWork: some rows of a batch, as rounds see them (executor/device/rounds.h).
//
// Threads. As RoundWork. Ends before the batch, and when its rows are answered.
#pragma once

#include <cstdint>
#include <vector>

#include "executor/device/round_stages.h"
#include "executor/device/rounds.h"
#include "executor/host/host_executor.h"
#include "executor/run/batch_run.h"
#include "isotherm/batch.h"

namespace isotherm {

class BatchWork final : public RoundWork {
 public:
  // `parking`: takes rows that must know a value which is away; null: they fetch it on the spot.
  // `skipped`: whether each row is not to be answered; null: all are.
  BatchWork(const BatchRun& run, const Batch& batch, uint32_t first, uint32_t rows,
            BatchRun* parking, const uint8_t* skipped = nullptr)
      : batch_(batch),
        columns_(batch.columns().from(first)),
        first_(first),
        rows_(rows),
        skipped_(skipped),
        writes_(batch.writes() && (skipped == nullptr || any_writes())),
        now_ms_(run.now_ms),
        writable_(run.writable),
        reader_(run.reader),
        // Who has waited already waits for nobody else.
        sender_(run.put_off && &batch != run.batch ? nullptr : run.sender),
        parking_(parking),
        token_(run.token) {}

  uint32_t rows() const override { return rows_; }
  bool writes() const override { return writes_; }
  bool writes(uint32_t row) const override { return columns_.op[row] != Op::get && !skips(row); }
  bool changes_in_place(uint32_t row) const override {
    return (columns_.op[row] == Op::expire || columns_.op[row] == Op::call) && !skips(row);
  }
  RoundSender* sender() const override { return sender_; }

  void write_keys(HostExecutor& executor, uint64_t* keys) override {
    // Where some are skipped all have their hashes, and others may be reading these.
    if (skipped_ == nullptr) executor.hash_keys(columns_, 0, rows_);
    for (uint32_t row = 0; row < rows_; ++row) {
      keys[row] = key_on_device(columns_.hash[row], columns_.database[row]);
    }
  }

  void answer(const RoundShare& share, const RootColumns& found, const uint32_t* numbers,
              uint32_t count) override {
    if (skipped_ == nullptr) return answer_rows(share, found, numbers, count);
    std::vector<uint32_t> rows;
    rows.reserve(count);
    for (uint32_t i = 0; i < count; ++i) {
      const uint32_t row = numbers != nullptr ? numbers[i] : i;
      if (!skips(row)) rows.push_back(row);
    }
    answer_rows(share, found, rows.data(), static_cast<uint32_t>(rows.size()));
  }

 private:
  bool skips(uint32_t row) const { return skipped_ != nullptr && skipped_[row] != 0; }
  bool any_writes() const {
    for (uint32_t row = 0; row < rows_; ++row) {
      if (writes(row)) return true;
    }
    return false;
  }

  void answer_rows(const RoundShare& share, const RootColumns& found, const uint32_t* numbers,
                   uint32_t count) {
    const uint64_t largest = writable_ ? share.executor.store().largest_item() : 0;
    HostExecutor::Run run{share.executor, columns_, now_ms_, largest, !writes_};
    run.erases_expired = share.overlay != nullptr;
    run.values = reader_;
    run.parking = parking_;
    run.batch = &batch_;
    run.first_row = first_;
    run.token = token_;
    run_round_stages(run, share, found, numbers, count);
    if (reader_ != nullptr) reader_->await(run.awaited);
    share.executor.count(run, count);
  }

  const Batch& batch_;
  Batch::Columns columns_;
  const uint32_t first_;
  const uint32_t rows_;
  const uint8_t* const skipped_;
  const bool writes_;
  const int64_t now_ms_;
  const bool writable_;
  ValueReader* const reader_;
  RoundSender* const sender_;
  BatchRun* const parking_;
  const uint64_t token_;  // of the sink
};

}  // namespace isotherm
