#include "base/memory_node.h"

#include <gtest/gtest.h>
#include <linux/filter.h>
#include <linux/mempolicy.h>
#include <linux/seccomp.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdlib>
#include <iterator>
#include <thread>
#include <vector>

namespace isotherm::memory_node_test {
namespace {

constexpr uint64_t bytes = 4 << 20;
constexpr int no_such_node = MemoryPolicy::most_nodes - 1;

class Mapping {
 public:
  Mapping()
      : at_(static_cast<char*>(
            mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0))) {}
  ~Mapping() { munmap(at_, bytes); }
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;
  char* at() const { return at_; }

 private:
  char* const at_;
};

class MemoryNodeTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!kernel_agrees()) GTEST_SKIP() << "skipped: the kernel refuses policies of memory nodes";
  }
  void TearDown() override { set(MPOL_DEFAULT, 0); }

  static bool kernel_agrees() {
    return set(MPOL_PREFERRED, 1) && set(MPOL_DEFAULT, 0) && memory_policy().has_value();
  }
  static bool set(int mode, unsigned long nodes) {
    return syscall(SYS_set_mempolicy, mode, &nodes, MemoryPolicy::bits_a_word) == 0;
  }
  static int mode_of_thread() {
    const auto policy = memory_policy();
    return policy ? policy->mode : -1;
  }
};

TEST(MemoryPolicyTest, OneNodeIsPreferredAndSeveralTakeTurns) {
  const MemoryPolicy one = MemoryPolicy::preferring({3, -1, 3});
  EXPECT_EQ(one.mode, MPOL_PREFERRED);
  EXPECT_EQ(one.nodes[0], 8u);
  const MemoryPolicy several = MemoryPolicy::preferring({0, 65});
  EXPECT_EQ(several.mode, MPOL_INTERLEAVE);
  EXPECT_EQ(several.nodes[0], 1u);
  EXPECT_EQ(several.nodes[1], 2u);
  EXPECT_EQ(MemoryPolicy::preferring({-1, MemoryPolicy::most_nodes}).nodes, MemoryPolicy().nodes);
}

TEST_F(MemoryNodeTest, MemoryComesFromTheNodeThatWasAskedFor) {
  const Mapping memory;
  EXPECT_TRUE(prefer_nodes(memory.at(), bytes / 2, {0}));
  memory.at()[0] = 1;
  EXPECT_EQ(memory_policy(memory.at()), MemoryPolicy::preferring({0}));
  EXPECT_EQ(memory_policy(memory.at() + bytes / 2)->mode, MPOL_DEFAULT) << "beyond the range";
  EXPECT_EQ(mode_of_thread(), MPOL_DEFAULT);
}

TEST_F(MemoryNodeTest, NodesThatAreUnknownOrNotThereAreLeftAlone) {
  const Mapping memory;
  for (const std::vector<int>& nodes :
       std::vector<std::vector<int>>{{}, {-1}, {no_such_node}, {MemoryPolicy::most_nodes}}) {
    EXPECT_FALSE(prefer_nodes(memory.at(), bytes, nodes));
    EXPECT_EQ(memory_policy(memory.at())->mode, MPOL_DEFAULT);
    const MemoryNodeScope scope(nodes.empty() ? -1 : nodes[0]);
    EXPECT_EQ(mode_of_thread(), MPOL_DEFAULT);
    memory.at()[0] = 1;
  }
}

TEST_F(MemoryNodeTest, AScopeEndsAsItBegan) {
  {
    const MemoryNodeScope scope(0);
    EXPECT_EQ(memory_policy(), MemoryPolicy::preferring({0}));
    std::thread([] { EXPECT_EQ(mode_of_thread(), MPOL_PREFERRED) << "of its parent"; }).join();
  }
  EXPECT_EQ(mode_of_thread(), MPOL_DEFAULT);
  ASSERT_TRUE(set(MPOL_LOCAL, 0));
  const auto local = memory_policy();
  {
    const MemoryNodeScope scope(0);
    EXPECT_EQ(memory_policy(), MemoryPolicy::preferring({0}));
  }
  EXPECT_EQ(memory_policy(), local);
}

TEST_F(MemoryNodeTest, APolicyFromOutsideStays) {
  ASSERT_TRUE(set(MPOL_INTERLEAVE, 1));
  const auto outside = memory_policy();
  const Mapping memory;
  EXPECT_FALSE(prefer_nodes(memory.at(), bytes, {0}));
  {
    const MemoryNodeScope scope(0);
    EXPECT_EQ(memory_policy(), outside);
  }
  EXPECT_EQ(memory_policy(), outside);
}

// From now on the kernel refuses these calls, as it does in a container.
void forbid_policies() {
  constexpr uint32_t number = offsetof(seccomp_data, nr);
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, number),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 3, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_set_mempolicy, 2, 0),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_get_mempolicy, 1, 0),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
  };
  const sock_fprog program{static_cast<unsigned short>(std::size(rules)), rules};
  if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
      prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
    std::_Exit(3);
  }
}

// Ends with 0 if all went as it should, and 3 where nothing can be forbidden here.
[[noreturn]] void use_memory_without_policies() {
  forbid_policies();
  const Mapping memory;
  const bool refused = !memory_policy() && !prefer_nodes(memory.at(), bytes, {0});
  {
    const MemoryNodeScope scope(0);
    memory.at()[0] = 1;
  }
  std::_Exit(refused && memory.at()[0] == 1 ? 0 : 1);
}

TEST(MemoryNodeDeathTest, RefusedCallsDoNoHarm) {
  bool nothing_forbidden = false;
  const auto ended_well = [&](int status) {
    nothing_forbidden = WIFEXITED(status) && WEXITSTATUS(status) == 3;
    return nothing_forbidden || (WIFEXITED(status) && WEXITSTATUS(status) == 0);
  };
  EXPECT_EXIT(use_memory_without_policies(), ended_well, "");
  if (nothing_forbidden) GTEST_SKIP() << "skipped: calls cannot be forbidden here";
}

}  // namespace
}  // namespace isotherm::memory_node_test
