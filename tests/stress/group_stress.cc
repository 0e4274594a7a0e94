// The promise of groups (executor/key_gate.h): rows of a group take effect together, for other
// groups and for views, while single rows, flushes and background work go on beside them.
//
// Threads do all of this in turn, mixed with increments of single keys:
//   rows of eight keys are put with one value, half of them behind a guard that gives others a
//   chance; whoever views them sees one value
//   amounts move between accounts; a view of all accounts has the sum 0
//   a lock is put where it is absent, and erased; nobody else has it meanwhile
//   two keys are counted up where their versions are those that were read; as often as that went
//   well is what they have in the end
//   in a database that is flushed now and then two keys are put; a view sees both or none
//
// Usage: group_stress [turns] [device]. Prints what was seen in halves, or lost; the exit code is 1
// if there was some.
#include <atomic>
#include <charconv>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <iostream>
#include <memory>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "engine/engine.h"
#include "fake_device/fake_root_table.h"

namespace isotherm {
namespace {

constexpr int threads = 4;
constexpr int row_keys = 8;
constexpr int accounts = 6;
constexpr int counters = 16;

std::string name(const char* of, int number) { return of + std::to_string(number); }

int64_t number_in(const Reply& reply) {
  int64_t number = 0;
  if (reply.data != nullptr) std::from_chars(reply.data, reply.data + reply.size, number);
  return number;
}

struct Found {
  std::atomic<uint64_t> halves{0};
  std::atomic<uint64_t> sums{0};
  std::atomic<uint64_t> locks{0};
  std::atomic<uint64_t> flushed{0};
  std::atomic<uint64_t> lost{0};
  std::atomic<int> inside{0};
  std::atomic<int64_t> swapped{0};
  std::atomic<int64_t> added{0};
};

class Client {
 public:
  Client(Engine& engine, Found& found, int number)
      : worker_(engine), found_(found), random_(number), number_(number) {}

  void turn() {
    static constexpr void (Client::*steps[])() = {
        &Client::put_row, &Client::view_row, &Client::move,    &Client::view_accounts,
        &Client::lock,    &Client::swap_two, &Client::put_two, &Client::view_two};
    (this->*steps[random_() % std::size(steps)])();
    worker_.maintain();
  }

  int64_t get(const std::string& key) {
    batch_.get(key);
    worker_.submit(batch_);
    const int64_t number = number_in(batch_.reply(0));
    batch_.clear();
    return number;
  }

 private:
  static void step_aside(Batch&, Batch::Row, void*) { std::this_thread::yield(); }

  const std::string& keep(std::string text) { return *texts_.insert(std::move(text)).first; }

  void run() {
    const std::string key = name("counter ", static_cast<int>(random_() % counters));
    batch_.select(0);
    batch_.add(key, 1);
    worker_.submit(batch_);
    found_.added += batch_.reply(batch_.size() - 1).status == Status::ok;
  }

  void put_row() {
    const std::string value = name("v", static_cast<int>(random_() % 1'000'000));
    for (int i = 0; i < row_keys; ++i) {
      if (i == row_keys / 2) batch_.guard(step_aside);
      batch_.put(keep(name("row ", i)), value);
    }
    batch_.group(0);
    run();
    batch_.clear();
  }

  // Whether all rows from `first` to before `end` are the same.
  bool same(Batch::Row first, Batch::Row end) const {
    for (Batch::Row row = first + 1; row < end; ++row) {
      if (batch_.reply(row).value() != batch_.reply(first).value()) return false;
    }
    return true;
  }

  void view_row() {
    for (int i = 0; i < row_keys; ++i) batch_.get(keep(name("row ", (i * 3 + number_) % row_keys)));
    batch_.view(0);
    run();
    found_.halves += !same(0, row_keys);
    batch_.clear();
  }

  struct Move {
    std::string from;
    std::string to;
  };

  void move() {
    const int from = static_cast<int>(random_() % accounts);
    const int to = (from + 1 + static_cast<int>(random_() % (accounts - 1))) % accounts;
    Move texts;
    batch_.get(keep(name("account ", from)));
    batch_.get(keep(name("account ", to)));
    batch_.guard(
        [](Batch& batch, Batch::Row row, void* context) {
          auto& its = *static_cast<Move*>(context);
          its.from = std::to_string(number_in(batch.reply(row - 2)) - 1);
          its.to = std::to_string(number_in(batch.reply(row - 1)) + 1);
          batch.columns().value[row] = its.from;
          batch.columns().value[row + 1] = its.to;
          std::this_thread::yield();
        },
        &texts);
    batch_.put(keep(name("account ", from)), {});
    batch_.put(keep(name("account ", to)), {});
    batch_.group(0);
    run();
    batch_.clear();
  }

