// JournalFile: a file of a journal as it was left, mapped, with the head that it begins with.
//
// Errors. JournalError, with the path and what is wrong. Threads. Any read.
#pragma once

#include <cstdint>
#include <cstring>
#include <stdexcept>
#include <string>
#include <string_view>

#include "durability/mapped_file.h"
#include "durability/record.h"

namespace isotherm {

class JournalError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

class JournalFile : public MappedFile<JournalError> {
 public:
  explicit JournalFile(const std::string& path) : MappedFile("journal", path) {}

  // What the file begins with, which has to be whole.
  template <class Header>
  const Header& header() const {
    if (const char* const problem = problem_of<Header>()) fail(problem);
    return *reinterpret_cast<const Header*>(text().data());
  }
  Manifest manifest() const {
    if (text().size() != sizeof(ManifestOfSegments)) return header<Manifest>();
    Manifest its{};
    static_cast<ManifestOfSegments&>(its) = header<ManifestOfSegments>();
    return its;
  }

  // How it is damaged where it should be this segment; null: its head and its length are right.
  // Throws JournalError for the head of a version that is not known.
  const char* damage_of_segment(uint64_t store, uint64_t number) const {
    if (const char* const problem = problem_of<SegmentHeader>()) {
      if (problem == of_another_version) fail(problem);
      return problem;
    }
    const auto& its = header<SegmentHeader>();
    if (its.store != store) return "belongs to another journal";
    if (its.number != number) return "has the number of another segment";
    return text().size() < its.bytes ? truncated : nullptr;
  }
  static constexpr const char* truncated = "is truncated";

 private:
  template <class Header>
  const char* problem_of() const {
    if (text().size() < sizeof(Header)) return "is too short for a journal";
    return header_problem(*reinterpret_cast<const Header*>(text().data()));
  }
};

// The bytes up to the last one that is not zero. Where the file system does not know what was
// reserved alone, a file is mostly zeros, which a library function passes over by pages.
inline size_t bytes_before_zeros(std::string_view text) {
  constexpr size_t page = 4096;
  static constexpr char zeros[page] = {};
  while (text.size() >= page && std::memcmp(text.data() + text.size() - page, zeros, page) == 0) {
    text.remove_suffix(page);
  }
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return text.size();
}

}  // namespace isotherm
