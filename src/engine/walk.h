// walk: one step of a walk over the items of a database (Op::walk).
//
// A cursor is the bound on the hash from which the walk goes on. An index on a device has another
// order; a cursor of it has the lowest bit set, which no bound has. So a cursor shows that its walk
// was begun before the device was lost, and such a walk begins anew. So does one over a tree whose
// cursor is too old, or is of a device that had the items and was lost.
//
// Of all these cursors only the upper 48 bits and the lowest five may be set, so that 53 bits,
// which is what clients have in a double, can hold one (net/resp/database_commands.cc).
//
// Limits. A step looks at a bounded part of the index, however few items it finds.
// Threads. Any, within an epoch.
#pragma once

#include <cstdint>

#include "engine/engine.h"
#include "isotherm/batch.h"

namespace isotherm {

class Awaited;
class EngineState;

// What the row must wait for before its step; null: it may go on. Not asked of one that has waited.
Awaited* walk_waits_for(EngineState& engine, const Batch& batch, Batch::Row row);
void walk(EngineState& engine, Batch& batch, Batch::Row row);

// How many keys a database has when this is called (Engine::begin_count).
KeyCount begin_count(EngineState& engine, uint32_t database);

}  // namespace isotherm
