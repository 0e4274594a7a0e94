// isotherm-check: says whether a snapshot (an RDB file) or a journal can be read, and what is in
// it. A journal is named by its folder, by the name that its files begin with, or by one of them.
// It writes nothing, so it may look at the files of a server that runs; the end of a journal that
// is being written may then look torn.
//
// Exit status: 0: it can be read; 1: it cannot, and the first fault is printed with its file and
// byte; 2: the command line is wrong.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <string>
#include <string_view>
#include <thread>

#include "base/reason_of.h"
#include "durability/journal_reader.h"
#include "durability/rdb_file.h"

namespace {

constexpr int exit_usage = 2;
constexpr std::string_view manifest_suffix = ".manifest";

constexpr std::string_view usage =
    "Usage: isotherm-check FILE|FOLDER\n"
    "Says whether a snapshot (dump.rdb), a journal (appendonly.aof), or all journals in a folder\n"
    "can be read, and what is in them. Nothing is written.\n"
    "Exit status: 0: it can be read; 1: it cannot, and the first fault is printed; 2: wrong "
    "usage.\n";

bool has_manifest(const std::string& name) {
  return std::filesystem::exists(name + std::string(manifest_suffix));
}

// The name that the files of a journal begin with, where `path` is that, the manifest, the lock or
// a segment; else empty.
std::string named_journal(const std::string& path) {
  if (path.ends_with(manifest_suffix)) {
    return path.substr(0, path.size() - manifest_suffix.size());
  }
  if (has_manifest(path)) return path;
  const size_t dot = std::min(path.rfind('.'), path.size());
  const std::string ending = path.substr(dot);
  const bool its = ending == ".lock" || ending.find_first_not_of("0123456789", 1) == ending.npos;
  return its && has_manifest(path.substr(0, dot)) ? path.substr(0, dot) : "";
}

void check_snapshot(const std::string& path) {
  const isotherm::RdbFile file(path);
  uint64_t value_bytes = 0;
  for (uint32_t part = 0; part < file.parts(); ++part) {
    file.read(part, [&](const isotherm::RdbItem& item) { value_bytes += item.value.size(); });
  }
  std::cout << path << ": a snapshot, format " << file.format() << ", " << file.bytes()
            << " bytes\n"
            << file.items() << " keys, " << file.expires() << " with an expiry, " << value_bytes
            << " bytes of values; last database " << (file.databases() - (file.databases() != 0))
            << "\n";
}

void check_journal(const std::string& folder, const std::string& name) {
  const isotherm::JournalReader reader(folder, name,
                                       std::max(1u, std::thread::hardware_concurrency()));
  const isotherm::Manifest& manifest = reader.manifest();
  uint64_t keys = 0;
  uint64_t changed = 0;
  for (uint32_t part = 0; part < reader.parts(); ++part) {
    reader.read(
        part, [&](const isotherm::RecordHeader&, int64_t) { ++keys; },
        [](uint32_t, std::string_view) {},
        [&](const isotherm::ValueParts&, int64_t) { ++changed; });
  }
  if (!reader.path_of_base().empty()) check_snapshot(reader.path_of_base());
  std::cout << folder << "/" << name << ": a journal, segments " << manifest.first << " to "
            << manifest.last << ", " << reader.end_lsn() - reader.first_lsn() << " bytes\n"
            << reader.records() << " records, " << keys << " keys"
            << (reader.path_of_base().empty() ? "; " : " that its base does not have; ")
            << reader.torn_bytes() << " bytes of a torn tail\n";
  if (changed != 0) {
    std::cout << "of " << changed << " keys, parts of values that "
              << (manifest.base.is_in_tree() ? "the tree has" : "its base has") << "\n";
  }
  if (manifest.base.is_in_tree()) {
    std::cout << "what was stored before its first record is in the files of a tree\n";
  }
}

// Looks at the journals in a folder, and returns how many there are.
int check_folder(const std::string& folder) {
  int journals = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(manifest_suffix)) continue;
    check_journal(folder, name.substr(0, name.size() - manifest_suffix.size()));
    ++journals;
  }
  return journals;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view word = argc == 2 ? argv[1] : "";
  if (word == "--version") {
    std::cout << "isotherm-check " ISOTHERM_VERSION "\n";
    return EXIT_SUCCESS;
  }
  if (word == "--help" || word == "-h" || word.empty()) {
    (word.empty() ? std::cerr : std::cout) << usage;
    return word.empty() ? exit_usage : EXIT_SUCCESS;
  }
  const std::string path(word);
  try {
    if (const std::filesystem::path journal = named_journal(path); !journal.empty()) {
      const std::string folder = journal.parent_path().string();
      check_journal(folder.empty() ? "." : folder, journal.filename().string());
    } else if (!std::filesystem::is_directory(path)) {
      check_snapshot(path);
    } else if (check_folder(path) == 0) {
      std::cout << path << ": there is no journal in this folder\n";
      return EXIT_FAILURE;
    }
  } catch (const std::exception& error) {
    std::cout << isotherm::reason_of(error) << "\n";
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
