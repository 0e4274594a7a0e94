// A library that is loaded before the system's (LD_PRELOAD) and makes scheduling worse than any
// busy machine does, though never wrong: threads come late and wake for nothing, and sockets give
// and take little at a time. Who counts on an order that nothing promises then fails soon.
//
//   NOISE_SEED    what is drawn follows from it, for each thread in the order of its calls;
//                 without it, or with 0, nothing happens
//   NOISE_RATE    how often, in percent of the usual; 100 by default
//   NOISE_CUTS    0: no cuts (below), for who counts pieces
//   NOISE_COUNTS  a file of a `Counts`, shared by all processes that have it: what was done
//
// What is done, each only where the system might do so, too:
//   delays    before and behind calls by which threads meet, or reach files and sockets. Where all
//             are late alike little changes its order, so each thread is in a mood for a while:
//             half of them are quick and not delayed at all, a quarter is delayed seldom and mostly
//             shortly, and a quarter is slow, some ms at every second wait.
//   wakes     a wait for a condition ends without one, as POSIX permits
//   cuts      a stream socket gives less than it has; one that does not block takes less than it is
//             given. Who watches it for edges takes a short receive for an empty socket (epoll(7)),
//             so it is armed again: the rest has arrived later.
//
// The programs have an allocator of their own, which calls some of these functions before anything
// else runs: nothing here allocates, takes a lock or needs to be constructed, and the system's
// functions are looked up when they are called for the first time.
//
// Threads. Any.
#include <dlfcn.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <cstdarg>
#include <cstdint>
#include <cstdlib>
#include <ctime>

