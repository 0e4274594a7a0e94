// Long values whose bits and bytes change where they lie (items/changing_item.h), as requests see
// them: what was shown stays, and so does everything that goes by versions.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "isotherm/bitfield.h"
#include "models/failing_memory.h"
#include "models/long_value_fixture.h"
#include "models/snapshot_fixture.h"

namespace isotherm::changing_value_test {
namespace {

constexpr uint64_t long_bytes = 50'000;
const std::string zeros(long_bytes, '\0');

class ChangingValue : public LongValueFixture {
 protected:
  ChangingValue() {
    Batch batch;
    batch.put("key", zeros);
    worker.submit(batch);
    set_bit(0);  // the copy that it makes may change
  }

  // What the bit was; and how many bytes were copied for it.
  int64_t set_bit(int64_t bit, bool to = true) {
    const uint64_t before = worker.copied_bytes();
    Batch batch;
    batch.set_bit("key", bit, to);
    const Reply& reply = submit(batch);
    EXPECT_EQ(reply.status, Status::ok);
    copied = worker.copied_bytes() - before;
    return reply.number;
  }
  uint64_t version() {
    Batch batch;
    batch.get("key", option::no_value);
    return submit(batch).version;
  }
};

TEST_F(ChangingValue, IsNotCopied) {
  std::string expected = zeros;
  expected[0] = '\x80';
  EXPECT_GE(worker.copied_bytes(), long_bytes);
  uint64_t seen = version();
  const auto rises = [&] { return std::exchange(seen, version()) < seen; };
  EXPECT_EQ(set_bit(8), 0);
  EXPECT_EQ(copied, 0u);
  EXPECT_TRUE(rises());
  EXPECT_EQ(set_bit(8), 1);
  EXPECT_FALSE(rises());
  expected[1] = '\x80';
  EXPECT_EQ(value(), expected);
  const uint64_t before = worker.copied_bytes();
  std::vector<BitfieldStep> steps(2);
  steps[0] = {.kind = BitfieldStep::Kind::add, .bits = 8, .offset = 80, .operand = 5};
  steps[1] = {.kind = BitfieldStep::Kind::add, .bits = 8, .offset = 399'992, .operand = 6};
  Batch batch;
  batch.bitfield("key", steps);
  batch.bitfield("key", steps);
  batch.set_range("key", 30, "thirty");
  batch.set_range("key", long_bytes - 3, "end");
  batch.set_range("key", long_bytes, "");
  EXPECT_EQ(submit(batch).number, static_cast<int64_t>(long_bytes));
  EXPECT_EQ(steps[0].result, 10);
  EXPECT_EQ(steps[1].result, 12);
  EXPECT_EQ(worker.copied_bytes(), before);
  EXPECT_TRUE(rises());
  expected[10] = 10;
  expected.replace(30, 6, "thirty").replace(long_bytes - 3, 3, "end");
  EXPECT_EQ(value(), expected);
  // What makes it longer than its place copies it, and is the next to change.
  set_bit(2 * long_bytes * 8);
  EXPECT_GE(copied, long_bytes);
  set_bit(2 * long_bytes * 8, false);
  EXPECT_EQ(copied, 0u);
  EXPECT_EQ(value(), expected + std::string(long_bytes + 1, '\0'));
}

// Few bytes are copied when they are shown, so nobody looks at the value any more.
TEST_F(ChangingValue, ChangesBehindARowThatWantsAPartOfIt) {
  const uint64_t before = worker.copied_bytes();
  Batch batch;
  batch.set_bit("key", 8, true);
  batch.get_part("key", 1, 1);
  batch.set_bit("key", 8, false);
  batch.get_part("key", 1, 1);
  batch.set_range("key", long_bytes - 3, "end");
  batch.get_part("key", -3, -1);
  batch.set_bit("key", long_bytes * 8 - 8, true);
  batch.get_part("key", long_bytes, long_bytes);
  batch.set_bit("key", 9, true);
  worker.submit(batch);
  EXPECT_EQ(worker.copied_bytes(), before);
  const std::string_view shown[] = {"\x80", std::string_view("\0", 1), "end", ""};
  for (Batch::Row row = 1; row < 8; row += 2) {
    EXPECT_EQ(batch.reply(row).status, Status::ok);
    EXPECT_EQ(batch.reply(row).number, Batch::part_alone) << row;
    EXPECT_EQ(batch.reply(row).value(), shown[row / 2]) << row;
    EXPECT_EQ(batch.reply(row).version, batch.reply(row - 1).version) << row;
  }
  // More of it is shown where it lies.
  batch.clear();
  batch.get_part("key", 0, 1000);
  EXPECT_EQ(submit(batch).number, 0);
  EXPECT_EQ(batch.reply(0).size, long_bytes);
  set_bit(8);
  EXPECT_GE(copied, long_bytes);
}

TEST_F(ChangingValue, StaysAsItWasShown) {
  std::string expected = zeros;
  expected[0] = '\x80';
  Batch batch;
  batch.get("key");
  batch.get("key", option::no_value);
  batch.set_bit("key", 8, true);
  batch.get("key");
  batch.set_bit("key", 16, true);
  batch.expire("key", 5000);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).value(), expected);
  EXPECT_EQ(batch.reply(1).version, batch.reply(0).version);
  std::string second = expected;
  second[1] = '\x80';
  EXPECT_EQ(batch.reply(3).value(), second);
  const std::string_view shown = batch.reply(3).value();
  const uint64_t kept = engine.keep(batch.reply(3));
  // Another client's change beside replies that are shown, and beside an output that is kept.
  Worker other(engine);
  Batch change;
  change.set_bit("key", 24, true);
  other.submit(change);
  EXPECT_EQ(batch.reply(3).value(), second);
  batch.clear();
  set_bit(32);
  EXPECT_EQ(shown, second);
  engine.let_go(kept);
  set_bit(40);
  EXPECT_EQ(copied, 0u);
  second[2] = second[3] = second[4] = second[5] = '\x80';
  EXPECT_EQ(value(), second);
}

TEST_F(ChangingValue, IsCopiedWhileAnOutputHasIt) {
  const Kept kept = keep();
  set_bit(8);
  EXPECT_GE(copied, long_bytes);
  EXPECT_EQ(kept.shown, kept.before);
  engine.let_go(kept.number);
  set_bit(16);
  EXPECT_EQ(copied, 0u);
}

TEST_F(ChangingValue, ItsVersionCounts) {
  const uint64_t old = version();
  set_bit(8);
  EXPECT_EQ(copied, 0u);
  const uint64_t now = version();
  Batch batch;
  batch.put("key", "x", option::if_version, no_expiry, 0, old);
  batch.erase("key", option::if_version, old);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::condition_failed);
  EXPECT_EQ(batch.reply(1).status, Status::condition_failed);
  batch.clear();
  batch.put("key", "x", option::if_version, no_expiry, 0, now);
  EXPECT_EQ(submit(batch).status, Status::ok);
  EXPECT_EQ(value(), "x");
}

