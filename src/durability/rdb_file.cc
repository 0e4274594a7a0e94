#include "durability/rdb_file.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "base/crc64.h"
#include "isotherm/batch.h"

namespace isotherm {
namespace {

constexpr uint64_t any_length = std::numeric_limits<uint64_t>::max();
// An item has 56 bits for its version, and later ones are to come.
constexpr uint64_t most_version = uint64_t{1} << 55;

// By the number of the type.
constexpr std::string_view type_names[] = {
    "string", "list",       "set",  "sorted set", "hash",       "sorted set", "module", "module",
    "",       "hash",       "list", "set",        "sorted set", "hash",       "list",   "stream",
    "hash",   "sorted set", "list", "stream",     "set",        "stream"};

std::string name_of_type(uint8_t type) {
  const bool known = type < std::size(type_names) && !type_names[type].empty();
  return known ? std::string(type_names[type]) : "type " + std::to_string(type);
}

// A key as a message shows it.
std::string shown_key(std::string_view key) {
  constexpr size_t most = 64;
  std::string text = "'";
  for (const char c : key.substr(0, most)) text += c >= ' ' && c <= '~' ? c : '?';
  return text + (key.size() > most ? "…'" : "'");
}

template <class Number>
bool take_number(std::string_view& text, Number& number) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc()) return false;
  text.remove_prefix(static_cast<size_t>(end - text.data()));
  return true;
}

// Whether it had fields of a module.
bool skip_module_fields(rdb::Reader& reader) {
  enum : uint64_t { end = 0, whole = 1, positive = 2, small = 3, fraction = 4, text = 5 };
  if (!reader.length()) return false;
  for (;;) {
    const auto kind = reader.length();
    if (!kind) return false;
    switch (*kind) {
      case end:
        return true;
      case whole:
      case positive:
        if (!reader.length()) return false;
        break;
      case small:
        if (!reader.bytes(sizeof(float))) return false;
        break;
      case fraction:
        if (!reader.bytes(sizeof(double))) return false;
        break;
      case text:
        if (!reader.skip_string()) return false;
        break;
      default:
        return false;
    }
  }
}

}  // namespace

// Goes from item to item.
class RdbFile::Cursor {
 public:
  Cursor(const RdbFile& file, Place from)
      : file_(file), reader_(file.file_.text().substr(from.offset)) {
    item_.database = from.database;
  }

  uint64_t offset() const { return file_.bytes() - reader_.left().size(); }
  Place place() const { return {offset(), item_.database}; }
  const RdbItem& item() const { return item_; }
  uint64_t last_version() const { return last_version_; }

  // On to the next item; false: there is none. `whole`: with its value.
  bool next(bool whole) {
    item_.expiry = no_expiry;
    item_.flags = 0;
    item_.state = 0;
    for (;;) {
      begin_ = offset();
      const auto opcode = reader_.byte();
      if (!opcode) fail("is cut");
      if (*opcode == rdb::eof) return false;
      if (is_field(*opcode)) {
        read_field(*opcode);
        continue;
      }
      read_item(*opcode, whole);
      return true;
    }
  }

 private:
  static bool is_field(uint8_t opcode) { return opcode >= rdb::slot_info; }

  [[noreturn]] void fail(const std::string& what) const {
    file_.file_.fail(what + " at byte " + std::to_string(begin_));
  }
  template <class Read>
  auto whole(const std::optional<Read>& read) const {
    if (!read) fail("is cut or damaged");
    return *read;
  }

  void read_field(uint8_t opcode) {
    switch (opcode) {
      case rdb::select_db: {
        const uint64_t number = whole(reader_.length());
        if (number >= std::numeric_limits<uint32_t>::max()) fail("is damaged");
        item_.database = static_cast<uint32_t>(number);
        had_empty_key_ = false;
        return;
      }
      case rdb::expiry_ms:
        item_.expiry = std::max<int64_t>(whole(reader_.little(sizeof(int64_t))), 1);
        return;
      case rdb::expiry_seconds:
        item_.expiry = std::max<int64_t>(whole(reader_.little(sizeof(int32_t))) * 1000, 1);
        return;
      case rdb::resize_db:
        whole(reader_.length());
        whole(reader_.length());
        return;
      case rdb::slot_info:
        for (int i = 0; i < 3; ++i) whole(reader_.length());
        return;
      case rdb::idle:
        whole(reader_.length());
        return;
      case rdb::freq:
        whole(reader_.byte());
        return;
      case rdb::aux:
        return read_aux();
      case rdb::function2:
        if (!reader_.skip_string()) fail("is cut or damaged");
        return;
      case rdb::module_aux:
        if (!skip_module_fields(reader_)) fail("is cut or damaged");
        return;
      default:
        fail("has an opcode that is not known, " + std::to_string(opcode) + ",");
    }
  }

