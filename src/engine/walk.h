// walk: one step of a walk over the items of a database (Op::walk).
//
// A cursor is the bound on the hash to go on from; of an index on a device, whose order is another,
// with the lowest bit, which no bound has. A walk that was begun in the other order, before the
// device was lost, begins anew.
//
// Limits. A step looks at a bounded part of the index, however few items it finds.
// Threads. Any, within an epoch.
#pragma once

#include <cstdint>

#include "isotherm/batch.h"

namespace isotherm {

class EngineState;

void walk(EngineState& engine, Batch& batch, Batch::Row row);

}  // namespace isotherm