  void view_accounts() {
    for (int i = 0; i < accounts; ++i) batch_.get(keep(name("account ", i)));
    batch_.view(0);
    run();
    int64_t sum = 0;
    for (int i = 0; i < accounts; ++i) sum += number_in(batch_.reply(i));
    found_.sums += sum != 0;
    batch_.clear();
  }

  void lock() {
    batch_.get("lock", option::no_value);
    batch_.unless_absent(0);
    const Batch::Row put = batch_.put("lock", "mine");
    batch_.group(0);
    run();
    const bool got = batch_.reply(put).status == Status::ok;
    batch_.clear();
    if (!got) return;
    found_.locks += found_.inside.fetch_add(1) != 0;
    std::this_thread::yield();
    found_.inside.fetch_sub(1);
    batch_.erase("lock");
    run();
    batch_.clear();
  }

  void swap_two() {
    batch_.get("two a");
    batch_.get("two b");
    batch_.view(0);
    run();
    const uint64_t versions[] = {batch_.reply(0).version, batch_.reply(1).version};
    found_.halves += !same(0, 2);
    const std::string next = std::to_string(number_in(batch_.reply(0)) + 1);
    batch_.clear();
    batch_.note(batch_.get("two a", option::no_value), static_cast<int64_t>(versions[0]));
    batch_.note(batch_.get("two b", option::no_value), static_cast<int64_t>(versions[1]));
    batch_.unless_unchanged(0);
    batch_.put("two a", next);
    batch_.guard(step_aside);
    batch_.put("two b", next);
    batch_.group(0);
    run();
    found_.swapped += batch_.reply(3).status == Status::ok;
    batch_.clear();
  }

  void put_two() {
    batch_.select(1);
    if (random_() % 8 == 0) {
      batch_.flush(1, 2);
    } else {
      const std::string& value = keep(name("v", static_cast<int>(random_() % 1000)));
      batch_.put("flushed a", value);
      batch_.guard(step_aside);
      batch_.put("flushed b", value);
      batch_.group(0);
    }
    run();
    batch_.clear();
  }

  void view_two() {
    batch_.select(1);
    batch_.get("flushed b");
    batch_.get("flushed a");
    batch_.view(0);
    run();
    found_.flushed += !same(0, 2);
    batch_.clear();
  }

  Worker worker_;
  Found& found_;
  std::mt19937_64 random_;
  const int number_;
  std::set<std::string> texts_;
  Batch batch_;
};

int stress(int turns, bool on_device) {
  const ManualClock clock{1'700'000'000'000};
  FakeDevice device(7, uint64_t{1} << 28);
  Options options;
  options.databases = 2;
  const auto engine = on_device
                          ? std::make_unique<Engine>(options, clock, fake_root_tiers_maker(device))
                          : std::make_unique<Engine>(options, clock);
  Found found;
  std::vector<std::thread> running;
  for (int number = 0; number < threads; ++number) {
    running.emplace_back([&, number] {
      Client client(*engine, found, number);
      for (int i = 0; i < turns; ++i) client.turn();
    });
  }
  for (std::thread& thread : running) thread.join();
  Client client(*engine, found, threads);
  int64_t added = 0;
  for (int i = 0; i < counters; ++i) added += client.get(name("counter ", i));
  found.lost += added != found.added;
  found.lost += client.get("two a") != found.swapped || client.get("two b") != found.swapped;
  const uint64_t in_halves = found.halves + found.sums + found.locks + found.flushed;
  std::cout << "in halves: " << in_halves << " (rows " << found.halves << ", sums " << found.sums
            << ", locks " << found.locks << ", flushed " << found.flushed
            << "), lost: " << found.lost << ", two were swapped " << found.swapped << " times\n";
  return in_halves + found.lost == 0 && found.swapped > 0 ? 0 : 1;
}

}  // namespace
}  // namespace isotherm

int main(int argc, char** argv) {
  const int turns = argc > 1 ? std::atoi(argv[1]) : 2000;
  return isotherm::stress(turns, argc > 2 && std::strcmp(argv[2], "device") == 0);
}
