#include "durability/journal_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "base/hash.h"
#include "base/seed.h"
#include "base/worker_pool.h"
#include "durability/mapped_file.h"
#include "isotherm/batch.h"

namespace isotherm {

namespace {

// The bytes up to the last one that is not zero. A file is mostly zeros that were reserved, which a
// library function passes over by pages.
size_t written_bytes(std::string_view text) {
  constexpr size_t page = 4096;
  static constexpr char zeros[page] = {};
  while (text.size() >= page && std::memcmp(text.data() + text.size() - page, zeros, page) == 0) {
    text.remove_suffix(page);
  }
  while (!text.empty() && text.back() == '\0') text.remove_suffix(1);
  return text.size();
}

}  // namespace

// A file of the journal.
class JournalReader::Mapping : public MappedFile<JournalError> {
 public:
  explicit Mapping(const std::string& path) : MappedFile("journal", path) {}

  // What the file begins with, which has to be whole.
  template <class Header>
  const Header& header() const {
    if (text().size() < sizeof(Header)) fail("is too short for a journal");
    const auto* header = reinterpret_cast<const Header*>(text().data());
    if (const char* problem = header_problem(*header)) fail(problem);
    return *header;
  }
  Manifest manifest() const {
    if (text().size() != sizeof(ManifestOfSegments)) return header<Manifest>();
    Manifest its{};
    static_cast<ManifestOfSegments&>(its) = header<ManifestOfSegments>();
    return its;
  }
};

JournalReader::JournalReader(const std::string& folder, const std::string& name, uint32_t parts)
    : base_(folder + "/" + name), parts_(parts) {
  if (!std::filesystem::exists(manifest_path(base_))) {
    check_names(folder, name);
    manifest_.store = draw_seed();
    manifest_.first = 1;
    return;
  }
  manifest_ = Mapping(manifest_path(base_)).manifest();
  found_ = true;
  check_names(folder, name);
  for (uint64_t number = manifest_.first; number <= manifest_.last; ++number) {
    mappings_.push_back(map_segment(number));
    if (number > manifest_.first) keep_until(mappings_.back()->header<SegmentHeader>().first_lsn);
  }
  last_version_ = manifest_.base.version;
  for (size_t i = 0; i < mappings_.size(); ++i) read_segment(i);
  sort();
}

JournalReader::~JournalReader() = default;

std::unique_ptr<JournalReader::Mapping> JournalReader::map_segment(uint64_t number) const {
  auto mapping = std::make_unique<Mapping>(segment_path(base_, number));
  const auto& header = mapping->header<SegmentHeader>();
  if (header.store != manifest_.store) mapping->fail("belongs to another journal");
  if (header.number != number) mapping->fail("has the number of another segment");
  if (mapping->text().size() < header.bytes) mapping->fail("is truncated");
  return mapping;
}

// Of the last segment but one, behind which nothing is before the next one's first record.
void JournalReader::keep_until(uint64_t next_lsn) {
  Mapping& mapping = **std::prev(mappings_.end(), 2);
  const uint64_t first_lsn = mapping.header<SegmentHeader>().first_lsn;
  if (next_lsn >= first_lsn) mapping.keep(sizeof(SegmentHeader) + (next_lsn - first_lsn));
}

// A segment that the manifest does not know is the next, without a record, as a crash leaves it.
void JournalReader::check_names(const std::string& folder, const std::string& name) {
  oldest_ = manifest_.first;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string file = entry.path().filename().string();
    if (!file.starts_with(name + ".")) continue;
    const char* const begin = file.data() + name.size() + 1;
    const char* const end = file.data() + file.size();
    uint64_t number = 0;
    const auto [stop, error] = std::from_chars(begin, end, number);
    if (error != std::errc()) continue;
    // One that was never named, or is not any more, goes, too.
    if (found_ && std::string_view(stop, end).starts_with(".base")) {
      oldest_ = std::min(oldest_, number);
    }
    if (stop != end) continue;
    // One that was dropped may be there still.
    if (found_ && number <= manifest_.last) {
      oldest_ = std::min(oldest_, number);
      continue;
    }
    const Mapping mapping(entry.path().string());
    const auto& header = mapping.header<SegmentHeader>();
    const std::string_view rest = mapping.text().substr(sizeof header);
    const bool is_next = number == (found_ ? manifest_.last + 1 : 1) && header.number == number;
    if (!is_next || find_block(rest, header.first_lsn, header.store) != nullptr) {
      mapping.fail(found_ ? "is not known to the manifest" : "has no manifest beside it");
    }
    if (found_ && header.store != manifest_.store) mapping.fail("belongs to another journal");
  }
}

