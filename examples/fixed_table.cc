// A fixed-width table: arrays of 64-bit keys to arrays of 64-bit values.
#include <isotherm/fixed_table.h>

#include <cstdint>
#include <iostream>
#include <numeric>
#include <vector>

int main() {
  isotherm::FixedTable table;
  isotherm::FixedHandle handle(table);

  std::vector<uint64_t> keys(100'000);
  std::iota(keys.begin(), keys.end(), uint64_t{0});
  std::vector<uint64_t> values;
  for (const uint64_t key : keys) values.push_back(key * key);
  if (handle.put(keys, values).done != keys.size()) return 1;

  // Misses leave the output as it was. Any key may be stored, so none stands for "empty".
  const std::vector<uint64_t> wanted = {0, 12, 99'999, ~uint64_t{0}};
  std::vector<uint64_t> results(wanted.size(), 42);
  std::vector<uint8_t> found(wanted.size());
  const uint64_t hits = handle.get(wanted, results, found);
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::cout << wanted[i] << ": ";
    if (found[i] != 0) {
      std::cout << results[i] << "\n";
    } else {
      std::cout << "not found\n";
    }
  }
  std::cout << table.size() << " entries in " << table.memory() << " bytes\n";
  return hits == 3 && results[1] == 144 && results[3] == 42 ? 0 : 1;
}
