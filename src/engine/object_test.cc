// Objects (isotherm/object.h) through the whole store: types, calls in the order of their rows,
// versions, puts and copies.
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "models/object_fixture.h"

namespace isotherm::object_test {
namespace {

// ---- Types ----

BitfieldStep reading_step() {
  BitfieldStep step;
  step.kind = BitfieldStep::Kind::get;
  step.bits = 8;
  return step;
}

TEST_P(ObjectTest, TheTypeIsComparedBeforeAnythingElse) {
  start();
  lose(40);
  static BitfieldStep steps[] = {reading_step()};
  using Ask = void (*)(Batch & batch);
  constexpr Ask wrong[] = {
      [](Batch& batch) { batch.get("pile"); },
      [](Batch& batch) { batch.get("pile", option::no_value); },
      [](Batch& batch) { batch.put("pile", "x", option::want_previous); },
      [](Batch& batch) { batch.put("pile", "x", option::want_previous | option::if_absent); },
      [](Batch& batch) { batch.erase("pile", option::want_previous); },
      [](Batch& batch) { batch.add("pile", 1); },
      [](Batch& batch) { batch.add("pile", 1, option::if_absent); },
      [](Batch& batch) { batch.append("pile", "x"); },
      [](Batch& batch) { batch.prepend("pile", "x"); },
      [](Batch& batch) { batch.expire("pile", 1); },
      [](Batch& batch) { batch.expire("pile", no_expiry, option::expire_if_any); },
      [](Batch& batch) { batch.set_range("pile", int64_t{1} << 50, "x"); },
      [](Batch& batch) { batch.set_range("pile", 0, ""); },
      [](Batch& batch) { batch.set_bit("pile", int64_t{1} << 50, true); },
      [](Batch& batch) { batch.bitfield("pile", steps); },
      [](Batch& batch) { batch.add_float("pile", "no number"); },
      [](Batch& batch) { batch.call("pile", pile::other); },
      [](Batch& batch) { batch.call("string", pile::text); },
      [](Batch& batch) { batch.call("string", pile::push); },
      [](Batch& batch) { batch.call("string", pile::pop); },
  };
  ASSERT_EQ(call("pile", pile::push, {"a", "b"}).number, 2);
  ASSERT_EQ(put("string", "s"), Status::ok);
  for (const Ask ask_one : wrong) {
    EXPECT_EQ(ask(ask_one).status, Status::wrong_type) << (&ask_one - wrong);
    EXPECT_EQ(text("pile"), "a,b,");
  }
  const Answer found = look("pile");
  EXPECT_EQ(found.status, Status::ok);
  EXPECT_EQ(found.type, ValueType::list);
  EXPECT_EQ(ask([](Batch& batch) { batch.put("pile", "x", option::if_absent); }).status,
            Status::condition_failed);
  EXPECT_EQ(put("pile", "now a string"), Status::ok);
  EXPECT_EQ(look("pile").type, ValueType::string);
  EXPECT_EQ(text("pile"), "wrong type");
  EXPECT_EQ(ask([](Batch& batch) { batch.erase("pile"); }).status, Status::ok);
  EXPECT_EQ(text("pile"), "not found");
  EXPECT_EQ(piles_left(), 0u);
}

TEST_P(ObjectTest, TheMemoryThatAKeyTakesIsTold) {
  start();
  lose(40);
  const auto bytes = [&](const char* key) {
    Batch batch;
    const uint16_t options = option::any_type | option::no_value;
    const Batch::Row told = batch.get(key, options | option::with_bytes);
    const Batch::Row untold = batch.get(key, options);
    worker->submit(batch);
    EXPECT_EQ(batch.reply(told).status, Status::ok);
    EXPECT_EQ(batch.reply(untold).number, 0);
    return batch.reply(told).number;
  };
  ASSERT_EQ(put("string", "s"), Status::ok);
  EXPECT_EQ(bytes("string"), 32);
  ASSERT_EQ(put("string", std::string(1'000'000, 's')), Status::ok);
  EXPECT_GE(bytes("string"), 1'000'000);
  ASSERT_EQ(call("pile", pile::push, {"a"}).number, 1);
  const int64_t before = bytes("pile");
  ASSERT_EQ(call("pile", pile::push, {std::string(1000, 'b')}).number, 2);
  EXPECT_GE(bytes("pile"), before + 1000);
}

// ---- Calls ----

TEST_P(ObjectTest, RowsOfABatchRunInTheirOrder) {
  start();
  lose(3);
  const std::string_view a[] = {"a", "b"};
  const std::string_view c[] = {"c"};
  std::string before;
  std::string popped;
  std::string after;
  Batch batch;
  batch.call("key", pile::push_there, c);      // 0: there is none
  batch.call("key", pile::push, a);            // 1
  batch.call("key", pile::text, {}, &before);  // 2
  batch.call("key", pile::push_there, c);      // 3
  batch.call("key", pile::refuse);             // 4
  batch.call("key", pile::pop, {}, &popped);   // 5
  batch.call("key", pile::text, {}, &after);   // 6
  batch.call("key", pile::pop);                // 7
  batch.call("key", pile::pop);                // 8: it is empty, and goes
  batch.get("key", option::any_type);          // 9
  batch.call("key", pile::pop);                // 10
  batch.put("key", "string");                  // 11
  batch.call("key", pile::push, a);            // 12
  batch.erase("key");                          // 13
  batch.call("key", pile::push);               // 14: stays empty, and never comes
  batch.call("key", pile::push, c);            // 15
  worker->submit(batch);
  const Status statuses[] = {
      Status::not_found, Status::ok, Status::ok,         Status::ok, Status::not_an_integer,
      Status::ok,        Status::ok, Status::ok,         Status::ok, Status::not_found,
      Status::not_found, Status::ok, Status::wrong_type, Status::ok, Status::ok,
      Status::ok};
  for (Batch::Row row = 0; row < batch.size(); ++row) {
    EXPECT_EQ(batch.reply(row).status, statuses[row]) << row;
  }
  EXPECT_EQ(before, "a,b,");
  EXPECT_EQ(popped, "c");
  EXPECT_EQ(after, "a,b,");
  EXPECT_EQ(batch.reply(3).number, 3);
  batch.clear();
  EXPECT_EQ(text("key"), "c,");
  EXPECT_EQ(engine->database(0).keys, 1u);
  EXPECT_EQ(piles_left(), 1u);
}

TEST_P(ObjectTest, EachChangeHasAVersionOfItsOwn) {
  start();
  lose(12);
  uint64_t last = call("key", pile::push, {"a"}).version;
  EXPECT_EQ(look("key").version, last);
  for (int i = 0; i < 20; ++i) {
    const uint64_t version = call("key", pile::push, {"b"}).version;
    EXPECT_GT(version, last);
    EXPECT_EQ(look("key").version, version);
    EXPECT_EQ(call("key", pile::size).version, version);
    EXPECT_EQ(call("key", pile::refuse).version, version) << "it changes nothing";
    last = version;
  }
  const auto expire = [&](Batch& batch) {
    batch.expire("key", clock.now_ms() + 1000, option::any_type);
  };
  EXPECT_EQ(ask(expire).status, Status::ok);
  EXPECT_EQ(look("key").version, last) << "it is the same value still";
  const auto put_if = [&](uint64_t version) {
    return ask(
        [&](Batch& batch) { batch.put("key", "x", option::if_version, no_expiry, 0, version); });
  };
  EXPECT_EQ(put_if(last - 1).status, Status::condition_failed);
  const auto group = [&](Batch& batch) {
    batch.note(batch.get("key", option::any_type | option::no_value), static_cast<int64_t>(last));
    batch.unless_unchanged(0);
    batch.call("key", pile::pop);
    batch.group(0);
  };
  EXPECT_EQ(ask(group).status, Status::ok);
  EXPECT_EQ(ask(group).status, Status::not_found) << "it has changed since";
  last = look("key").version;
  EXPECT_GT(put_if(last).version, last);
}

TEST_P(ObjectTest, AnObjectThatIsPutBelongsToTheStore) {
  start();
  lose(5);
  auto made = std::make_unique<Pile>();
  made->push("put");
  std::unique_ptr<Object> object = std::move(made);
  const auto put_it = [&](uint16_t options) {
    return ask([&](Batch& batch) { batch.put("key", object, options); }).status;
  };
  ASSERT_EQ(put("key", "string"), Status::ok);
  EXPECT_EQ(put_it(option::if_absent), Status::condition_failed);
  ASSERT_NE(object, nullptr) << "it was not taken";
  EXPECT_EQ(put_it(0), Status::ok);
  EXPECT_EQ(object, nullptr);
  EXPECT_EQ(text("key"), "put,");
  EXPECT_EQ(call("key", pile::push, {"more"}).number, 2);
  // A copy, by the guard of a group.
  Batch batch;
  batch.get("key", option::any_type);
  batch.guard(
      [](Batch& guarded, Batch::Row, void* context) {
        *static_cast<std::unique_ptr<Object>*>(context) =
            guarded.reply(0).object()->look([](const Object& it) { return it.copy(); });
      },
      &object);
  batch.put("copy", object);
  worker->submit(batch);
  EXPECT_EQ(batch.reply(1).status, Status::ok);
  batch.clear();
  EXPECT_EQ(call("key", pile::pop).number, 1);
  EXPECT_EQ(text("copy"), "put,more,");
  EXPECT_EQ(piles_left(), 2u);
}

// What a key has: nothing, a string, or a pile.
class Model {
 public:
  using Value = std::variant<std::string, std::deque<std::string>>;

