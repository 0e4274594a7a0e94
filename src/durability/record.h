// What a journal consists of: a manifest, and segments of blocks.
//
//   appendfilename.manifest   Manifest: which segments there are, and which base
//   appendfilename.7.base     a snapshot (durability/rdb_format.h), if there is a base
//   appendfilename.7          SegmentHeader, blocks one behind the other, zeros to the end
//   block                     BlockHeader, records one behind the other
//   record                    RecordHeader, key, value, zeros up to a multiple of 8 bytes
//   value of a part           RecordPart, the bytes that are others from now on
//
// A block has the changes of one batch, or of a part of one that has no groups, and is read whole
// or not at all: so is what takes effect together. Its LSN is the number of bytes of all blocks
// before it, of all segments, so it says where the block lies, and no block can stand in the place
// of another. Sums go on from the store's id, which is drawn: a value that a client sends cannot
// pass for a block of this store.
//
// The torn tail and the corrupt middle. Each block says up to where all was on disk when it was
// made (`synced`). Where no block can be read, but one behind it says that this was on disk, the
// file is damaged; otherwise the journal was torn there by the end of its writer. With `everysec` a
// mark behind each sync says so, whatever comes later.
//
// The base has what the records up to a version had told of; these count no more, wherever they
// are, and only the records behind them do. So a journal may begin anywhere before the moment that
// its base is of, and its first segments may go.
//
// Of an item's MetaState (items/meta_state.h) all is kept but the time: an item that is stale, or
// that somebody is to bring a value for, is so after a start, too. What is set in place, as that
// somebody has won, gets no record; then another one wins.
//
// Parts. Of a long value of which little has changed a record has the part alone. It is written
// only where the record of the value that it was made of is in a block before, or where the item
// was there when the journal was begun or gone on with: so whatever a crash takes away, what a part
// needs is in the records, in the base, or in the files of the tree. These may have a later value
// of the key; then all records behind that are there as well, and since a part says what bytes are,
// and not how they have changed, the same parts once more lead to the same value.
//
// Lengths are checked before they are used, in 64 bits.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "base/broken.h"
#include "base/crc32c.h"

namespace isotherm {

enum class RecordOp : uint8_t {
  put = 1,  // the key has this value, flags and expiry
  erase,    // it is gone: by a request, by eviction, or because it expired
  expiry,   // its expiry is this from now on
  flush,    // all keys of the database that have older versions are gone
  mark,     // nothing: it is there for what its block says of those before
  part,     // some bytes of its value are others from now on, and so are its flags and expiry
};

struct RecordHeader {
  uint64_t version;
  int64_t expiry;
  uint64_t value_bytes;
  uint32_t key_bytes;
  uint32_t database;
  uint32_t flags;
  RecordOp op;
  uint8_t type;    // ValueType
  uint16_t state;  // put, part: what memcached knows of it, as far as it is kept; 0: nothing

  const char* body() const { return reinterpret_cast<const char*>(this) + sizeof *this; }
  std::string_view key() const { return {body(), key_bytes}; }
  std::string_view value() const { return {body() + key_bytes, value_bytes}; }
};
static_assert(sizeof(RecordHeader) == 40);

// The value before is cut, or gets zeros behind it, so that it has `value_bytes`; then the bytes
// behind this head are written to it.
struct RecordPart {
  uint64_t base;  // the version of the value that it was made of; 0: it was there at a start
  uint64_t at;
  uint64_t value_bytes;

  // Of the value of a record, which has it.
  static RecordPart of(std::string_view value) {
    RecordPart its{};
    std::memcpy(&its, value.data(), sizeof its);
    return its;
  }
  static std::string_view bytes_of(std::string_view value) {
    return value.substr(sizeof(RecordPart));
  }
};
static_assert(sizeof(RecordPart) == 24);

struct BlockHeader {
  static constexpr uint32_t right_magic = 0x4A42'4C4B;

