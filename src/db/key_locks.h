// KeyLocks: keys that transactions have for themselves, until they end.
//
// A key has one owner. Who wants it waits until it was given back, or for so long; and is told
// instead where its wait would close a circle: the owner waits for a key whose owner waits … for a
// key of its own. Whoever comes last finds the circle, so one of them goes on.
//
// Memory. An entry for each key that is locked or wanted.
// Threads. Any; an Owner belongs to one. One mutex for all: what is done under it is short.
#pragma once

#include <condition_variable>
#include <cstdint>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace isotherm {

class KeyLocks {
  struct Lock;

 public:
  enum class Outcome : uint8_t { taken, timed_out, deadlock };
  class Owner {
    friend class KeyLocks;
    std::vector<const std::string*> keys_;
    const Lock* waits_for_ = nullptr;
  };

  // Below 0: for ever. A key that it has is taken at once.
  Outcome take(Owner& owner, std::string_view key, int64_t timeout_ms);
  void give_back(Owner& owner);
  size_t size();  // keys that are locked or wanted

 private:
  struct Lock {
    const Owner* owner = nullptr;
    uint32_t waiting = 0;
    std::condition_variable free;
  };
  static bool closes_circle(const Owner& owner, const Lock& wanted);

  std::mutex mutex_;  // of all that follows, and of owners
  std::unordered_map<std::string, Lock> locks_;
};

}  // namespace isotherm
