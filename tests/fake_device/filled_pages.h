// Memory that is full of one byte, and takes none until somebody writes there: pages of a file that
// has nothing but that byte, mapped so that each page is copied when it is first written.
#pragma once

#include <cstdint>

namespace isotherm {

// Fills bytes of a private mapping whose pages may be read and written. Of many bytes the whole
// pages are mapped anew; a child of fork sees them, too. Throws std::bad_alloc where the system has
// no memory for the file or no place for another mapping.
void fill_pages(char* at, uint64_t bytes, unsigned char byte);

}  // namespace isotherm
