#include "fake_device/fake_fiber.h"

#include <sys/mman.h>

#include <mutex>
#include <new>
#include <vector>

#include "items/poison.h"

#if defined(ISOTHERM_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

// Saves this stack's registers, stores its stack pointer to *save and goes on on the stack `to`.
// A fresh stack "returns" into its first function, for which `argument` is in place.
extern "C" void isotherm_switch_stack(void** save, void* to, void* argument);
asm(R"(
.text
.globl isotherm_switch_stack
.hidden isotherm_switch_stack
.type isotherm_switch_stack, @function
isotherm_switch_stack:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  movq %rdx, %rdi
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size isotherm_switch_stack, . - isotherm_switch_stack
)");

namespace isotherm {
namespace {

constexpr size_t page_bytes = 4096;
// Unoptimised and instrumented frames are larger.
constexpr size_t stack_bytes = poison::sanitized ? 256 * 1024 : 64 * 1024;

// Stacks that no fiber has at the moment, each with its page below. Tests make thousands of
// devices, and the kernel would take longer over their stacks than the lanes over their tasks.
class SpareStacks {
 public:
  ~SpareStacks() {
    for (char* stack : stacks_) munmap(stack, page_bytes + stack_bytes);
  }
  char* take() {
    std::lock_guard lock(mutex_);
    if (stacks_.empty()) return nullptr;
    char* stack = stacks_.back();
    stacks_.pop_back();
    return stack;
  }
  void give(char* stack) {
    std::lock_guard lock(mutex_);
    stacks_.push_back(stack);
  }

 private:
  std::mutex mutex_;
  std::vector<char*> stacks_;
};

SpareStacks& spare_stacks() {
  static SpareStacks stacks;
  return stacks;
}

}  // namespace

FakeFiber::FakeFiber(uint32_t number) {
  map_stack();
  constexpr uint32_t offsets = 16;
  constexpr size_t offset_bytes = page_bytes / offsets;
  auto* top = reinterpret_cast<uint64_t*>(mapping_ + page_bytes + stack_bytes -
                                          number % offsets * offset_bytes);
  // From the top: a return address for `run`, which makes the alignment that of a call; `run`, to
  // which the first switch returns; six registers.
  *--top = 0;
  *--top = reinterpret_cast<uint64_t>(&FakeFiber::run);
  for (int i = 0; i < 6; ++i) *--top = 0;
  stack_pointer_ = top;
}

FakeFiber::~FakeFiber() {
  if (mapping_ == nullptr) return;
  end_run();
#if defined(ISOTHERM_ASAN)
  __asan_unpoison_memory_region(stack_bottom_, stack_bytes_);
#endif
  spare_stacks().give(mapping_);
}

void FakeFiber::map_stack() {
  mapping_ = spare_stacks().take();
  if (mapping_ == nullptr) {
    void* got = mmap(nullptr, page_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (got == MAP_FAILED || mprotect(got, page_bytes, PROT_NONE) != 0) throw std::bad_alloc();
    mapping_ = static_cast<char*>(got);
  }
  stack_bottom_ = mapping_ + page_bytes;
  stack_bytes_ = stack_bytes;
}

void FakeFiber::switch_to(FakeFiber& from, FakeFiber& to) {
  to.came_from_ = &from;
#if defined(ISOTHERM_ASAN)
  // An ending fiber leaves no shadow behind.
  __sanitizer_start_switch_fiber(from.ending_ ? nullptr : &from.shadow_stack_, to.stack_bottom_,
                                 to.stack_bytes_);
#endif
  isotherm_switch_stack(&from.stack_pointer_, to.stack_pointer_, &to);
  from.arrive();
}

// The first thing to do on this stack after a switch to it.
void FakeFiber::arrive() {
#if defined(ISOTHERM_ASAN)
  // This is also how the extent of a thread's own stack becomes known.
  __sanitizer_finish_switch_fiber(shadow_stack_, &came_from_->stack_bottom_,
                                  &came_from_->stack_bytes_);
#endif
}

void FakeFiber::run(FakeFiber* self) {
  self->runs_ = true;
  self->arrive();
  while (!self->ending_) {
    FakeFiber& next = self->task_(self->argument_);
    switch_to(*self, next);
  }
  switch_to(*self, *self->came_from_);
  __builtin_unreachable();
}

// The sanitizer's shadow can be given up only from the stack itself.
void FakeFiber::end_run() {
  if (!runs_) return;
  ending_ = true;
  FakeFiber here;
  switch_to(here, *this);
}

}  // namespace isotherm
