// Long values that grow where they lie (items/changing_item.h), as requests see them: what was
// shown stays, lengths and bytes belong together, and the cap holds.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <iterator>
#include <random>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "base/clock.h"
#include "engine/engine.h"
#include "executor/commit_sink.h"
#include "isotherm/bitfield.h"
#include "items/changing_item.h"
#include "items/meta_request.h"
#include "items/poison.h"
#include "models/long_value_fixture.h"
#include "models/snapshot_fixture.h"

namespace isotherm::growing_value_test {
namespace {

constexpr uint64_t long_bytes = 100'000;
constexpr int64_t some_day = 100'000;

class GrowingValue : public LongValueFixture {
 protected:
  GrowingValue() {
    Batch batch;
    batch.put("key", expected, 0, some_day, 7);
    worker.submit(batch);
    append(std::string(100, 'b'));  // the copy that it makes has room
  }

  Reply& ask(Batch& batch) {
    Reply& reply = submit(batch);
    EXPECT_EQ(reply.status, Status::ok);
    return reply;
  }
  // Notes where the value lies, and how many bytes were copied.
  void append(const std::string& more) {
    const uint64_t before = worker.copied_bytes();
    Batch batch;
    batch.append("key", more);
    expected += more;
    const Reply& reply = ask(batch);
    EXPECT_EQ(reply.number, static_cast<int64_t>(expected.size()));
    location = reply.location;
    copied = worker.copied_bytes() - before;
  }
  uint64_t size(const char* key = "key") {
    Batch batch;
    batch.get(key, option::no_value);
    return ask(batch).size;
  }

