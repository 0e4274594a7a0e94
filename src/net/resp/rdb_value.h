// RdbValue: a string as DUMP writes it and RESTORE reads it: Redis's RDB format, version 10.
//
//   u8 type (0: string) │ the string │ u16 version │ u64 CRC64 of all before it     little endian
//
// How a string is kept: durability/rdb_format.h.
//
// Threads. Functions of their arguments. Limits. Lengths are checked before memory is taken.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace isotherm::net {

// The pieces of a dump, in order: long values are not copied.
struct Dump {
  std::string head;
  std::string packed;  // the bytes of a value that was worth packing; else `plain`
  std::string_view plain;
  std::string foot;

  std::string_view body() const { return packed.empty() ? plain : packed; }
  uint64_t size() const { return head.size() + body().size() + foot.size(); }
};
Dump dump_value(std::string_view value);

enum class Restored : uint8_t {
  ok,
  unverified,  // too short, of a later version, or the checksum is wrong
  malformed,   // no string, or a broken one, or one of more than `most_bytes`
};
// The value in a payload. It lies in the payload or, where it has to be made, in `made`.
Restored restore_value(std::string_view payload, uint64_t most_bytes, std::string& made,
                       std::string_view& value);

}  // namespace isotherm::net
