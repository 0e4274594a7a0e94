#include "base/thread_number.h"

#include <functional>
#include <mutex>
#include <queue>
#include <vector>

namespace isotherm {
namespace {

struct ThreadNumbers {
  std::mutex mutex;  // of what follows
  uint32_t next = 0;
  std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> given_back;
};

// Never destroyed: threads may end behind everything else.
ThreadNumbers& thread_numbers() {
  static auto& all = *new ThreadNumbers;
  return all;
}

uint32_t take_number() {
  ThreadNumbers& all = thread_numbers();
  const std::lock_guard guard(all.mutex);
  if (all.given_back.empty()) return all.next++;
  const uint32_t number = all.given_back.top();
  all.given_back.pop();
  return number;
}

// For as long as the thread lives.
class TakenNumber {
 public:
  TakenNumber() { own_thread_number = take_number(); }
  ~TakenNumber() {
    ThreadNumbers& all = thread_numbers();
    const std::lock_guard guard(all.mutex);
    all.given_back.push(own_thread_number);
    own_thread_number = no_thread_number;
  }
  TakenNumber(const TakenNumber&) = delete;
  TakenNumber& operator=(const TakenNumber&) = delete;
};

}  // namespace

uint32_t take_thread_number() {
  thread_local const TakenNumber taken;
  return own_thread_number;
}

}  // namespace isotherm
