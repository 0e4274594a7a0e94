// NoThreads: while it lives, the system gives no threads: each would have a stack that finds no
// room.
//
// Threads. It is for the whole process.
#pragma once

#include <pthread.h>

#include <cstddef>

namespace isotherm {

class NoThreads {
 public:
  NoThreads() {
    pthread_getattr_default_np(&before_);
    pthread_attr_t huge = before_;
    pthread_attr_setstacksize(&huge, size_t{1} << 47);
    pthread_setattr_default_np(&huge);
  }
  ~NoThreads() { pthread_setattr_default_np(&before_); }
  NoThreads(const NoThreads&) = delete;
  NoThreads& operator=(const NoThreads&) = delete;

 private:
  pthread_attr_t before_;
};

}  // namespace isotherm
