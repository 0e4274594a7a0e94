// WriteGroup: changes of a Db (isotherm/db.h) that take effect together or not at all, also across
// a crash, in the order in which they were added.
//
// It has copies of keys and values, one behind the other, so a group that is cleared and filled
// again allocates nothing.
//
// Threads. Belongs to one at a time.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace isotherm {

class WriteGroup {
 public:
  enum class Kind : uint8_t { put, erase, merge };
  struct Row {
    Kind kind;
    uint32_t function;  // of a merge
    std::string_view key;
    std::string_view value;  // of a merge: the operand
  };

  void put(std::string_view key, std::string_view value) { add(Kind::put, 0, key, value); }
  void erase(std::string_view key) { add(Kind::erase, 0, key, {}); }
  // By a function of DbOptions::merges, or one of those that are built in.
  void merge(std::string_view key, uint32_t function, std::string_view operand) {
    add(Kind::merge, function, key, operand);
  }

  size_t size() const { return places_.size(); }
  bool empty() const { return places_.empty(); }
  bool has_merges() const { return merges_; }     // or had some that were taken back
  size_t bytes() const { return bytes_.size(); }  // of keys and values
  // Valid until the group is changed.
  Row row(size_t index) const {
    const Place& place = places_[index];
    const size_t end = index + 1 < places_.size() ? places_[index + 1].at : bytes_.size();
    const char* const at = bytes_.data() + place.at;
    return {place.kind,
            place.function,
            {at, place.key_bytes},
            {at + place.key_bytes, end - place.at - place.key_bytes}};
  }
  void clear() {
    merges_ = false;
    places_.clear();
    bytes_.clear();
  }
  // Takes back what was added last, but for the first `size` changes.
  void shorten(size_t size) {
    if (size >= places_.size()) return;
    bytes_.resize(places_[size].at);
    places_.resize(size);
  }

 private:
  struct Place {
    Kind kind;
    uint32_t function;
    size_t at;
    size_t key_bytes;  // the value is what comes up to the next place
  };
  void add(Kind kind, uint32_t function, std::string_view key, std::string_view value) {
    // So that nothing can fail behind the first step.
    bytes_.reserve(bytes_.size() + key.size() + value.size());
    places_.push_back({kind, function, bytes_.size(), key.size()});
    bytes_.append(key).append(value);
    merges_ |= kind == Kind::merge;
  }

  bool merges_ = false;
  std::vector<Place> places_;
  std::string bytes_;
};

}  // namespace isotherm
