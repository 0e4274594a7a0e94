#include "isotherm_bench/socket_client.h"

#include <errno.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <unistd.h>

#include <algorithm>
#include <array>

namespace isotherm::bench {
namespace {

constexpr int64_t turn_ns = 10'000'000;       // the phase is looked at this often at least
constexpr int64_t drain_ns = 10'000'000'000;  // how long an open loop awaits replies at its end
constexpr uint64_t tell_every = 256;

}  // namespace

SocketClient::SocketClient(const SocketLoad& load, const Workload& workload, KeySpace& keys,
                           Control& control, uint64_t stream)
    : load_(load),
      workload_(workload),
      keys_(keys),
      control_(control),
      requester_(workload, keys, stream),
      codec_(make_codec(load.protocol, workload, load.verify)) {
  if (load.rate > 0) arrivals_.emplace(load.rate, load.poisson, workload.seed, ~stream);
}

SocketClient::~SocketClient() {
  if (epoll_ >= 0) close(epoll_);
}

void SocketClient::run() {
  // Timers are to fire when due, not when it suits the kernel's rounding.
  prctl(PR_SET_TIMERSLACK, 1);
  const bool open = open_connections();
  control_.prepared.fetch_add(1, std::memory_order_release);
  if (open) loop();
  count_unanswered();
  control_.answered.fetch_add(untold_, std::memory_order_relaxed);
  control_.finished.fetch_add(1, std::memory_order_release);
}

bool SocketClient::open_connections() {
  epoll_ = epoll_create1(EPOLL_CLOEXEC);
  connections_.reserve(load_.connections);
  for (uint32_t i = 0; i < load_.connections; ++i) {
    connections_.emplace_back(load_.pipeline, workload_.keys_per_read);
    const std::string error = connections_.back().open(load_.host, load_.port);
    if (!error.empty()) {
      control_.fail("cannot connect to " + error);
      return false;
    }
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.u32 = i;
    epoll_ctl(epoll_, EPOLL_CTL_ADD, connections_.back().fd(), &event);
  }
  watches_writes_.assign(load_.connections, false);
  return true;
}

void SocketClient::loop() {
  while (control_.phase.load(std::memory_order_acquire) == Phase::prepare) usleep(100);
  phase_ = control_.phase.load(std::memory_order_acquire);
  if (arrivals_) arrivals_->begin(now_ns());
  std::array<epoll_event, 256> events;
  int64_t drain_until = 0;
  int64_t silent_ns = 0;
  if (!arrivals_) start_windows();
  for (;;) {
    phase_ = control_.phase.load(std::memory_order_acquire);
    if (control_.has_failed.load(std::memory_order_relaxed)) return;
    if (!accepts_new()) {
      if (pending_ == 0) return;
      const int64_t now = now_ns();
      if (drain_until == 0) drain_until = now + drain_ns;
      if (arrivals_ && now > drain_until) return;
    }
    int64_t wait = turn_ns;
    if (arrivals_ && accepts_new()) {
      const int64_t due = issue_due(now_ns());
      if (due >= 0) wait = std::min(wait, due);
    }
    const timespec timeout{.tv_sec = 0, .tv_nsec = wait};
    const int ready = epoll_pwait2(epoll_, events.data(), events.size(), &timeout, nullptr);
    if (ready < 0 && errno != EINTR) {
      control_.fail(std::string("epoll_pwait2: ") + strerror(errno));
      return;
    }
    silent_ns = ready > 0 ? 0 : silent_ns + turn_ns;
    if (!arrivals_ && silent_ns > load_.patience_ns) return give_up();
    for (int i = 0; i < ready; ++i) on_event(connections_[events[i].data.u32], events[i].events);
  }
}

void SocketClient::start_windows() {
  for (Connection& connection : connections_) {
    const int64_t now = now_ns();
    while (connection.free_slots() > 0 && issue(connection, now)) {
    }
    flush(connection);
  }
}

int64_t SocketClient::issue_due(int64_t now) {
  const auto count = static_cast<uint32_t>(connections_.size());
  const uint32_t begin = next_connection_;
  uint32_t visited = 0;
  uint32_t full = 0;  // connections in a row without a free slot
  while (arrivals_->next() <= now && full < count && !exhausted_) {
    Connection& connection = connections_[next_connection_];
    next_connection_ = next_connection_ + 1 == count ? 0 : next_connection_ + 1;
    ++visited;
    if (connection.free_slots() == 0) {
      ++full;
    } else if (issue(connection, arrivals_->next())) {
      full = 0;
      arrivals_->advance();
    }
  }
  for (uint32_t i = 0; i < std::min(visited, count); ++i) {
    flush(connections_[(begin + i) % count]);
  }
  return full == count || exhausted_ ? -1 : std::max<int64_t>(arrivals_->next() - now, 0);
}

bool SocketClient::issue(Connection& connection, int64_t started) {
  const auto request = requester_.next();
  if (!request) {
    exhausted_ = true;
    return false;
  }
  Slot& slot = connection.expect();
  slot.operation = request->operation;
  slot.started = started;
  write_command(connection, slot, *request);
  ++pending_;
  return true;
}

void SocketClient::write_command(Connection& connection, Slot& slot, const Request& request) {
  std::string& out = connection.output();
  slot.value_size = request.value_size;
  slot.key_count = request.operation == Operation::read ? request.count : 1;
  const auto keys = connection.keys_of(slot);
  keys[0] = request.key;
  switch (request.operation) {
    case Operation::read:
      for (uint64_t& key : keys.subspan(1)) key = requester_.draw_key();
      [[fallthrough]];
    case Operation::read_modify_write:
      slot.command = Command::get;
      codec_->get(keys, out);
      break;
    case Operation::update:
    case Operation::insert:
      slot.command = Command::set;
      codec_->set(request.key, request.value_size, out);
      break;
    case Operation::erase:
      slot.command = Command::erase;
      codec_->erase(request.key, out);
      break;
    case Operation::scan:
      slot.command = Command::scan;
      codec_->scan(request.key, request.count, out);
      break;
  }
}

void SocketClient::on_event(Connection& connection, uint32_t events) {
  if ((events & (EPOLLIN | EPOLLERR | EPOLLHUP)) != 0) {
    const bool alive = connection.read();
    const int64_t now = now_ns();
    if (!take_replies(connection, now)) return;
    if (!alive) return lost(connection);
    const bool window_done = connection.pending() == 0;
    if (!arrivals_ && window_done) {
      while (accepts_new() && connection.free_slots() > 0 && issue(connection, now)) {
      }
    }
  }
  flush(connection);
}

bool SocketClient::take_replies(Connection& connection, int64_t now) {
  while (connection.pending() > 0) {
    Slot& slot = connection.front();
    const auto keys = connection.keys_of(slot);
    const ParsedReply reply = codec_->parse(connection.received(), {slot.command, keys});
    if (reply.state == ParsedReply::State::incomplete) return true;
    if (reply.state == ParsedReply::State::failed) {
      control_.fail(reply.error);
      return false;
    }
    connection.consume(reply.bytes);
    const Slot done = slot;
    const uint64_t key = keys[0];
    connection.pop();
    --pending_;
    count(done, reply, now);
    if (done.operation == Operation::read_modify_write && done.command == Command::get) {
      Slot& write = connection.expect();
      write = done;
      write.command = Command::set;
      connection.keys_of(write)[0] = key;
      codec_->set(key, done.value_size, connection.output());
      ++pending_;
    }
  }
  if (connection.received().empty()) return true;
  control_.fail("the server sent more than it was asked for");
  return false;
}

void SocketClient::count(const Slot& slot, const ParsedReply& reply, int64_t now) {
  if (slot.operation == Operation::insert) keys_.present.fetch_add(1, std::memory_order_relaxed);
  if (++untold_ == tell_every) {
    control_.answered.fetch_add(tell_every, std::memory_order_relaxed);
    untold_ = 0;
  }
  // A read-modify-write ends with its write.
  const bool ends = slot.operation != Operation::read_modify_write || slot.command == Command::set;
  const bool in_time = phase_ == Phase::measure && !exhausted_;
  if (ends) {
    const bool due_in_time =
        arrivals_ && phase_ >= Phase::measure &&
        slot.started >= control_.measure_begin.load(std::memory_order_relaxed) &&
        (phase_ == Phase::measure ||
         slot.started < control_.measure_end.load(std::memory_order_relaxed));
    if (arrivals_ ? due_in_time : in_time) {
      counts_.latency.record(static_cast<uint64_t>(std::max<int64_t>(now - slot.started, 0)));
    }
  }
  if (!in_time) return;
  counts_.requests += slot.key_count;
  ++counts_.commands;
  counts_.hits += reply.hits;
  counts_.misses += reply.misses;
  counts_.scanned += reply.scanned;
  if (load_.requests > 0 && counts_.requests >= load_.requests) exhausted_ = true;
}

void SocketClient::flush(Connection& connection) {
  if (!connection.flush()) return lost(connection);
  const auto index = static_cast<size_t>(&connection - connections_.data());
  const bool wants = connection.wants_to_write();
  if (wants == watches_writes_[index]) return;
  epoll_event event{};
  event.events = wants ? EPOLLIN | EPOLLOUT : EPOLLIN;
  event.data.u32 = static_cast<uint32_t>(index);
  epoll_ctl(epoll_, EPOLL_CTL_MOD, connection.fd(), &event);
  watches_writes_[index] = wants;
}

void SocketClient::lost(const Connection& connection) {
  control_.fail("the server closed a connection with " + std::to_string(connection.pending()) +
                " commands unanswered");
}

void SocketClient::give_up() {
  control_.fail("no reply for " + std::to_string(load_.patience_ns / 1'000'000'000) + " s, with " +
                std::to_string(pending_) + " commands unanswered");
}

void SocketClient::count_unanswered() {
  if (!arrivals_ || control_.has_failed.load(std::memory_order_relaxed)) return;
  const int64_t begin = control_.measure_begin.load(std::memory_order_relaxed);
  const int64_t end = control_.measure_end.load(std::memory_order_relaxed);
  const auto unanswered = [&](int64_t due) {
    if (due < begin || due >= end) return;
    counts_.latency.record(static_cast<uint64_t>(end - due));
    ++counts_.backlog;
  };
  for (Connection& connection : connections_) {
    for (; connection.pending() > 0; connection.pop()) unanswered(connection.front().started);
  }
  for (; arrivals_->next() < end; arrivals_->advance()) unanswered(arrivals_->next());
}

}  // namespace isotherm::bench
