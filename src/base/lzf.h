// Lzf: the compression of long strings in what DUMP answers (LibLZF's format).
//
// Layout. A sequence of runs; the first byte of each says which kind it is:
//   000n nnnn                        n + 1 bytes follow as they are
//   kkko oooo  oooo oooo             the k + 2 bytes that begin o + 1 before here; k is 1 to 6
//   111o oooo  kkkk kkkk  oooo oooo  the same of k + 9 bytes
// A copy may overlap the bytes that it makes.
//
// Compression looks for the last place with the same three bytes, by a table of their hashes, and
// takes the longest match there. Any choice of matches is right; this one is Redis's, so that both
// dump the same bytes.
//
// Threads. Functions of their arguments. Limits. Lengths below 4 GiB.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace isotherm {

// Fills all of `text` from `packed`; false where that is not what it holds.
bool lzf_unpack(std::string_view packed, std::span<char> text);

// The most bytes that `packed` could become.
constexpr uint64_t lzf_most_unpacked(uint64_t packed_bytes) { return packed_bytes * 264 / 3 + 264; }

// Packs into at most `most` bytes; empty where that is not enough.
std::string lzf_pack(std::string_view text, uint64_t most);

}  // namespace isotherm
