// FakeFrames: in which launches the address sanitizer looks for uses of the variables of functions
// that have returned.
//
// For that it gives each frame memory of its own, which takes half the time of a kernel whose lanes
// have a stack each. A device looks at the first launches of every kernel and at some of those that
// follow, which run the same lines; all else the sanitizer watches in each of them. Which ones does
// not depend on what other devices do, so what a test has found it finds again.
//
// Threads. One at a time for a FakeFrames; any number of them. While one of them does not look,
// neither does the host's code that runs beside it. Limits. Without the address sanitizer nothing
// happens.
#pragma once

#include <cstdint>
#include <map>
#include <string>

namespace isotherm {

class FakeFrames {
 public:
  static constexpr uint64_t first_launches = 4;
  static constexpr uint64_t one_in = 16;

  // Whether it looks at this launch of a kernel.
  bool look_at(const std::string& kernel) {
    const uint64_t launch = launches_[kernel]++;
    return launch < first_launches || launch % one_in == 0;
  }

  // Whether it looks at what runs now.
  static bool looks();

  // While one exists nothing looks, if it was told so.
  class Unseen {
   public:
    explicit Unseen(bool unseen);
    ~Unseen();
    Unseen(const Unseen&) = delete;
    Unseen& operator=(const Unseen&) = delete;

   private:
    const bool unseen_;
  };

 private:
  std::map<std::string, uint64_t> launches_;
};

}  // namespace isotherm
