// reserve_more: room for some elements more, so that appending them moves none and throws nothing.
//
// Where there is too little, the capacity doubles at least: `reserve` alone takes what it is asked
// for, so elements that come some at a time would all be copied each time.
#pragma once

#include <algorithm>
#include <cstddef>

namespace isotherm {

// Throws std::bad_alloc, and then nothing has changed.
template <class Vector>
void reserve_more(Vector& its, size_t more) {
  const size_t wanted = its.size() + more;
  if (wanted > its.capacity()) its.reserve(std::max(wanted, 2 * its.capacity()));
}

}  // namespace isotherm
