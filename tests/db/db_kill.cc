// A Db whose process is killed in the middle of its work: what it has acknowledged is there, and
// each group is there as a whole or not at all.
//
//   db-kill [seed [rounds]]
// A child writes groups of one generation each, by plain groups and by transactions, and reports
// the generation when it was answered; meanwhile a thread of it has runs taken in. It is killed at
// a random moment. Another child opens what is left. This process itself has no Db, so it may fork.
// ISOTHERM_TEST_LONG=1: more rounds.
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iostream>
#include <memory>
#include <random>
#include <string>
#include <thread>

#include "device_checks/test_size.h"
#include "isotherm/db.h"
#include "isotherm/db_transaction.h"

namespace {

using isotherm::Db;
using isotherm::DbStatus;

constexpr uint64_t keys = 40;

[[noreturn]] void fail(const std::string& what) {
  std::cerr << "db-kill: " << what << std::endl;
  ::_exit(1);
}
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

[[noreturn]] void work(const std::string& folder, uint64_t seed, int acknowledge) {
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
      expect_ok(db->begin({.locks = generation % 4 == 1}, transaction));
      write(*transaction, generation);
      expect_ok(transaction->commit());
    }
    if (::write(acknowledge, &generation, sizeof generation) != sizeof generation) ::_exit(0);
  }
}

[[noreturn]] void look(const std::string& folder, uint64_t seed, uint64_t acknowledged) {
  std::unique_ptr<Db> db;
  expect_ok(Db::open(options_of(seed), folder, db));
  const uint64_t generation = check(*db);
  if (generation < acknowledged) {
    fail(std::to_string(acknowledged) + " was acknowledged, and there is " +
         std::to_string(generation));
  }
  if (generation > acknowledged + 1) fail("more is there than was written");
  db.reset();
  ::_exit(0);
}

void expect_end(pid_t child, const std::string& what) {
  int status = 0;
  if (::waitpid(child, &status, 0) != child) fail("waitpid");
  const bool killed = WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL;
  if (!killed && (!WIFEXITED(status) || WEXITSTATUS(status) != 0)) fail(what);
}

// `pauses`: generations that are acknowledged before it is killed.
uint64_t round(const std::string& folder, uint64_t seed, uint64_t last, uint64_t pauses) {
  int pipe[2];
  if (::pipe(pipe) != 0) fail("pipe");
  const pid_t writer = ::fork();
  if (writer == 0) {
    ::close(pipe[0]);
    work(folder, seed, pipe[1]);
  }
  ::close(pipe[1]);
  uint64_t generation = last;
  const auto read_one = [&] {
    return ::read(pipe[0], &generation, sizeof generation) == sizeof generation;
  };
  for (uint64_t i = 0; i < pauses; ++i) {
    if (!read_one()) break;
  }
  ::kill(writer, SIGKILL);
  while (read_one()) {
  }
  ::close(pipe[0]);
  expect_end(writer, "the writer failed");
  const pid_t reader = ::fork();
  if (reader == 0) look(folder, seed, generation);
  expect_end(reader, "what is left is wrong");
  return generation;
}

}  // namespace

int main(int count, char** arguments) {
  const uint64_t seed = count > 1 ? std::strtoull(arguments[1], nullptr, 10) : 1;
  const uint64_t rounds =
      count > 2 ? std::strtoull(arguments[2], nullptr, 10) : isotherm::test_size(15, 1000);
  std::string folder = std::filesystem::temp_directory_path() / "isotherm-kill-XXXXXX";
  if (mkdtemp(folder.data()) == nullptr) fail("no folder");
  std::mt19937_64 random(seed);
  uint64_t generation = 0;
  for (uint64_t i = 0; i < rounds; ++i) {
    generation = round(folder, seed + i, generation, 1 + random() % 60);
    std::cout << "round " << i << ": generation " << generation << std::endl;
  }
  std::filesystem::remove_all(folder);
  return 0;
}
