// JournalLock: who has it is the only program that writes the files of a journal.
//
// It is a lock of the system's on a file beside them, which stays, and ends with the process.
//
// Threads. One.
#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <cerrno>
#include <string>

#include "base/reason_of.h"
#include "durability/journal_file.h"

namespace isotherm {

class JournalLock {
 public:
  // Throws JournalError where another program has it, or there can be none.
  JournalLock(const std::string& folder, const std::string& name) {
    constexpr int by_owner = 0640;
    const std::string path = folder + "/" + name + ".lock";
    file_ = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, by_owner);
    if (file_ < 0) throw JournalError("journal: cannot open " + path + ": " + reason_of(errno));
    if (::flock(file_, LOCK_EX | LOCK_NB) == 0) return;
    ::close(file_);
    throw JournalError("journal: " + path + " is locked by another program");
  }
  ~JournalLock() { ::close(file_); }
  JournalLock(const JournalLock&) = delete;
  JournalLock& operator=(const JournalLock&) = delete;

 private:
  int file_;
};

}  // namespace isotherm
