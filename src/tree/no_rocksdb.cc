#include "tree/tree_files.h"

namespace isotherm {

// Weak: in whatever order a program names both libraries, the definition with RocksDB wins.
__attribute__((weak)) std::unique_ptr<TreeFiles> open_tree_files(
    const std::string& /*folder*/, const std::string& /*options*/, uint64_t /*cache_bytes*/,
    // NOLINTNEXTLINE(performance-unnecessary-value-param): the part itself keeps it
    std::function<int64_t()> /*now_ms*/) {
  throw TreeError("tree: this program was built without RocksDB");
}

}  // namespace isotherm