  std::string expected = std::string(long_bytes, 'a');
  Location location = location::none;
};

TEST_F(GrowingValue, StaysAtItsPlace) {
  EXPECT_GE(copied, long_bytes);
  const Location place = location;
  uint64_t version = 0;
  const uint64_t used = engine.stats().used_memory;
  for (int i = 0; i < 100; ++i) {
    append(std::string(100, static_cast<char>('c' + i % 20)));
    EXPECT_EQ(copied, 0u);
    EXPECT_EQ(location, place);
    EXPECT_EQ(size(), expected.size());
    Batch batch;
    batch.get("key");
    const Reply& reply = ask(batch);
    EXPECT_EQ(reply.value(), expected);
    EXPECT_EQ(reply.flags, 7u);
    EXPECT_EQ(reply.expiry, some_day);
    EXPECT_LT(std::exchange(version, reply.version), reply.version);
  }
  EXPECT_EQ(engine.stats().used_memory, used);
}

// However short the pieces are. Values of all lengths grow so, and what is copied follows what is
// appended.
TEST_F(GrowingValue, IsCopiedSeldom) {
  const uint64_t before = worker.copied_bytes();
  for (int i = 0; i < 1000; ++i) append(std::string(1000, static_cast<char>('c' + i % 20)));
  EXPECT_LE(worker.copied_bytes() - before, 10 * expected.size());
  EXPECT_EQ(value(), expected);
}

TEST_F(GrowingValue, IsPatchedBeyondItsEnd) {
  const auto zeros_to = [&](uint64_t bytes) { expected.resize(bytes, '\0'); };
  // What lies behind the value is not zero.
  for (const int64_t gap : {0, 1, 100, 3000}) {
    const uint64_t before = worker.copied_bytes();
    Batch batch;
    batch.set_range("key", static_cast<int64_t>(expected.size()) + gap, "range");
    zeros_to(expected.size() + static_cast<uint64_t>(gap));
    expected += "range";
    EXPECT_EQ(ask(batch).number, static_cast<int64_t>(expected.size()));
    EXPECT_EQ(worker.copied_bytes(), before);
    EXPECT_EQ(value(), expected) << gap;
  }
  const uint64_t before = worker.copied_bytes();
  Batch batch;
  batch.set_range("key", static_cast<int64_t>(expected.size()) - 3, "other end");
  expected.replace(expected.size() - 3, 9, "other end");
  batch.set_bit("key", static_cast<int64_t>(expected.size()) * 8 + 807, true);
  zeros_to(expected.size() + 101);
  expected.back() = '\x01';
  std::vector<BitfieldStep> steps(2);
  steps[0] = {.kind = BitfieldStep::Kind::add, .bits = 8, .offset = 8, .operand = 1};
  steps[1] = {.kind = BitfieldStep::Kind::set,
              .bits = 8,
              .offset = (expected.size() + 50) * 8,
              .operand = 'z'};
  batch.bitfield("key", steps);
  expected[1] = 'b';
  zeros_to(expected.size() + 51);
  expected.back() = 'z';
  ask(batch);
  EXPECT_EQ(worker.copied_bytes(), before);
  EXPECT_EQ(value(), expected);
  // Much at once, with the gap, goes the long way.
  batch.clear();
  const uint64_t gap = ChangingItem::most_written;
  batch.set_range("key", static_cast<int64_t>(expected.size() + gap), "far");
  zeros_to(expected.size() + gap);
  expected += "far";
  ask(batch);
  EXPECT_GT(worker.copied_bytes(), before);
  EXPECT_EQ(value(), expected);
}

TEST_F(GrowingValue, StaysAsItWasShown) {
  const std::string first = expected;
  append("second");
  EXPECT_EQ(copied, 0u);
  const std::string second = expected;
  Batch batch;
  batch.get("key");
  batch.append("key", "third");
  batch.get("key", option::no_value);
  batch.get_part("key", -5, -1);
  batch.get("key");
  batch.append("key", "fourth");
  batch.append("key", "fifth");
  batch.get_part("key", -11, -1);
  worker.submit(batch);
  expected += "thirdfourthfifth";
  EXPECT_EQ(batch.reply(0).value(), second);
  EXPECT_EQ(batch.reply(2).size, second.size() + 5);
  EXPECT_EQ(batch.reply(3).value(), "third");
  EXPECT_EQ(batch.reply(4).value(), second + "third");
  EXPECT_EQ(batch.reply(7).value(), "fourthfifth");
  // Another client's, beside replies that are shown and an output that is kept.
  const std::string_view shown = batch.reply(4).value();
  const uint64_t kept = engine.keep(batch.reply(4));
  Worker other(engine);
  Batch change;
  change.append("key", "sixth");
  other.submit(change);
  expected += "sixth";
  EXPECT_EQ(batch.reply(4).value(), second + "third");
  batch.clear();
  append("seventh");
  EXPECT_EQ(shown, second + "third");
  engine.let_go(kept);
  EXPECT_EQ(value(), expected);
  append("eighth");
  EXPECT_EQ(copied, 0u);
  EXPECT_EQ(value(), expected);
}

// A client that never takes its reply keeps that, and later changes go on in a copy.
TEST_F(GrowingValue, IsCopiedOnceForAReaderThatStays) {
  const Kept kept = keep();
  append("first");
  EXPECT_GE(copied, long_bytes);
  for (int i = 0; i < 100; ++i) {
    append(std::string(50, 'c'));
    EXPECT_EQ(copied, 0u);
  }
  EXPECT_EQ(kept.shown, kept.before);
  engine.let_go(kept.number);
  EXPECT_EQ(value(), expected);
}

TEST_F(GrowingValue, ItsVersionCounts) {
  Batch batch;
  batch.get("key", option::no_value);
  const uint64_t old = ask(batch).version;
  append("more");
  EXPECT_EQ(copied, 0u);
  batch.clear();
  batch.put("key", "x", option::if_version, no_expiry, 0, old);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::condition_failed);
  batch.clear();
  batch.append("key", "more", option::if_absent);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::condition_failed);
  EXPECT_EQ(value(), expected);
}

