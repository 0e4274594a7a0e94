// Memory nodes (NUMA): from which of them the kernel takes the memory that a device reads.
//
// A device reaches the memory of the node it is attached to without crossing to another one. So the
// memory that it reads, and the items that its answers point to, are taken from there if possible.
// If that node is full they come from another one, and nothing fails; threads run on any node. With
// several nodes, pages come from these in turn. A policy that the process was started with
// (numactl) stays.
//
// Where the kernel refuses (one node, a container without the right, a node that is not there)
// everything remains as it is, without a message, since the memory works all the same.
//
// Nodes are numbered as the kernel does, from 0; -1: unknown. Threads. Any; a scope is its
// thread's. Limits. Linux, its system calls without a library. Pages that are there do not move.
#pragma once

#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace isotherm {

// Where memory comes from: a mode of <linux/mempolicy.h>, and the nodes as bits.
struct MemoryPolicy {
  static constexpr int most_nodes = 1024;
  static constexpr int bits_a_word = 8 * sizeof(unsigned long);
  // The kernel takes the number of bits plus one.
  static constexpr unsigned long mask_bits = most_nodes + 1;

  int mode = MPOL_DEFAULT;
  std::array<unsigned long, most_nodes / bits_a_word> nodes{};

  // Prefers these nodes; unknown ones are left out.
  static MemoryPolicy preferring(const std::vector<int>& nodes) {
    MemoryPolicy policy;
    int known = -1;
    bool several = false;
    for (const int node : nodes) {
      if (node < 0 || node >= most_nodes) continue;
      several |= known >= 0 && known != node;
      known = node;
      policy.nodes[static_cast<size_t>(node / bits_a_word)] |= 1UL << node % bits_a_word;
    }
    policy.mode = several ? MPOL_INTERLEAVE : MPOL_PREFERRED;
    return policy;
  }

  // Whether it leaves the choice to the kernel. Older kernels report a local policy as one that
  // prefers no node.
  bool usual() const {
    return mode == MPOL_DEFAULT || mode == MPOL_LOCAL ||
           (mode == MPOL_PREFERRED && !names_a_node());
  }
  bool names_a_node() const {
    return std::any_of(nodes.begin(), nodes.end(), [](unsigned long word) { return word != 0; });
  }
  bool operator==(const MemoryPolicy&) const = default;
};

// That of the mapped memory at `at`, or, if that is null, of the calling thread; nothing where the
// kernel refuses to tell.
inline std::optional<MemoryPolicy> memory_policy(const void* at = nullptr) {
  MemoryPolicy policy;
  const unsigned long flags = at != nullptr ? MPOL_F_ADDR : 0;
  if (syscall(SYS_get_mempolicy, &policy.mode, policy.nodes.data(), MemoryPolicy::mask_bits, at,
              flags) != 0) {
    return std::nullopt;
  }
  return policy;
}

// Asks that pages of this range (whole pages) that are not there yet come from these nodes; returns
// whether the kernel agreed.
inline bool prefer_nodes(void* at, uint64_t bytes, const std::vector<int>& nodes) {
  const MemoryPolicy policy = MemoryPolicy::preferring(nodes);
  const auto of_thread = memory_policy();
  if (!policy.names_a_node() || !of_thread || !of_thread->usual()) return false;
  return syscall(SYS_mbind, at, bytes, policy.mode, policy.nodes.data(), MemoryPolicy::mask_bits,
                 0) == 0;
}

// While it lives, memory that the calling thread touches first comes from the node if possible,
// also when the kernel or a driver touches it for the thread.
class MemoryNodeScope {
 public:
  explicit MemoryNodeScope(int node) {
    const MemoryPolicy policy = MemoryPolicy::preferring({node});
    if (!policy.names_a_node()) return;
    const auto before = memory_policy();
    if (before && before->usual() && set(policy)) before_ = before;
  }
  ~MemoryNodeScope() {
    if (before_) set(*before_);
  }
  MemoryNodeScope(const MemoryNodeScope&) = delete;
  MemoryNodeScope& operator=(const MemoryNodeScope&) = delete;

 private:
  static bool set(const MemoryPolicy& policy) {
    return syscall(SYS_set_mempolicy, policy.mode, policy.nodes.data(), MemoryPolicy::mask_bits) ==
           0;
  }

  std::optional<MemoryPolicy> before_;  // to be put back
};

}  // namespace isotherm
