#include "durability/journal_repair.h"

#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <thread>
#include <utility>

#include "base/reason_of.h"
#include "durability/journal_reader.h"
#include "durability/rdb_file.h"

namespace isotherm {
namespace {

// The number of a segment that `file` is of the journal `name`; 0: it is none.
uint64_t number_of_segment(const std::string& file, const std::string& name) {
  if (!file.starts_with(name + ".")) return 0;
  const char* const end = file.data() + file.size();
  uint64_t number = 0;
  const auto [stop, error] = std::from_chars(file.data() + name.size() + 1, end, number);
  return error == std::errc() && stop == end ? number : 0;
}

std::vector<uint64_t> segments_in(const std::string& folder, const std::string& name) {
  std::vector<uint64_t> numbers;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const uint64_t number = number_of_segment(entry.path().filename().string(), name);
    if (number != 0) numbers.push_back(number);
  }
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// The block at the front of `bytes`, wherever in the journal it belongs; null: there is none.
const BlockHeader* find_any_block(std::string_view bytes, uint64_t store) {
  if (bytes.size() < sizeof(BlockHeader)) return nullptr;
  uint64_t lsn = 0;
  std::memcpy(&lsn, bytes.data() + offsetof(BlockHeader, lsn), sizeof lsn);
  return find_block(bytes, lsn, store);
}

uint64_t records_of(std::string_view body) {
  uint64_t records = 0;
  for (; const RecordHeader* const record = first_record(body); ++records) {
    body.remove_prefix(record_bytes(record->key_bytes, record->value_bytes));
  }
  return records;
}

// Also where the one who repairs it is not the one who runs the server.
void keep_owner(const std::string& path, const std::string& like) {
  struct stat status {};
  if (::stat(like.c_str(), &status) != 0) return;
  [[maybe_unused]] const int owned = ::chown(path.c_str(), status.st_uid, status.st_gid);
  constexpr mode_t permissions = 07777;
  ::chmod(path.c_str(), status.st_mode & permissions);
}

}  // namespace

JournalRepair::JournalRepair(std::string folder, const std::string& name, Files& files)
    : files_(files),
      folder_(std::move(folder)),
      name_(name),
      base_(folder_ + "/" + name),
      manifest_(JournalFile(manifest_path(base_)).manifest()),
      number_(manifest_.first),
      last_version_(manifest_.base.version) {
  check_base();
  if (is_readable()) return;
  if (manifest_.base.is_in_tree()) {
    throw JournalError(
        "journal: " + base_ +
        " is damaged, and what was stored before its first record is in the files of a tree, which "
        "may have changes that are behind the damage: what is before it cannot be read over them, "
        "so nothing is repaired. Start the server once with the tree and without a journal: all "
        "that the tree has taken in is there. Then move the files of this journal away, and start "
        "with a new one");
  }
  find_damage();
}

bool JournalRepair::is_readable() const {
  try {
    const JournalReader reader(folder_, name_, std::thread::hardware_concurrency());
    return true;
  } catch (const JournalError&) {  // whose text may be about a later damage
    return false;
  }
}

void JournalRepair::check_base() const {
  if (manifest_.base.number == 0) return;
  const std::string path = base_path(base_, manifest_.base.number);
  std::string problem = "journal: " + path + " is not the snapshot that it was cut behind";
  try {
    if (manifest_.base.is(RdbFile(path))) return;
  } catch (const RdbError& error) {
    problem = error.what();
  }
  throw JournalError(problem +
                     "; the journal is nothing without this file, so nothing is repaired: put it "
                     "back, or start from another snapshot in a new folder");
}

void JournalRepair::note_damage(uint64_t number, const std::string& what) {
  damage_ = segment_path(base_, number) + " " + what;
}

// Null: nothing of it can be read. One that is truncated has its beginning.
std::unique_ptr<JournalFile> JournalRepair::open(uint64_t number) {
  const std::string path = segment_path(base_, number);
  if (!std::filesystem::exists(path)) {
    note_damage(number, "is missing");
    return nullptr;
  }
  auto file = std::make_unique<JournalFile>(path);
  const char* damage = file->damage_of_segment(manifest_.store, number);
  const bool has_head = damage == nullptr || damage == JournalFile::truncated;
  const bool begins = number == 1 && manifest_.first == 1;
  if (has_head && begins && file->header<SegmentHeader>().first_lsn != 0) {
    damage = "does not begin where the journal does";
  }
  if (damage != nullptr) note_damage(number, damage);
  return damage == nullptr || damage == JournalFile::truncated ? std::move(file) : nullptr;
}

// Where one is noted, it is behind what was read of the segments before; else it is where blocks
// end that should go on.
void JournalRepair::find_damage() {
  std::unique_ptr<JournalFile> next = open(manifest_.first);
  for (uint64_t number = manifest_.first; next != nullptr; ++number) {
    file_ = std::exchange(next, nullptr);
    number_ = number;
    end_lsn_ = file_->header<SegmentHeader>().first_lsn;
    const bool is_truncated = !damage_.empty();
    if (!is_truncated && number < manifest_.last) next = open(number + 1);
    const uint64_t end = next != nullptr ? next->header<SegmentHeader>().first_lsn : ~uint64_t{0};
    read(end);
    if (end_lsn_ == end) continue;
    if (next != nullptr || has_rest()) {
      note_damage(number, "is damaged at byte " + std::to_string(read_));
    }
    break;
  }
  if (!damage_.empty()) return;
  const std::vector<uint64_t> unknown = segments_behind();
  if (unknown.empty()) throw JournalError("journal: " + base_ + " has no damage that is known");
  note_damage(unknown.front(), "is not known to the manifest");
}

// Its blocks, as far as they can be read and are before `until`.
void JournalRepair::read(uint64_t until) {
  std::string_view rest = file_->text().substr(sizeof(SegmentHeader));
  last_version_ = std::max(last_version_, file_->header<SegmentHeader>().first_version);
  while (end_lsn_ < until) {
    const BlockHeader* const block = find_block(rest, end_lsn_, manifest_.store);
    if (block == nullptr || !read_records(block->body())) break;
    rest.remove_prefix(sizeof *block + block->bytes);
    end_lsn_ = block->end_lsn();
  }
  read_ = file_->text().size() - rest.size();
}

// False: the block has something else.
bool JournalRepair::read_records(std::string_view body) {
  while (const RecordHeader* const record = first_record(body)) {
    if (!is_known_record(*record)) {
      throw JournalError("journal: " + segment_path(base_, number_) +
                         " has a record that this version cannot read; repair it with the version "
                         "that has written it");
    }
    last_version_ = std::max(last_version_, record->version);
    body.remove_prefix(record_bytes(record->key_bytes, record->value_bytes));
  }
  return body.empty();
}

// Whether anything was written behind what can be read.
bool JournalRepair::has_rest() const {
  return file_ == nullptr || bytes_before_zeros(file_->text().substr(read_)) != 0;
}

// Also those that the manifest does not name.
std::vector<uint64_t> JournalRepair::segments_behind() const {
  std::vector<uint64_t> numbers = segments_in(folder_, name_);
  std::erase_if(numbers, [this](uint64_t number) { return number <= number_; });
  return numbers;
}

void JournalRepair::run() {
  choose_folder();
  if (!damage_.empty()) {
    std::filesystem::create_directory(unfinished());
    keep_owner(unfinished(), folder_);
    sync_folder(folder_);
    if (has_rest()) copy_aside();
    std::vector<uint64_t> behind = segments_behind();
    for (; !behind.empty(); behind.pop_back()) move_aside(behind.back());
    sync_folder(folder_);
    cut();
    name_segments();
  }
  end_folder();
}

// The one that is unfinished, or the next.
void JournalRepair::choose_folder() {
  for (uint64_t number = 1; rest_folder_.empty(); ++number) {
    const std::string path = base_ + ".damaged-" + std::to_string(number);
    if (!std::filesystem::exists(path)) rest_folder_ = path;
  }
}

void JournalRepair::end_folder() {
  const bool is_there = std::filesystem::exists(unfinished());
  if (!is_there || std::filesystem::is_empty(unfinished())) {
    std::filesystem::remove(unfinished());
    return rest_folder_.clear();
  }
  check(files_.rename(unfinished(), rest_folder_), "name " + rest_folder_);
  sync_folder(folder_);
}

void JournalRepair::move_aside(uint64_t number) {
  const std::string name = "/" + name_ + "." + std::to_string(number);
  if (std::filesystem::exists(unfinished() + name)) {
    throw JournalError("journal: " + unfinished() + name + " is in the way; move it elsewhere");
  }
  check(files_.rename(folder_ + name, unfinished() + name), "move " + folder_ + name);
  sync_folder(unfinished());
}

// Of a repair that was ended behind this there is the same copy.
void JournalRepair::copy_aside() {
  const std::string name = "/" + name_ + "." + std::to_string(number_);
  if (!std::filesystem::exists(folder_ + name)) return;
  const std::string to = unfinished() + name;
  if (std::filesystem::exists(to)) {
    if (JournalFile(to).text() == JournalFile(folder_ + name).text()) return;
    throw JournalError("journal: " + to + " is in the way; move it elsewhere");
  }
  check(files_.copy(folder_ + name, to + ".new"), "copy " + folder_ + name);
  keep_owner(to + ".new", folder_ + name);
  check(files_.rename(to + ".new", to), "name " + to);
  sync_folder(unfinished());
}

void JournalRepair::cut() {
  constexpr uint64_t versions_left_out = uint64_t{1} << 32;
  SegmentHeader head{};
  std::string_view blocks;
  if (file_ != nullptr) {
    head = file_->header<SegmentHeader>();
    blocks = file_->text().substr(0, read_).substr(sizeof head);
  }
  head.store = manifest_.store;
  head.number = number_;
  head.first_version = last_version_ + versions_left_out;
  head.bytes = sizeof head + blocks.size();
  seal_header(head);
  const std::string path = segment_path(base_, number_);
  write(path, std::filesystem::exists(path) ? path : manifest_path(base_),
        {reinterpret_cast<const char*>(&head), sizeof head}, blocks);
}

void JournalRepair::name_segments() {
  if (manifest_.last == number_) return;
  manifest_.last = number_;
  seal_header(manifest_);
  const std::string path = manifest_path(base_);
  write(path, path, {reinterpret_cast<const char*>(&manifest_), sizeof manifest_}, {});
}

// Beside its name, which it takes when it is on disk.
void JournalRepair::write(const std::string& path, const std::string& like, std::string_view head,
                          std::string_view body) {
  const std::string beside = path + ".new";
  files_.remove(beside);
  const int file = files_.open(beside);
  check(file, "make " + beside);
  int64_t result = 0;
  uint64_t at = 0;
  for (std::string_view piece : {head, body}) {
    while (result >= 0 && !piece.empty()) {
      result = files_.write(file, piece.data(), piece.size(), at);
      if (result == 0) result = -EIO;
      if (result == -EINTR) result = 0;
      const auto written = static_cast<uint64_t>(std::max<int64_t>(result, 0));
      piece.remove_prefix(written);
      at += written;
    }
  }
  if (result >= 0) result = files_.sync(file);
  files_.close(file);
  check(result, "write " + beside);
  keep_owner(beside, like);
  check(files_.rename(beside, path), "name " + path);
  sync_folder(folder_);
}

void JournalRepair::sync_folder(const std::string& path) {
  check(files_.sync_folder(path), "sync " + path);
}

void JournalRepair::check(int64_t result, const std::string& what) {
  if (result >= 0) return;
  throw JournalError("journal: cannot " + what + ": " + reason_of(static_cast<int>(-result)));
}

std::vector<JournalRepair::LeftOut> JournalRepair::left_out() const {
  std::vector<LeftOut> all;
  if (rest_folder_.empty()) return all;
  for (const uint64_t number : segments_in(rest_folder_, name_)) {
    LeftOut its{.file = name_ + "." + std::to_string(number), .from = 0, .bytes = 0, .records = 0};
    const JournalFile file(rest_folder_ + "/" + its.file);
    const char* const damage = file.damage_of_segment(manifest_.store, number);
    const bool is_cut = damage == nullptr || damage == JournalFile::truncated;
    if (number == number_ && is_cut) its.from = std::min<uint64_t>(read_, file.text().size());
    std::string_view rest = file.text().substr(its.from);
    its.bytes = bytes_before_zeros(rest);
    while (rest.size() >= sizeof(BlockHeader)) {
      const BlockHeader* const block = find_any_block(rest, manifest_.store);
      if (block != nullptr) its.records += records_of(block->body());
      rest.remove_prefix(block != nullptr ? sizeof *block + block->bytes : 8);
    }
    all.push_back(std::move(its));
  }
  return all;
}

}  // namespace isotherm
