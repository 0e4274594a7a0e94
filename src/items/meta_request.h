// MetaRequest: what a meta command of memcached asks of an item beyond what a row can say, and what
// it found. The row (Op::meta) has the key, the value, the client flags, and as `expiry` the new
// one.
//
//   look        at the item, which changes nothing
//   get         the item, with a new expiry on request; may make an empty one where there is none
//   store       a value, under a mode and a condition on the version
//   erase       the item, if it has the version
//   mark_stale  leaves it to be shown, as stale, until somebody brings a new value
//   arithmetic  on a counter; may begin one
//
// Who wins. The first to see a stale item, or one that expires before `recache_before`, has `won`
// and is to bring a new value; later ones see that a token was sent.
//
// Threads. Belongs to who filled the batch, except that the executor writes the results before it
// publishes the row's status. A row that is planned again overwrites them.
#pragma once

#include <cstdint>

#include "isotherm/batch.h"

namespace isotherm {

struct MetaRequest {
  enum class Kind : uint8_t { look, get, store, erase, mark_stale, arithmetic };
  enum class Mode : uint8_t { set, add, replace, append, prepend };

  Kind kind = Kind::get;
  Mode mode = Mode::set;
  bool counts_use = true;        // get
  bool sets_expiry = false;      // to that of the row
  bool expiry_first = false;     // get: recache_before looks at the new one
  bool vivifies = false;         // get, arithmetic: makes an item; of others it says nothing
  bool recaches = false;         // get
  bool checks_version = false;   // all but get
  bool may_store_stale = false;  // store: where the version is older than the item's
  bool binary_key = false;       // store
  bool decrements = false;
  uint64_t kept_state = 0;  // store: the item's state, as it was on disk; 0: a fresh one
  int64_t vivify_expiry = no_expiry;
  int64_t recache_before = 0;
  uint64_t version = 0;
  uint64_t delta = 1;
  uint64_t initial = 0;

  // Results.
  bool created = false;
  bool won = false;
  uint64_t state = 0;  // as found (items/meta_state.h)
  int64_t old_expiry = no_expiry;

  // Whether an item is made where there is none.
  bool makes_item() const { return vivifies && (kind == Kind::get || kind == Kind::arithmetic); }
};

}  // namespace isotherm
