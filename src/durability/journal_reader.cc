#include "durability/journal_reader.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <iterator>

#include "base/hash.h"
#include "base/seed.h"
#include "base/worker_pool.h"
#include "isotherm/batch.h"

namespace isotherm {

namespace {

// They lie in the order in which they were written, and are read in that of their hashes.
void prefetch(const RecordHeader& record) {
  constexpr size_t line = 64;
  const auto* const at = reinterpret_cast<const char*>(&record);
  __builtin_prefetch(at);
  __builtin_prefetch(at + line);
}

}  // namespace

JournalReader::JournalReader(const std::string& folder, const std::string& name, uint32_t threads)
    : base_(folder + "/" + name), threads_(std::max(1u, threads)), parts_(threads_) {
  if (!std::filesystem::exists(manifest_path(base_))) {
    check_names(folder, name);
    manifest_.store = draw_seed();
    manifest_.first = 1;
    return;
  }
  manifest_ = JournalFile(manifest_path(base_)).manifest();
  found_ = true;
  check_names(folder, name);
  for (uint64_t number = manifest_.first; number <= manifest_.last; ++number) {
    segments_.emplace_back().file = map_segment(number);
    if (number > manifest_.first) keep_until(segments_.back().header().first_lsn);
  }
  last_version_ = manifest_.base.version;
  read_segments();
}

JournalReader::~JournalReader() = default;

std::unique_ptr<JournalFile> JournalReader::map_segment(uint64_t number) const {
  const std::string path = segment_path(base_, number);
  if (!std::filesystem::exists(path)) fail_as_damaged(path + " is missing");
  auto file = std::make_unique<JournalFile>(path);
  const char* const damage = file->damage_of_segment(manifest_.store, number);
  if (damage != nullptr) fail_as_damaged(path + " " + damage);
  return file;
}

// Of the last segment but one, behind which nothing is before the next one's first record.
void JournalReader::keep_until(uint64_t next_lsn) {
  JournalFile& mapping = *std::prev(segments_.end(), 2)->file;
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
    const JournalFile mapping(entry.path().string());
    const auto& header = mapping.header<SegmentHeader>();
    const std::string_view rest = mapping.text().substr(sizeof header);
    const bool is_next = number == (found_ ? manifest_.last + 1 : 1) && header.number == number;
    if (!is_next || find_block(rest, header.first_lsn, header.store) != nullptr) {
      mapping.fail(found_ ? "is not known to the manifest" : "has no manifest beside it");
    }
    if (found_ && header.store != manifest_.store) mapping.fail("belongs to another journal");
  }
}

const SegmentHeader& JournalReader::Segment::header() const {
  return file->header<SegmentHeader>();
}

// Each by one thread, which has one place for the entries of all that it reads; what is wrong is
// said in their order. Then each part by one.
void JournalReader::read_segments() {
  constexpr uint64_t worth_threads = 4 << 20;
  constexpr uint64_t part_bytes = 4 << 20;
  constexpr uint64_t most_parts = 16;  // for a thread
  uint64_t bytes = 0;
  for (const Segment& segment : segments_) bytes += segment.file->written_bytes();
  parts_.resize(threads_ * std::clamp<uint64_t>(bytes / part_bytes / threads_, 1, most_parts));
  WorkerPool pool(bytes < worth_threads ? 1 : threads_);
  std::vector<Parts> found(pool.threads(), Parts(parts()));
  pool.run(static_cast<uint32_t>(segments_.size()),
           [&](uint32_t index, uint32_t thread) { read_segment(index, found[thread]); });
  for (size_t index = 0; index < segments_.size(); ++index) take_in(index);
  pool.run(parts(), [&](uint32_t part, uint32_t) { sort_part(part, found); });
}

// As far as its blocks can be read, and no further than the next one's first.
void JournalReader::read_segment(size_t index, Parts& found) {
  Segment& segment = segments_[index];
  segment.end_lsn = segment.header().first_lsn;
  segment.last_version = segment.header().first_version;
  const bool is_last = index + 1 == segments_.size();
  const uint64_t end = is_last ? ~uint64_t{0} : segments_[index + 1].header().first_lsn;
  std::string_view rest = segment.file->text().substr(sizeof(SegmentHeader));
  while (segment.end_lsn < end) {
    const BlockHeader* const block = find_block(rest, segment.end_lsn, manifest_.store);
    if (block == nullptr || !note_block(block->body(), segment, found)) break;
    rest.remove_prefix(sizeof *block + block->bytes);
    segment.end_lsn = block->end_lsn();
  }
  segment.unread = rest.size();
}

bool JournalReader::note_block(std::string_view body, Segment& segment, Parts& found) const {
  while (const RecordHeader* const record = first_record(body)) {
    segment.has_unknown = !is_known_record(*record);
    if (segment.has_unknown) return false;
    note(*record, segment, found);
    body.remove_prefix(record_bytes(record->key_bytes, record->value_bytes));
  }
  return body.empty();
}

