// Single operations: put, get, compare-and-swap, counters, expiry, and a scan.
#include <isotherm/store.h>

#include <cstdint>
#include <iostream>
#include <string>

int main() {
  isotherm::Options options;
  options.maxmemory = uint64_t{256} << 20;
  options.maxmemory_policy = isotherm::EvictionPolicy::allkeys_lru;
  isotherm::Store store(options);
  isotherm::Handle handle(store);  // one for each thread

  handle.put("user:1", "Ada");
  std::string value;
  isotherm::ItemInfo info;
  if (handle.get("user:1", value, &info) != isotherm::Status::ok) return 1;
  std::cout << "user:1 is " << value << "\n";

  // Writes only if nobody has written since the read above.
  if (handle.compare_and_swap("user:1", info.version, "Ada Lovelace") != isotherm::Status::ok) {
    return 1;
  }
  // The same again fails: the version has moved on.
  const isotherm::Status stale = handle.compare_and_swap("user:1", info.version, "Grace");
  std::cout << "a second write with the old version: " << to_string(stale) << "\n";
  if (stale != isotherm::Status::condition_failed) return 1;

  int64_t visits = 0;
  for (int i = 0; i < 3; ++i) handle.add("visits", 1, visits);
  std::cout << "visits: " << visits << "\n";
  if (visits != 3) return 1;

  std::string previous;
  if (handle.erase("user:1", &previous) != isotherm::Status::ok) return 1;
  std::cout << "erased " << previous << "\n";
  if (previous != "Ada Lovelace") return 1;

  // A cursor of 0 starts a scan and ends it.
  uint64_t cursor = 0;
  uint64_t keys = 0;
  do {
    cursor = handle.scan(cursor, 100, [&](std::string_view) { ++keys; });
  } while (cursor != 0);
  std::cout << "keys left: " << keys << "\n";
  return keys == 1 ? 0 : 1;
}
