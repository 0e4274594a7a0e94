// Writes the answers to memcached commands from the reply slots of their rows, and counts them.
//
// A value goes from where the store keeps it into the output in one copy. `silent` answers are
// counted only.
//
// Threads. Belongs to the connection's loop, which owns `counters`.
#pragma once

#include "isotherm/batch.h"
#include "net/counters.h"
#include "net/memcached_answer.h"
#include "net/output.h"

namespace isotherm::net {

// `answer` is any but one that runs alone; its rows have run.
void write_answer(const MemcachedAnswer& answer, const Batch& batch, MemcachedCounters& counters,
                  Output& output);

}  // namespace isotherm::net