  void read_aux() {
    const std::string_view name = whole(reader_.string(any_length, key_));
    std::string_view value = whole(reader_.string(any_length, value_));
    if (name == rdb::version_field &&
        (!take_number(value, last_version_) || last_version_ > most_version)) {
      fail("has a version that is none");
    }
    if (name != rdb::item_field) return;
    const bool right = take_number(value, item_.flags) && value.starts_with(' ');
    if (right) value.remove_prefix(1);
    if (!right || !take_number(value, item_.state)) fail("has flags that are none");
  }

  void read_item(uint8_t type, bool with_value) {
    item_.key = whole(reader_.string(any_length, key_));
    // Zeros read as items without a key, and a disk may leave gigabytes of them behind a crash.
    if (item_.key.empty() && had_empty_key_) fail("has the empty key twice, as zeros would be,");
    had_empty_key_ = item_.key.empty();
    if (type != rdb::string_type) {
      fail("has a " + name_of_type(type) + ", which this store has no place for, under the key " +
           shown_key(item_.key) + ",");
    }
    if (!with_value) {
      if (!reader_.skip_string()) fail("is cut or damaged");
      return;
    }
    const auto value = reader_.string(any_length, value_);
    if (!value) fail("has a damaged value under the key " + shown_key(item_.key) + ",");
    item_.value = *value;
  }

  const RdbFile& file_;
  rdb::Reader reader_;
  RdbItem item_;
  uint64_t begin_ = 0;  // of the opcode or item that is read
  uint64_t last_version_ = 0;
  bool had_empty_key_ = false;  // the last item, of this database
  std::string key_, value_;     // where they have to be made
};

RdbFile::RdbFile(const std::string& path) : file_("snapshot", path) {
  check_head();
  check_items();
}

void RdbFile::check_head() {
  const std::string_view text = file_.text();
  if (!text.starts_with(rdb::magic)) file_.fail("is not an RDB file");
  std::string_view digits = text.substr(rdb::magic.size(), rdb::version_digits);
  if (digits.size() < rdb::version_digits || !take_number(digits, format_) || !digits.empty()) {
    file_.fail("is not an RDB file: it has no version");
  }
  if (format_ == 0 || format_ > rdb::latest_version) {
    file_.fail("has version " + std::to_string(format_) + " of the format; the latest that is " +
               "known is " + std::to_string(rdb::latest_version));
  }
}

void RdbFile::check_items() {
  Cursor cursor(*this, {rdb::magic.size() + rdb::version_digits, 0});
  auto of_database = items_by_database_.end();
  for (;;) {
    const Place place = cursor.place();
    if (!cursor.next(false)) break;
    if (items_++ % items_per_part == 0) parts_.push_back(place);
    expires_ += cursor.item().expiry != no_expiry;
    const uint32_t database = cursor.item().database;
    if (of_database == items_by_database_.end() || of_database->first != database) {
      of_database = items_by_database_.try_emplace(database).first;
    }
    ++of_database->second;
  }
  last_version_ = cursor.last_version();
  check_sum(cursor.offset());
}

// Files before version 5 have none, and 0 means that it was not made.
void RdbFile::check_sum(uint64_t end) {
  constexpr uint64_t first_with_sum = 5;
  const std::string_view text = file_.text();
  const uint64_t its_bytes = format_ < first_with_sum ? 0 : rdb::checksum_bytes;
  if (text.size() < end + its_bytes) file_.fail("is cut in its checksum");
  if (text.size() > end + its_bytes) {
    file_.fail("has " + std::to_string(text.size() - end - its_bytes) + " bytes behind its end");
  }
  if (its_bytes == 0) return;
  sum_ = static_cast<uint64_t>(*rdb::Reader(text.substr(end)).little(rdb::checksum_bytes));
  if (sum_ != 0 && sum_ != crc64(text.substr(0, end))) {
    file_.fail("is damaged: its checksum is wrong");
  }
}

void RdbFile::read(uint32_t part, const Visit& visit) const {
  Cursor cursor(*this, parts_[part]);
  const uint64_t left = items_ - part * items_per_part;
  for (uint64_t i = 0; i < std::min(left, items_per_part) && cursor.next(true); ++i) {
    visit(cursor.item());
  }
}

}  // namespace isotherm
