// Runs the index kernels on the GPU against a model; without a GPU it says so and succeeds.
//
// Every test runs for both tables. The last line is "N passed, M failed", or "skipped: no GPU".
#include <cstdio>
#include <random>
#include <unordered_set>

#include "cuda/modelled_table.h"

namespace isotherm {
namespace {

using Requests = std::vector<KernelRequest>;

constexpr Operation all_operations[] = {Operation::find, Operation::upsert, Operation::erase,
                                        Operation::compare_and_swap};
// Segments of several depths, as after some splits.
const std::vector<SegmentShape> uneven = {{1, 0}, {2, 2}, {3, 6}, {3, 7}};
const std::vector<SegmentShape> single = {{0, 0}};

// Distinct keys whose hash is not 0.
std::vector<uint64_t> random_keys(uint64_t count, std::mt19937_64& random) {
  std::unordered_set<uint64_t> keys;
  while (keys.size() < count) keys.insert(random() | 1);
  return {keys.begin(), keys.end()};
}

// Words are often the extremes and often equal, so that compare-and-swaps succeed and fail.
uint64_t random_word(std::mt19937_64& random) {
  const uint64_t choices[] = {0, ~uint64_t{0}, 1, 2, random(), random()};
  return choices[random() % std::size(choices)];
}

// What byte strings store is a location, and 0 is none.
template <class Table>
uint64_t stored_word(std::mt19937_64& random) {
  const uint64_t word = random_word(random);
  return ModelledTable<Table>::fixed || word != 0 ? word : 3;
}

template <class Table>
Requests random_batch(const ModelledTable<Table>& table, std::vector<uint64_t>& keys, uint64_t rows,
                      Operation operation, std::mt19937_64& random) {
  std::shuffle(keys.begin(), keys.end(), random);
  Requests requests;
  for (uint64_t row = 0; row < rows; ++row) {
    const auto at = table.model().find(keys[row]);
    const uint64_t current = at == table.model().end() ? 0 : at->second;
    const uint64_t expected = random() % 2 == 0 ? current : random_word(random);
    const bool swap = operation == Operation::compare_and_swap;
    const uint64_t word = swap ? random_word(random) : stored_word<Table>(random);
    requests.push_back({keys[row], word, expected});
  }
  return requests;
}

template <class Table>
void upsert_all(ModelledTable<Table>& table, const std::vector<uint64_t>& keys) {
  Requests requests;
  for (const uint64_t key : keys) requests.push_back({key, key | 1, 0});
  table.run(Operation::upsert, requests);
}

template <class Table>
void random_batches(ModelledTable<Table>& table, std::vector<uint64_t> keys, int batches,
                    std::mt19937_64& random) {
  for (int i = 0; i < batches; ++i) {
    const Operation operation = all_operations[random() % std::size(all_operations)];
    const uint64_t rows = 1 + random() % keys.size();
    table.run(operation, random_batch(table, keys, rows, operation, random));
  }
  table.run(Operation::find, random_batch(table, keys, keys.size(), Operation::find, random));
}

// Random keys at a load where some chains are long, in segments of several depths.
template <class Table>
uint64_t test_random_keys() {
  std::mt19937_64 random(1);
  uint64_t wrong = 0;
  for (const double load : {0.5, 0.9, 3.0}) {
    constexpr int line_bits = 8;
    const uint64_t slots = Bucket::slots * uneven.size() << line_bits;
    const auto count = static_cast<uint64_t>(load * static_cast<double>(slots));
    ModelledTable<Table> table(uneven, line_bits, count);
    random_batches(table, random_keys(count, random), 60, random);
    if (load > 1 && table.lines().contents().longest < 3) table.fail("no long chain");
    wrong += table.wrong() + table.refused();
  }
  return wrong;
}

// Batches of few rows and of many: lanes without a row, and several rows a thread.
template <class Table>
uint64_t test_batch_sizes() {
  std::mt19937_64 random(2);
  std::vector<uint64_t> keys = random_keys(1 << 18, random);
  ModelledTable<Table> table(uneven, 12, keys.size());
  for (const uint64_t rows : {1, 2, 7, 8, 9, 31, 33, 255, 257, 1 << 18}) {
    for (const Operation operation :
         {Operation::upsert, Operation::compare_and_swap, Operation::find, Operation::erase}) {
      table.run(operation, random_batch(table, keys, rows, operation, random));
    }
  }
  return table.wrong() + table.refused();
}

// Hashes that look like marks, the empty mark itself, and both extremes, with words alike.
template <class Table>
uint64_t test_hash_patterns() {
  std::mt19937_64 random(3);
  std::unordered_set<uint64_t> hashes;
  for (const uint64_t top : {uint64_t{0}, mark::top_bit}) {
    for (uint64_t low = 0; low < 16; ++low) {
      hashes.insert(top | low);
      hashes.insert(~(top | low));
      hashes.insert(top | low << 32);
      hashes.insert(top | uint64_t{1} << (low * 4));
    }
  }
  if (!ModelledTable<Table>::fixed) hashes.erase(0);
  std::vector<uint64_t> keys;
  for (const uint64_t hash : hashes) keys.push_back(ModelledTable<Table>::key_of(hash));
  ModelledTable<Table> table(single, 1, keys.size());
  random_batches(table, keys, 60, random);
  return table.wrong() + table.refused();
}

// All keys in one chain, which many tiles extend at once; erased entries leave room for others.
template <class Table>
uint64_t test_one_chain() {
  std::mt19937_64 random(4);
  std::unordered_set<uint64_t> hashes;
  while (hashes.size() < 2000) hashes.insert((random() | 1) >> 1 | 1);
  std::vector<uint64_t> keys;
  for (const uint64_t hash : hashes) keys.push_back(ModelledTable<Table>::key_of(hash));
  ModelledTable<Table> table(single, 1, keys.size());
  upsert_all(table, keys);
  const uint64_t linked = table.lines().contents().linked;
  table.run(Operation::erase, random_batch(table, keys, keys.size(), Operation::erase, random));
  upsert_all(table, keys);
  if (table.lines().contents().linked != linked) table.fail("erased entries left no room");
  random_batches(table, keys, 20, random);
  return table.wrong() + table.refused();
}

// Overflow lines run out: some keys are refused, nothing else changes.
template <class Table>
uint64_t test_memory_ends() {
  std::mt19937_64 random(5);
  std::vector<uint64_t> keys = random_keys(4000, random);
  ModelledTable<Table> table(uneven, 4, 40);
  upsert_all(table, keys);
  if (table.refused() == 0) table.fail("no key was refused");
  random_batches(table, keys, 40, random);
  return table.wrong();
}

// Read-modify-write of one key by every thread at once.
template <class Table>
uint64_t test_one_key() {
  std::mt19937_64 random(6);
  ModelledTable<Table> table(single, 1, 64);
  std::vector<uint64_t> keys = random_keys(40, random);
  if (ModelledTable<Table>::fixed) keys.push_back(ModelledTable<Table>::key_of(0));
  upsert_all(table, keys);
  for (const uint64_t key : keys) table.count_up(key, 5000);
  table.count_up(keys.back(), 1 << 17);
  return table.wrong() + table.refused();
}

struct Test {
  const char* name;
  uint64_t (*run)();
};

template <class Table>
constexpr Test tests_of[] = {
    {"random keys", test_random_keys<Table>},     {"batch sizes", test_batch_sizes<Table>},
    {"hash patterns", test_hash_patterns<Table>}, {"one chain", test_one_chain<Table>},
    {"memory ends", test_memory_ends<Table>},     {"one key", test_one_key<Table>},
};

int run_tests() {
  int passed = 0, failed = 0;
  const auto run = [&](const char* table, const Test& test) {
    const uint64_t wrong = test.run();
    ++(wrong == 0 ? passed : failed);
    std::printf("%s, %s: %s\n", table, test.name, wrong == 0 ? "passed" : "FAILED");
  };
  for (const Test& test : tests_of<ByteTable>) run("byte strings", test);
  for (const Test& test : tests_of<FixedTable>) run("fixed width", test);
  std::printf("%d passed, %d failed\n", passed, failed);
  return failed == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace
}  // namespace isotherm

int main(int, char**) {
  int devices = 0;
  const cudaError_t error = cudaGetDeviceCount(&devices);
  if (error != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU\n");
    return EXIT_SUCCESS;
  }
  return isotherm::run_tests();
}
