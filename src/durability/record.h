// What a journal consists of: a manifest, and segments of records.
//
//   appendfilename.manifest   Manifest: which segments there are
//   appendfilename.7          SegmentHeader, records one behind the other, zeros to the end
//
// A record is a RecordHeader, the key, the value, and zeros up to a multiple of 8 bytes. Its LSN is
// the number of bytes of all records before it, of all segments, so it says where the record lies,
// and no record can stand in the place of another. Sums go on from the store's id, which is drawn:
// a value that a client sends cannot pass for a record of this store.
//
// The torn tail and the corrupt middle. Each record says up to where all was on disk when it was
// made (`synced`). Where no record can be read, but one behind it says that this was on disk, the
// file is damaged; otherwise the journal was torn there by the end of its writer.
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
  mark,     // nothing; the writer ended in order
};

struct RecordHeader {
  static constexpr uint32_t right_magic = 0x4A52'4543;

  uint32_t crc;  // of all that follows
  uint32_t magic;
  uint64_t lsn;
  uint64_t value_bytes;
  uint32_t key_bytes;
  uint32_t database;
  uint64_t version;
  int64_t expiry;
  uint64_t batch;   // the same number: the changes of one batch; 0: of none
  uint64_t synced;  // all records before this LSN were on disk
  uint32_t flags;
  RecordOp op;
  uint8_t type;  // ValueType
  uint16_t zero;

  const char* body() const { return reinterpret_cast<const char*>(this) + sizeof *this; }
  std::string_view key() const { return {body(), key_bytes}; }
  std::string_view value() const { return {body() + key_bytes, value_bytes}; }
};
static_assert(sizeof(RecordHeader) == 72);

struct SegmentHeader {
  static constexpr char right_magic[8] = {'I', 'S', 'O', 'J', 'R', 'N', 'L', '1'};

  char magic[8];
  uint32_t crc;  // of all that follows
  uint32_t format;
  uint64_t store;
  uint64_t number;
  uint64_t first_lsn;
  uint64_t first_version;  // no version that no record tells of is larger, when it was made
  uint64_t zero[2];
};
static_assert(sizeof(SegmentHeader) == 64);

struct Manifest {
  static constexpr char right_magic[8] = {'I', 'S', 'O', 'M', 'A', 'N', 'I', '1'};

  char magic[8];
  uint32_t crc;
  uint32_t format;
  uint64_t store;
  uint64_t first;  // the numbers of its segments; one more may lie there, without records
  uint64_t last;
};
inline constexpr uint32_t journal_format = 1;

constexpr uint64_t record_bytes(uint64_t key_bytes, uint64_t value_bytes) {
  return (sizeof(RecordHeader) + key_bytes + value_bytes + 7) / 8 * 8;
}

inline uint32_t record_crc(const RecordHeader& record, uint64_t store) {
  constexpr size_t from = sizeof record.crc;
  const uint32_t salt = crc32c(0, &store, sizeof store);
  return crc32c(salt, reinterpret_cast<const char*>(&record) + from,
                record_bytes(record.key_bytes, record.value_bytes) - from);
}

// The record that lies in `bytes` and belongs to `lsn`; null where there is none.
inline const RecordHeader* find_record(std::string_view bytes, uint64_t lsn, uint64_t store) {
  if (bytes.size() < sizeof(RecordHeader)) return nullptr;
  const auto* const record = reinterpret_cast<const RecordHeader*>(bytes.data());
  if (record->magic != RecordHeader::right_magic || record->lsn != lsn) return nullptr;
  const uint64_t room = bytes.size() - sizeof(RecordHeader);
  if (record->key_bytes > room || record->value_bytes > room - record->key_bytes) return nullptr;
  if (record_bytes(record->key_bytes, record->value_bytes) > bytes.size()) return nullptr;
  if (record_crc(*record, store) != record->crc && !broken(Rule::checksums)) return nullptr;
  return record;
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
  header.format = journal_format;
  header.crc = header_crc(header);
}
// Why it is none; null: it is one.
template <class Header>
const char* header_problem(const Header& header) {
  if (std::memcmp(header.magic, Header::right_magic, sizeof header.magic) != 0) {
    return "is not of a journal";
  }
  if (header.crc != header_crc(header)) return "is damaged in its header";
  return header.format == journal_format ? nullptr : "has a format of another version";
}

inline std::string manifest_path(const std::string& base) { return base + ".manifest"; }
inline std::string segment_path(const std::string& base, uint64_t number) {
  return base + "." + std::to_string(number);
}

}  // namespace isotherm