// What the base has told of counts no more.
void JournalReader::note(const RecordHeader& record, Segment& segment, Parts& found) const {
  ++segment.records;
  segment.last_version = std::max(segment.last_version, record.version);
  if (record.op == RecordOp::mark || record.version <= manifest_.base.version) return;
  if (record.op == RecordOp::flush) {
    return note_flush(segment.flushed, record.database, record.version);
  }
  const bool is_put = record.op == RecordOp::put && record.expiry == no_expiry;
  if (!is_put) ++segment.unlike_puts;
  if (segment.databases.empty() || *segment.databases.begin() != record.database) {
    segment.databases.insert(record.database);
  }
  const uint64_t hash = hash_bytes(record.key(), record.database);
  found[hash % found.size()].push_back({hash, &record});
}

void JournalReader::note_flush(std::map<uint32_t, uint64_t>& flushed, uint32_t database,
                               uint64_t version) {
  uint64_t& last = flushed[database];
  last = std::max(last, version);
}

// Behind those before it.
void JournalReader::take_in(size_t index) {
  const Segment& segment = segments_[index];
  const JournalFile& file = *segment.file;
  if (index == 0) {
    first_lsn_ = segment.header().first_lsn;
    if (manifest_.first == 1 && first_lsn_ != 0) file.fail("does not begin where the journal does");
  }
  end_lsn_ = segment.end_lsn;
  last_version_ = std::max(last_version_, segment.last_version);
  records_ += segment.records;
  unlike_puts_ += segment.unlike_puts;
  databases_.insert(segment.databases.begin(), segment.databases.end());
  for (const auto& [database, version] : segment.flushed) note_flush(flushed_, database, version);
  const size_t read = file.text().size() - segment.unread;
  if (segment.has_unknown) {
    file.fail("has a record that this version cannot read, in the block at byte " +
              std::to_string(read));
  }
  if (index + 1 == segments_.size()) return end_with(file.text().substr(read));
  if (end_lsn_ != segments_[index + 1].header().first_lsn) fail_as_damaged(segment, read);
}

// The last segment, behind its last block that can be read.
void JournalReader::end_with(std::string_view rest) {
  const JournalFile& file = *segments_.back().file;
  const uint64_t begin = file.text().size() - rest.size();
  const uint64_t written_end = std::max(begin, file.written_bytes());
  torn_bytes_ = bytes_before_zeros(rest.substr(0, written_end - begin));
  used_bytes_ = begin + torn_bytes_;
  if (is_damage(rest, torn_bytes_, end_lsn_)) fail_as_damaged(segments_.back(), begin);
}

void JournalReader::fail_as_damaged(const std::string& what) const {
  throw JournalError("journal: " + what + "; isotherm-check --repair " + base_ +
                     " says what can be kept");
}

void JournalReader::fail_as_damaged(const Segment& segment, size_t at) const {
  fail_as_damaged(segment_path(base_, segment.header().number) + " is damaged at byte " +
                  std::to_string(at) + ": a record that was on disk cannot be read");
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

std::vector<uint32_t> JournalReader::flushed() const {
  std::vector<uint32_t> databases;
  for (const auto& [database, version] : flushed_) databases.push_back(database);
  return databases;
}

// Of what all threads have found; where that was one, it stays where it is.
void JournalReader::sort_part(uint32_t part, std::vector<Parts>& found) {
  size_t count = 0;
  for (const Parts& its : found) count += its[part].size();
  std::vector<Entry>& all = parts_[part];
  all = std::move(found.front()[part]);
  all.reserve(count);
  for (size_t thread = 1; thread < found.size(); ++thread) {
    const std::vector<Entry> its = std::move(found[thread][part]);
    all.insert(all.end(), its.begin(), its.end());
  }
  std::sort(all.begin(), all.end(), [](const Entry& a, const Entry& b) { return a.hash < b.hash; });
  uint64_t hashes = 0;
  for (size_t i = 0; i < all.size(); ++i) hashes += i == 0 || all[i].hash != all[i - 1].hash;
  hashes_.fetch_add(hashes, std::memory_order_relaxed);
}

std::map<uint32_t, uint64_t> JournalReader::keys_at_least() const {
  if (databases_.size() != 1 || !flushed_.empty() || hashes_ <= unlike_puts_) return {};
  return {{*databases_.begin(), hashes_ - unlike_puts_}};
}

bool JournalReader::is_flushed(const RecordHeader& record) const {
  const auto flush = flushed_.find(record.database);
  return flush != flushed_.end() && record.version <= flush->second;
}

void JournalReader::read(uint32_t part, const Visit& visit) const {
  read(
      part, visit, [](uint32_t, std::string_view) {}, [](const ValueParts&, int64_t) {});
}

void JournalReader::read(const Visit& visit) const {
  for (uint32_t part = 0; part < parts(); ++part) read(part, visit);
}

void JournalReader::read(uint32_t part, const Visit& visit, const VisitErased& erased,
                         const VisitParts& parts_alone) const {
  constexpr size_t ahead = 16;
  const std::vector<Entry>& entries = parts_[part];
  std::vector<Entry> group, others;  // of one hash
  ValueParts parts;
  std::string text;
  for (size_t i = 0; i < entries.size();) {
    for (const uint64_t hash = entries[i].hash; i < entries.size() && entries[i].hash == hash;
         ++i) {
      if (i + ahead < entries.size()) prefetch(*entries[i + ahead].record);
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
  for (const Segment& segment : segments_) lsns.push_back(segment.header().first_lsn);
  return lsns;
}

std::string JournalReader::path_of_base() const {
  return manifest_.base.number == 0 ? std::string() : base_path(base_, manifest_.base.number);
}

}  // namespace isotherm
