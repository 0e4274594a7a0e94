#include "net/descriptor_limit.h"

#include <sys/resource.h>

#include <algorithm>

namespace isotherm::net {

uint32_t allow_clients(uint32_t clients, uint32_t loops) {
  const rlim_t own = 64 + rlim_t{8} * loops;
  const rlim_t wanted = clients + own;
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted) return clients;
  const rlim_t before = limit.rlim_cur;
  limit.rlim_cur = std::min(wanted, limit.rlim_max);
  if (setrlimit(RLIMIT_NOFILE, &limit) != 0) limit.rlim_cur = before;
  if (limit.rlim_cur >= wanted) return clients;
  return static_cast<uint32_t>(limit.rlim_cur > own ? limit.rlim_cur - own : 1);
}

}  // namespace isotherm::net
