#include "net/resp/rdb_value.h"

#include <cstring>
#include <optional>

#include "base/crc64.h"
#include "base/lzf.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

constexpr uint64_t rdb_version = 10;
constexpr size_t version_bytes = 2;
constexpr size_t checksum_bytes = 8;
constexpr char string_type = 0;

// The first byte of a length of 32 or 64 bits, and of strings that are kept otherwise.
constexpr uint8_t length_32 = 0x80;
constexpr uint8_t length_64 = 0x81;
constexpr uint8_t integer_8 = 0xC0;
constexpr uint8_t integer_16 = 0xC1;
constexpr uint8_t integer_32 = 0xC2;
constexpr uint8_t packed_string = 0xC3;

// Shorter values are never packed, and packing must save some bytes.
constexpr size_t least_to_pack = 21;
constexpr size_t least_saved = 4;

void put_little(uint64_t number, size_t bytes, std::string& to) {
  for (size_t i = 0; i < bytes; ++i) to += static_cast<char>(number >> (8 * i));
}

void put_big(uint64_t number, size_t bytes, std::string& to) {
  for (size_t i = bytes; i-- > 0;) to += static_cast<char>(number >> (8 * i));
}

void put_length(uint64_t length, std::string& to) {
  if (length < 1 << 6) return put_big(length, 1, to);
  if (length < 1 << 14) return put_big(length | 0x4000, 2, to);
  const bool is_short = length <= UINT32_MAX;
  to += static_cast<char>(is_short ? length_32 : length_64);
  put_big(length, is_short ? 4 : 8, to);
}

void put_integer(int64_t number, std::string& to) {
  const auto fits = [&](int bits) {
    return number >= -(int64_t{1} << (bits - 1)) && number < int64_t{1} << (bits - 1);
  };
  const uint8_t kind = fits(8) ? integer_8 : fits(16) ? integer_16 : integer_32;
  to += static_cast<char>(kind);
  put_little(static_cast<uint64_t>(number), size_t{1} << (kind - integer_8), to);
}

// Reads from the front of what is left; nothing once it is too short.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : left_(bytes) {}

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
  std::optional<uint64_t> big(size_t count) {
    const auto taken = bytes(count);
    if (!taken) return std::nullopt;
    uint64_t number = 0;
    for (const char c : *taken) number = number << 8 | static_cast<uint8_t>(c);
    return number;
  }
  std::optional<int64_t> little(size_t count) {
    const auto taken = bytes(count);
    if (!taken) return std::nullopt;
    uint64_t number = 0;
    for (size_t i = count; i-- > 0;) number = number << 8 | static_cast<uint8_t>((*taken)[i]);
    const size_t unused = 64 - 8 * count;
    return static_cast<int64_t>(number << unused) >> unused;
  }
  // A length that begins with `first`.
  std::optional<uint64_t> length(uint8_t first) {
    if (first == length_32) return big(4);
    if (first == length_64) return big(8);
    if (first >= length_32) return std::nullopt;
    if (first < 0x40) return first;
    const auto low = byte();
    if (!low) return std::nullopt;
    return uint64_t{first & 0x3Fu} << 8 | *low;
  }
  std::optional<uint64_t> length() {
    const auto first = byte();
    return first ? length(*first) : std::nullopt;
  }

 private:
  std::string_view left_;
};

bool unpack(Reader& reader, uint64_t most_bytes, std::string& made) {
  const auto packed_bytes = reader.length();
  const auto bytes = reader.length();
  if (!packed_bytes || !bytes) return false;
  const auto packed = reader.bytes(*packed_bytes);
  if (!packed || *bytes > most_bytes || *bytes > lzf_most_unpacked(packed->size())) return false;
  made.resize(*bytes);
  return *bytes != 0 && lzf_unpack(*packed, made);
}

bool read_string(Reader& reader, uint64_t most_bytes, std::string& made, std::string_view& value) {
  const auto first = reader.byte();
  if (!first) return false;
  if (*first >= integer_8 && *first <= integer_32) {
    const auto number = reader.little(size_t{1} << (*first - integer_8));
    if (!number) return false;
    made = std::to_string(*number);
    value = made;
    return true;
  }
  if (*first == packed_string) {
    if (!unpack(reader, most_bytes, made)) return false;
    value = made;
    return true;
  }
  const auto length = reader.length(*first);
  const auto bytes = length ? reader.bytes(*length) : std::nullopt;
  if (!bytes || bytes->size() > most_bytes) return false;
  value = *bytes;
  return true;
}

}  // namespace

Dump dump_value(std::string_view value) {
  Dump dump;
  dump.head = string_type;
  const auto number = parse_integer(value);
  if (number && *number >= INT32_MIN && *number <= INT32_MAX) {
    put_integer(*number, dump.head);
  } else {
    if (value.size() >= least_to_pack) dump.packed = lzf_pack(value, value.size() - least_saved);
    if (!dump.packed.empty()) {
      dump.head += static_cast<char>(packed_string);
      put_length(dump.packed.size(), dump.head);
    }
    put_length(value.size(), dump.head);
    dump.plain = value;
  }
  put_little(rdb_version, version_bytes, dump.foot);
  put_little(crc64(dump.foot, crc64(dump.body(), crc64(dump.head))), checksum_bytes, dump.foot);
  return dump;
}

Restored restore_value(std::string_view payload, uint64_t most_bytes, std::string& made,
                       std::string_view& value) {
  if (payload.size() < version_bytes + checksum_bytes) return Restored::unverified;
  const std::string_view checked = payload.substr(0, payload.size() - checksum_bytes);
  const size_t content_bytes = checked.size() - version_bytes;
  const auto its_version = Reader(checked.substr(content_bytes)).little(version_bytes);
  if (static_cast<uint16_t>(*its_version) > rdb_version) return Restored::unverified;
  const auto checksum = Reader(payload.substr(checked.size())).little(checksum_bytes);
  if (static_cast<uint64_t>(*checksum) != crc64(checked)) return Restored::unverified;
  // As for Redis, a string may reach into the version and the checksum.
  Reader reader(payload);
  const auto type = reader.byte();
  const bool right = type && *type == string_type && read_string(reader, most_bytes, made, value);
  return right ? Restored::ok : Restored::malformed;
}

}  // namespace isotherm::net
