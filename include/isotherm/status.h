// Status: what became of one request.
//
// A status is one byte in a reply slot. `pending` is the state before the executor has answered;
// every other value is final until the batch is cleared. A status says what happened to the key,
// never how a protocol words it: the codecs map it to the words of Redis or memcached.
#pragma once

#include <cstdint>
#include <string_view>

namespace isotherm {

enum class Status : uint8_t {
  pending,           // not answered yet
  ok,                // done; for reads: found
  not_found,         // the key is absent (or has expired)
  condition_failed,  // a conditional request found the key in another state; nothing was changed
  wrong_type,        // the item holds a type that the operation does not work on
  not_an_integer,    // `add` on a value that is no decimal integer
  overflow,          // `add` would leave the range of a signed 64-bit integer
  not_a_float,       // `add_float` of or on a value that is no decimal fraction
  not_finite,        // `add_float` would give an infinity or no number
  too_large,         // key or value over the store's limit
  out_of_memory,     // at the memory cap and nothing may be evicted
  retry,             // a queue or memory is full for the moment; nothing was changed, send it again
  not_saved,         // the disk of the journal fails; a write was not run, or may be saved later
  invalid,           // a malformed request (unknown operation, database out of range)
};

// The name of a status, for messages and tests.
std::string_view to_string(Status status);

}  // namespace isotherm
