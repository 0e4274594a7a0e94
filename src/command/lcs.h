// Lcs: a longest common subsequence of two texts, and where its pieces lie.
//
// The table of all prefixes' lengths L(i, j) is kept as one bit a cell: whether L(i, j) is greater
// than L(i, j - 1), which it exceeds by at most one. A row of bits follows from the row before by
// an addition and some logic, 64 cells at a time (Hyyrö's form of Allison and Dix). To walk back
// from the end no more is needed: where the bytes differ, a set bit says that the length comes from
// above, and a clear one that it comes from the left.
//
// Of several subsequences of the same length the walk takes the one that Redis takes: where both
// ways are as good it goes left.
//
// Threads. Functions of their arguments.
// Limits. Time of a 64th of the cells. Memory of a bit a cell where pieces are wanted, and of a bit
// for each byte of the second text and each different byte of the first.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm {

// Bytes that are equal in both texts.
struct CommonPiece {
  uint64_t first;   // where it begins in the first text
  uint64_t second;  // and in the second
  uint64_t size;
};

uint64_t lcs_length(std::string_view first, std::string_view second);

// The pieces of the subsequence, the last one first.
std::vector<CommonPiece> lcs_pieces(std::string_view first, std::string_view second);

// The subsequence that such pieces make up.
std::string join_pieces(std::string_view first, const std::vector<CommonPiece>& pieces);

}  // namespace isotherm
