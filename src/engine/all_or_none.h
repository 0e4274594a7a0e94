// A group of puts that are stored all or not at all, also where a cap has no room for all of them.
//
// Where nothing is evicted, a put that finds no room is refused by itself, and those before it are
// stored by then. A guard before the first of them has the engine look for the room of all, and
// cancels all where there is none. It costs a batch as much as any other guard.
//
// Threads. As the batch.
#pragma once

#include "isotherm/batch.h"

namespace isotherm {

// The next so many rows, at least one, are such puts, of a group.
void all_or_none(Batch& batch, Batch::Row puts);
// The puts that the guard is about, or no rows.
Batch::Span puts_behind(const Batch& batch, const Batch::Guard& guard);
// Puts for which room was found: they do not stop in their middle.
void let_run_over_cap(Batch& batch, Batch::Span puts);

}  // namespace isotherm
