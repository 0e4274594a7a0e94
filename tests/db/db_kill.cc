// A Db whose process is killed in the middle of its work: what it has acknowledged is there, and
// each group is there as a whole or not at all.
//
//   db-kill [seed [rounds]]
// A child writes groups of one generation each, by plain groups and by transactions; meanwhile a
// thread of it has runs taken in.
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <thread>

#include "db/kill_rounds.h"
#include "isotherm/db.h"
#include "isotherm/db_transaction.h"

namespace {

using isotherm::Acknowledge;
using isotherm::Db;
using isotherm::DbStatus;
using isotherm::fail;

constexpr uint64_t keys = 40;

void expect_ok(const DbStatus& status) {
  if (!status.ok()) fail(std::string(to_string(status.code())) + ": " + status.text());
}

isotherm::DbOptions options_of(uint64_t seed) {
  isotherm::DbOptions options;
  options.memory = 2 << 20;
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

// The key of the slot has the generation, and some bytes that are to fill runs.
std::string value_of(uint64_t generation, uint64_t slot) {
  return number_of(generation) + std::string((generation * 7 + slot) % 300, 'v');
}
std::string key_of(uint64_t slot) { return "key" + std::to_string(slot); }

// The generation that the Db has, which all its keys must agree on.
uint64_t check(Db& db) {
  std::unique_ptr<isotherm::DbIterator> at;
  expect_ok(db.iterate({.prefix = "key"}, at));
  std::string text;
  uint64_t generation = 0;
  if (DbStatus status = db.get("generations", text); status.ok()) {
    generation = number_in(text);
  } else if (!status.is_not_found()) {
    fail(status.text());
  }
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
void write(To& to, uint64_t generation) {
  for (uint64_t slot = 0; slot < keys; ++slot) {
    if ((generation + slot) % 5 == 0) {
      static_cast<void>(to.erase(key_of(slot)));
    } else {
      static_cast<void>(to.put(key_of(slot), value_of(generation, slot)));
    }
  }
  static_cast<void>(to.merge("generations", isotherm::merge_by::add_u64, number_of(1)));
}

[[noreturn]] void work(const std::string& folder, uint64_t seed, const Acknowledge& acknowledge) {
  std::unique_ptr<Db> db;
  expect_ok(Db::open(options_of(seed), folder, db));
  uint64_t generation = check(*db);
  std::thread flusher([&] {
    for (;;) static_cast<void>(db->flush());
  });
  for (;;) {
    ++generation;
    if (generation % 2 == 0) {
      isotherm::WriteGroup group;
      write(group, generation);
      expect_ok(db->write(group));
    } else {
      std::unique_ptr<isotherm::DbTransaction> transaction;
      expect_ok(db->begin({.locks = generation % 4 == 1, .threads = 2}, transaction));
      write(*transaction, generation);
      expect_ok(transaction->commit());
    }
    acknowledge(generation);
  }
}

uint64_t look(const std::string& folder, uint64_t seed) {
  std::unique_ptr<Db> db;
  expect_ok(Db::open(options_of(seed), folder, db));
  return check(*db);
}

}  // namespace

int main(int count, char** arguments) {
  return isotherm::kill_rounds(count, arguments, 15, work, look);
}
