#include "net/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "tree/descriptors.h"

namespace isotherm::net {
namespace {

// Beside those of clients and of a tree.
rlim_t own_of(uint32_t loops) { return 64 + rlim_t{8} * loops; }
rlim_t needed_by(uint32_t clients, uint32_t loops, bool has_tree) {
  return clients + own_of(loops) + (has_tree ? tree_descriptors::many : 0);
}

}  // namespace

Descriptors descriptors_of(uint32_t clients, uint32_t loops, bool has_tree) {
  rlimit limit{};
  getrlimit(RLIMIT_NOFILE, &limit);
  return {needed_by(clients, loops, has_tree), limit.rlim_cur};
}

uint32_t allow_clients(uint32_t clients, uint32_t loops, bool has_tree) {
  const rlim_t wanted = needed_by(clients, loops, has_tree);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return clients;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  if (limit.rlim_cur >= wanted) return clients;
  const rlim_t others = own_of(loops) + (has_tree ? tree_descriptors::share_of(limit.rlim_cur) : 0);
  const rlim_t left = limit.rlim_cur > others ? limit.rlim_cur - others : 1;
  return static_cast<uint32_t>(std::min<rlim_t>(clients, left));
}

}  // namespace isotherm::net
