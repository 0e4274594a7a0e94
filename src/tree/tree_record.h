// TreeRecord: how an item lies in a run and in the files of a tree.
//
//   key:    'i' | database, 4 bytes, the highest first | the item's key
//   value:  which fields follow, 1 byte | version, 8 | expiry, 8 | flags, 4 | state, 8 | the value
// So a database is a range of keys, and "m" is the meta record, behind all of them. No value is
// empty; a run has an empty one for what was erased.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/bytes.h"
#include "gpu/items/stored_fields.h"
#include "isotherm/batch.h"

namespace isotherm {

struct TreeRecord {
  static constexpr std::string_view meta_key = "m";
  static constexpr size_t prefix_bytes = 5;
  static constexpr uint64_t most_head = 1 + 8 + 8 + 4 + 8;
  // Of the first byte; the expiry is the second field behind it.
  static constexpr uint8_t has_expiry = StoredFields::has_expiry;
  static constexpr uint32_t expiry_at = 8;  // behind the first byte

  uint64_t version = 0;
  int64_t expiry = no_expiry;
  uint32_t flags = 0;
  uint64_t state = 0;
  std::string_view value;

  static void put_key(uint32_t database, std::string_view key, std::string& to) {
    to.resize(prefix_bytes + key.size());
    write_key(database, key, to.data());
  }
  // There are prefix_bytes and the key's.
  static void write_key(uint32_t database, std::string_view key, char* to) {
    const uint32_t high_first = __builtin_bswap32(database);
    *to = 'i';
    std::memcpy(to + 1, &high_first, sizeof high_first);
    copy_bytes(to + prefix_bytes, key.data(), key.size());
  }
  static uint32_t database_of(std::string_view key) {
    uint32_t database = 0;
    for (size_t i = 1; i < prefix_bytes; ++i) {
      database = database << 8 | static_cast<uint8_t>(key[i]);
    }
    return database;
  }

  // Of the value alone, in a record of so many bytes that begins with this byte.
  static uint64_t value_bytes(uint8_t fields, uint64_t bytes) {
    return bytes - (1 + StoredFields{fields}.bytes());
  }

  uint64_t bytes() const {
    return 9 + (expiry != no_expiry ? 8 : 0) + (flags != 0 ? 4 : 0) + (state != 0 ? 8 : 0) +
           value.size();
  }
  void write(char* to) const {
    *to++ = static_cast<char>((expiry != no_expiry ? has_expiry : 0) |
                              (flags != 0 ? has_flags : 0) | (state != 0 ? has_state : 0));
    to = put(to, version);
    if (expiry != no_expiry) to = put(to, expiry);
    if (flags != 0) to = put(to, flags);
    if (state != 0) to = put(to, state);
    if (!value.empty()) std::memcpy(to, value.data(), value.size());
  }
  // False: it is none.
  bool read(std::string_view from) {
    if (from.empty()) return false;
    return read(static_cast<uint8_t>(from[0]), from.substr(1));
  }
  // Of a record whose first byte is `fields`, the rest.
  bool read(uint8_t fields, std::string_view from) {
    if (!take(from, version)) return false;
    if ((fields & has_expiry) != 0 && !take(from, expiry)) return false;
    if ((fields & has_flags) != 0 && !take(from, flags)) return false;
    if ((fields & has_state) != 0 && !take(from, state)) return false;
    value = from;
    return true;
  }
  bool expired(int64_t now_ms) const { return expiry != no_expiry && expiry <= now_ms; }

 private:
  static constexpr uint8_t has_flags = StoredFields::has_flags;
  static constexpr uint8_t has_state = StoredFields::has_state;

  template <class Field>
  static char* put(char* to, Field field) {
    std::memcpy(to, &field, sizeof field);
    return to + sizeof field;
  }
  template <class Field>
  static bool take(std::string_view& from, Field& field) {
    if (from.size() < sizeof field) return false;
    std::memcpy(&field, from.data(), sizeof field);
    from.remove_prefix(sizeof field);
    return true;
  }
};

}  // namespace isotherm
