// A slot for bytes, the last of which is the last before memory that nobody may touch, so that who
// reads on is ended; the first lies at an even address.
//
// Threads. One. Limits. A page, less a byte where their number is odd.
#pragma once

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstring>
#include <string>
#include <string_view>

namespace isotherm {

class GuardedSlot {
 public:
  GuardedSlot() : page_(static_cast<size_t>(::sysconf(_SC_PAGESIZE))) {
    void* const pages =
        ::mmap(nullptr, 2 * page_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    EXPECT_NE(pages, MAP_FAILED);
    pages_ = static_cast<char*>(pages);
    EXPECT_EQ(::mprotect(pages_ + page_, page_, PROT_NONE), 0);
  }
  ~GuardedSlot() { ::munmap(pages_, 2 * page_); }
  GuardedSlot(const GuardedSlot&) = delete;
  GuardedSlot& operator=(const GuardedSlot&) = delete;

  // There until the next call.
  std::string_view put(const std::string& bytes) {
    const size_t even = bytes.size() + bytes.size() % 2;
    char* const at = pages_ + page_ - even;
    std::memcpy(at, bytes.data(), bytes.size());
    return {at, bytes.size()};
  }

 private:
  const size_t page_;
  char* pages_;
};

}  // namespace isotherm
