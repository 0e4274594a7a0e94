// Password: what Redis clients must give before anything else (`requirepass`).
//
// One for the server, and one user, "default". A client that has given it stays in, whatever
// becomes of the password later, until RESET; one that came while there was none is in, too.
//
// Threads. Any. Whether there is one is an atomic, which each parse of a client that is not in
// looks at; the text is behind a mutex.
#pragma once

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>
#include <utility>

namespace isotherm::net {

class Password {
 public:
  explicit Password(std::string text) : text_(std::move(text)), is_set_(!text_.empty()) {}

  bool is_set() const { return is_set_.load(std::memory_order_relaxed); }

  std::string text() const {
    const std::lock_guard guard(mutex_);
    return text_;
  }

  // Empty: nothing is asked for.
  void set(std::string_view text) {
    const std::lock_guard guard(mutex_);
    text_ = text;
    is_set_.store(!text_.empty(), std::memory_order_relaxed);
  }

  // Whether `given` opens the server. Takes a time that depends on the length of `given` alone, so
  // that nobody can measure how much of a guess was right.
  bool admits(std::string_view given) const {
    const std::lock_guard guard(mutex_);
    if (text_.empty()) return true;
    size_t difference = given.size() ^ text_.size();
    for (size_t i = 0; i < given.size(); ++i) {
      difference |=
          static_cast<size_t>(static_cast<unsigned char>(given[i] ^ text_[i % text_.size()]));
    }
    return difference == 0;
  }

 private:
  mutable std::mutex mutex_;
  std::string text_;
  std::atomic<bool> is_set_;
};

}  // namespace isotherm::net
