// A table of rows: 64-bit keys to arrays of floats, such as embeddings, and gradients added to
// them.
#include <isotherm/row_table.h>

#include <cstdint>
#include <iostream>
#include <vector>

int main() {
  constexpr size_t width = 4;
  isotherm::RowTable table({.row_bytes = width * sizeof(float)});
  isotherm::RowHandle handle(table);

  const std::vector<uint64_t> keys = {7, ~uint64_t{0}};
  handle.put(keys, std::vector<float>{1, 2, 3, 4, 5, 6, 7, 8}.data());

  // Requests of a call take effect in order, so both are added.
  const std::vector<uint64_t> twice = {7, 7};
  const std::vector<float> gradients(2 * width, 0.5F);
  isotherm::RowRequests add;
  add.op = isotherm::TableOp::add;
  add.keys = twice;
  add.rows = gradients.data();
  add.sum = isotherm::add_elements<float>;
  handle.run(add);

  const std::vector<uint64_t> wanted = {7, 8};
  std::vector<float> rows(2 * width, -1);
  std::vector<uint8_t> found(2);
  handle.get(wanted, rows.data(), found);
  for (const float number : rows) std::cout << number << " ";
  std::cout << "\n" << table.size() << " rows in " << table.memory() << " bytes\n";
  return rows[0] == 2 && rows[width] == -1 && found[1] == 0 ? 0 : 1;
}
