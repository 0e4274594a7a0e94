#include "durability/rdb_format.h"

#include "base/lzf.h"
#include "isotherm/batch.h"

namespace isotherm::rdb {
namespace {

// The first byte of a length of 32 or 64 bits, and of strings that are kept otherwise.
constexpr uint8_t length_32 = 0x80;
constexpr uint8_t length_64 = 0x81;
constexpr uint8_t integer_8 = 0xC0;
constexpr uint8_t integer_16 = 0xC1;
constexpr uint8_t integer_32 = 0xC2;
constexpr uint8_t packed_string = 0xC3;

void put_big(uint64_t number, size_t bytes, std::string& to) {
  for (size_t i = bytes; i-- > 0;) to += static_cast<char>(number >> (8 * i));
}

}  // namespace

void put_little(uint64_t number, size_t bytes, std::string& to) {
  for (size_t i = 0; i < bytes; ++i) to += static_cast<char>(number >> (8 * i));
}

void put_length(uint64_t length, std::string& to) {
  if (length < 1 << 6) return put_big(length, 1, to);
  if (length < 1 << 14) return put_big(length | 0x4000, 2, to);
  const bool is_short = length <= UINT32_MAX;
  to += static_cast<char>(is_short ? length_32 : length_64);
  put_big(length, is_short ? 4 : 8, to);
}

void put_integer(int32_t number, std::string& to) {
  const auto fits = [&](int bits) {
    return number >= -(int64_t{1} << (bits - 1)) && number < int64_t{1} << (bits - 1);
  };
  const uint8_t kind = fits(8) ? integer_8 : fits(16) ? integer_16 : integer_32;
  to += static_cast<char>(kind);
  put_little(static_cast<uint64_t>(number), size_t{1} << (kind - integer_8), to);
}

void put_plain(std::string_view text, std::string& to) {
  put_length(text.size(), to);
  to += text;
}

void put_packed_head(uint64_t packed_bytes, uint64_t bytes, std::string& to) {
  to += static_cast<char>(packed_string);
  put_length(packed_bytes, to);
  put_length(bytes, to);
}

void put_aux(std::string_view name, std::string_view value, std::string& to) {
  to += static_cast<char>(aux);
  put_plain(name, to);
  put_plain(value, to);
}

void put_item_head(const ItemHead& item, std::string& to) {
  if (item.expiry != no_expiry) {
    to += static_cast<char>(expiry_ms);
    put_little(static_cast<uint64_t>(item.expiry), sizeof item.expiry, to);
  }
  if (item.flags != 0 || item.state != 0) {
    put_aux(item_field, std::to_string(item.flags) + " " + std::to_string(item.state), to);
  }
  to += static_cast<char>(string_type);
  put_plain(item.key, to);
  put_length(item.value_bytes, to);
}

std::optional<uint64_t> Reader::big(size_t count) {
  const auto taken = bytes(count);
  if (!taken) return std::nullopt;
  uint64_t number = 0;
  for (const char c : *taken) number = number << 8 | static_cast<uint8_t>(c);
  return number;
}

std::optional<int64_t> Reader::little(size_t count) {
  const auto taken = bytes(count);
  if (!taken) return std::nullopt;
  uint64_t number = 0;
  for (size_t i = count; i-- > 0;) number = number << 8 | static_cast<uint8_t>((*taken)[i]);
  const size_t unused = 64 - 8 * count;
  return static_cast<int64_t>(number << unused) >> unused;
}

// One that begins with `first`.
std::optional<uint64_t> Reader::length(uint8_t first) {
  if (first == length_32) return big(4);
  if (first == length_64) return big(8);
  if (first >= length_32) return std::nullopt;
  if (first < 0x40) return first;
  const auto low = byte();
  if (!low) return std::nullopt;
  return uint64_t{first & 0x3Fu} << 8 | *low;
}

std::optional<uint64_t> Reader::length() {
  const auto first = byte();
  return first ? length(*first) : std::nullopt;
}

std::optional<std::string_view> Reader::string(uint64_t most_bytes, std::string& made) {
  const auto first = byte();
  if (!first) return std::nullopt;
  if (*first >= integer_8 && *first <= integer_32) {
    const auto number = little(size_t{1} << (*first - integer_8));
    if (!number) return std::nullopt;
    made = std::to_string(*number);
    return made;
  }
  if (*first == packed_string) {
    const auto packed_bytes = length();
    const auto its_bytes = packed_bytes ? length() : std::nullopt;
    const auto packed = its_bytes ? bytes(*packed_bytes) : std::nullopt;
    if (!packed || *its_bytes == 0 || *its_bytes > most_bytes ||
        *its_bytes > lzf_most_unpacked(packed->size())) {
      return std::nullopt;
    }
    made.resize(*its_bytes);
    if (!lzf_unpack(*packed, made)) return std::nullopt;
    return made;
  }
  const auto its_bytes = length(*first);
  const auto text = its_bytes ? bytes(*its_bytes) : std::nullopt;
  return text && text->size() <= most_bytes ? text : std::nullopt;
}

bool Reader::skip_string() {
  const auto first = byte();
  if (!first) return false;
  if (*first >= integer_8 && *first <= integer_32) {
    return bytes(size_t{1} << (*first - integer_8)).has_value();
  }
  const auto count = *first == packed_string ? length() : length(*first);
  if (!count || (*first == packed_string && !length())) return false;
  return bytes(*count).has_value();
}

}  // namespace isotherm::rdb
