// Long values that change where they lie (items/changing_item.h), in a journal: it records the
// parts, and a start finds the same.
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>
#include <thread>
#include <vector>

#include "isotherm/bitfield.h"
#include "items/changing_item.h"
#include "models/journal_fixture.h"

namespace isotherm::changing_journal_test {
namespace {

using Fill = std::function<void(Batch&)>;

class ChangingJournalTest : public JournalFixture {
 protected:
  // How many bytes of the journal it takes.
  uint64_t bytes_of(const Fill& fill) {
    const uint64_t before = store->journal->bytes();
    Worker worker(store->engine);
    Batch batch;
    fill(batch);
    worker.submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      EXPECT_EQ(batch.reply(row).status, Status::ok) << row;
    }
    return store->journal->bytes() - before;
  }
};

TEST_F(ChangingJournalTest, WhatThreadsChangeInItsPlaceIsRecorded) {
  open();
  const std::string value(50'000, 'a');
  for (const char* key : {"range", "bit", "field"}) put(key, value);
  std::vector<BitfieldStep> steps(1);
  steps[0] = {.kind = BitfieldStep::Kind::add, .bits = 32, .offset = 320, .operand = 1};
  bool bit = false;
  const auto change = [&](Batch& batch) {
    batch.set_range("range", 30, "new");
    batch.set_bit("bit", 12, bit = !bit);
    batch.bitfield("field", steps);
  };
  bytes_of(change);
  constexpr uint64_t most = 600;
  {
    Worker worker(store->engine);
    const uint64_t copied = worker.copied_bytes();
    EXPECT_LE(bytes_of(change), most);
    EXPECT_LE(bytes_of([&](Batch& batch) {
                change(batch);
                batch.get("bit");
                batch.group(0);
              }),
              most);
    EXPECT_EQ(worker.copied_bytes(), copied);
  }
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 2; ++thread) {
    threads.emplace_back([&, thread] {
      Worker its(store->engine);
      std::vector<BitfieldStep> own = steps;
      own[0].offset = 800;
      for (uint64_t i = 0; i < 40; ++i) {
        Batch batch;
        batch.bitfield("field", own);
        batch.set_bit("bit", static_cast<int64_t>(i * 64 + thread), i % 3 != 0);
        if (i % 10 == thread) batch.get("field");
        its.submit(batch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto content = store->content();
  EXPECT_EQ(open().content(), content);
  bytes_of(change);
  bytes_of(change);
  const auto later = store->content();
  EXPECT_EQ(open().content(), later);
}

// The records of values that grow where they lie are those of their copies: some have another
// length, and one has zeros between.
TEST_F(ChangingJournalTest, WhatThreadsAppendInItsPlaceIsRecorded) {
  open();
  const std::string value(40'000, 'a');
  for (const char* key : {"appended", "ranged", "shared"}) put(key, value);
  int64_t end = static_cast<int64_t>(value.size());
  const auto change = [&](Batch& batch) {
    batch.append("appended", "more");
    batch.set_range("ranged", end + 100, "range");
    end += 105;
  };
  bytes_of(change);
  {
    Worker worker(store->engine);
    const uint64_t copied = worker.copied_bytes();
    for (int i = 0; i < 10; ++i) {
      EXPECT_LE(bytes_of(change), 400u);
      EXPECT_LE(bytes_of([&](Batch& batch) {
                  change(batch);
                  batch.group(0);
                }),
                400u);
    }
    EXPECT_EQ(worker.copied_bytes(), copied);
  }
  std::vector<std::thread> threads;
  for (char thread = 'x'; thread <= 'y'; ++thread) {
    threads.emplace_back([&, thread] {
      Worker its(store->engine);
      const std::string own(7, thread);
      for (int i = 0; i < 100; ++i) {
        Batch batch;
        batch.append("shared", own);
        if (i % 10 == 0) batch.get("shared");
        if (i % 16 == 3) batch.set_range("shared", i, own);
        its.submit(batch);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const auto content = store->content();
  EXPECT_EQ(std::get<0>(content.at({0, "shared"})).size(), value.size() + 2 * 100 * 7);
  EXPECT_EQ(open().content(), content);
  bytes_of(change);
  bytes_of(change);
  const auto later = store->content();
  EXPECT_EQ(open().content(), later);
}

// One item is before and behind the change, which is none of its expiry.
TEST_F(ChangingJournalTest, TheWholeValueIsRecordedWhereAnotherBatchHasChangedIt) {
  open();
  MemoryBudget budget(0);
  LargeItems large(budget);
  const Item::Parts parts{.key = "key", .value_bytes = 2000};
  const Location location = large.allocate(parts.bytes(), false);
  Item* const item = Item::create(reinterpret_cast<void*>(location::place(location)), parts);
  std::fill_n(item->value_data(), 2000, 'a');
  item->set_version(1'000'000);
  item->let_change();
  Journal& journal = *store->journal;
  Batch first, second, third;
  for (Batch* const batch : {&first, &second, &third}) batch->put("key", "");
  const uint64_t before = journal.bytes();
  const uint64_t first_token = journal.begins(first).token;
  journal.changed(
      {ItemChange::Reason::request, 0, "key", 5, nullptr, item, no_expiry, 1'000'000, first_token});
  const auto change = [&](uint64_t version, uint64_t token) {
    const ItemChange its{
        ItemChange::Reason::request, 0, "key", 5, item, item, no_expiry, version, token};
    const ChangedPart part{version - 1'000'001, 1, 2000};
    journal.make_room(its, &part);
    item->value_data()[part.at] = 'b';
    journal.changed_part(its, part);
    ChangingItem::set_version(*item, version);
  };
  const uint64_t second_token = journal.begins(second).token;
  change(1'000'001, second_token);
  journal.ends(second_token);
  EXPECT_GT(journal.bytes() - before, 2000u);
  journal.ends(first_token);
  const uint64_t behind = journal.bytes();
  const uint64_t third_token = journal.begins(third).token;
  change(1'000'002, third_token);
  journal.ends(third_token);
  EXPECT_LE(journal.bytes() - behind, 200u);
  EXPECT_EQ(std::get<0>(open().content().at({0, "key"})), "bb" + std::string(1998, 'a'));
}

}  // namespace
}  // namespace isotherm::changing_journal_test
