// MergeFunctions: the functions of a Db by their numbers (isotherm/db.h), and what the changes of a
// WriteGroup make of one key.
//
// Threads. Any, once it is made.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <string_view>

#include "isotherm/db.h"

namespace isotherm {

// Of one key: what it has, or will have.
struct DbValue {
  bool there = false;
  std::string text;
};

class MergeFunctions {
 public:
  // Throws std::invalid_argument for numbers that are not for others.
  explicit MergeFunctions(const std::map<uint32_t, MergeFunction>& own);

  // The value behind the change.
  DbStatus apply(const WriteGroup::Row& change, DbValue& value) const;
  bool knows(uint32_t function) const { return functions_.contains(function); }

 private:
  std::map<uint32_t, MergeFunction> functions_;
};

}  // namespace isotherm
