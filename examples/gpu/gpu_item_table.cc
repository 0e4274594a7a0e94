// Byte strings in the memory of a GPU: columns of offsets and bytes, as Arrow has them.
#include <isotherm/gpu/item_table.h>

#include <cstdint>
#include <iostream>
#include <string>
#include <vector>

namespace {

struct Column {
  explicit Column(const std::vector<std::string>& strings) {
    for (const std::string& string : strings) {
      bytes += string;
      offsets.push_back(static_cast<int64_t>(bytes.size()));
    }
  }
  isotherm::gpu::ByteSpans view() const { return {offsets, bytes}; }

  std::vector<int64_t> offsets = {0};
  std::string bytes;
};

}  // namespace

int main() {
  if (isotherm::gpu::count() == 0) {
    std::cout << "skipped: no GPU\n";
    return 0;
  }
  isotherm::gpu::ItemTable table;
  const Column keys({"one", "two", "three"});
  const Column values({"1", "zwei", "a longer value"});
  table.put(keys.view(), values.view());

  const Column wanted({"three", "four", "two"});
  std::vector<uint8_t> found(3);
  std::vector<int64_t> offsets(4);
  std::string bytes(64, ' ');
  const uint64_t taken =
      table.get(wanted.view(), {found.data(), offsets.data(), bytes.data(), bytes.size()});
  for (size_t i = 0; i < found.size(); ++i) {
    const auto begin = static_cast<size_t>(offsets[i]);
    const auto length = static_cast<size_t>(offsets[i + 1] - offsets[i]);
    std::cout << (found[i] != 0 ? bytes.substr(begin, length) : "not found") << "\n";
  }
  return taken == 18 && bytes.substr(0, 18) == "a longer valuezwei" && found[1] == 0 ? 0 : 1;
}
