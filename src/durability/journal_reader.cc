#include "durability/journal_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <unordered_map>

#include "base/hash.h"
#include "base/seed.h"
#include "durability/mapped_file.h"

namespace isotherm {

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
};

JournalReader::JournalReader(const std::string& folder, const std::string& name, uint32_t parts)
    : base_(folder + "/" + name), parts_(parts) {
  if (!std::filesystem::exists(manifest_path(base_))) {
    check_names(folder, name);
    manifest_.store = draw_seed();
    manifest_.first = 1;
    return;
  }
  manifest_ = Mapping(manifest_path(base_)).header<Manifest>();
  found_ = true;
  check_names(folder, name);
  for (uint64_t number = manifest_.first; number <= manifest_.last; ++number) {
    mappings_.push_back(map_segment(number));
  }
  for (size_t i = 0; i < mappings_.size(); ++i) read_segment(i);
}

JournalReader::~JournalReader() = default;

std::unique_ptr<JournalReader::Mapping> JournalReader::map_segment(uint64_t number) const {
  auto mapping = std::make_unique<Mapping>(segment_path(base_, number));
  const auto& header = mapping->header<SegmentHeader>();
  if (header.store != manifest_.store) mapping->fail("belongs to another journal");
  if (header.number != number) mapping->fail("has the number of another segment");
  return mapping;
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
    if (error != std::errc() || stop != end) continue;
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
  if (mapping.text().size() < header.bytes) mapping.fail("is truncated");
  std::string_view rest = mapping.text().substr(sizeof header);
  while (end_lsn_ < end) {
    const BlockHeader* const block = find_block(rest, end_lsn_, manifest_.store);
    if (block == nullptr) break;
    std::string_view body = block->body();
    while (const RecordHeader* const record = first_record(body)) {
      note(*record);
      body.remove_prefix(record_bytes(record->key_bytes, record->value_bytes));
    }
    if (!body.empty()) break;
    rest.remove_prefix(sizeof *block + block->bytes);
    end_lsn_ = block->end_lsn();
  }
  if (is_last ? is_damage(rest, end_lsn_) : end_lsn_ != end) {
    mapping.fail("is damaged at byte " + std::to_string(mapping.text().size() - rest.size()) +
                 ": a record that was on disk cannot be read");
  }
  if (!is_last) return;
  const size_t last = rest.find_last_not_of('\0');
  torn_bytes_ = last == std::string_view::npos ? 0 : last + 1;
  used_bytes_ = mapping.text().size() - rest.size() + torn_bytes_;
}

// Whether a block behind says that what should be at `lsn` was on disk.
bool JournalReader::is_damage(std::string_view rest, uint64_t lsn) const {
  for (uint64_t at = 8; at + sizeof(BlockHeader) <= rest.size(); at += 8) {
    uint32_t magic = 0;
    std::memcpy(&magic, rest.data() + at + offsetof(BlockHeader, magic), sizeof magic);
    if (magic != BlockHeader::right_magic) continue;
    const BlockHeader* const block = find_block(rest.substr(at), lsn + at, manifest_.store);
    if (block != nullptr && block->synced > lsn) return true;
  }
  return false;
}

void JournalReader::note(const RecordHeader& record) {
  ++records_;
  last_version_ = std::max(last_version_, record.version);
  if (record.op == RecordOp::mark) return;
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

void JournalReader::read(uint32_t part, const Visit& visit) const {
  read(part, visit, [](uint32_t, std::string_view) {});
}

void JournalReader::read(uint32_t part, const Visit& visit, const VisitErased& erased) const {
  struct Key {
    uint64_t hash;
    uint32_t database;
    std::string_view key;
    bool operator==(const Key& other) const {
      return database == other.database && key == other.key;
    }
  };
  struct Hash {
    size_t operator()(const Key& key) const { return key.hash; }
  };
  struct Newest {
    const RecordHeader* value = nullptr;  // put or erase
    const RecordHeader* expiry = nullptr;
  };
  std::unordered_map<Key, Newest, Hash> items;
  for (const Entry& entry : parts_[part]) {
    const RecordHeader& record = *entry.record;
    const auto flush = flushed_.find(record.database);
    if (flush != flushed_.end() && record.version <= flush->second) continue;
    Newest& newest = items[{entry.hash, record.database, record.key()}];
    const RecordHeader*& its = record.op == RecordOp::expiry ? newest.expiry : newest.value;
    if (its == nullptr || its->version < record.version) its = &record;
  }
  for (const auto& [key, newest] : items) {
    if (newest.value == nullptr) continue;
    if (newest.value->op != RecordOp::put) {
      erased(key.database, key.key);
      continue;
    }
    const bool later = newest.expiry != nullptr && newest.expiry->version > newest.value->version;
    visit(*newest.value, (later ? newest.expiry : newest.value)->expiry);
  }
}

}  // namespace isotherm