void JournalReader::read_segment(size_t index) {
  const Mapping& mapping = *mappings_[index];
  const auto& header = mapping.header<SegmentHeader>();
  const bool is_last = index + 1 == mappings_.size();
  if (index == 0 ? manifest_.first == 1 && header.first_lsn != 0 : header.first_lsn != end_lsn_) {
    mapping.fail("does not begin where the one before it ends");
  }
  end_lsn_ = header.first_lsn;
  if (index == 0) first_lsn_ = end_lsn_;
  last_version_ = std::max(last_version_, header.first_version);
  const uint64_t end =
      is_last ? ~uint64_t{0} : mappings_[index + 1]->header<SegmentHeader>().first_lsn;
  std::string_view rest = mapping.text().substr(sizeof header);
  while (end_lsn_ < end) {
    const BlockHeader* const block = find_block(rest, end_lsn_, manifest_.store);
    if (block == nullptr) break;
    std::string_view body = block->body();
    while (const RecordHeader* const record = first_record(body)) {
      if (!is_known_record(*record)) {
        mapping.fail(
            "has a record that this version cannot read, before byte " +
            std::to_string(mapping.text().size() - rest.size() + sizeof *block + block->bytes));
      }
      note(*record);
      body.remove_prefix(record_bytes(record->key_bytes, record->value_bytes));
    }
    if (!body.empty()) break;
    rest.remove_prefix(sizeof *block + block->bytes);
    end_lsn_ = block->end_lsn();
  }
  const size_t written = is_last ? written_bytes(rest) : 0;
  if (is_last ? is_damage(rest, written, end_lsn_) : end_lsn_ != end) {
    mapping.fail("is damaged at byte " + std::to_string(mapping.text().size() - rest.size()) +
                 ": a record that was on disk cannot be read");
  }
  if (!is_last) return;
  torn_bytes_ = written;
  used_bytes_ = mapping.text().size() - rest.size() + torn_bytes_;
}

// Whether a block behind says that what should be at `lsn` was on disk. The magic number of a block
// is not zero, so none begins behind the bytes of `rest` that were written.
bool JournalReader::is_damage(std::string_view rest, size_t written, uint64_t lsn) const {
  for (uint64_t at = 8; at < written && at + sizeof(BlockHeader) <= rest.size(); at += 8) {
    uint32_t magic = 0;
    std::memcpy(&magic, rest.data() + at + offsetof(BlockHeader, magic), sizeof magic);
    if (magic != BlockHeader::right_magic) continue;
    const BlockHeader* const block = find_block(rest.substr(at), lsn + at, manifest_.store);
    if (block != nullptr && block->synced > lsn) return true;
  }
  return false;
}

// What the base has told of counts no more.
void JournalReader::note(const RecordHeader& record) {
  ++records_;
  last_version_ = std::max(last_version_, record.version);
  if (record.op == RecordOp::mark || record.version <= manifest_.base.version) return;
  if (record.op == RecordOp::flush) {
    uint64_t& version = flushed_[record.database];
    version = std::max(version, record.version);
    return;
  }
  const uint64_t hash = hash_bytes(record.key(), record.database);
  parts_[hash % parts_.size()].push_back({hash, &record});
}

std::vector<uint32_t> JournalReader::flushed() const {
  std::vector<uint32_t> databases;
  for (const auto& [database, version] : flushed_) databases.push_back(database);
  return databases;
}

void JournalReader::sort() {
  constexpr uint64_t worth_threads = 1 << 16;
  const auto sort_part = [this](uint32_t part, uint32_t) {
    std::sort(parts_[part].begin(), parts_[part].end(),
              [](const Entry& a, const Entry& b) { return a.hash < b.hash; });
  };
  const auto parts = static_cast<uint32_t>(parts_.size());
  WorkerPool(records_ < worth_threads ? 1 : parts).run(parts, sort_part);
}

bool JournalReader::is_flushed(const RecordHeader& record) const {
  const auto flush = flushed_.find(record.database);
  return flush != flushed_.end() && record.version <= flush->second;
}

