// What becomes of objects beside requests on them: expiry, flushes, compaction, eviction at a cap,
// values that lie on a device and a device that is lost, and threads that read and change the same
// ones.
#include <gtest/gtest.h>

#include <atomic>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include "models/object_fixture.h"

namespace isotherm::object_life_test {
namespace {

class ObjectLifeTest : public ObjectTest {
 protected:
  static std::string key(uint64_t number) { return "key " + std::to_string(number); }

  // In batches; each pile has its key as its part.
  void push_all(uint64_t count, int64_t expiry = no_expiry) {
    constexpr uint64_t at_once = 500;
    for (uint64_t from = 0; from < count; from += at_once) {
      std::vector<std::string> keys;
      for (uint64_t i = from; i < std::min(count, from + at_once); ++i) keys.push_back(key(i));
      std::vector<std::string_view> views(keys.begin(), keys.end());
      Batch batch;
      for (size_t i = 0; i < keys.size(); ++i) {
        batch.call(keys[i], pile::push, std::span(&views[i], 1));
        if (expiry != no_expiry) batch.expire(keys[i], expiry, option::any_type);
      }
      worker->submit(batch);
      for (Batch::Row row = 0; row < batch.size(); ++row) {
        ASSERT_EQ(batch.reply(row).status, Status::ok);
      }
      batch.clear();
      worker->maintain();
    }
  }
};

TEST_P(ObjectLifeTest, ThoseThatExpireGoWithTheirKeys) {
  start();
  lose(30);
  const auto expire = [&](int64_t after) {
    return ask(
        [&](Batch& batch) { batch.expire("key", clock.now_ms() + after, option::any_type); });
  };
  ASSERT_EQ(call("key", pile::push, {"a"}).status, Status::ok);
  EXPECT_EQ(expire(10).status, Status::ok);
  EXPECT_EQ(text("key"), "a,") << "the item was copied, the object not";
  EXPECT_EQ(expire(20).status, Status::ok);
  EXPECT_EQ(call("key", pile::push, {"b"}).number, 2);
  clock.advance(20);
  EXPECT_EQ(call("key", pile::pop).status, Status::not_found);
  EXPECT_EQ(piles_left(), 0u);
  ASSERT_EQ(call("key", pile::push, {"c"}).number, 1) << "a new one";
  EXPECT_EQ(expire(10).status, Status::ok);
  clock.advance(10);
  EXPECT_EQ(call("key", pile::push, {"d"}).number, 1);
  EXPECT_EQ(look("key").type, ValueType::list);
  push_all(200, clock.now_ms() + 5);
  clock.advance(5);
  maintain();
  EXPECT_EQ(engine->database(0).keys, 1u);
  EXPECT_EQ(engine->database(0).expires, 0u);
  EXPECT_EQ(piles_left(), 1u);
}

TEST_P(ObjectLifeTest, AFlushFreesThem) {
  start();
  lose(20);
  ASSERT_EQ(put("first", "x"), Status::ok);
  maintain();
  const uint64_t before = engine->stats().item_bytes;
  const std::string part(100'000, 'p');
  for (int i = 0; i < 50; ++i) ASSERT_EQ(call(key(i), pile::push, {part}).status, Status::ok);
  EXPECT_GE(engine->stats().item_bytes, before + 50 * part.size());
  worker->flush(0);
  EXPECT_EQ(text(key(1)), "not found");
  for (int i = 0; i < 1000 && Pile::there_are() != 0; ++i) worker->maintain();
  EXPECT_EQ(piles_left(), 0u);
  EXPECT_LT(engine->stats().item_bytes, before + part.size());
}

TEST_P(ObjectLifeTest, CompactionMovesItemsAndLeavesObjects) {
  start();
  if (poison::sanitized && GetParam() != ObjectsOn::host) GTEST_SKIP() << "takes long";
  const uint64_t count = GetParam() == ObjectsOn::host && !poison::sanitized ? 40'000 : 12'000;
  push_all(count);
  std::vector<uint64_t> locations;
  constexpr uint64_t kept_of = 64;
  for (uint64_t i = 0; i < count; i += kept_of) locations.push_back(look(key(i)).location);
  std::vector<std::string> keys;
  for (uint64_t i = 0; i < count; ++i) keys.push_back(i % kept_of == 0 ? "" : key(i));
  Batch batch;
  for (const std::string& erased : keys) batch.erase(erased);
  worker->submit(batch);
  batch.clear();
  maintain(200);
  lose(0);
  uint64_t moved = 0;
  for (uint64_t i = 0; i < count; i += kept_of) {
    moved += look(key(i)).location != locations[i / kept_of];
    ASSERT_EQ(text(key(i)), key(i) + ",");
  }
  EXPECT_GT(moved, 0u);
  EXPECT_EQ(piles_left(), locations.size());
  EXPECT_EQ(engine->stats().on_device, GetParam() == ObjectsOn::device);
}

TEST_P(ObjectLifeTest, TheCapHoldsForAllSizes) {
  Options options;
  options.maxmemory = 48 << 20;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  start(options);
  lose(200);
  constexpr uint64_t sizes[] = {100, 100, 1000, 10'000, 100'000, 1 << 20, 10 << 20};
  const std::string part(10 << 20, 'p');
  std::mt19937_64 random(5);
  const int turns = poison::sanitized ? 60 : 400;
  uint64_t most = 0;
  for (int i = 0; i < turns; ++i) {
    const uint64_t size = sizes[random() % std::size(sizes)];
    const std::string name = key(random() % 300);
    EXPECT_EQ(call(name, pile::push, {std::string_view(part).substr(0, size)}).status, Status::ok)
        << size;
    if (random() % 8 == 0) ask([&](Batch& batch) { batch.erase(name); });
    worker->maintain();
    most = std::max(most, engine->used_memory());
  }
  EXPECT_GT(engine->stats().evicted, 0u);
  EXPECT_LT(most, options.maxmemory + (12 << 20)) << "one large value more";
  maintain();
  EXPECT_LE(engine->used_memory(), options.maxmemory);
  EXPECT_GT(engine->used_memory(), options.maxmemory / 2) << "it evicts no more than is needed";
}

TEST_P(ObjectLifeTest, OneThatNoLongerFitsStaysAsItIs) {
  Options options;
  options.maxmemory = 16 << 20;
  start(options);
  lose(20);
  const std::string part(1 << 20, 'p');
  int64_t parts = 0;
  Status status = Status::ok;
  for (int i = 0; i < 40 && status == Status::ok; ++i) {
    const Answer answer = call("key", pile::push, {part});
    status = answer.status;
    if (status == Status::ok) parts = answer.number;
    worker->maintain();
  }
  EXPECT_EQ(status, Status::out_of_memory);
  EXPECT_GE(parts, 8);
  EXPECT_LE(engine->used_memory(), options.maxmemory);
  EXPECT_EQ(call("key", pile::size).number, parts);
  EXPECT_EQ(call("key", pile::pop).number, parts - 1) << "what takes no memory runs";
  EXPECT_EQ(call("key", pile::push, {"small"}).number, parts);
  auto made = std::make_unique<Pile>();
  for (int i = 0; i < 20; ++i) made->push(part);
  std::unique_ptr<Object> object = std::move(made);
  EXPECT_EQ(ask([&](Batch& batch) { batch.put("other", object); }).status, Status::out_of_memory);
  EXPECT_NE(object, nullptr);
}

// As in Redis.
TEST_P(ObjectLifeTest, EvictionMayTakeTheOneThatGrows) {
  Options options;
  options.maxmemory = 16 << 20;
  options.maxmemory_policy = EvictionPolicy::allkeys_lru;
  start(options);
  lose(20);
  const std::string part(1 << 20, 'p');
  for (int i = 0; i < 60; ++i) {
    ASSERT_EQ(call("key", pile::push, {part}).status, Status::ok);
    worker->maintain();
    ASSERT_LE(engine->used_memory(), options.maxmemory + part.size());
  }
  EXPECT_GT(engine->stats().evicted, 0u);
}

TEST_P(ObjectLifeTest, ValuesOnTheDeviceAreNoneOfTheirs) {
  if (GetParam() == ObjectsOn::host) GTEST_SKIP() << "there is no device";
  Options options;
  options.gpu_values = 1 << 20;
  options.gpu_values_from = 64;
  start(options);
  ASSERT_EQ(put("cold", std::string(500, 'v')), Status::ok);
  ASSERT_EQ(call("pile", pile::push, {std::string(500, 'p')}).status, Status::ok);
  maintain();
  ASSERT_EQ(engine->stats().values.values, 1u) << "the string";
  EXPECT_EQ(call("cold", pile::push, {"x"}).status, Status::wrong_type);
  EXPECT_EQ(call("cold", pile::text).status, Status::wrong_type);
  EXPECT_EQ(engine->stats().values.fetched, 0u) << "a type needs no value";
  const auto value = std::make_unique<Pile>();
  std::unique_ptr<Object> object = value->copy();
  Pile::of(*object).push("put");
  lose(0);
  EXPECT_EQ(ask([&](Batch& batch) { batch.put("cold", object); }).status, Status::ok);
  EXPECT_EQ(text("cold"), "put,");
  EXPECT_EQ(text("pile"), std::string(500, 'p') + ",");
  EXPECT_EQ(engine->stats().values.values, 0u);
}

// ---- Threads ----

// Whether these are the numbers from 1 on.
bool counts_on(const std::string& text) {
  std::string expected;
  for (int number = 1; expected.size() < text.size(); ++number) {
    expected += std::to_string(number) + ",";
  }
  return text == expected;
}

TEST_P(ObjectLifeTest, ReadersSeeWholeChanges) {
  start();
  lose(100);
  std::vector<std::thread> threads;
  for (uint64_t thread = 0; thread < 3; ++thread) {
    threads.emplace_back([&, thread] {
      Worker own(*engine);
      std::mt19937_64 random(thread + 1);
      const std::string keys[] = {"a", "b", "c"};
      std::string texts[8];
      const int batches = rounds(1600);
      for (int i = 0; i < batches; ++i) {
        Batch batch;
        for (std::string& text : texts) {
          text.clear();
          const std::string& key = keys[random() % std::size(keys)];
          switch (random() % 16) {
            case 0:
              batch.erase(key);
              break;
            case 1:
              batch.expire(key, clock.now_ms() + 100'000, option::any_type);
              break;
            case 2:
              batch.put(key, "string");
              break;
            case 3:
            case 4:
            case 5:
              batch.call(key, pile::pop);
              break;
            case 6:
              batch.get(key, option::any_type);
              break;
            case 7:
            case 8:
            case 9:
            case 10:
              batch.call(key, pile::text, {}, &text);
              break;
            default:
              batch.call(key, pile::count);
          }
        }
        own.submit(batch);
        for (const std::string& text : texts) ASSERT_TRUE(counts_on(text)) << text;
        for (Batch::Row row = 0; row < batch.size(); ++row) {
          const Object* object = batch.reply(row).object();
          if (object == nullptr || batch.columns().op[row] != Op::get) continue;
          ASSERT_TRUE(
              counts_on(object->look([](const Object& it) { return Pile::of(it).text(); })));
        }
        batch.clear();
        own.maintain();
        if (thread == 1 && i % 200 == 0) own.flush(0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// No change is lost, and none runs twice, while groups move the object from key to key.
TEST_P(ObjectLifeTest, EachChangeHappensOnceWhileGroupsMoveTheObject) {
  start();
  lose(60);
  const int pushes = rounds(2000);
  std::atomic<bool> over{false};
  std::thread mover([&] {
    Worker own(*engine);
    for (int i = 0; !over; ++i) {
      std::unique_ptr<Object> object;
      Batch batch;
      batch.get(i % 2 == 0 ? "a" : "b", option::any_type);
      batch.guard(
          [](Batch& guarded, Batch::Row row, void* context) {
            const Object* found = guarded.reply(0).object();
            if (found == nullptr) return guarded.cancel(row, row + 2);
            *static_cast<std::unique_ptr<Object>*>(context) =
                found->look([](const Object& it) { return it.copy(); });
          },
          &object);
      batch.put(i % 2 == 0 ? "b" : "a", object, option::if_absent);
      batch.guard([](Batch& guarded, Batch::Row row, void*) {
        if (guarded.reply(1).status != Status::ok) guarded.cancel(row, row + 1);
      });
      batch.erase(i % 2 == 0 ? "a" : "b");
      batch.group(0);
      own.submit(batch);
      batch.clear();
      own.maintain();
    }
  });
  std::vector<std::thread> pushers;
  for (uint64_t thread = 0; thread < 2; ++thread) {
    pushers.emplace_back([&, thread] {
      Worker own(*engine);
      const std::string_view part[] = {"part"};
      for (int i = 0; i < pushes; ++i) {
        Batch batch;
        batch.call((i + thread) % 2 == 0 ? "a" : "b", pile::push, part);
        own.submit(batch);
        ASSERT_EQ(batch.reply(0).status, Status::ok);
        batch.clear();
        own.maintain();
      }
    });
  }
  for (std::thread& pusher : pushers) pusher.join();
  over = true;
  mover.join();
  EXPECT_EQ(call("a", pile::size).number + call("b", pile::size).number, 2 * pushes);
  EXPECT_EQ(piles_left(), engine->database(0).keys);
}

INSTANTIATE_TEST_SUITE_P(All, ObjectLifeTest, where_objects_are(), name_of_where);

}  // namespace
}  // namespace isotherm::object_life_test
