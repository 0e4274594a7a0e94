// ValueParts: the parts that a journal has of one key's value (durability/record.h), to be written
// over the value that they were made of, in the order of their versions.
//
// That value may be a later one of the key, if all records behind it are there: a part once more,
// or in the place of one that has it already, leads to the same value in the end.
//
// Threads. One. Memory. 8 bytes a part; the records stay where they are.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "durability/record.h"

namespace isotherm {

class ValueParts {
 public:
  void clear() { parts_.clear(); }
  void add(const RecordHeader& record) { parts_.push_back(&record); }
  // Of those that were added only the ones behind `version` stay.
  void keep_behind(uint64_t version) {
    if (parts_.empty()) return;
    std::erase_if(parts_, [=](const RecordHeader* its) { return its->version <= version; });
    std::sort(parts_.begin(), parts_.end(),
              [](const RecordHeader* a, const RecordHeader* b) { return a->version < b->version; });
  }

  bool empty() const { return parts_.empty(); }
  // The last one has the flags and the expiry of the value.
  const RecordHeader& last() const { return *parts_.back(); }
  // The version of the value that they are made of is no smaller.
  uint64_t base() const { return RecordPart::of(parts_.front()->value()).base; }

  // Writes them over the value that `text` has from `value_at` on. False: they were made of
  // another one, and it is the same no more.
  bool apply(std::string& text, size_t value_at = 0) const {
    uint64_t before = base();
    for (const RecordHeader* const its : parts_) {
      const RecordPart part = RecordPart::of(its->value());
      const std::string_view bytes = RecordPart::bytes_of(its->value());
      const uint64_t had = text.size() - value_at;
      if (part.base > before || part.value_bytes > std::max(had, part.at + bytes.size())) {
        return false;
      }
      text.resize(value_at + part.value_bytes);
      bytes.copy(text.data() + value_at + part.at, bytes.size());
      before = its->version;
    }
    return true;
  }

 private:
  std::vector<const RecordHeader*> parts_;
};

}  // namespace isotherm
