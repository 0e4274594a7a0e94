// One table over all GPUs of the host, used from host memory.
#include <isotherm/gpu/table.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

int main() {
  if (isotherm::gpu::count() == 0) {
    std::cout << "skipped: no GPU\n";
    return 0;
  }
  isotherm::gpu::TableOptions options;
  options.devices = {};  // all there are
  isotherm::gpu::Table table(options);
  std::vector<uint64_t> keys, values;
  for (uint64_t i = 0; i < 100'000; ++i) {
    keys.push_back(i * 7);
    values.push_back(i);
  }
  table.put(keys, values);

  const std::vector<uint64_t> wanted = {0, 7, 8, 699'993};
  std::vector<uint64_t> results(wanted.size(), 42);
  std::vector<uint8_t> found(wanted.size());
  table.get(wanted, results, found);
  for (size_t i = 0; i < wanted.size(); ++i) {
    std::cout << wanted[i] << ": " << (found[i] != 0 ? std::to_string(results[i]) : "not found")
              << "\n";
  }
  std::cout << table.stats().entries << " entries on " << table.gpus() << " GPU(s)\n";
  // A miss leaves the output as it was.
  return results == std::vector<uint64_t>{0, 1, 42, 99'999} ? 0 : 1;
}