// memcached's meta command for it. An item of which the meta commands know more is copied.
TEST_F(GrowingValue, GrowsByMetaCommands) {
  MetaRequest request;
  request.kind = MetaRequest::Kind::store;
  request.mode = MetaRequest::Mode::append;
  const auto meta = [&](const char* key, std::string_view more) {
    const uint64_t before = worker.copied_bytes();
    Batch batch;
    batch.meta(key, more, request);
    EXPECT_NE(ask(batch).version, 0u);
    return worker.copied_bytes() - before;
  };
  EXPECT_EQ(meta("key", "more"), 0u);
  expected += "more";
  EXPECT_EQ(value(), expected);
  request.checks_version = true;
  request.version = 1;
  Batch batch;
  batch.meta("key", "no", request);
  worker.submit(batch);
  EXPECT_EQ(batch.reply(0).status, Status::condition_failed);
  batch.clear();
  request.checks_version = false;
  request.mode = MetaRequest::Mode::set;
  std::string stated(long_bytes, 's');
  batch.meta("stated", stated, request);
  ask(batch);
  request.mode = MetaRequest::Mode::append;
  for (int i = 0; i < 3; ++i) {
    EXPECT_GE(meta("stated", "more"), long_bytes);
    stated += "more";
  }
  EXPECT_EQ(value("stated"), stated);
}

