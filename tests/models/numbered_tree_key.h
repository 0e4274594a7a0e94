// Keys of items as a tree has them (tree/tree_record.h), by their numbers, in three databases.
#pragma once

#include <cstdint>
#include <string>

#include "tree/tree_record.h"

namespace isotherm {

inline std::string numbered_tree_key(int number) {
  std::string key;
  TreeRecord::put_key(static_cast<uint32_t>(number % 3), "key" + std::to_string(number), key);
  return key;
}

}  // namespace isotherm
