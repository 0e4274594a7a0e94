// Rows of a view that a backing answers while their batch waits (Backing::Coming).
#include "executor/run/batch_run.h"

#include <gtest/gtest.h>

#include <memory>
#include <vector>

namespace isotherm::batch_run_test {
namespace {

struct Owner final : BatchRun::Owner {
  void moved(BatchRun&, BatchRun::Phase) override {}
  void has_room() override {}
  void released(BatchRun& run) override { run.leave(); }
};

// Answers all but one.
class Answers final : public Backing::Coming {
 public:
  Answers(std::vector<Batch::Row> rows, Batch::Row left) : rows_(std::move(rows)), left_(left) {}
  void begin(Waiter&) override {}
  std::span<const Batch::Row> rows() const override { return rows_; }
  void answer(const Batch::Columns& columns, int64_t, Backing::Answered& answered) override {
    for (const Batch::Row row : rows_) {
      if (row == left_) {
        answered.left.push_back(row);
        continue;
      }
      const Status status = row % 2 == 0 ? Status::ok : Status::not_found;
      (row % 2 == 0 ? answered.hits : answered.misses) += 1;
      columns.reply[row].status = status;
    }
  }

 private:
  const std::vector<Batch::Row> rows_;
  const Batch::Row left_;
};

TEST(BatchRunTest, AViewThatIsNotAnsweredAsAWholeRunsAgainAsAWhole) {
  EpochDomain epochs;
  const TakenSlot taken(epochs);
  Owner owner;
  Batch batch;
  for (int i = 0; i < 9; ++i) batch.get("key");
  batch.view(1, 4);
  batch.view(4, 8);
  BatchRun run(owner, *taken.slot);
  run.begin(batch, 0, false);
  run.await(std::make_unique<Answers>(std::vector<Batch::Row>{0, 1, 2, 3, 4}, 9));
  run.await(std::make_unique<Answers>(std::vector<Batch::Row>{5, 6, 7, 8}, 6));
  EXPECT_FALSE(run.may_ask());
  const Backing::Answered answered = run.answer_coming();
  for (Batch::Row row = 0; row < 9; ++row) {
    EXPECT_EQ(batch.answered(row), row < 4 || row == 8) << row;
  }
  EXPECT_EQ(answered.hits, 3u);
  EXPECT_EQ(answered.misses, 2u);
  EXPECT_FALSE(run.has_coming());
  const Batch& again = run.take_parked();
  EXPECT_EQ(again.size(), 4u);
  ASSERT_EQ(again.views().size(), 1u);
  EXPECT_EQ(again.views()[0].end - again.views()[0].first, 4u);
  batch.clear();
}

}  // namespace
}  // namespace isotherm::batch_run_test
