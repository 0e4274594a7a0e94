#include "net/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

#include "tree/descriptors.h"

namespace isotherm::net {

uint32_t allow_clients(uint32_t clients, uint32_t loops, bool has_tree) {
  const rlim_t own = 64 + rlim_t{8} * loops;
  const rlim_t wanted = clients + own + (has_tree ? tree_descriptors::many : 0);
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return clients;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  if (limit.rlim_cur >= wanted) return clients;
  const rlim_t others = own + (has_tree ? tree_descriptors::share_of(limit.rlim_cur) : 0);
  const rlim_t left = limit.rlim_cur > others ? limit.rlim_cur - others : 1;
  return static_cast<uint32_t>(std::min<rlim_t>(clients, left));
}

}  // namespace isotherm::net
