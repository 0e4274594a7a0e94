#include "net/resp/rdb_value.h"

#include <cstring>
#include <optional>

#include "base/crc64.h"
#include "base/lzf.h"
#include "durability/rdb_format.h"
#include "net/text.h"

namespace isotherm::net {
namespace {

using rdb::checksum_bytes;

constexpr size_t version_bytes = 2;

// Shorter values are never packed, and packing must save some bytes.
constexpr size_t least_to_pack = 21;
constexpr size_t least_saved = 4;

}  // namespace

Dump dump_value(std::string_view value) {
  Dump dump;
  dump.head = static_cast<char>(rdb::string_type);
  const auto number = parse_integer(value);
  if (number && *number >= INT32_MIN && *number <= INT32_MAX) {
    rdb::put_integer(static_cast<int32_t>(*number), dump.head);
  } else {
    if (value.size() >= least_to_pack) dump.packed = lzf_pack(value, value.size() - least_saved);
    if (dump.packed.empty()) {
      rdb::put_length(value.size(), dump.head);
    } else {
      rdb::put_packed_head(dump.packed.size(), value.size(), dump.head);
    }
    dump.plain = value;
  }
  rdb::put_little(rdb::version, version_bytes, dump.foot);
  rdb::put_little(crc64(dump.foot, crc64(dump.body(), crc64(dump.head))), checksum_bytes,
                  dump.foot);
  return dump;
}

Restored restore_value(std::string_view payload, uint64_t most_bytes, std::string& made,
                       std::string_view& value) {
  if (payload.size() < version_bytes + checksum_bytes) return Restored::unverified;
  const std::string_view checked = payload.substr(0, payload.size() - checksum_bytes);
  const size_t content_bytes = checked.size() - version_bytes;
  const auto its_version = rdb::Reader(checked.substr(content_bytes)).little(version_bytes);
  if (static_cast<uint16_t>(*its_version) > rdb::version) return Restored::unverified;
  const auto checksum = rdb::Reader(payload.substr(checked.size())).little(checksum_bytes);
  if (static_cast<uint64_t>(*checksum) != crc64(checked)) return Restored::unverified;
  // As for Redis, a string may reach into the version and the checksum.
  rdb::Reader reader(payload);
  const auto type = reader.byte();
  const bool right = type && *type == rdb::string_type;
  const auto restored = right ? reader.string(most_bytes, made) : std::nullopt;
  if (!restored) return Restored::malformed;
  value = *restored;
  return Restored::ok;
}

}  // namespace isotherm::net