namespace {

constexpr auto relaxed = std::memory_order_relaxed;

template <class Call>
Call* look_up(std::atomic<void*>& known, const char* name, const char* version) {
  void* call = known.load(relaxed);
  if (call == nullptr) {
    call = version != nullptr ? ::dlvsym(RTLD_NEXT, name, version) : ::dlsym(RTLD_NEXT, name);
    known.store(call, relaxed);
  }
  return reinterpret_cast<Call*>(call);
}
// Those of conditions have the names of older ones.
#define SYSTEM_VERSION(name, version)                 \
  static constinit std::atomic<void*> known_##name{}; \
  auto* const system_##name = look_up<decltype(::name)>(known_##name, #name, version)
#define SYSTEM(name) SYSTEM_VERSION(name, nullptr)
#define DELAYED(result, name, one_in, given, passed)              \
  result name given {                                             \
    SYSTEM(name);                                                 \
    return delayed(one_in, [&] { return system_##name passed; }); \
  }

struct Counts {
  std::atomic<uint64_t> delays;
  std::atomic<uint64_t> wakes;
  std::atomic<uint64_t> cuts;
};
constinit Counts own_counts{};

class Noise {
 public:
  void start() {
    const char* const seed = std::getenv("NOISE_SEED");
    if (seed == nullptr) return;
    if (const char* const rate = std::getenv("NOISE_RATE")) {
      rate_ = std::max<uint64_t>(std::strtoull(rate, nullptr, 10), 1);
    }
    if (const char* const cuts = std::getenv("NOISE_CUTS")) cuts_ = cuts[0] != '0';
    if (const char* const counts = std::getenv("NOISE_COUNTS")) share(counts);
    seed_.store(std::strtoull(seed, nullptr, 10));
  }

  void delay(uint64_t one_in) {
    if (!draws()) return;
    if (--its_.mood_calls == 0) draw_mood();
    if (its_.mood == Mood::quick) return;
    if (once_in(its_.mood == Mood::slow ? one_in / 8 : one_in)) delay_now();
  }
  void delay_now() {
    const int error = errno;
    const uint64_t kind = random() % 100;
    uint64_t us = 0;
    if (its_.mood == Mood::slow ? kind < 40 : kind < 97) {
      us = kind % 4 == 0 ? 1'000 : kind % 2 * 50;
    } else {
      us = 2'000 + random() % (kind % 5 == 0 ? 18'000 : 3'000);
    }
    if (has_time(us)) {
      counts_.load(relaxed)->delays.fetch_add(1, relaxed);
      us == 0 ? void(::sched_yield()) : sleep_us(us);
    }
    errno = error;
  }
  bool wakes() {
    if (!draws() || !once_in(12)) return false;
    counts_.load(relaxed)->wakes.fetch_add(1, relaxed);
    return true;
  }
  bool cuts() { return cuts_ && draws() && once_in(6); }
  // So many bytes of some, often few.
  size_t cut(size_t bytes) {
    counts_.load(relaxed)->cuts.fetch_add(1, relaxed);
    const size_t most = random() % 2 == 0 ? std::min<size_t>(bytes - 1, 16) : bytes - 1;
    return 1 + random() % most;
  }

 private:
  enum class Mood : uint8_t { quick, usual, slow };
  struct Drawn {
    uint64_t state;
    Mood mood;
    uint32_t mood_calls;  // that it lasts for
    uint64_t window;      // of 100 ms
    uint64_t slept_us;
  };

  static uint64_t random() {
    its_.state ^= its_.state << 13;
    its_.state ^= its_.state >> 7;
    its_.state ^= its_.state << 17;
    return its_.state;
  }
  // Whether anything is to be done; a thread begins with its first call.
  bool draws() {
    const uint64_t seed = seed_.load(relaxed);
    if (seed == 0) return false;
    if (its_.state == 0) {
      its_.state = (seed * 0x9e3779b97f4a7c15ULL) ^ ((threads_.fetch_add(1) + 1) << 32);
      for (int i = 0; i < 8; ++i) random();
      draw_mood();
    }
    return true;
  }
  bool once_in(uint64_t times) {
    return random() % std::max<uint64_t>(times * 100 / rate_, 2) == 0;
  }
  static void draw_mood() {
    constexpr std::array moods{Mood::quick, Mood::quick, Mood::usual, Mood::slow};
    its_.mood = moods[random() % moods.size()];
    its_.mood_calls = static_cast<uint32_t>(1 + random() % 4'000);
  }
  // A thread sleeps half of its time at most: a client that receives byte by byte has to end, too.
  static bool has_time(uint64_t us) {
    timespec now{};
    ::clock_gettime(CLOCK_MONOTONIC_COARSE, &now);
    const auto window = static_cast<uint64_t>(now.tv_sec * 10 + now.tv_nsec / 100'000'000);
    if (window != its_.window) its_.slept_us = 0;
    its_.window = window;
    if (its_.slept_us + us > 50'000) return false;
    its_.slept_us += us;
    return true;
  }
  static void sleep_us(uint64_t us) {
    const timespec time{0, static_cast<long>(us * 1'000)};
    ::nanosleep(&time, nullptr);
  }
  void share(const char* path) {
    const int file = ::open(path, O_RDWR | O_CLOEXEC);
    void* const memory =
        ::mmap(nullptr, sizeof(Counts), PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
    if (memory != MAP_FAILED) counts_.store(static_cast<Counts*>(memory));
    ::close(file);
  }

  // In the thread's own block of memory, since the usual place may be allocated when first used.
  [[gnu::tls_model("initial-exec")]] static inline thread_local Drawn its_{};

  std::atomic<uint64_t> seed_{0};
  uint64_t rate_ = 100;
  bool cuts_ = true;
  std::atomic<uint64_t> threads_{0};
  std::atomic<Counts*> counts_{&own_counts};
};
constinit Noise noise;

[[gnu::constructor]] void start_noise() { noise.start(); }

// How often there is a delay, one in so many calls: locks are taken by the million.
constexpr uint64_t of_locks = 1'000;
constexpr uint64_t of_waits = 12;
constexpr uint64_t of_files = 24;

// Of a process, besides the first. One that ends within its function counts on.
constinit std::atomic<uint64_t> other_threads{0};

template <class Call>
auto delayed(uint64_t one_in, const Call& call) {
  // A thread without another has nobody to be late for.
  if (one_in == of_locks && other_threads.load(relaxed) == 0) return call();
  noise.delay(one_in);
  const auto result = call();
  noise.delay(one_in);
  return result;
}

// Who watches a descriptor for edges.
struct Watch {
  std::atomic<int> set_and_one;
  std::atomic<uint32_t> events;
  std::atomic<uint64_t> data;
};
constinit std::array<Watch, 1 << 16> watches{};

Watch* watch_of(int descriptor) {
  const auto place = static_cast<size_t>(descriptor);
  return place < watches.size() ? &watches[place] : nullptr;
}
void arm_again(int descriptor) {
  SYSTEM(epoll_ctl);
  Watch* const watch = watch_of(descriptor);
  if (watch == nullptr || watch->set_and_one.load() == 0) return;
  epoll_event event{};
  event.events = watch->events.load();
  event.data.u64 = watch->data.load();
  const int error = errno;
  system_epoll_ctl(watch->set_and_one.load() - 1, EPOLL_CTL_MOD, descriptor, &event);
  errno = error;
}

bool is_stream(int descriptor) {
  int kind = 0;
  socklen_t bytes = sizeof kind;
  const int error = errno;
  const bool result =
      ::getsockopt(descriptor, SOL_SOCKET, SO_TYPE, &kind, &bytes) == 0 && kind == SOCK_STREAM;
  errno = error;
  return result;
}

size_t bytes_of(const iovec* pieces, size_t count) {
  size_t bytes = 0;
  for (size_t i = 0; i < count; ++i) bytes += pieces[i].iov_len;
  return bytes;
}

// How many of the bytes a socket is to give, where that is less than it has and there is room for.
size_t cut_receive(int descriptor, size_t room, int flags) {
  if ((flags & ~(MSG_DONTWAIT | MSG_NOSIGNAL)) != 0 || !noise.cuts()) return room;
  int there = 0;
  if (!is_stream(descriptor) || ::ioctl(descriptor, FIONREAD, &there) != 0) return room;
  const size_t bytes = std::min(room, static_cast<size_t>(std::max(there, 0)));
  return bytes < 2 ? room : noise.cut(bytes);
}
// How many bytes a socket is to take.
size_t cut_send(int descriptor, size_t bytes, int flags) {
  if ((flags & MSG_OOB) != 0 || bytes < 2 || !noise.cuts()) return bytes;
  if (!is_stream(descriptor)) return bytes;
  const bool waits =
      (flags & MSG_DONTWAIT) == 0 && (::fcntl(descriptor, F_GETFL) & O_NONBLOCK) == 0;
  return waits ? bytes : noise.cut(bytes);
}

// A receive or a send of at most so many bytes.
template <class Call>
ssize_t receive(int descriptor, size_t room, int flags, const Call& call) {
  noise.delay(of_files);
  const size_t bytes = cut_receive(descriptor, room, flags);
  const ssize_t result = call(bytes);
  if (bytes != room) arm_again(descriptor);
  noise.delay(of_files);
  return result;
}
template <class Call>
ssize_t send_some(int descriptor, size_t bytes, int flags, const Call& call) {
  return delayed(of_files, [&] { return call(cut_send(descriptor, bytes, flags)); });
}

// The first bytes of some pieces. More of them than there is room for stay whole.
class FirstPieces {
 public:
  FirstPieces(const iovec* pieces, size_t count, size_t bytes) {
    for (; count_ < count && bytes != 0; ++count_) {
      pieces_[count_] = pieces[count_];
      pieces_[count_].iov_len = std::min(bytes, pieces[count_].iov_len);
      bytes -= pieces_[count_].iov_len;
    }
  }
  static bool has_room(size_t count) { return count <= most; }
  iovec* data() { return pieces_.data(); }
  size_t size() const { return count_; }

 private:
  static constexpr size_t most = 64;
  std::array<iovec, most> pieces_;
  size_t count_ = 0;
};

// What a new thread runs, behind a delay. Places are few; a thread that finds none starts at once.
struct Start {
  std::atomic<bool> taken;
  void* (*run)(void*);
  void* with;
};
constinit std::array<Start, 256> starts{};

void* start_late(void* place) {
  auto& start = *static_cast<Start*>(place);
  void* (*const run)(void*) = start.run;
  void* const with = start.with;
  start.taken.store(false);
  noise.delay(2);
  void* const result = run(with);
  other_threads.fetch_sub(1);
  return result;
}

// Whether a wait for a condition ends without it.
bool wakes_for_nothing(pthread_mutex_t* mutex) {
  if (!noise.wakes()) return false;
  SYSTEM(pthread_mutex_lock);
  SYSTEM(pthread_mutex_unlock);
  system_pthread_mutex_unlock(mutex);
  noise.delay_now();
  system_pthread_mutex_lock(mutex);
  return true;
}

}  // namespace

extern "C" {

// Threads.
int pthread_create(pthread_t* thread, const pthread_attr_t* how, void* (*run)(void*), void* with) {
  SYSTEM(pthread_create);
  for (Start& start : starts) {
    if (start.taken.load(relaxed) || start.taken.exchange(true)) continue;
    start.run = run;
    start.with = with;
    other_threads.fetch_add(1);
    const int error = system_pthread_create(thread, how, start_late, &start);
    if (error != 0) {
      start.taken.store(false);
      other_threads.fetch_sub(1);
    }
    noise.delay(of_waits);
    return error;
  }
  return system_pthread_create(thread, how, run, with);
}
DELAYED(int, pthread_mutex_lock, of_locks, (pthread_mutex_t * mutex) noexcept, (mutex))
DELAYED(int, pthread_mutex_trylock, of_locks, (pthread_mutex_t * mutex) noexcept, (mutex))
DELAYED(int, pthread_mutex_unlock, of_locks, (pthread_mutex_t * mutex) noexcept, (mutex))
DELAYED(int, pthread_rwlock_rdlock, of_locks, (pthread_rwlock_t * lock) noexcept, (lock))
DELAYED(int, pthread_rwlock_wrlock, of_locks, (pthread_rwlock_t * lock) noexcept, (lock))
DELAYED(int, pthread_rwlock_unlock, of_locks, (pthread_rwlock_t * lock) noexcept, (lock))
int pthread_cond_wait(pthread_cond_t* condition, pthread_mutex_t* mutex) {
  SYSTEM_VERSION(pthread_cond_wait, "GLIBC_2.3.2");
  if (wakes_for_nothing(mutex)) return 0;
  return delayed(of_waits, [&] { return system_pthread_cond_wait(condition, mutex); });
}
int pthread_cond_timedwait(pthread_cond_t* condition, pthread_mutex_t* mutex,
                           const timespec* until) {
  SYSTEM_VERSION(pthread_cond_timedwait, "GLIBC_2.3.2");
  if (wakes_for_nothing(mutex)) return 0;
  return delayed(of_waits, [&] { return system_pthread_cond_timedwait(condition, mutex, until); });
}
int pthread_cond_clockwait(pthread_cond_t* condition, pthread_mutex_t* mutex, clockid_t clock,
                           const timespec* until) {
  SYSTEM(pthread_cond_clockwait);
  if (wakes_for_nothing(mutex)) return 0;
  return delayed(of_waits,
                 [&] { return system_pthread_cond_clockwait(condition, mutex, clock, until); });
}
int pthread_cond_signal(pthread_cond_t* condition) noexcept {
  SYSTEM_VERSION(pthread_cond_signal, "GLIBC_2.3.2");
  return delayed(of_waits, [&] { return system_pthread_cond_signal(condition); });
}
int pthread_cond_broadcast(pthread_cond_t* condition) noexcept {
  SYSTEM_VERSION(pthread_cond_broadcast, "GLIBC_2.3.2");
  return delayed(of_waits, [&] { return system_pthread_cond_broadcast(condition); });
}
// std::atomic waits by it.
long syscall(long number, ...) noexcept {
  SYSTEM(syscall);
  std::array<long, 6> given;
  va_list rest;
  va_start(rest, number);
  for (long& argument : given) argument = va_arg(rest, long);
  va_end(rest);
  const auto call = [&] {
    return system_syscall(number, given[0], given[1], given[2], given[3], given[4], given[5]);
  };
  return number == SYS_futex ? delayed(of_waits, call) : call();
}

// Events.
int epoll_ctl(int set, int what, int descriptor, epoll_event* event) noexcept {
  SYSTEM(epoll_ctl);
  if (Watch* const watch = watch_of(descriptor)) {
    const bool edges = what != EPOLL_CTL_DEL && event != nullptr && (event->events & EPOLLET) != 0;
    if (edges) {
      watch->events.store(event->events);
      watch->data.store(event->data.u64);
    }
    watch->set_and_one.store(edges ? set + 1 : 0);
  }
  return system_epoll_ctl(set, what, descriptor, event);
}
DELAYED(int, epoll_wait, of_waits, (int set, epoll_event* events, int most, int timeout_ms),
        (set, events, most, timeout_ms))
DELAYED(int, poll, of_waits, (pollfd * descriptors, nfds_t count, int timeout_ms),
        (descriptors, count, timeout_ms))
DELAYED(int, eventfd_write, of_waits, (int descriptor, eventfd_t value), (descriptor, value))

// Sockets.
DELAYED(int, accept4, of_waits, (int descriptor, sockaddr* address, socklen_t* bytes, int flags),
        (descriptor, address, bytes, flags))
DELAYED(int, close, of_files, (int descriptor), (descriptor))
ssize_t recv(int descriptor, void* data, size_t room, int flags) {
  SYSTEM(recv);
  return receive(descriptor, room, flags,
                 [&](size_t bytes) { return system_recv(descriptor, data, bytes, flags); });
}
ssize_t recvfrom(int descriptor, void* data, size_t room, int flags, sockaddr* from,
                 socklen_t* address_bytes) {
  SYSTEM(recvfrom);
  return receive(descriptor, room, flags, [&](size_t bytes) {
    return system_recvfrom(descriptor, data, bytes, flags, from, address_bytes);
  });
}
ssize_t read(int descriptor, void* data, size_t room) {
  SYSTEM(read);
  return receive(descriptor, room, 0,
                 [&](size_t bytes) { return system_read(descriptor, data, bytes); });
}
ssize_t readv(int descriptor, const iovec* pieces, int count) {
  SYSTEM(readv);
  const auto whole = static_cast<size_t>(count);
  if (!FirstPieces::has_room(whole)) return system_readv(descriptor, pieces, count);
  return receive(descriptor, bytes_of(pieces, whole), 0, [&](size_t bytes) {
    FirstPieces first(pieces, whole, bytes);
    return system_readv(descriptor, first.data(), static_cast<int>(first.size()));
  });
}
DELAYED(int, recvmmsg, of_files,
        (int descriptor, mmsghdr* messages, unsigned count, int flags, timespec* timeout),
        (descriptor, messages, count, flags, timeout))
ssize_t send(int descriptor, const void* data, size_t all, int flags) {
  SYSTEM(send);
  return send_some(descriptor, all, flags,
                   [&](size_t bytes) { return system_send(descriptor, data, bytes, flags); });
}
ssize_t write(int descriptor, const void* data, size_t all) {
  SYSTEM(write);
  return send_some(descriptor, all, 0,
                   [&](size_t bytes) { return system_write(descriptor, data, bytes); });
}
ssize_t sendmsg(int descriptor, const msghdr* message, int flags) {
  SYSTEM(sendmsg);
  if (!FirstPieces::has_room(message->msg_iovlen) || message->msg_controllen != 0) {
    return system_sendmsg(descriptor, message, flags);
  }
  const size_t all = bytes_of(message->msg_iov, message->msg_iovlen);
  return send_some(descriptor, all, flags, [&](size_t bytes) {
    FirstPieces first(message->msg_iov, message->msg_iovlen, bytes);
    msghdr part = *message;
    part.msg_iov = first.data();
    part.msg_iovlen = first.size();
    return system_sendmsg(descriptor, &part, flags);
  });
}
DELAYED(int, sendmmsg, of_files, (int descriptor, mmsghdr* messages, unsigned count, int flags),
        (descriptor, messages, count, flags))

// Files.
DELAYED(ssize_t, pread, of_files, (int file, void* data, size_t bytes, off_t offset),
        (file, data, bytes, offset))
ssize_t pread64(int file, void* data, size_t bytes, off64_t offset) {
  return pread(file, data, bytes, offset);
}
DELAYED(ssize_t, pwrite, of_files, (int file, const void* data, size_t bytes, off_t offset),
        (file, data, bytes, offset))
ssize_t pwrite64(int file, const void* data, size_t bytes, off64_t offset) {
  return pwrite(file, data, bytes, offset);
}
DELAYED(int, fsync, of_files, (int file), (file))
DELAYED(int, fdatasync, of_files, (int file), (file))

}  // extern "C"
