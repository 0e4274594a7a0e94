// Progress: one line about what is going on, on a terminal only.
//
// Written to the standard error stream, so that results can be piped; silent where that is no
// terminal or when switched off.
//
// Threads. One owner: the thread that measures.
#pragma once

#include <cstdint>
#include <string>

namespace isotherm::bench {

class Progress {
 public:
  explicit Progress(bool wanted);
  ~Progress() { clear(); }
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // What is being done from now on.
  void stage(const std::string& what);
  // How many requests are done in this stage; draws at most five times a second.
  void update(uint64_t done);
  void clear();

 private:
  bool shown_;
  std::string stage_;
  int64_t drawn_ = 0;
  int64_t begun_ = 0;
};

}  // namespace isotherm::bench