// Whatever else may be done to such a value.
TEST_F(ChangingValue, IsAValueAsAnyOther) {
  std::string expected = zeros;
  expected[0] = expected[1] = '\x80';
  set_bit(8);
  Batch batch;
  batch.add("key", 1);
  batch.append("key", "more");
  EXPECT_EQ(submit(batch).status, Status::ok);
  EXPECT_EQ(batch.reply(0).status, Status::not_an_integer);
  expected += "more";
  EXPECT_EQ(value(), expected);
  set_bit(16);
  set_bit(24);
  EXPECT_EQ(copied, 0u);
  expected[2] = expected[3] = '\x80';
  batch.clear();
  batch.expire("key", 100'000);
  EXPECT_EQ(submit(batch).status, Status::ok);
  set_bit(32);
  set_bit(40);
  EXPECT_EQ(copied, 0u);
  expected[4] = expected[5] = '\x80';
  batch.clear();
  batch.get("key", option::no_value);
  batch.put("key", "short", option::want_previous);
  EXPECT_EQ(submit(batch).value(), expected);
  EXPECT_EQ(batch.reply(0).expiry, 100'000);
  EXPECT_EQ(batch.reply(0).size, expected.size());
  EXPECT_EQ(value(), "short");
  batch.clear();
  batch.put("key", expected);
  worker.submit(batch);
  set_bit(48);
  set_bit(56);
  EXPECT_EQ(copied, 0u);
  batch.clear();
  batch.erase("key", option::want_previous);
  expected[6] = expected[7] = '\x80';
  EXPECT_EQ(submit(batch).value(), expected);
  batch.clear();
  for (int i = 0; i < 100; ++i) worker.maintain();
  EXPECT_EQ(engine.large_item_bytes(), 0u);
  EXPECT_EQ(engine.client_bytes(), 0u);
}

// Where a reader cannot note what it reads, the value changes no more.
TEST_F(ChangingValue, StaysAsItWasShownWithoutMemory) {
  const std::string expected = value();
  bool failed = true;
  for (int64_t works = 0; failed; ++works) {
    Batch batch;
    batch.get("key");
    Worker reader(engine);
    {
      const FailingMemory memory(works);
      reader.submit(batch);
      failed = FailingMemory::failed();
    }
    if (batch.reply(0).status != Status::ok) continue;
    EXPECT_EQ(batch.reply(0).value(), expected);
    set_bit(8);
    EXPECT_EQ(batch.reply(0).value(), expected);
    set_bit(8, false);
  }
}

// A value that is all of one byte at any moment is seen so, and no change of others is lost.
TEST_F(ChangingValue, IsSeenWholeWhileThreadsChangeIt) {
  constexpr uint64_t rounds = 200;
  Batch all;
  all.set_range("key", 0, zeros);
  all.put("count", zeros);
  worker.submit(all);
  std::atomic<bool> ends{false};
  std::vector<std::thread> threads;
  for (int reader = 0; reader < 2; ++reader) {
    threads.emplace_back([&] {
      Worker its(engine);
      uint64_t last = 0;
      while (!ends.load()) {
        Batch batch;
        batch.get("key");
        its.submit(batch);
        const std::string_view seen = batch.reply(0).value();
        const char first = seen[0];
        const auto same = static_cast<uint64_t>(std::count(seen.begin(), seen.end(), first));
        EXPECT_EQ(same, seen.size());
        EXPECT_GE(batch.reply(0).version, last);
        last = batch.reply(0).version;
        batch.clear();
        std::this_thread::yield();
      }
    });
  }
  std::vector<std::thread> writers;
  for (int writer = 0; writer < 2; ++writer) {
    writers.emplace_back([&, writer] {
      Worker its(engine);
      std::vector<BitfieldStep> steps(1);
      steps[0] = {.kind = BitfieldStep::Kind::add, .bits = 32, .offset = 320, .operand = 1};
      for (uint64_t round = 0; round < rounds; ++round) {
        const std::string whole(long_bytes, static_cast<char>('a' + (round + writer) % 26));
        Batch batch;
        batch.bitfield("count", steps);
        if (round % 8 == 0) batch.set_range("key", 0, whole);
        its.submit(batch);
      }
    });
  }
  for (std::thread& thread : writers) thread.join();
  ends = true;
  for (std::thread& thread : threads) thread.join();
  std::vector<BitfieldStep> steps(1);
  steps[0] = {.kind = BitfieldStep::Kind::get, .bits = 32, .offset = 320};
  Batch batch;
  batch.bitfield("count", steps);
  worker.submit(batch);
  EXPECT_EQ(steps[0].result, static_cast<int64_t>(2 * rounds));
}

class ChangingValueSnapshot : public SnapshotFixture {};

TEST_F(ChangingValueSnapshot, ShowsWhatWasThereAtTheMoment) {
  Worker worker(*engine_);
  const auto set_bits = [&](int64_t first) {
    for (int64_t bit = first; bit < first + 16; ++bit) {
      Batch batch;
      batch.set_bit("a", bit, true);
      batch.set_bit("b", bit, true);
      worker.submit(batch);
    }
  };
  put(worker, 0, "a", zeros);
  put(worker, 0, "b", zeros);
  set_bits(0);
  std::string expected = zeros;
  expected[0] = expected[1] = '\xFF';
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  set_bits(16);
  const SnapshotContent content{{{0, "a"}, {expected, 0}}, {{0, "b"}, {expected, 0}}};
  EXPECT_EQ(rest(worker), content);
  const uint64_t before = worker.copied_bytes();
  set_bits(32);
  EXPECT_EQ(worker.copied_bytes(), before);
  expected[2] = expected[3] = expected[4] = expected[5] = '\xFF';
  const SnapshotContent later{{{0, "a"}, {expected, 0}}, {{0, "b"}, {expected, 0}}};
  EXPECT_EQ(whole(worker), later);
}

}  // namespace
}  // namespace isotherm::changing_value_test