TEST_F(GrowingValue, IsAsItsModel) {
  std::mt19937 random(5);
  constexpr uint64_t longest = 1 << 20;
  const int rounds = poison::sanitized ? 300 : 2000;
  std::string model = expected;
  for (int round = 0; round < rounds; ++round) {
    const uint64_t most = random() % 4 == 0 ? longest : 1000;
    std::string more(1 + random() % most, static_cast<char>('a' + random() % 26));
    Batch batch;
    if (random() % 4 != 0) {
      batch.append("key", more);
      model += more;
    } else {
      const uint64_t at = random() % (model.size() + 2000);
      batch.set_range("key", static_cast<int64_t>(at), more);
      model.resize(std::max(model.size(), at + more.size()), '\0');
      model.replace(at, more.size(), more);
    }
    EXPECT_EQ(ask(batch).number, static_cast<int64_t>(model.size()));
    if (round % 8 == 0 || model.size() < 2 * longest) {
      ASSERT_EQ(value(), model);
    }
    if (model.size() < 4 * longest) continue;
    batch.clear();
    model.resize(1 + random() % 200'000);
    batch.put("key", model);
    ask(batch);
  }
  ASSERT_EQ(value(), model);
}

// Each change makes the end longer by a piece, and writes over the piece that was the last. So a
// length that belongs to other bytes shows a piece that is the last nowhere.
TEST_F(GrowingValue, IsSeenWholeWhileThreadsAppend) {
  constexpr uint64_t piece = 8;
  constexpr int writers = 2;
  constexpr int changes = 4000;
  Batch first;
  const std::string marks(long_bytes, '#');
  const std::string start = marks + "aaaaaaaa";
  first.put("key", start);
  first.put("mixed", marks);
  ask(first);
  std::atomic<bool> ends{false};
  std::vector<std::thread> readers;
  for (int reader = 0; reader < 2; ++reader) {
    readers.emplace_back([&, reader] {
      Worker its(engine);
      uint64_t longest = 0;
      uint64_t last = 0;
      for (uint64_t look = 0; !ends.load(); ++look) {
        Batch batch;
        batch.get("key", option::no_value);
        batch.get_part("key", -static_cast<int64_t>(piece), -1);
        if (look % 16 == static_cast<uint64_t>(reader)) batch.get("key");
        if (look % 16 == 8) batch.get_part("key", 0, -1);
        its.submit(batch);
        EXPECT_GE(batch.reply(0).size, longest);
        longest = batch.reply(0).size;
        // Until the first change made a copy that may change, the reply is the whole value.
        const std::string_view shown = batch.reply(1).value();
        const std::string_view part = shown.substr(shown.size() - piece);
        EXPECT_EQ(part, std::string(piece, part[0]));
        EXPECT_NE(part[0], '#');
        EXPECT_GE(batch.reply(1).version, last);
        last = batch.reply(1).version;
        if (batch.size() == 3) {
          const std::string_view all = batch.reply(2).value();
          EXPECT_GE(all.size(), longest);
          EXPECT_EQ(all.size() % piece, 0u);
          EXPECT_EQ(all.find_first_not_of('#'), all.size() - piece);
          EXPECT_EQ(all.substr(all.size() - piece), std::string(piece, all.back()));
        }
        batch.clear();
        std::this_thread::yield();
      }
    });
  }
  std::vector<std::thread> threads;
  for (int writer = 0; writer < writers; ++writer) {
    threads.emplace_back([&, writer] {
      Worker its(engine);
      Batch batch;
      for (uint64_t i = 1; i <= changes; ++i) {
        const std::string end(piece, static_cast<char>('a' + i % 26));
        const std::string pieces = std::string(piece, '#') + end;
        if (writer == 0) {
          batch.set_range("key", static_cast<int64_t>(long_bytes + (i - 1) * piece), pieces);
        }
        const std::string own(piece, static_cast<char>('A' + writer));
        batch.append("mixed", own);
        its.submit(batch);
        batch.clear();
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  ends = true;
  for (std::thread& thread : readers) thread.join();
  EXPECT_EQ(size(), long_bytes + (changes + 1) * piece);
  const std::string mixed = value("mixed");
  ASSERT_EQ(mixed.size(), long_bytes + writers * changes * piece);
  for (uint64_t at = long_bytes; at < mixed.size(); at += piece) {
    ASSERT_EQ(mixed.substr(at, piece), std::string(piece, mixed[at]));
  }
  EXPECT_EQ(std::count(mixed.begin(), mixed.end(), 'A'), static_cast<int64_t>(changes * piece));
}

// Who looks at the length alone sees the longer one only when the change is told, so that its reply
// waits for what keeps the change.
TEST_F(GrowingValue, ItsLengthIsSeenWhenItWasTold) {
  struct Sink final : CommitSink {
    Begun begins(const Batch& /*batch*/) override { return {}; }
    void changed(const ItemChange& /*change*/) override { ++others; }
    void changed_part(const ItemChange& change, const ChangedPart& part) override {
      EXPECT_EQ(change.old_item, change.new_item);
      seen_bytes = change.new_item->value_bytes();
      told = part;
      bytes.assign(change.new_item->value_data() + part.at, part.bytes);
    }
    bool lets_change_in_place() const override { return true; }
    void flushed(uint32_t, uint64_t, uint64_t) override {}
    Awaited* ends(uint64_t /*token*/) override { return nullptr; }
    int others = 0;
    uint64_t seen_bytes = 0;
    ChangedPart told{};
    std::string bytes;
  } sink;
  engine.set_commit_sink(&sink);
  const uint64_t before = expected.size();
  append("more");
  EXPECT_EQ(sink.others, 0);
  EXPECT_EQ(sink.seen_bytes, before);
  EXPECT_EQ(sink.told.value_bytes, before + 4);
  EXPECT_EQ(sink.told.at, before);
  EXPECT_EQ(sink.bytes, "more");
  EXPECT_EQ(size(), before + 4);
  engine.set_commit_sink(nullptr);
}

class GrowingValueSnapshot : public SnapshotFixture {};

TEST_F(GrowingValueSnapshot, ShowsWhatWasThereAtTheMoment) {
  Worker worker(*engine_);
  std::string a(long_bytes, 'a');
  std::string b(long_bytes, 'b');
  const auto append = [&](int times) {
    for (int i = 0; i < times; ++i) {
      Batch batch;
      batch.append("a", "more of a");
      batch.append("b", "and of b");
      worker.submit(batch);
      a += "more of a";
      b += "and of b";
    }
  };
  put(worker, 0, "a", a);
  put(worker, 0, "b", b);
  append(2);
  const SnapshotContent content{{{0, "a"}, {a, 0}}, {{0, "b"}, {b, 0}}};
  ASSERT_NE(snapshot_->begin(worker, false), nullptr);
  append(5);
  EXPECT_EQ(rest(worker), content);
  append(1);  // the snapshot may still have what it has written
  const uint64_t before = worker.copied_bytes();
  append(5);
  EXPECT_EQ(worker.copied_bytes(), before);
  const SnapshotContent later{{{0, "a"}, {a, 0}}, {{0, "b"}, {b, 0}}};
  EXPECT_EQ(whole(worker), later);
}

}  // namespace
}  // namespace isotherm::growing_value_test
