// LazilyMade: an object that is made when it is first needed. If there was no memory for it then,
// it is not tried again.
//
// Threads. One at a time.
#pragma once

#include <new>
#include <optional>

namespace isotherm {

template <class T>
class LazilyMade {
 public:
  // Null where there was no memory for it. `before` is called before it is made.
  template <class Before, class... Args>
  T* get(Before&& before, Args&... args) {
    if (value_ || refused_) return value_ ? &*value_ : nullptr;
    before();
    try {
      return &value_.emplace(args...);
    } catch (const std::bad_alloc&) {
      refused_ = true;
      return nullptr;
    }
  }
  void reset() { value_.reset(); }

 private:
  std::optional<T> value_;
  bool refused_ = false;
};

}  // namespace isotherm