  uint32_t crc;  // of what follows in the header
  uint32_t magic;
  uint64_t lsn;
  uint64_t bytes;   // of the records
  uint64_t synced;  // all blocks before this LSN were on disk
  uint32_t body_crc;
  uint32_t zero;

  std::string_view body() const {
    return {reinterpret_cast<const char*>(this) + sizeof *this, bytes};
  }
  uint64_t end_lsn() const { return lsn + sizeof *this + bytes; }
};
static_assert(sizeof(BlockHeader) == 40);

struct SegmentHeader {
  static constexpr char right_magic[8] = {'I', 'S', 'O', 'J', 'R', 'N', 'L', '1'};
  static constexpr uint32_t right_format = 2;
  static constexpr uint32_t oldest_format = 1;  // the same without parts

  char magic[8];
  uint32_t crc;  // of all that follows
  uint32_t format;
  uint64_t store;
  uint64_t number;
  uint64_t first_lsn;
  uint64_t first_version;  // no version that no record tells of is larger, when it was made
  uint64_t bytes;          // of the file
  uint64_t zero;
};
static_assert(sizeof(SegmentHeader) == 64);

// As those who wrote no base yet have left it.
struct ManifestOfSegments {
  static constexpr char right_magic[8] = {'I', 'S', 'O', 'M', 'A', 'N', 'I', '1'};
  static constexpr uint32_t right_format = 1;
  static constexpr uint32_t oldest_format = 1;

  char magic[8];
  uint32_t crc;
  uint32_t format;
  uint64_t store;
  uint64_t first;  // the numbers of its segments; one more may lie there, without records
  uint64_t last;
};

// What a start begins with, before the records. Where there is no file, `sum` says whether what was
// before them is in the files of a tree.
struct JournalBase {
  uint64_t number;   // of the file's name; 0: there is none
  uint64_t version;  // that records up to which do not count
  uint64_t sum;      // that the file ends with
  uint64_t bytes;    // of the file

  static constexpr JournalBase in_tree() { return {0, 0, 1, 0}; }
  constexpr bool is_in_tree() const { return number == 0 && sum == 1; }
  constexpr bool is_there() const { return number != 0 || is_in_tree(); }
  // Whether a snapshot (durability/rdb_file.h) is what it tells of.
  template <class Snapshot>
  bool is(const Snapshot& its) const {
    return its.sum() == sum && its.bytes() == bytes && its.last_version() == version;
  }
};

struct Manifest : ManifestOfSegments {
  static constexpr uint32_t right_format = 2;
  static constexpr uint32_t oldest_format = 2;

