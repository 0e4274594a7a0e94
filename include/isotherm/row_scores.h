// What the scores of rows are, by which a table of rows evicts (isotherm/row_table.h,
// isotherm/gpu/row_table.h).
#pragma once

#include <cstdint>

namespace isotherm {

// None, given with the rows, or the times of their last use.
enum class RowScores : uint8_t { none, given, use };

}  // namespace isotherm
