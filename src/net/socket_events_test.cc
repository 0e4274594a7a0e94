#include "net/socket_events.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <thread>
#include <vector>

namespace isotherm::net::socket_events_test {
namespace {

// Two connected sockets, the first of which is non-blocking.
class SocketPair {
 public:
  SocketPair() {
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, ends_.data()),
              0);
  }
  ~SocketPair() {
    for (const int end : ends_) ::close(end);
  }
  SocketPair(const SocketPair&) = delete;
  SocketPair& operator=(const SocketPair&) = delete;

  int own() const { return ends_[0]; }
  void send_byte() { EXPECT_EQ(::send(ends_[1], "x", 1, MSG_NOSIGNAL), 1); }
  void hang_up() { ::shutdown(ends_[1], SHUT_WR); }

 private:
  std::array<int, 2> ends_{};
};

struct Recorder final : Watched {
  void on_events(uint32_t seen) override { events.push_back(seen); }
  std::vector<uint32_t> events;
};

TEST(SocketEventsTest, AClientsEventsComeOnce) {
  SocketEvents events;
  SocketPair pair;
  Recorder client;
  ASSERT_TRUE(events.add_client(pair.own(), client));
  pair.send_byte();
  EXPECT_FALSE(events.wait(false).woken);
  ASSERT_EQ(client.events.size(), 1u);
  EXPECT_EQ(client.events[0] & (EPOLLIN | EPOLLRDHUP), uint32_t{EPOLLIN});
  // Nothing was received, and nothing changed.
  events.wait(false);
  EXPECT_EQ(client.events.size(), 1u);
  pair.send_byte();
  events.wait(false);
  EXPECT_EQ(client.events.size(), 2u);
  pair.hang_up();
  events.wait(false);
  ASSERT_EQ(client.events.size(), 3u);
  EXPECT_NE(client.events[2] & EPOLLRDHUP, 0u);
}

TEST(SocketEventsTest, WhatWasThereBeforeIsAnEvent) {
  SocketEvents events;
  SocketPair pair;
  Recorder client;
  pair.send_byte();
  ASSERT_TRUE(events.add_client(pair.own(), client));
  events.wait(false);
  ASSERT_EQ(client.events.size(), 1u);
  EXPECT_NE(client.events[0] & EPOLLIN, 0u);
}

TEST(SocketEventsTest, AListeningSocketIsToldUntilItIsRemoved) {
  SocketEvents events;
  SocketPair pair;
  Recorder listening;
  ASSERT_TRUE(events.add_listening(pair.own(), listening));
  pair.send_byte();
  for (size_t times = 1; times <= 3; ++times) {
    events.wait(false);
    EXPECT_EQ(listening.events.size(), times);
  }
  events.remove(pair.own());
  events.wait(false);
  EXPECT_EQ(listening.events.size(), 3u);
}

TEST(SocketEventsTest, AWakeEndsAWaitOnce) {
  SocketEvents events;
  std::thread other([&] { events.wake(); });
  // A tick may end waits before it.
  while (!events.wait(true).woken) {
  }
  other.join();
  EXPECT_FALSE(events.wait(false).woken);
}

TEST(SocketEventsTest, TicksEndWaits) {
  SocketEvents events;
  for (int ticks = 0; ticks < 2;) {
    const SocketEvents::Seen seen = events.wait(true);
    EXPECT_FALSE(seen.woken);
    if (seen.tick) ++ticks;
  }
}

TEST(SocketEventsTest, NoDescriptorIsRefused) {
  SocketEvents events;
  Recorder client;
  EXPECT_FALSE(events.add_client(-1, client));
}

}  // namespace
}  // namespace isotherm::net::socket_events_test
