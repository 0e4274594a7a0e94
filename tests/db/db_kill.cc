// A Db whose process is killed in the middle of its work: what it has acknowledged is there, and
// each group is there as a whole or not at all.
//
//   db-kill [seed [rounds]]
// A child writes groups of one generation each, by plain groups and by transactions; meanwhile a
// thread of it has runs taken in, and holds some snapshots, each of which shows one generation.
// Some groups have so many keys that several threads commit them.
#include <cstdint>
#include <cstring>
#include <deque>
#include <memory>
#include <string>
#include <thread>

#include "db/kill_rounds.h"
#include "isotherm/db.h"
#include "isotherm/db_transaction.h"
#include "items/poison.h"

namespace {

using isotherm::Acknowledge;
using isotherm::Db;
using isotherm::DbStatus;
using isotherm::fail;

constexpr uint64_t few = 40;
constexpr uint64_t many = 17'000;

void expect_ok(const DbStatus& status) {
  if (!status.ok()) fail(std::string(to_string(status.code())) + ": " + status.text());
}

isotherm::DbOptions options_of(uint64_t seed) {
  isotherm::DbOptions options;
  options.memory = 8 << 20;
  options.sync = seed % 3 == 0   ? isotherm::DbSync::always
                 : seed % 3 == 1 ? isotherm::DbSync::everysec
                                 : isotherm::DbSync::no;
  return options;
}

std::string number_of(uint64_t number) {
  return {reinterpret_cast<const char*>(&number), sizeof number};
}
uint64_t number_in(const std::string& text) {
  uint64_t number = 0;
  if (text.size() != sizeof number) fail("no number");
  std::memcpy(&number, text.data(), sizeof number);
  return number;
}

// The key of the slot has the generation, and those of the first slots some bytes that are to fill
// runs.
std::string value_of(uint64_t generation, uint64_t slot) {
  const uint64_t more = slot < few ? (generation * 7 + slot) % 300 : 0;
  return number_of(generation) + std::string(more, 'v');
}
std::string key_of(uint64_t slot) { return "key" + std::to_string(slot); }

uint64_t number_at(Db& db, const char* key, uint64_t if_absent,
                   const isotherm::DbSnapshot* snapshot = nullptr) {
  std::string text;
  const DbStatus status = db.get(key, text, {.snapshot = snapshot});
  if (!status.ok() && !status.is_not_found()) fail(status.text());
  return status.ok() ? number_in(text) : if_absent;
}
uint64_t keys_of(Db& db, uint64_t seed) {
  return number_at(db, "slots", !isotherm::poison::sanitized && seed % 3 == 0 ? many : few);
}

// The generation that the Db has, or had, which all its keys must agree on.
uint64_t check(Db& db, uint64_t keys, const isotherm::DbSnapshot* snapshot = nullptr) {
  std::unique_ptr<isotherm::DbIterator> at;
  isotherm::DbRange range;
  range.prefix = "key";
  range.snapshot = snapshot;
  expect_ok(db.iterate(range, at));
  const uint64_t generation = number_at(db, "generations", 0, snapshot);
  uint64_t found = 0;
  for (at->seek_to_first(); at->valid(); at->next(), ++found) {
    const uint64_t slot = std::stoull(std::string(at->key().substr(3)));
    if (at->value() != value_of(generation, slot)) {
      fail("key " + std::to_string(slot) + " is not of generation " + std::to_string(generation));
    }
  }
  expect_ok(at->status());
  // Slots of each generation: those that are not erased.
  uint64_t right = 0;
  for (uint64_t slot = 0; slot < keys; ++slot) right += (generation + slot) % 5 != 0;
  if (generation != 0 && found != right) fail("some keys are missing, or too many");
  return generation;
}

template <class To>
void write(To& to, uint64_t generation, uint64_t keys) {
  for (uint64_t slot = 0; slot < keys; ++slot) {
    if ((generation + slot) % 5 == 0) {
      static_cast<void>(to.erase(key_of(slot)));
    } else {
      static_cast<void>(to.put(key_of(slot), value_of(generation, slot)));
    }
  }
  static_cast<void>(to.put("slots", number_of(keys)));
  static_cast<void>(to.merge("generations", isotherm::merge_by::add_u64, number_of(1)));
}

[[noreturn]] void work(const std::string& folder, uint64_t seed, const Acknowledge& acknowledge) {
  std::unique_ptr<Db> db;
  expect_ok(Db::open(options_of(seed), folder, db));
  const uint64_t keys = keys_of(*db, seed);
  uint64_t generation = check(*db, keys);
  std::thread flusher([&] {
    constexpr size_t held = 6;
    std::deque<std::unique_ptr<const isotherm::DbSnapshot>> snapshots;
    for (;;) {
      expect_ok(db->snapshot(snapshots.emplace_back()));
      static_cast<void>(db->flush());
      if (snapshots.size() < held) continue;
      static_cast<void>(check(*db, keys, snapshots.front().get()));
      snapshots.pop_front();
    }
  });
  for (;;) {
    ++generation;
    if (generation % 2 == 0) {
      isotherm::WriteGroup group;
      write(group, generation, keys);
      expect_ok(db->write(group));
    } else {
      std::unique_ptr<isotherm::DbTransaction> transaction;
      expect_ok(db->begin({.locks = generation % 4 == 1, .threads = 2}, transaction));
      write(*transaction, generation, keys);
      expect_ok(transaction->commit());
    }
    acknowledge(generation);
  }
}

uint64_t look(const std::string& folder, uint64_t seed) {
  std::unique_ptr<Db> db;
  expect_ok(Db::open(options_of(seed), folder, db));
  return check(*db, keys_of(*db, seed));
}

}  // namespace

int main(int count, char** arguments) {
  return isotherm::kill_rounds(count, arguments, isotherm::poison::sanitized ? 6 : 9, work, look);
}
