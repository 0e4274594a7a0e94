// SpareLists: long lists that connections of a thread share, so that a connection that once had a
// deep pipeline holds none when it is idle, and a turn allocates nothing.
//
// A connection keeps a short list for itself. A list that has grown beyond `own` elements goes to
// the thread's spares when the turn has ended. A connection that begins a turn with much input and
// has no list takes one from the spares.
//
// Threads. Each has spares of its own.
// Limits. Keeps at most `most_lists`, none of more than `most_elements`.
#pragma once

#include <cstddef>
#include <utility>
#include <vector>

namespace isotherm::net {

template <class T>
class SpareLists {
 public:
  static constexpr size_t own = 16;

  // A turn begins that parses so many bytes.
  static void begin(std::vector<T>& list, size_t input_bytes) {
    if (list.capacity() == 0 && input_bytes > few_bytes) take(list);
  }

  // The list is of no more use.
  static void end(std::vector<T>& list) {
    list.clear();
    if (list.capacity() > own) give(list);
  }

 private:
  static constexpr size_t few_bytes = 512;  // of input, that mostly make few elements
  static constexpr size_t most_lists = 64;
  static constexpr size_t most_elements = 4096;

  [[gnu::noinline]] static void give(std::vector<T>& list) {
    if (list.capacity() <= most_elements && spares().size() < most_lists) {
      spares().push_back(std::move(list));
    }
    list = {};
  }
  [[gnu::noinline]] static void take(std::vector<T>& list) {
    if (spares().empty()) return;
    list = std::move(spares().back());
    spares().pop_back();
  }

  static std::vector<std::vector<T>>& spares() {
    thread_local std::vector<std::vector<T>> lists;
    return lists;
  }
};

}  // namespace isotherm::net
