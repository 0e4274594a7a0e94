// RdbFile: a snapshot of this store's or of Redis's, checked as a whole and then read.
//
// The constructor goes over the file once and throws RdbError, whose text names the file, the byte
// and, where it can, the key, for all that it cannot take: a file that is cut, has bytes behind its
// end, a wrong sum, or a later version; and values that are no strings. What says nothing about
// strings is read past: other AUX fields, the fields of modules, functions, idle times, frequencies
// and expected numbers of keys, of a cluster's slots, too. It writes nothing.
//
// A packed value is unpacked when its item is read, which is then refused likewise if it is broken;
// only a file that was written without a sum can get as far.
//
// Threads. Parts hold different items, and may be read by a thread each.
// Memory. The file is mapped; beside it 16 bytes for `items_per_part` items, and the item that is
// read.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "durability/mapped_file.h"
#include "durability/rdb_format.h"

namespace isotherm {

class RdbError : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

struct RdbItem {
  uint32_t database = 0;
  std::string_view key;
  std::string_view value;
  int64_t expiry = 0;  // no_expiry: none
  uint32_t flags = 0;
  uint64_t state = 0;
};

class RdbFile {
 public:
  static constexpr uint64_t items_per_part = 1 << 16;

  explicit RdbFile(const std::string& path);

  uint64_t items() const { return items_; }
  uint64_t expires() const { return expires_; }  // items with an expiry
  // Items of each database that has any.
  const std::map<uint32_t, uint64_t>& items_by_database() const { return items_by_database_; }
  uint64_t bytes() const { return file_.text().size(); }
  uint64_t format() const { return format_; }
  // One more than the last that has an item.
  uint32_t databases() const {
    return items_by_database_.empty() ? 0 : items_by_database_.rbegin()->first + 1;
  }
  // No version that an item had is larger; 0 in a file that another program has written.
  uint64_t last_version() const { return last_version_; }
  // Behind which versions may go on. Those that were given behind the snapshot, and are on no disk,
  // are not to be given once more: a client may have kept one for a compare-and-swap.
  uint64_t versions_end() const {
    constexpr uint64_t left_out = uint64_t{1} << 32;
    return last_version_ == 0 ? 0 : last_version_ + left_out;
  }

  // The checksum at its end; 0: none was made.
  uint64_t sum() const { return sum_; }

  // What is shown is valid until the function returns; what the file has stays as long as this.
  bool has(std::string_view shown) const {
    const char* const begin = file_.text().data();
    return shown.data() >= begin && shown.data() + shown.size() <= begin + file_.text().size();
  }
  using Visit = std::function<void(const RdbItem& item)>;
  void read(uint32_t part, const Visit& visit) const;
  uint32_t parts() const { return static_cast<uint32_t>(parts_.size()); }

 private:
  struct Place {
    uint64_t offset;
    uint32_t database;
  };
  class Cursor;

  void check_head();
  void check_items();
  void check_sum(uint64_t end);

  MappedFile<RdbError> file_;
  uint64_t format_ = 0;
  uint64_t items_ = 0;
  uint64_t expires_ = 0;
  std::map<uint32_t, uint64_t> items_by_database_;
  uint64_t last_version_ = 0;
  uint64_t sum_ = 0;
  std::vector<Place> parts_;
};

}  // namespace isotherm
