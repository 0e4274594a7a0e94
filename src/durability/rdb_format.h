// The format of Redis's RDB files, as far as a store of strings needs it: what DUMP answers
// (net/resp/rdb_value.h), what a snapshot consists of (snapshot_file.h), and what is read at the
// start (rdb_file.h).
//
//   "REDIS" "0010"                        the version in decimal digits
//   [opcode, its fields] … type, key, value   an item, behind what is said of it
//   EOF, u64 CRC64 of all before it       little endian
//
// A string, or a number that stands for its length:
//   00nnnnnn                 length 0 to 63; the bytes follow
//   01nnnnnn nnnnnnnn        length below 16,384, high bits first
//   10000000 n × 4           length in 32 bits, high byte first; 10000001 n × 8: in 64
//   11000000 i8, 11000001 i16, 11000010 i32          an integer, little endian
//   11000011 length length bytes                     packed (base/lzf.h): packed length, length
//
// What Redis has no place for stands in a field of its own before the item, which Redis reads past:
// AUX "isotherm-item", with the flags of memcached and the state of its meta commands
// (items/meta_state.h), two numbers in decimal digits with a space between.
//
// Threads. Functions of their arguments. Limits. Lengths are checked before memory is taken.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace isotherm::rdb {

inline constexpr std::string_view magic = "REDIS";
inline constexpr uint32_t version = 10;         // that is written: of Redis 7.0
inline constexpr uint32_t latest_version = 12;  // that is read; strings are the same in all
inline constexpr size_t version_digits = 4;
inline constexpr size_t checksum_bytes = 8;
inline constexpr uint8_t string_type = 0;

enum Opcode : uint8_t {
  slot_info = 244,  // of a cluster's nodes since Redis 7.4: a slot, and how many keys it has
  function2 = 245,
  module_aux = 247,
  idle = 248,
  freq = 249,
  aux = 250,
  resize_db = 251,
  expiry_ms = 252,
  expiry_seconds = 253,
  select_db = 254,
  eof = 255,
};
inline constexpr std::string_view item_field = "isotherm-item";
inline constexpr std::string_view version_field = "isotherm-version";

void put_little(uint64_t number, size_t bytes, std::string& to);
void put_length(uint64_t length, std::string& to);
void put_integer(int32_t number, std::string& to);
// As its length and its bytes.
void put_plain(std::string_view text, std::string& to);
// What comes before a string that is packed.
void put_packed_head(uint64_t packed_bytes, uint64_t bytes, std::string& to);
void put_aux(std::string_view name, std::string_view value, std::string& to);

// What stands before the value of an item: all that is said of it, its key, and the length.
struct ItemHead {
  std::string_view key;
  int64_t expiry;  // no_expiry: none
  uint32_t flags;
  uint64_t state;
  uint64_t value_bytes;
};
void put_item_head(const ItemHead& item, std::string& to);

// Reads from the front of what is left; nothing once it is too short.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

  std::string_view left() const { return left_; }
  std::optional<std::string_view> bytes(uint64_t count) {
    if (count > left_.size()) return std::nullopt;
    const std::string_view taken = left_.substr(0, count);
    left_.remove_prefix(count);
    return taken;
  }
  std::optional<uint8_t> byte() {
    const auto taken = bytes(1);
    if (!taken) return std::nullopt;
    return static_cast<uint8_t>(taken->front());
  }
  std::optional<uint64_t> big(size_t count);
  // Signed, of so many bytes.
  std::optional<int64_t> little(size_t count);
  std::optional<uint64_t> length();
  // In the bytes or, where it has to be made, in `made`; none where it would have more than
  // `most_bytes`.
  std::optional<std::string_view> string(uint64_t most_bytes, std::string& made);
  // The same without making it; whether there is one.
  bool skip_string();

 private:
  std::optional<uint64_t> length(uint8_t first);

  std::string_view left_;
};

}  // namespace isotherm::rdb
