// JournalRepair: of a journal whose middle is damaged all that is before the damage.
//
// Blocks stay that can be read one behind the other from the first segment on, and the base, which
// has to be whole. All else goes to a folder beside, name.damaged-1 or the next number that is
// free, so nothing is deleted, and nothing there is written over.
//
// A kill at any step leaves a journal that a start refuses, or the repaired one; each step begins
// when the one before is on disk:
//   1. The folder, whose name ends in .unfinished for now, gets a copy of the segment that is cut,
//      and then the segments behind that, the last one first.
//   2. The segment is written anew without what cannot be read, beside its name, which it takes.
//   3. The manifest names no segment behind it.
//   4. The folder takes its name.
// Who repairs again goes on with the folder that is unfinished. Versions that were given to what is
// left out are not given once more: a client may have kept one for a compare-and-swap.
//
// Behind a tree nothing is done: its files may have changes that are damaged in the journal, or lie
// behind those, and older records would be read over them.
//
// Threads. One; nobody else uses the files (durability/journal_lock.h).
// Errors. JournalError or RdbError, with what is wrong; where the disk fails, it may be tried
// again.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "durability/files.h"
#include "durability/journal_file.h"
#include "durability/record.h"

namespace isotherm {

class JournalRepair {
 public:
  // What is left out of one file, which lies in the folder.
  struct LeftOut {
    std::string file;
    uint64_t from;     // the byte behind which it is
    uint64_t bytes;    // up to the last that is not zero
    uint64_t records;  // of blocks that can be read there
  };

  // The journal `name` in `folder`; looks where its first damage is, and writes nothing.
  JournalRepair(std::string folder, const std::string& name, Files& files = system_files());

  // The file, and what is wrong with it; empty: a start reads all of the journal.
  const std::string& damage() const { return damage_; }
  // Without damage it only names the folder of a repair that was ended before it did.
  void run();
  // Behind `run`: what is left out, and where that is; empty: there was nothing but holes.
  const std::string& folder_of_rest() const { return rest_folder_; }
  std::vector<LeftOut> left_out() const;

 private:
  bool is_readable() const;
  void check_base() const;
  std::unique_ptr<JournalFile> open(uint64_t number);
  void find_damage();
  void read(uint64_t until);
  bool read_records(std::string_view body);
  void note_damage(uint64_t number, const std::string& what);
  bool has_rest() const;
  std::vector<uint64_t> segments_behind() const;
  void choose_folder();
  void end_folder();
  void move_aside(uint64_t number);
  void copy_aside();
  void cut();
  void name_segments();
  void write(const std::string& path, const std::string& like, std::string_view head,
             std::string_view body);
  void sync_folder(const std::string& path);
  static void check(int64_t result, const std::string& what);
  std::string unfinished() const { return rest_folder_ + ".unfinished"; }

  Files& files_;
  const std::string folder_;
  const std::string name_;
  const std::string base_;
  Manifest manifest_;
  std::string damage_;
  // The last segment that stays, as it is; null: of none a record does, and an empty one is made.
  std::unique_ptr<JournalFile> file_;
  uint64_t number_;    // its
  uint64_t read_ = 0;  // bytes of it that can be read
  uint64_t end_lsn_ = 0;
  uint64_t last_version_ = 0;  // of its records and those before
  std::string rest_folder_;
};

}  // namespace isotherm
