// Parts of values in a journal (durability/record.h): little is written where little has changed of
// a long value, and a start puts it together again, whatever came between.
#include <gtest/gtest.h>

#include <filesystem>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "durability/value_parts.h"
#include "items/item.h"
#include "items/poison.h"
#include "models/history.h"
#include "models/journal_fixture.h"
#include "models/stored_server_fixture.h"
#include "server/saver.h"

namespace isotherm::journal_parts_test {
namespace {

using Fill = std::function<void(Batch&)>;
const std::string long_value(20'000, 'a');

// A record of a part, as it is in a block.
std::string part_record(std::string_view key, uint64_t version, RecordPart part,
                        std::string_view bytes) {
  RecordHeader record{};
  record.op = RecordOp::part;
  record.version = version;
  record.expiry = no_expiry;
  std::string text(part_record_bytes(key.size(), bytes.size()), '\0');
  put_part_record(text.data(), record, key, part, bytes);
  return text;
}

class JournalPartsTest : public JournalFixture {
 protected:
  void ask(const Fill& fill) {
    Worker worker(store->engine);
    Batch batch;
    fill(batch);
    worker.submit(batch);
    for (Batch::Row row = 0; row < batch.size(); ++row) {
      EXPECT_EQ(batch.reply(row).status, Status::ok) << row;
    }
  }
  // How many bytes of the journal it takes.
  uint64_t bytes_of(const Fill& fill) {
    const uint64_t before = store->journal->bytes();
    ask(fill);
    return store->journal->bytes() - before;
  }
  // As the one who rewrites does.
  void write_anew() {
    ASSERT_GE(store->journal->begin_rewrite(), 0);
    Worker worker(store->engine);
    for (const auto& [key, value] : store->content()) {
      Batch batch;
      batch.select(key.first);
      batch.get(key.second);
      worker.submit(batch);
      const Reply& reply = batch.reply(0);
      RecordHeader record{};
      record.op = RecordOp::put;
      record.database = key.first;
      record.version = reply.version;
      record.expiry = reply.expiry;
      record.flags = reply.flags;
      record.type = static_cast<uint8_t>(reply.type);
      std::string text(record_bytes(key.second.size(), reply.value().size()), '\0');
      put_record(text.data(), record, key.second, reply.value());
      ASSERT_TRUE(store->journal->put_again(text));
    }
    ASSERT_GE(store->journal->end_rewrite(), 0);
  }
  bool save() {
    SaveJob job;
    const Saver saver(
        store->engine, job, folder, "dump", files, [] {}, store->journal.get());
    return job.do_now();
  }
  // Why a start refuses what is there.
  std::string start_refusal() {
    try {
      open();
    } catch (const JournalError& error) {
      return error.what();
    }
    return {};
  }
};

TEST_F(JournalPartsTest, LittleIsWrittenOfLongValues) {
  open();
  const int64_t soon = clock.now_ms() + 1000;
  put("range", long_value);
  put("bit", long_value);
  put("field", long_value, soon);
  put("tail", long_value);
  std::vector<BitfieldStep> steps(2);
  steps[0] = {.kind = BitfieldStep::Kind::set, .bits = 12, .offset = 79'998, .operand = 77};
  steps[1] = {.kind = BitfieldStep::Kind::get, .bits = 8, .offset = 5};
  constexpr uint64_t most = 200;
  EXPECT_LE(bytes_of([](Batch& batch) { batch.set_range("range", 30, "new"); }), most);
  EXPECT_LE(bytes_of([](Batch& batch) { batch.set_range("range", 25'000, "behind"); }), most);
  EXPECT_LE(bytes_of([](Batch& batch) { batch.set_bit("bit", 4001, true); }), most);
  EXPECT_LE(bytes_of([](Batch& batch) { batch.set_bit("bit", 240'001, true); }), most);
  EXPECT_LE(bytes_of([&](Batch& batch) { batch.bitfield("field", steps); }), most);
  EXPECT_LE(bytes_of([](Batch& batch) { batch.append("tail", "more"); }), most);
  // Several of a batch, also of one that takes effect as a whole.
  EXPECT_LE(bytes_of([](Batch& batch) {
              for (int i = 0; i < 10; ++i) batch.append("tail", "x");
            }),
            10 * most);
  EXPECT_LE(bytes_of([](Batch& batch) {
              batch.set_bit("bit", 77, true);
              batch.append("bit", "y");
              batch.set_bit("bit", 78, true);
              batch.group(0);
            }),
            3 * most);
  // Where much is new, or the value is short, all of it is.
  const std::string half(9000, 'b');
  EXPECT_GT(bytes_of([&](Batch& batch) { batch.set_range("range", 0, half); }), 25'000u);
  EXPECT_GT(bytes_of([](Batch& batch) { batch.prepend("bit", "front"); }), 25'000u);
  put("short", "ab");
  EXPECT_LE(bytes_of([](Batch& batch) { batch.append("short", "c"); }), most);
  const auto content = store->content();
  EXPECT_EQ(open().content(), content);
  // What was put together may be changed in parts, too.
  EXPECT_LE(bytes_of([](Batch& batch) { batch.append("tail", "later"); }), most);
  const auto later = store->content();
  EXPECT_EQ(open().content(), later);
  EXPECT_EQ(open().content(), later);
}

TEST_F(JournalPartsTest, WhatComesBetweenCounts) {
  open();
  const int64_t soon = clock.now_ms() + 1000;
  for (const char* const key : {"gone", "anew", "lasts", "ends", "flushed"}) put(key, long_value);
  const std::string anew = long_value + "anew";
  const auto change_all = [&](char with) {
    const std::string more(3, with);
    for (const char* const key : {"gone", "anew", "lasts", "ends"}) {
      ask([&](Batch& batch) { batch.append(key, more); });
    }
  };
  change_all('1');
  ask([&](Batch& batch) {
    batch.put("lasts", long_value, 0, soon);
    batch.expire("lasts", no_expiry);
    batch.expire("ends", soon);
    batch.erase("anew");
    batch.put("anew", anew);
  });
  change_all('2');
  ask([&](Batch& batch) { batch.expire("ends", soon + 500); });
  ask([](Batch& batch) { batch.erase("gone"); });
  const auto content = store->content();
  EXPECT_EQ(std::get<2>(content.at({0, "ends"})), soon + 500);
  EXPECT_EQ(open().content(), content);
  clock.advance(1200);
  EXPECT_EQ(open().content(), content);
  clock.advance(1000);
  EXPECT_EQ(store->content().count({0, "ends"}), 0u);
  // It is gone without a record, and comes again.
  ask([](Batch& batch) { batch.append("ends", long_value); });
  ask([](Batch& batch) { batch.append("ends", "2"); });
  const auto again = store->content();
  EXPECT_EQ(open().content(), again);
}

// Histories of all operations on long values, written anew or cut behind a snapshot at times.
TEST_F(JournalPartsTest, HistoriesAreThereAgain) {
  std::mt19937_64 random(1);
  for (uint64_t seed = 1; seed <= (poison::sanitized ? 1 : 4); ++seed) {
    folder = new_folder();
    open(SyncPolicy::everysec);
    History history({.seed = seed,
                     .keys = 8,
                     .databases = 3,
                     .rows = 12,
                     .max_value_bytes = 50'000,
                     .longest_value = 5000});
    for (int i = 0; i < 15 && !HasFatalFailure(); ++i) {
      {
        Worker worker(store->engine);
        history.step(clock.now_ms(), [&](Batch& batch) { worker.submit(batch); });
        worker.maintain();
      }
      clock.advance(static_cast<int64_t>(random() % 20));
      if (i % 5 == 4 - static_cast<int>(seed % 2)) write_anew();
      if (i == 10 + static_cast<int>(seed % 3)) {
        ASSERT_TRUE(save());
      }
    }
    const auto content = store->content();
    EXPECT_EQ(open(SyncPolicy::everysec).content(), content) << "seed " << seed;
  }
}

// A base that a snapshot has is put together with parts behind it.
TEST_F(JournalPartsTest, PartsOfWhatABaseHas) {
  open();
  const int64_t soon = clock.now_ms() + 1000;
  put("key", long_value);
  put("other", long_value, soon);
  ask([](Batch& batch) { batch.append("key", "before"); });
  ASSERT_TRUE(save());
  EXPECT_LE(bytes_of([](Batch& batch) { batch.append("key", "1"); }), 200u);
  EXPECT_LE(bytes_of([](Batch& batch) { batch.set_bit("other", 100, true); }), 200u);
  auto content = store->content();
  EXPECT_EQ(open().content(), content);
  EXPECT_LE(bytes_of([](Batch& batch) { batch.append("key", "2"); }), 200u);
  ask([&](Batch& batch) { batch.expire("other", soon + 1); });
  content = store->content();
  EXPECT_EQ(open().content(), content);
  EXPECT_EQ(open().content(), content);
  ASSERT_TRUE(save());
  EXPECT_EQ(open().content(), content);
}

// What has expired when the journal is written anew is not in it; parts of it may be.
TEST_F(JournalPartsTest, PartsOfWhatHasExpiredAreNoDamage) {
  open();
  put("key", long_value, clock.now_ms() + 10);
  ASSERT_GE(store->journal->begin_rewrite(), 0);
  ask([](Batch& batch) { batch.append("key", "1"); });
  clock.advance(20);
  ASSERT_GE(store->journal->end_rewrite(), 0);
  clock.advance(-20);  // as a clock that was set back
  EXPECT_EQ(open().content().size(), 0u);
}

// A torn tail may have the part and what it was made of, or the latter, or none.
TEST_F(JournalPartsTest, ATornTailTakesPartsAwayFromTheEnd) {
  open(SyncPolicy::always, 1 << 20);
  put("key", std::string(2000, 'a'));
  std::vector<std::string> values = {std::string(2000, 'a')};
  for (const char* const more : {"one", "two", "three"}) {
    ask([&](Batch& batch) { batch.append("key", more); });
    values.push_back(values.back() + more);
  }
  const std::string whole = read(segments().back());
  const std::string manifest = read(path("manifest"));
  size_t seen = values.size();
  for (size_t end = whole.find_last_not_of('\0') + 1; end > 2200; end -= 40) {
    folder = new_folder();
    std::string torn = whole;
    std::fill(torn.begin() + static_cast<ptrdiff_t>(end), torn.end(), '\0');
    write(path("1"), torn);
    write(path("manifest"), manifest);
    const auto content = open().content();
    const std::string value = std::get<0>(content.at({0, "key"}));
    const auto its = std::find(values.begin(), values.end(), value);
    ASSERT_NE(its, values.end()) << "cut at " << end;
    EXPECT_LE(static_cast<size_t>(its - values.begin()), seen);
    seen = static_cast<size_t>(its - values.begin());
  }
  EXPECT_EQ(seen, 0u);
}

// A part must not be there without what it was made of: while the batch that made this is under
// way, its record has no place yet, and then the whole value is recorded.
TEST_F(JournalPartsTest, WhatABatchUnderWayHasMadeIsRecordedWhole) {
  open();
  Journal& journal = *store->journal;
  alignas(16) char memory[3][3008];
  Item* items[3];
  uint64_t version = 1'000'000;
  for (int i = 0; i < 3; ++i) {
    items[i] = Item::create(memory[i], {.key = "key", .value_bytes = 2000});
    std::fill_n(items[i]->value_data(), 2000, 'a');
    std::fill_n(items[i]->value_data(), i, 'b');
    items[i]->set_version(version + static_cast<uint64_t>(i));
  }
  const auto change = [&](int i, uint64_t token) {
    return ItemChange{ItemChange::Reason::request,
                      0,
                      "key",
                      5,
                      i == 0 ? nullptr : items[i - 1],
                      items[i],
                      no_expiry,
                      version + static_cast<uint64_t>(i),
                      token};
  };
  const auto change_part = [&](int i, uint64_t token) {
    const ChangedPart part{static_cast<uint64_t>(i) - 1, 1, 2000};
    journal.make_room(change(i, token), &part);
    journal.changed_part(change(i, token), part);
  };
  Batch first, second, third;
  for (Batch* const batch : {&first, &second, &third}) batch->put("key", "");
  const uint64_t before = journal.bytes();
  const uint64_t first_token = journal.begins(first).token;
  journal.changed(change(0, first_token));
  const uint64_t second_token = journal.begins(second).token;
  change_part(1, second_token);
  journal.ends(second_token);
  EXPECT_GT(journal.bytes() - before, 2000u);
  journal.ends(first_token);
  const uint64_t behind = journal.bytes();
  const uint64_t third_token = journal.begins(third).token;
  change_part(2, third_token);
  journal.ends(third_token);
  EXPECT_LE(journal.bytes() - behind, 200u);
  EXPECT_EQ(std::get<0>(open().content().at({0, "key"})), "bb" + std::string(1998, 'a'));
}

// Once more over what they have made, or over a later value, they lead to the same.
TEST_F(JournalPartsTest, PartsMayBeAppliedAgain) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::string value(100 + random() % 100, 'a');
    const std::string first = value;
    std::vector<std::string> texts;
    std::vector<std::string> values = {value};
    for (uint64_t version = 2; version < 8; ++version) {
      const uint64_t at = random() % 2 == 0 ? value.size() : random() % 400;
      const std::string bytes(1 + random() % 20, static_cast<char>('b' + version));
      if (at + bytes.size() > value.size()) value.resize(at + bytes.size());
      value.replace(at, bytes.size(), bytes);
      texts.push_back(part_record("key", version, {version - 1, at, value.size()}, bytes));
      values.push_back(value);
    }
    ValueParts parts;
    std::shuffle(texts.begin(), texts.end(), random);
    for (const std::string& text : texts) {
      parts.add(*reinterpret_cast<const RecordHeader*>(text.data()));
    }
    parts.keep_behind(0);
    for (std::string from : values) {
      ASSERT_TRUE(parts.apply(from));
      ASSERT_EQ(from, value);
      ASSERT_TRUE(parts.apply(from));
      ASSERT_EQ(from, value);
    }
  }
}

TEST_F(JournalPartsTest, WhatCannotBeOrLacksItsValueIsRefused) {
  struct Case {
    std::string record;
    std::string refusal;
  };
  const uint64_t version = uint64_t{1} << 40;
  const Case cases[] = {
      {part_record("key", version, {0, 10, 12}, "abc"), "that this version cannot read"},
      {part_record("key", version, {0, ~uint64_t{0}, 12}, "abc"), "that this version cannot read"},
      {part_record("key", version, {0, 0, uint64_t{1} << 33}, "abc"), "version cannot read"},
      {part_record("key", version, {0, 0, 9999}, "abc"), "not the value that they were made of"},
      {part_record("key", version, {version - 1, 0, 100}, "abc"), "not the value that"},
      {part_record("lost", version, {0, 0, 100}, "abc"), "changes of the value of 'lost'"},
      {part_record("erased", version, {0, 0, 100}, "abc"), "changes of the value of 'erased'"},
  };
  for (const Case& its : cases) {
    folder = new_folder();
    open();
    put("key", std::string(100, 'a'));
    put("erased", "1");
    ask([](Batch& batch) { batch.erase("erased"); });
    ASSERT_TRUE(store->journal->put_again(its.record));
    EXPECT_NE(start_refusal().find(its.refusal), std::string::npos)
        << start_refusal() << "\nfor " << its.refusal;
  }
  // A kind of record that there is not yet.
  folder = new_folder();
  open();
  std::string unknown = part_record("key", version, {0, 0, 3}, "abc");
  reinterpret_cast<RecordHeader*>(unknown.data())->op = static_cast<RecordOp>(9);
  ASSERT_TRUE(store->journal->put_again(unknown));
  EXPECT_NE(start_refusal().find("cannot read"), std::string::npos);
}

// Files of before are read, and those of later versions are not.
TEST_F(JournalPartsTest, SegmentsSayWhichVersionReadsThem) {
  open();
  put("key", "value");
  store.reset();
  const std::string segment = read(path("1"));
  const auto with_format = [&](uint32_t format) {
    std::string text = segment;
    auto& header = *reinterpret_cast<SegmentHeader*>(text.data());
    EXPECT_EQ(header.format, SegmentHeader::right_format);
    header.format = format;
    header.crc = header_crc(header);
    write(path("1"), text);
    return refusal();
  };
  EXPECT_EQ(with_format(1), "");
  EXPECT_NE(with_format(3).find("another version"), std::string::npos);
}

// ---- With what has the values elsewhere ----

class PartsServerTest : public StoredServerFixture {
 protected:
  PartsServerTest() { options_.appendonly = true; }
  uint64_t journal_bytes() { return std::stoull(info("aof_current_size")); }
  std::string get(const std::string& key) {
    client_->send(resp({"GET", key}));
    const std::string head = line(*client_);
    if (head == "$-1\r\n") return "none";
    const std::string text = client_->receive(std::stoul(head.substr(1)) + 2);
    return text.substr(0, text.size() - 2);
  }
};

// The tree has the value that the parts were made of, or a later one; memory may have none.
TEST_F(PartsServerTest, PartsOfWhatTheTreeHas) {
  start_with_tree();
  if (IsSkipped()) return;
  std::string value(5000, 'a');
  expect({"SET", "key", value}, "+OK\r\n");
  expect({"SET", "gone", value, "PX", "1000"}, "+OK\r\n");
  expect({"SET", "later", value}, "+OK\r\n");
  expect({"SET", "erased", value}, "+OK\r\n");
  for (const std::string round : {"1", "2"}) {
    ASSERT_TRUE(server_->engine().tree()->flush());
    const uint64_t before = journal_bytes();
    value += round;
    for (const char* const key : {"key", "gone", "later", "erased"}) {
      expect({"APPEND", key, round}, ":" + std::to_string(value.size()) + "\r\n");
    }
    EXPECT_LE(journal_bytes() - before, 1500u);
  }
  crash();
  start();
  EXPECT_EQ(get("key"), value);
  EXPECT_EQ(get("gone"), value);
  expect({"APPEND", "gone", "x"}, ":5003\r\n");
  expect({"APPEND", "erased", "x"}, ":5003\r\n");
  expect({"DEL", "erased"}, ":1\r\n");
  expect({"EXPIRE", "later", "9"}, ":1\r\n");
  expect({"APPEND", "later", "x"}, ":5003\r\n");
  expect({"PERSIST", "later"}, ":1\r\n");
  clock_.advance(2000);
  crash();
  start();
  EXPECT_EQ(get("key"), value);
  EXPECT_EQ(get("gone"), "none");
  EXPECT_EQ(get("erased"), "none");
  EXPECT_EQ(get("later"), value + "x");
  clock_.advance(20'000);
  EXPECT_EQ(get("later"), value + "x");
}

}  // namespace
}  // namespace isotherm::journal_parts_test
