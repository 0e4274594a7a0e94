// DbIntents: what is still to be done elsewhere for groups of a Db that are written already.
//
// A program that writes to a Db and to another store at once writes with its group what the other
// store is to have: the intent. It is there if the group is, also across a crash, so whoever opens
// both again finds what the other store may lack. Intents are in a database of their own, which
// nothing of a Db shows; each is in a slot, and replaces what was in it before.
//
// Threads. As a Db.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "isotherm/db.h"

namespace isotherm {

class DbIntents {
 public:
  // The Db outlives it.
  explicit DbIntents(Db& db) : db_(db) {}

  DbStatus write(const WriteGroup& group, uint32_t slot, std::string_view intent);
  DbStatus read(uint32_t slot, std::string& intent);
  // The slots from 0 to before `end`.
  DbStatus erase(uint32_t end);

 private:
  Db& db_;
};

}  // namespace isotherm
