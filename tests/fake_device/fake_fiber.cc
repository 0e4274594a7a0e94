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

}  // namespace

// Those that nobody has at the moment.
class FakeFiber::Spare {
 public:
  ~Spare() {
    for (FakeFiber* fiber : fibers_) delete fiber;
  }
  FakeFiber* take() {
    const std::lock_guard lock(mutex_);
    if (fibers_.empty()) return new FakeFiber(made_++);
    FakeFiber* const fiber = fibers_.back();
    fibers_.pop_back();
    return fiber;
  }
  void give(FakeFiber* fiber) {
    const std::lock_guard lock(mutex_);
    fibers_.push_back(fiber);
  }

 private:
  std::mutex mutex_;
  std::vector<FakeFiber*> fibers_;
  uint32_t made_ = 0;
};

FakeFiber::Spare& FakeFiber::spare() {
  static Spare fibers;
  return fibers;
}

FakeFiber::Lent FakeFiber::take() { return Lent(spare().take()); }

void FakeFiber::GiveBack::operator()(FakeFiber* fiber) const { spare().give(fiber); }

// Fibers of different numbers begin at different offsets within their pages, so that thousands of
// stacks do not compete for the same sets of the cache.
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
  munmap(mapping_, page_bytes + stack_bytes);
}

void FakeFiber::map_stack() {
  void* got = mmap(nullptr, page_bytes + stack_bytes, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (got == MAP_FAILED || mprotect(got, page_bytes, PROT_NONE) != 0) throw std::bad_alloc();
  mapping_ = static_cast<char*>(got);
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