  // Of the operation `kind`: status, and the length of the pile.
  std::pair<Status, int64_t> expect(int kind, const std::string& key, const std::string& part) {
    const auto at = values_.find(key);
    const bool there = at != values_.end();
    if (kind == 0) return values_[key] = part, std::pair{Status::ok, int64_t{0}};
    if (kind == 1) {
      values_.erase(key);
      return {there ? Status::ok : Status::not_found, 0};
    }
    if (there && at->second.index() == 0) return {Status::wrong_type, 0};
    if (!there && kind != 2) return {Status::not_found, 0};
    if (!there) values_[key] = std::deque<std::string>();
    auto& pile = std::get<1>(values_[key]);
    if (kind <= 3) pile.push_back(part);
    if (kind == 4) pile.pop_back();
    const auto size = static_cast<int64_t>(pile.size());
    if (size == 0) values_.erase(key);
    return {Status::ok, size};
  }
  std::string text(const std::string& key) const {
    const auto at = values_.find(key);
    if (at == values_.end()) return "not found";
    if (at->second.index() == 0) return "wrong type";
    std::string text;
    for (const std::string& part : std::get<1>(at->second)) text += part + ",";
    return text;
  }
  size_t size() const { return values_.size(); }

 private:
  std::map<std::string, Value> values_;
};

TEST_P(ObjectTest, RandomBatchesLeaveWhatAModelLeaves) {
  start();
  lose(60);
  Model model;
  std::mt19937_64 random(3);
  std::vector<std::string> keys;
  for (int i = 0; i < 30; ++i) keys.push_back("key " + std::to_string(i));
  const int turns = rounds(800);
  for (int turn = 0; turn < turns; ++turn) {
    struct Row {
      int kind;
      std::string key;
      std::string part;
      std::string_view view;
    };
    std::vector<Row> rows(1 + random() % 40);
    Batch batch;
    for (Row& row : rows) {
      row = {static_cast<int>(random() % 7),
             keys[random() % keys.size()],
             std::string(random() % 20, 'p') + std::to_string(turn),
             {}};
      row.view = row.part;
      const std::span<const std::string_view> parts(&row.view, 1);
      if (row.kind == 0 && random() % 2 == 0) row.kind = 2;
      if (row.kind == 0) batch.put(row.key, row.part);
      if (row.kind == 1) batch.erase(row.key);
      if (row.kind == 2) batch.call(row.key, pile::push, parts);
      if (row.kind == 3) batch.call(row.key, pile::push_there, parts);
      if (row.kind == 4) batch.call(row.key, pile::pop);
      if (row.kind > 4) batch.call(row.key, pile::size);
    }
    worker->submit(batch);
    for (Batch::Row i = 0; i < batch.size(); ++i) {
      const auto [status, number] = model.expect(rows[i].kind, rows[i].key, rows[i].part);
      ASSERT_EQ(batch.reply(i).status, status) << rows[i].kind << " " << rows[i].key;
      ASSERT_EQ(batch.reply(i).number, number) << rows[i].kind << " " << rows[i].key;
    }
    batch.clear();
    worker->maintain();
  }
  for (const std::string& key : keys) EXPECT_EQ(text(key), model.text(key));
  EXPECT_EQ(engine->database(0).keys, model.size());
  EXPECT_EQ(engine->stats().on_device, GetParam() == ObjectsOn::device);
}

INSTANTIATE_TEST_SUITE_P(All, ObjectTest, where_objects_are(), name_of_where);

}  // namespace
}  // namespace isotherm::object_test
