// Counters shared by threads: additions are atomic, and a window counter forgets itself by its
// expiry.
#include <isotherm/store.h>

#include <chrono>
#include <cstdint>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

namespace {

int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

int main() {
  isotherm::Store store;
  constexpr int threads = 4;
  constexpr int64_t additions = 10'000;

  std::vector<std::thread> workers;
  for (int i = 0; i < threads; ++i) {
    workers.emplace_back([&store] {
      isotherm::Handle handle(store);  // one a thread
      int64_t sum = 0;
      for (int64_t j = 0; j < additions; ++j) handle.add("hits", 1, sum);
    });
  }
  for (std::thread& worker : workers) worker.join();

  isotherm::Handle handle(store);
  std::string hits;
  if (handle.get("hits", hits) != isotherm::Status::ok) return 1;
  std::cout << "hits: " << hits << "\n";
  if (hits != std::to_string(threads * additions)) return 1;

  // How often in this window? The first addition makes the counter, the expiry ends it.
  int64_t calls = 0;
  handle.add("calls", 1, calls);
  handle.expire("calls", now_ms() + 50);
  handle.add("calls", 1, calls);  // keeps the expiry
  std::cout << "calls in this window: " << calls << "\n";
  if (calls != 2) return 1;
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  handle.add("calls", 1, calls);
  std::cout << "calls in the next window: " << calls << "\n";
  return calls == 1 ? 0 : 1;
}
