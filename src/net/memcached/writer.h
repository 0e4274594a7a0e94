// Writes the answers to memcached commands from the reply slots of their rows, and counts them.
//
// A value goes from where the store keeps it into the output in one copy, a large one in none.
// `silent` answers are counted only.
//
// Threads. Belongs to the connection's loop, which owns `counters`.
#pragma once

#include <limits>
#include <string_view>

#include "isotherm/batch.h"
#include "net/counters.h"
#include "net/memcached/answer.h"
#include "net/output.h"
#include "net/unsaved.h"

namespace isotherm::net {

// `answer` is any but one that runs alone; its rows have run. Returns how many of them it answered:
// all, but for a get when the output has `full_output` bytes. `not_saved`: the line that rows get
// which are that (net/unsaved.h).
Batch::Row write_answer(const MemcachedAnswer& answer, const Batch& batch,
                        MemcachedCounters& counters, Output& output,
                        size_t full_output = std::numeric_limits<size_t>::max(),
                        std::string_view not_saved = unreadable_line);

}  // namespace isotherm::net
