// A table in the memory of a GPU: arrays of 64-bit keys and values, from host memory. Arrays in
// device memory take the same calls, with a stream.
#include <isotherm/gpu/table.h>

#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  if (isotherm::gpu::count() == 0) {
    std::cout << "skipped: no GPU\n";
    return 0;
  }
  isotherm::gpu::Table table;
  std::vector<uint64_t> keys, values;
  for (uint64_t i = 0; i < 100'000; ++i) {
    keys.push_back(i);
    values.push_back(i * i);
  }
  table.put(keys, values);

  // Any mix of operations; those of one key take effect in the order of the rows.
  using isotherm::TableOp;
  const std::vector<TableOp> ops = {TableOp::add, TableOp::get, TableOp::erase, TableOp::get};
  const std::vector<uint64_t> of_keys = {12, 12, 13, 13};
  const std::vector<uint64_t> operands = {6, 0, 0, 0};
  std::vector<uint64_t> before(ops.size());
  std::vector<uint8_t> found(ops.size());
  isotherm::TableRequests requests;
  requests.rows = ops.size();
  requests.ops = ops.data();
  requests.keys = of_keys.data();
  requests.values = operands.data();
  requests.values_out = before.data();
  requests.found = found.data();
  table.run_host(requests);
  std::cout << "12: " << before[0] << ", then " << before[1] << "; 13: " << before[2] << ", then "
            << (found[3] != 0 ? "present" : "absent") << "\n"
            << table.stats().entries << " entries\n";
  const bool right = before[0] == 144 && before[1] == 150 && before[2] == 169 && found[3] == 0;
  return right && table.stats().entries == keys.size() - 1 ? 0 : 1;
}
