#include "net/socket_events.h"

#include <sys/eventfd.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include <cerrno>
#include <system_error>

namespace isotherm::net {
namespace {

// Forgets what the counter of an eventfd or a timerfd says.
void drain(int descriptor) {
  uint64_t count = 0;
  [[maybe_unused]] const ssize_t ignored = ::read(descriptor, &count, sizeof count);
}

bool start_ticking(int timer) {
  itimerspec times{};
  times.it_value.tv_nsec = times.it_interval.tv_nsec = SocketEvents::tick_ms * 1'000'000L;
  return ::timerfd_settime(timer, 0, &times, nullptr) == 0;
}

}  // namespace

// What could not be opened is -1, and nothing is opened after it.
SocketEvents::SocketEvents()
    : set_(::epoll_create1(EPOLL_CLOEXEC)),
      wakes_(set_ < 0 ? -1 : ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      ticks_(wakes_ < 0 ? -1 : ::timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK)) {
  if (ticks_ >= 0 && add(wakes_, EPOLLIN, &wakes_) && add(ticks_, EPOLLIN, &ticks_) &&
      start_ticking(ticks_)) {
    return;
  }
  const int error = errno;
  close_all();
  throw std::system_error(error, std::generic_category(), "a loop cannot wait for sockets");
}

SocketEvents::~SocketEvents() { close_all(); }

void SocketEvents::close_all() {
  for (const int descriptor : {ticks_, wakes_, set_}) {
    if (descriptor >= 0) ::close(descriptor);
  }
}

bool SocketEvents::add_client(int descriptor, Watched& watched) {
  return add(descriptor, EPOLLIN | EPOLLPRI | EPOLLOUT | EPOLLRDHUP | EPOLLET, &watched);
}

bool SocketEvents::add_listening(int descriptor, Watched& watched) {
  return add(descriptor, EPOLLIN, &watched);
}

bool SocketEvents::add(int descriptor, uint32_t events, void* who) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = who;
  return ::epoll_ctl(set_, EPOLL_CTL_ADD, descriptor, &event) == 0;
}

void SocketEvents::remove(int descriptor) { ::epoll_ctl(set_, EPOLL_CTL_DEL, descriptor, nullptr); }

SocketEvents::Seen SocketEvents::wait(bool until_there_are_some) {
  constexpr int for_ever = -1;
  const int count =
      ::epoll_wait(set_, events_.data(), most_events, until_there_are_some ? for_ever : 0);
  Seen seen;
  // A signal ends the wait with -1; the caller comes back.
  for (int i = 0; i < count; ++i) {
    const epoll_event& event = events_[static_cast<size_t>(i)];
    if (event.data.ptr == &wakes_) {
      drain(wakes_);
      seen.woken = true;
    } else if (event.data.ptr == &ticks_) {
      drain(ticks_);
      seen.tick = true;
    } else {
      static_cast<Watched*>(event.data.ptr)->on_events(event.events);
    }
  }
  return seen;
}

void SocketEvents::wake() {
  // Only a full counter refuses, and that wakes too.
  [[maybe_unused]] const int ignored = ::eventfd_write(wakes_, 1);
}

}  // namespace isotherm::net