void JournalReader::read(uint32_t part, const Visit& visit) const {
  read(
      part, visit, [](uint32_t, std::string_view) {}, [](const ValueParts&, int64_t) {});
}

void JournalReader::read(uint32_t part, const Visit& visit, const VisitErased& erased,
                         const VisitParts& parts_alone) const {
  const std::vector<Entry>& entries = parts_[part];
  std::vector<Entry> group, others;  // of one hash
  ValueParts parts;
  std::string text;
  for (size_t i = 0; i < entries.size();) {
    for (const uint64_t hash = entries[i].hash; i < entries.size() && entries[i].hash == hash;
         ++i) {
      if (!is_flushed(*entries[i].record)) group.push_back(entries[i]);
    }
    while (!group.empty()) {
      const RecordHeader& one = *group.front().record;
      Newest newest;
      parts.clear();
      for (const Entry& entry : group) {
        if (entry.is_of(one.database, one.key())) {
          newest.note(*entry.record, parts);
        } else {
          others.push_back(entry);
        }
      }
      group.swap(others);
      others.clear();
      parts.keep_behind(newest.value != nullptr ? newest.value->version : 0);
      if (parts.empty() && newest.value == nullptr) continue;
      if (newest.value == nullptr && manifest_.base.is_there()) {
        parts_alone(parts, newest.expiry_behind(parts.last()));
        continue;
      }
      const RecordHeader* const its =
          parts.empty() ? newest.value : put_together(newest.value, parts, text);
      if (its == nullptr) {
        check_may_lack(parts, newest.expiry_behind(parts.last()));
      } else if (its->op != RecordOp::erase) {
        visit(*its, newest.expiry_behind(*its));
        continue;
      }
      erased(one.database, one.key());
    }
  }
}

// The record of the whole value, in `text`; null: it is not the one that the parts were made of.
const RecordHeader* JournalReader::put_together(const RecordHeader* put, const ValueParts& parts,
                                                std::string& text) {
  if (put == nullptr || put->op != RecordOp::put || parts.base() > put->version) return nullptr;
  const size_t value_at = sizeof(RecordHeader) + put->key_bytes;
  text.assign(reinterpret_cast<const char*>(put), value_at + put->value_bytes);
  if (!parts.apply(text, value_at)) return nullptr;
  RecordHeader head = parts.last();
  head.value_bytes = text.size() - value_at;
  std::memcpy(text.data(), &head, sizeof head);
  return reinterpret_cast<const RecordHeader*>(text.data());
}

// What had expired is not written anew, and not part of a snapshot or a tree, though parts of it
// may be in segments that stay.
void JournalReader::check_may_lack(const ValueParts& parts, int64_t expiry) {
  constexpr size_t most_shown = 40;
  if (expiry != no_expiry) return;
  throw JournalError("journal: it has changes of the value of '" +
                     std::string(parts.last().key().substr(0, most_shown)) +
                     "', but not the value that they were made of");
}

bool JournalReader::keeps(uint32_t database, std::string_view key, int64_t& expiry,
                          ValueParts& parts) const {
  parts.clear();
  if (flushed_.contains(database)) return false;
  const uint64_t hash = hash_bytes(key, database);
  const std::vector<Entry>& entries = parts_[hash % parts_.size()];
  auto entry = std::lower_bound(entries.begin(), entries.end(), hash,
                                [](const Entry& its, uint64_t than) { return its.hash < than; });
  Newest newest;
  for (; entry != entries.end() && entry->hash == hash; ++entry) {
    if (entry->is_of(database, key)) newest.note(*entry->record, parts);
  }
  parts.keep_behind(0);
  if (!parts.empty()) {
    expiry = newest.expiry_behind(parts.last());
  } else if (newest.expiry != nullptr) {
    expiry = newest.expiry->expiry;
  }
  return newest.value == nullptr;
}

std::vector<uint64_t> JournalReader::segment_lsns() const {
  std::vector<uint64_t> lsns;
  for (const auto& mapping : mappings_) {
    lsns.push_back(mapping->header<SegmentHeader>().first_lsn);
  }
  return lsns;
}

std::string JournalReader::path_of_base() const {
  return manifest_.base.number == 0 ? std::string() : base_path(base_, manifest_.base.number);
}

}  // namespace isotherm
