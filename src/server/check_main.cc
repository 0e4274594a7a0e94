// isotherm-check: says whether a snapshot (an RDB file) or a journal can be read, and what is in
// it. A journal is named by its folder, by the name that its files begin with, or by one of them.
// It writes nothing, so it may look at the files of a server that runs; the end of a journal that
// is being written may then look torn.
//
// With --repair it takes from journals that are damaged all from the first damage on
// (durability/journal_repair.h), and says what that is. No server may use them meanwhile.
//
// Exit status: 0: it can be read, now; 1: it cannot, and the first fault is printed with its file
// and byte; 2: the command line is wrong.

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
#include "durability/journal_lock.h"
#include "durability/journal_reader.h"
#include "durability/journal_repair.h"
#include "durability/rdb_file.h"

namespace {

constexpr int exit_usage = 2;
constexpr std::string_view manifest_suffix = ".manifest";

constexpr std::string_view usage =
    "Usage: isotherm-check [--repair] FILE|FOLDER\n"
    "Says whether a snapshot (dump.rdb), a journal (appendonly.aof), or all journals in a folder\n"
    "can be read, and what is in them. Nothing is written.\n"
    "With --repair a damaged journal keeps all records before the first damage. What is left out\n"
    "is moved to a folder beside it (appendonly.aof.damaged-1), and told of by file. A journal\n"
    "without damage is not changed, nor one that a server uses, or that a tree is behind.\n"
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

void repair_journal(const std::string& folder, const std::string& name) {
  const isotherm::JournalLock lock(folder, name);
  isotherm::JournalRepair repair(folder, name);
  repair.run();
  const std::string& rest = repair.folder_of_rest();
  if (repair.damage().empty()) {
    std::cout << folder << "/" << name << ": there is no damage, and nothing is changed\n";
    if (!rest.empty()) std::cout << "what a repair before has left out is in " << rest << "\n";
    return check_journal(folder, name);
  }
  std::cout << repair.damage() << "\nrepaired; "
            << (rest.empty() ? "nothing that was there is left out"
                             : "what is left out is in " + rest + ":")
            << "\n";
  for (const isotherm::JournalRepair::LeftOut& its : repair.left_out()) {
    std::cout << "  " << its.file << ", from byte " << its.from << " on: " << its.bytes
              << " bytes; " << its.records << " records of them can be read\n";
  }
  check_journal(folder, name);
}

// Calls work(folder, name) for the journals in a folder, and returns how many there are.
template <class Work>
int each_journal(const std::string& folder, const Work& work) {
  int journals = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (!name.ends_with(manifest_suffix)) continue;
    work(folder, name.substr(0, name.size() - manifest_suffix.size()));
    ++journals;
  }
  return journals;
}

}  // namespace

int main(int argc, char** argv) {
  const bool repairs = argc == 3 && argv[1] == std::string_view("--repair");
  const std::string_view word = argc == 2 || repairs ? argv[argc - 1] : "";
  if (word == "--version") {
    std::cout << "isotherm-check " ISOTHERM_VERSION "\n";
    return EXIT_SUCCESS;
  }
  const bool helps = word == "--help" || word == "-h";
  if (helps || word.empty() || word.starts_with("--")) {
    (helps ? std::cout : std::cerr) << usage;
    return helps ? EXIT_SUCCESS : exit_usage;
  }
  const std::string path(word);
  const auto look = repairs ? repair_journal : check_journal;
  try {
    if (const std::filesystem::path journal = named_journal(path); !journal.empty()) {
      const std::string folder = journal.parent_path().string();
      look(folder.empty() ? "." : folder, journal.filename().string());
    } else if (!std::filesystem::is_directory(path)) {
      check_snapshot(path);
      if (repairs) std::cout << "a snapshot is not repaired, since it is one piece\n";
    } else if (each_journal(path, look) == 0) {
      std::cout << path << ": there is no journal in this folder\n";
      return EXIT_FAILURE;
    }
  } catch (const std::exception& error) {
    std::cout << isotherm::reason_of(error) << "\n";
    return EXIT_FAILURE;
  }
  return EXIT_SUCCESS;
}
