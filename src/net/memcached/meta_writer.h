// What meta commands of memcached answer, and what they count.
//
// The answer's text is the flags of the command; those that show something are answered in their
// order. The command itself stands in its row. `not_saved`: as in writer.h.
//
// Threads. A connection's loop.
#pragma once

#include <string_view>

#include "isotherm/batch.h"
#include "net/counters.h"
#include "net/memcached/answer.h"
#include "net/output.h"

namespace isotherm::net {

void write_meta(const MemcachedAnswer& answer, const Batch& batch, MemcachedCounters& counters,
                Output& output, std::string_view not_saved);

}  // namespace isotherm::net
