// Files: what the journal asks of the file system, so that tests can let it fail.
//
// Each call returns a number below zero, -errno, where it failed. What was written is safe from a
// loss of power when `sync` of its file has succeeded, a new name when `sync_folder` has.
//
// Mapped files. Where a file is memory anyway, as in /dev/shm, its room can be had as memory: a
// store there does what `write` does, without a call of the system, is there when the process is
// killed, and cannot fail once the room was allocated. Files on disks are not mapped: a page of
// theirs may have to be read, or to find its place, when it is first stored to, and where that
// fails the process is killed instead of told.
//
// Threads. Any; one at a time for a file.
#pragma once

#include <cstdint>
#include <string>

namespace isotherm {

class Files {
 public:
  // For writing, made if there is none; the descriptor.
  virtual int open(const std::string& path) = 0;
  virtual void close(int file) = 0;
  // Takes the room that the file may grow to, which reads as zeros.
  virtual int allocate(int file, uint64_t bytes) = 0;
  // How many bytes were written, perhaps fewer.
  virtual int64_t write(int file, const char* data, uint64_t bytes, uint64_t offset) = 0;
  // So many bytes of a file that has room for them, for stores in the place of writes; null: not of
  // this one. `at_once`: with all its pages, which takes a while, so that no store waits for one.
  // It may be unmapped when the file is closed already.
  virtual char* map(int /*file*/, uint64_t /*bytes*/, bool /*at_once*/) { return nullptr; }
  virtual void unmap(char* /*at*/, uint64_t /*bytes*/) {}
  virtual int sync(int file) = 0;
  // Whether a folder has it still: somebody may have removed it, with its folder perhaps.
  virtual bool has_name(int file) = 0;
  virtual int rename(const std::string& from, const std::string& to) = 0;
  // Makes a file with what another has, on disk when it returns; how many bytes these are. Where
  // the disk can, both share their room until one of them changes.
  virtual int64_t copy(const std::string& from, const std::string& to) = 0;
  virtual int remove(const std::string& path) = 0;
  virtual int sync_folder(const std::string& path) = 0;
  // Gives back the room behind `offset`, which reads as zeros as before.
  virtual int trim(int file, uint64_t offset) = 0;
  // How many bytes the folder's disk has left.
  virtual int64_t room(const std::string& folder) = 0;

 protected:
  ~Files() = default;
};

// The system's.
Files& system_files();

}  // namespace isotherm