  JournalBase base;
};
static_assert(sizeof(Manifest) == sizeof(ManifestOfSegments) + sizeof(JournalBase));

constexpr uint64_t record_bytes(uint64_t key_bytes, uint64_t value_bytes) {
  return (sizeof(RecordHeader) + key_bytes + value_bytes + 7) / 8 * 8;
}

// Writes a record to `to`, which has room for it; its lengths are those of `key` and `value`.
inline void put_record(char* to, RecordHeader record, std::string_view key,
                       std::string_view value) {
  record.key_bytes = static_cast<uint32_t>(key.size());
  record.value_bytes = value.size();
  std::memset(to + record_bytes(key.size(), value.size()) - 8, 0, 8);
  std::memcpy(to, &record, sizeof record);
  to += sizeof record;
  if (!key.empty()) std::memcpy(to, key.data(), key.size());
  if (!value.empty()) std::memcpy(to + key.size(), value.data(), value.size());
}

// The same of a part of a value.
constexpr uint64_t part_record_bytes(uint64_t key_bytes, uint64_t bytes) {
  return record_bytes(key_bytes, sizeof(RecordPart) + bytes);
}
inline void put_part_record(char* to, RecordHeader record, std::string_view key,
                            const RecordPart& part, std::string_view bytes) {
  record.key_bytes = static_cast<uint32_t>(key.size());
  record.value_bytes = sizeof part + bytes.size();
  std::memset(to + part_record_bytes(key.size(), bytes.size()) - 8, 0, 8);
  std::memcpy(to, &record, sizeof record);
  to += sizeof record;
  to += key.copy(to, key.size());
  std::memcpy(to, &part, sizeof part);
  bytes.copy(to + sizeof part, bytes.size());
}

inline uint32_t block_crc(const BlockHeader& block, uint64_t store) {
  constexpr size_t from = sizeof block.crc;
  const uint32_t salt = crc32c(0, &store, sizeof store);
  return crc32c(salt, reinterpret_cast<const char*>(&block) + from, sizeof block - from);
}

// The block that lies in `bytes` and belongs to `lsn`; null where there is none.
inline const BlockHeader* find_block(std::string_view bytes, uint64_t lsn, uint64_t store) {
  if (bytes.size() < sizeof(BlockHeader)) return nullptr;
  const auto* const block = reinterpret_cast<const BlockHeader*>(bytes.data());
  if (block->magic != BlockHeader::right_magic || block->lsn != lsn) return nullptr;
  if (block->bytes > bytes.size() - sizeof(BlockHeader) || block->bytes % 8 != 0) return nullptr;
  const bool right = block->crc == block_crc(*block, store) &&
                     block->body_crc == crc32c(0, block->body().data(), block->bytes);
  return right || broken(Rule::checksums) ? block : nullptr;
}

// The record at the front of what is left of a block's body; null where it would reach beyond.
inline const RecordHeader* first_record(std::string_view body) {
  if (body.size() < sizeof(RecordHeader)) return nullptr;
  const auto* const record = reinterpret_cast<const RecordHeader*>(body.data());
  const uint64_t room = body.size() - sizeof(RecordHeader);
  if (record->key_bytes > room || record->value_bytes > room - record->key_bytes) return nullptr;
  return record_bytes(record->key_bytes, record->value_bytes) <= body.size() ? record : nullptr;
}

// Whether it is one that a journal writes; a value's length is one that an item can have.
inline bool is_known_record(const RecordHeader& record) {
  if (record.op != RecordOp::part) return record.op >= RecordOp::put && record.op < RecordOp::part;
  if (record.value_bytes < sizeof(RecordPart)) return false;
  const RecordPart part = RecordPart::of(record.value());
  const uint64_t bytes = record.value_bytes - sizeof part;
  return part.value_bytes <= ~uint32_t{0} && bytes <= part.value_bytes &&
         part.at <= part.value_bytes - bytes;
}

// Of a SegmentHeader or a Manifest.
template <class Header>
uint32_t header_crc(const Header& header) {
  constexpr size_t from = sizeof header.magic + sizeof header.crc;
  return crc32c(0, reinterpret_cast<const char*>(&header) + from, sizeof header - from);
}
template <class Header>
void seal_header(Header& header) {
  std::memcpy(header.magic, Header::right_magic, sizeof header.magic);
  header.format = Header::right_format;
  header.crc = header_crc(header);
}
inline constexpr const char* of_another_version = "has a format of another version";
// Why it is none; null: it is one.
template <class Header>
const char* header_problem(const Header& header) {
  if (std::memcmp(header.magic, Header::right_magic, sizeof header.magic) != 0) {
    return "is not of a journal";
  }
  if (header.crc != header_crc(header)) return "is damaged in its header";
  const bool known =
      Header::oldest_format <= header.format && header.format <= Header::right_format;
  return known ? nullptr : of_another_version;
}

inline std::string manifest_path(const std::string& base) { return base + ".manifest"; }
inline std::string segment_path(const std::string& base, uint64_t number) {
  return base + "." + std::to_string(number);
}
inline std::string base_path(const std::string& base, uint64_t number) {
  return segment_path(base, number) + ".base";
}

}  // namespace isotherm
